// The public rows: a built-in table, a file of one's own, or none yet.

import { send } from "../api.js";
import { declared, targets } from "../columns.js";
import { byId, h } from "../dom.js";
import { count, listed, t } from "../text.js";

const BUILT_IN = ["lending-embedded", "hospital-simulated"];
const STAND_IN = "lending-embedded";
const LOSSES = { "hospital-simulated": "squared", "lending-embedded": "squared", creditcard: "hinge" };

export function rows(desk) {
  const place = byId("rows");
  const { state } = desk;
  let file = null;
  let failed = "";
  const allOfThem = h("p", { class: "quiet", id: "rows-there" }, t("owner.wait")); // of a file that the agreement names

  function sources() {
    const agreed = desk.start.state.data.dataset;
    return [...new Set([...BUILT_IN, agreed, state.data.dataset])].filter((name) => name && (name !== "table" || !file));
  }

  function chosen() {
    return state.none ? "none" : file ? "file" : (state.data.dataset ?? "lending");
  }

  function build() {
    const source = h("select", { id: "source" },
      sources().map((name) => h("option", { value: name }, t(`join.rows.${name}`))),
      h("option", { value: "file" }, t("join.rows.file")), h("option", { value: "none" }, t("join.rows.none")));
    source.value = chosen();
    source.addEventListener("change", () => choose(source.value));
    const parts = [h("label", { class: "field" }, h("span", {}, t("join.rows.source")), source)];
    if (source.value === "file") parts.push(...fileParts());
    else if (source.value !== "none") parts.push(state.data.public ? allOfThem : numberField());
    if (failed) parts.push(h("p", { class: "note", role: "alert" }, failed));
    place.replaceChildren(...parts);
  }

  function numberField() {
    const rows = h("input", { type: "number", min: 20, step: 1, value: state.data.public_rows ?? 2000 });
    rows.addEventListener("input", () => {
      state.data.public_rows = rows.valueAsNumber;
      desk.changed();
    });
    return h("label", { class: "field" }, h("span", {}, t("join.rows.number")), rows);
  }

  function choose(name) {
    failed = "";
    state.none = name === "none";
    if (name === "file") {
      file = { columns: [] };
    } else {
      file = null;
      const dataset = name === "none" ? STAND_IN : name;
      const agreed = desk.start.state.data;
      state.data = agreed.dataset === dataset ? { ...agreed } : { dataset, components: 10, public_rows: 1000 };
      state.model = { ...state.model, loss: agreed.dataset === dataset ? desk.start.state.model.loss : (LOSSES[dataset] ?? state.model.loss) };
      desk.changed();
    }
    build();
    byId("source").focus();
  }

  function fileParts() {
    const given = h("input", { type: "file", accept: ".csv,.parquet" });
    given.addEventListener("change", () => take(given.files[0]));
    const parts = [h("label", { class: "field" }, h("span", {}, t("join.rows.choose")), given)];
    if (!file.path) return parts;
    const target = h("select", {}, targets(file).map((column) => h("option", { value: column.name }, column.name)));
    target.value = file.target;
    target.addEventListener("change", () => {
      file.target = target.value;
      declare();
    });
    return [...parts,
      h("p", { class: "quiet" }, t("join.rows.read", { rows: count(file.rows), columns: file.columns.length })),
      h("label", { class: "field" }, h("span", {}, t("join.rows.target")), target),
      h("p", { class: "quiet" }, `${t("join.rows.left")} ${t("join.rows.bounds")} ${t("join.rows.called", { name: file.path })}`),
      file.left_out.length ? h("p", { class: "quiet" }, t("join.rows.out", { names: listed(file.left_out.map(({ name }) => name)) })) : []].flat();
  }

  async function take(given) {
    if (!given) return;
    failed = t("join.rows.reading");
    build();
    try {
      file = await send("/api/file/rows", given);
      failed = "";
      file.target = targets(file).at(-1)?.name;
      if (file.target) declare();
    } catch (error) {
      failed = error.message;
    }
    build();
  }

  function declare() {
    const { data, loss } = declared(file, file.target);
    state.data = data;
    state.model = { ...state.model, loss };
    desk.changed();
  }

  build();
  return {
    show(view) {
      if (view.kind === "exact") allOfThem.textContent = t("join.rows.there", { rows: count(view.public_rows) });
    },
  };
}

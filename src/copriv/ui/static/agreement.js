// Write the agreement: a form from the schema, errors beside their fields, the fingerprint, and what owners promise.

import { get, post, send } from "./api.js";
import { declared, names, targets } from "./columns.js";
import { byId, download, everySecond, h, later } from "./dom.js";
import { said, table } from "./form.js";
import { odds } from "./join/meaning.js";
import { begin } from "./site.js";
import { fromAddress, keep } from "./state.js";
import { count, number, t } from "./text.js";

const AGAIN = 1500; // milliseconds until what could not be answered is asked again
const TABLES = { agreement: "Terms", model: "ModelTerms", data: "DataTerms" };

async function page() {
  const start = await get("/api/start");
  const { schema } = start;
  const state = fromAddress() ?? start.state;
  let parts = [];
  let asked = 0; // how often the agreement was checked: only the answer to the last question is shown

  const settings = (name, values, path, prefix) => ({ values, path, prefix, meanings: schema.meanings[name], known: schema.known, changed });

  function build() {
    parts = [];
    const tables = Object.entries(TABLES).map(([key, name]) => {
      const one = table(schema.$defs[name], settings(name, (state[key] ??= {}), [key]));
      parts.push(one);
      return h("fieldset", { class: "card part" }, h("legend", {}, h("h2", {}, t(`draft.${key}`))), h("p", { class: "quiet" }, t(`draft.${key}.lead`)), one.element);
    });
    const owners = joined().map((seat, i) => {
      const one = table(schema.$defs.OwnerTerms, settings("OwnerTerms", seat.terms, ["owner", i], seat.terms.name || t("owner.number", { number: i + 1 })));
      parts.push(one);
      return h("li", {}, one.element);
    });
    byId("form").replaceChildren(...tables, h("fieldset", { class: "card part" }, h("legend", {}, h("h2", {}, t("draft.owners"))), h("p", { class: "quiet" }, t("draft.owners.lead")), h("ol", { class: "seats" }, owners)));
  }

  const joined = () => state.owners.filter((seat) => seat.joined);

  function document_() {
    const kept = Object.fromEntries(Object.keys(TABLES).map((key) => [key, state[key] ?? {}]));
    return { ...kept, owner: joined().map((seat) => seat.terms) };
  }

  async function check() {
    keep(state);
    asked += 1;
    const mine = asked;
    let found;
    try {
      found = await post("/api/agreement", document_());
    } catch (error) {
      found = { errors: [{ path: [], message: error.message }] };
    }
    if (mine === asked) show(found);
    return found;
  }

  function show(found) {
    const made = found.errors.length ? null : found;
    let rest = found.errors;
    for (const part of parts) rest = part.tell(rest);
    byId("standing").textContent = made ? t("draft.complete") : t(found.errors.length === 1 ? "draft.error" : "draft.errors", { number: found.errors.length });
    byId("standing").dataset.kind = made ? "exact" : "few";
    byId("others").replaceChildren(...rest.map((error) => h("li", {}, [error.path.join("."), said(error)].filter(Boolean).join(": "))));
    byId("made").hidden = !made;
    if (!made) return;
    byId("fingerprint").textContent = made.fingerprint;
    byId("file").textContent = made.toml;
    byId("promises").replaceChildren(...made.promises.map(promise));
  }

  function promise({ name, records, epsilon, delta, words }) {
    const values = { name, records: count(records), epsilon: number(epsilon), right: odds({ epsilon, delta }).right };
    return h("li", {}, h("p", {}, t("draft.promise", values)), h("p", { class: "quiet" }, words ? h("span", { lang: "en" }, words) : t("draft.promise.open")));
  }

  const checkSoon = later(200, check);

  function changed() {
    checkSoon();
  }

  function opened(found) {
    if (found.errors.length) {
      show(found);
      return;
    }
    for (const seat of joined()) state.owners.splice(state.owners.indexOf(seat), 1);
    const others = state.owners;
    Object.assign(state, found.state);
    state.owners.push(...others);
    build();
    check();
  }

  byId("open").addEventListener("change", async (event) => {
    const file = event.target.files[0];
    if (!file) return;
    try {
      const found = await post("/api/agreement", { toml: await file.text() });
      if (!found.errors.length) delete state.none; // its rows are no stand-in any more
      opened(found);
    } catch (error) {
      show({ errors: [{ path: [], message: error.message }] });
    }
  });
  let columns = []; // names in the table that was read

  function declare(found) {
    state.data = found.data;
    state.model.loss = found.loss;
    state.model.intercept = true;
    delete state.none;
    build();
    check();
  }

  /** Who owners protect: a row, or a person with several. */
  function protect() {
    const rows = byId("person-rows").valueAsNumber;
    byId("person-field").hidden = !(rows > 1);
    const unit = rows > 1 && byId("person").value ? byId("person").value : undefined;
    for (const { terms } of state.owners) Object.assign(terms, { unit, unit_records: unit && rows });
    byId("taken").textContent = rows > 1 && !unit ? t("draft.rows.said", { rows: count(rows) }) : "";
    build();
    check();
  }

  async function take(file) {
    const isPublic = byId("public").value === "yes";
    byId("taken").textContent = t("join.rows.reading");
    byId("aim-field").hidden = true;
    const found = isPublic ? await send("/api/file/rows", file) : { names: await names(file) };
    columns = isPublic ? [...found.columns, ...found.left_out].map(({ name }) => name) : found.names;
    byId("person").replaceChildren(h("option", { value: "" }, t("site.none")), ...columns.map((name) => h("option", { value: name }, name)));
    const aims = isPublic ? targets(found).map(({ name }) => name) : columns;
    if (aims.length < 1 || columns.length < 2) throw new Error(t("draft.columns.few"));
    const aim = byId("aim");
    aim.replaceChildren(...aims.map((name) => h("option", { value: name }, name)));
    aim.value = aims.at(-1);
    aim.onchange = () => {
      const features = columns.filter((name) => name !== aim.value);
      declare(isPublic ? declared(found, aim.value) : { data: { dataset: "table", features, target: aim.value, components: 0 }, loss: "squared" });
    };
    aim.onchange();
    byId("aim-field").hidden = false;
    byId("taken").textContent = isPublic ? t("draft.columns.public", { rows: count(found.rows), name: found.path }) : t("draft.columns.private");
  }

  byId("public").addEventListener("change", () => {
    byId("columns").disabled = byId("public").value === "";
    byId("columns").accept = byId("public").value === "no" ? ".csv" : ".csv,.parquet";
  });
  byId("columns").addEventListener("change", async (event) => {
    try {
      if (event.target.files[0]) await take(event.target.files[0]);
    } catch (error) {
      byId("taken").textContent = error.message;
    }
    event.target.value = "";
  });
  byId("person-rows").addEventListener("input", protect);
  byId("person").addEventListener("change", protect);
  byId("fill").addEventListener("click", async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    byId("filled").textContent = t("draft.filling");
    const filled = everySecond((seconds) => {
      byId("filled").textContent = t("join.seconds", { text: t("draft.filling"), seconds });
    });
    try {
      const named = state.owners.map((seat, i) => ({ ...seat, terms: { ...seat.terms, name: seat.terms.name || t("owner.number", { number: i + 1 }) } }));
      let view = await post("/api/join/exact", { ...state, owners: named });
      while (view.kind === "superseded") {
        await new Promise((done) => setTimeout(done, AGAIN)); // another window came first
        view = await post("/api/join/exact", { ...state, owners: named });
      }
      opened(await post("/api/agreement", { toml: view.toml }));
      byId("filled").textContent = t("draft.filled");
    } catch (error) {
      byId("filled").textContent = error.message;
    }
    filled();
    button.disabled = false;
  });
  byId("save").addEventListener("click", async () => {
    const found = await check(); // what was entered a moment ago is in the file, too
    if (!found.errors.length) download("agreement.toml", "application/toml", found.toml);
  });
  build();
  await check();
}

begin(page);

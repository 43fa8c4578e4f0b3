// "A data market": what each organisation states, on sliders; who joins, at which ε and who pays whom, as copriv says it.

import { get, post } from "./api.js";
import { byId, download, h, later } from "./dom.js";
import { begin } from "./site.js";
import { fromAddress, keepSoon, namesOf } from "./state.js";
import { count, number, t } from "./text.js";

const AGAIN = 1500; // milliseconds until what could not be answered is asked again
const PATIENCE = 350; // milliseconds without a change, after which full forecasts are asked for
const EXAMPLE = { privacy_cost: { linear: 100 }, worth: 1_000_000 }; // for who has stated nothing
const MONEY = { linear: "linear", quadratic: "quadratic", threshold: "above" }; // which number of a shape is money
const SCALES = { money: [0, 7], epsilon: [-3, 2] }; // decimal logarithms; the lowest money on a slider is 0

/** A number on a slider with a logarithmic scale, and exactly beside it. */
function scaled(label, value, kind, take) {
  const [min, max] = SCALES[kind];
  const at = (is) => (is > 0 ? Math.log10(is) : min);
  const slider = h("input", { type: "range", min, max, step: 0.02, value: at(value), "aria-label": label.of });
  const exact = h("input", { type: "number", inputmode: "decimal", min: 0, step: "any", value, "aria-label": label.exactly });
  const said = (is) => slider.setAttribute("aria-valuetext", number(is));
  slider.addEventListener("input", () => {
    const place = slider.valueAsNumber;
    exact.value = kind === "money" && place <= min ? 0 : Number((10 ** place).toPrecision(2));
    said(exact.valueAsNumber);
    take(exact.valueAsNumber);
  });
  exact.addEventListener("input", () => {
    if (!(exact.valueAsNumber >= 0)) return;
    slider.value = at(exact.valueAsNumber);
    said(exact.valueAsNumber);
    take(exact.valueAsNumber);
  });
  said(value);
  return h("div", { class: "scaled" }, h("span", { class: "label", "aria-hidden": "true" }, label.short), slider, exact);
}

async function page() {
  const start = await get("/api/start");
  const state = fromAddress() ?? start.state;
  const says = []; // of each organisation: what the market does for it
  let changes = 0;
  let settled = 0; // the change that was answered exactly
  let asking = false;
  let toml = null;

  function line(seat, name) {
    const { terms } = seat;
    const fields = h("div", {});
    const said = h("p", { class: "says" }, t("owner.wait"));
    const stated = () => terms.market ?? EXAMPLE;

    function state_(change) {
      terms.market = { ...stated(), ...change };
      changed();
    }

    function build() {
      const { privacy_cost: cost, worth } = stated();
      const shape = Object.keys(MONEY).find((one) => cost[one] !== undefined) ?? "table";
      const label = (key) => ({ short: t(`market.${key}`), of: t(`market.${key}.slider`, { name }), exactly: t(`market.${key}.exact`, { name }) });
      const choice = h("select", { "aria-label": t("market.shape", { name }) }, Object.keys(MONEY).concat(cost.table ? ["table"] : []).map((one) => h("option", { value: one, selected: one === shape }, t(`market.shape.${one}`))));
      choice.addEventListener("change", () => {
        const money = cost[MONEY[shape]] ?? EXAMPLE.privacy_cost.linear;
        state_({ privacy_cost: { [MONEY[choice.value]]: money, ...(choice.value === "threshold" ? { threshold: 1 } : {}) } });
        build();
      });
      fields.replaceChildren(
        scaled(label("worth"), worth, "money", (value) => state_({ worth: value })),
        h("div", { class: "scaled" }, h("span", { class: "label", "aria-hidden": "true" }, t("market.costs")), choice),
        shape === "table" ? "" : scaled(label(shape), cost[MONEY[shape]], "money", (value) => state_({ privacy_cost: { ...stated().privacy_cost, [MONEY[shape]]: value } })),
        shape === "threshold" ? scaled(label("free"), cost.threshold, "epsilon", (value) => state_({ privacy_cost: { ...stated().privacy_cost, threshold: value } })) : "",
        scaled(label("epsilon"), terms.epsilon, "epsilon", (value) => {
          terms.epsilon = value;
          changed();
        }));
    }

    build();
    says.push(said);
    return h("li", { class: "owner" }, h("div", { role: "group", "aria-label": name }, h("p", { class: "strong" }, name, " ", h("span", { class: "quiet" }, t("market.records", { number: count(terms.records) }))), fields, said));
  }

  function asked(more) {
    const names = namesOf(state.owners);
    const owners = state.owners.map((seat, i) => ({ ...seat, terms: { market: EXAMPLE, ...seat.terms, name: names[i] } }));
    return { ...state, owners, mechanism: byId("mechanism").value, ...more };
  }

  /** What a mechanism does for one organisation, in a sentence. */
  function does(row) {
    const paid = row.payment;
    return [
      row.answers ? t("market.answers", { epsilon: number(row.epsilon) }) : t("market.silent"),
      row.uses_model ? t("market.uses") : t("market.keeps"),
      Math.abs(paid) < 1e-9 ? t("market.even") : t(paid > 0 ? "market.paid" : "market.pays", { money: number(Math.abs(paid)) }),
      t("market.net", { money: number(row.net) }),
    ].join(" ");
  }

  /** `final`: it is the full answer to what stands there now. */
  function show(found, final) {
    byId("mechanism").dataset.shown = found.mechanism;
    const [answer, ...rest] = found.said;
    byId("verdict").replaceChildren(h("span", { lang: "en" }, answer));
    byId("said").replaceChildren(...rest.map((part) => (typeof part === "string" ? h("p", { lang: "en" }, part) : table(part))));
    const rows = found.mechanisms.find((one) => one.name === found.mechanism).owners;
    let k = 0;
    state.owners.forEach((seat, i) => {
      says[i].textContent = seat.joined ? does(rows[k++]) : t("market.out");
    });
    toml = found.toml;
    byId("save").disabled = toml === null;
    const kind = final ? "exact" : "quick";
    stand(kind, t(`join.${kind}`));
  }

  function table({ head, rows }) {
    const cells = (row) => row.map((text, k) => (k ? h("td", {}, text) : h("th", { scope: "row" }, text)));
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": head[0] },
      h("table", { lang: "en" }, h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows.map((row) => h("tr", {}, cells(row))))));
  }

  function stand(kind, text) {
    byId("status").dataset.kind = kind;
    byId("status").textContent = text;
  }

  function fail(error) {
    byId("verdict").textContent = t("join.failed", { reason: error.message });
    byId("save").disabled = true;
    stand("failed", "");
  }

  /** One quick question at a time; changes in the meantime are asked together when it is answered. */
  async function quickly() {
    if (asking) return;
    asking = true;
    let of = 0;
    while (of < changes && settled < changes) {
      of = changes;
      try {
        const found = await post("/api/market", asked());
        if (found.kind === "none" || of <= settled) continue;
        const final = found.kind === "exact" && of === changes;
        if (final) settled = of;
        show(found, final);
      } catch (error) {
        if (of > settled) fail(error);
      }
    }
    asking = false;
  }

  const exactlySoon = later(PATIENCE, async () => {
    const of = changes;
    if (of === settled) return; // the forecasts were made before
    try {
      const found = await post("/api/market", asked({ exact: true }));
      if (of !== changes) return;
      if (found.kind === "superseded") {
        setTimeout(exactlySoon, AGAIN); // another window came first
        return;
      }
      settled = of;
      show(found, true);
    } catch (error) {
      if (of === changes) fail(error);
    }
  });

  function changed() {
    changes += 1;
    keepSoon(state);
    byId("example").hidden = state.owners.every((seat) => seat.terms.market || !seat.joined);
    stand("none", t("join.asking"));
    quickly();
    exactlySoon();
  }

  const names = namesOf(state.owners);
  byId("owners").replaceChildren(...state.owners.map((seat, i) => line(seat, names[i])));
  byId("mechanism").addEventListener("change", changed);
  byId("save").addEventListener("click", () => download("proposed.toml", "application/toml", toml));
  changed();
}

begin(page);

// A ledger or a run, afterwards: whether it is whole, what was spent by whom, and every line.

import { send } from "./api.js";
import { byId, h } from "./dom.js";
import { begin } from "./site.js";
import { count, number, percent, t } from "./text.js";
import { windowed } from "./windowed.js";

function lineText({ kind, run, identity, epsilon, data }) {
  const values = { run, identity, epsilon: epsilon === null || epsilon === undefined ? "" : number(epsilon, 6), ...data, owners: (data?.owners ?? []).join(", ") };
  const key = data ? `event.${kind}` : `read.line.${kind}`;
  const text = t(key, values);
  return text === key ? [kind, run, identity].filter(Boolean).join(" ") : text;
}

function when({ time }) {
  const at = typeof time === "number" ? new Date(1000 * time) : new Date(time);
  return Number.isNaN(at.valueOf()) ? String(time) : new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" }).format(at);
}

function spent(rows) {
  return h("table", {}, h("tbody", {}, rows.map((row) => h("tr", {},
    h("th", { scope: "row", class: "mono" }, row.name.length > 40 ? `${row.name.slice(0, 40)}…` : row.name),
    h("td", {}, t("run.answers", { answers: count(row.answers ?? 0), most: count(row.most ?? 0) })),
    h("td", {}, h("meter", { min: 0, max: row.epsilon || 1, value: row.spent ?? 0, "aria-label": t("run.spent.of", { spent: number(row.spent ?? 0), all: number(row.epsilon ?? 0) }) })),
    h("td", {}, t("run.spent.of", { spent: number(row.spent ?? 0), all: number(row.epsilon ?? 0) }))))));
}

function sums(found) {
  if (found.kind === "ledger") return t("read.spent", { spent: number(found.spent, 6), lifetime: number(found.lifetime, 6), runs: count(found.runs.length) });
  const said = [t("read.progress", { queries: count(found.queries ?? 0), agreed: count(found.agreed_queries ?? 0), status: found.status ?? "–" })];
  if (found.outcome) said.push(found.outcome);
  const estimate = found.realised?.public?.estimate;
  if (typeof estimate === "number") said.push(t("read.estimate", { value: percent(estimate) }));
  const expected = found.forecast?.relative_fitness;
  if (expected) said.push(t("read.expected", { value: percent(expected.mean), low: percent(expected.low), high: percent(expected.high) }));
  return said.join(" ");
}

function show(found) {
  byId("found").hidden = false;
  const ledger = found.kind === "ledger";
  byId("what").textContent = ledger ? t("read.ledger", { owner: found.owner }) : t("read.run", { run: String(found.run ?? "").slice(0, 8) });
  byId("whole").textContent = found.problem ? t("read.broken", { problem: found.problem }) : ledger ? t("read.whole") : "";
  byId("whole").classList.toggle("error", Boolean(found.problem));
  byId("sums").textContent = sums(found);
  byId("head").replaceChildren(...(ledger ? [t("read.head"), " ", h("code", {}, found.head)] : []));
  byId("by").textContent = t(ledger ? "read.by" : "read.by.owner");
  byId("runs").replaceChildren(spent(found.runs));
  byId("lines-text").textContent = t("read.lines.lead", { number: count(found.lines.length) });
  const list = windowed(byId("lines"), {
    label: t("read.lines"),
    line: (i) => h("div", {}, h("span", { class: "quiet" }, count(found.lines[i].number)), h("time", {}, when(found.lines[i])), h("span", {}, lineText(found.lines[i]))),
  });
  list.resize(found.lines.length);
}

async function page() {
  byId("open").addEventListener("change", async (event) => {
    const file = event.target.files[0];
    if (!file) return;
    byId("said").textContent = t("read.reading");
    byId("found").hidden = true;
    try {
      const found = await send("/api/file/read", file);
      byId("said").textContent = "";
      show(found);
    } catch (error) {
      byId("said").textContent = t("read.failed", { reason: error.message });
    }
  });
  byId("print").addEventListener("click", () => window.print());
}

begin(page);

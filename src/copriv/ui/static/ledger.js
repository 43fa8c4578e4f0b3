// A ledger or a run, afterwards: whether it is whole, when and by whom what was spent, and every line.

import { send } from "./api.js";
import { byId, download, gauge, h } from "./dom.js";
import { eventText } from "./events.js";
import { begin } from "./site.js";
import { count, moment, number, percent, t } from "./text.js";
import { timeline } from "./timeline.js";
import { windowed } from "./windowed.js";

const ENDS = ["finished", "stopped", "open"];

function lineText(one) {
  const { kind, run, identity, epsilon } = one;
  const values = { run, identity, number: one.number_of, epsilon: number(epsilon ?? 0, 6) };
  const key = `read.line.${kind}`;
  const text = t(key, values);
  return text === key ? [kind, run, identity].filter(Boolean).join(" ") : text;
}

function when({ time }) {
  const at = typeof time === "number" ? new Date(1000 * time) : new Date(time);
  return Number.isNaN(at.valueOf()) ? String(time) : moment(at);
}

function ofAll(row) {
  const said = t("run.spent.of", { spent: number(row.spent ?? 0), all: number(row.epsilon ?? 0) });
  return row.delta > 0 ? `${said}, ${t("read.delta", { spent: number(row.spent_delta ?? 0), all: number(row.delta) })}` : said;
}

const said = (text) => h("span", { title: text }, text);

function spent(rows) {
  return h("table", { class: "spent" }, h("tbody", {}, rows.map((row) => h("tr", {},
    h("th", { scope: "row", class: "mono", title: row.name }, row.name.length > 24 ? `${row.name.slice(0, 24)}…` : row.name),
    h("td", {}, t("run.answers", { answers: count(row.answers ?? 0), most: count(row.most ?? 0) }), row.missing ? `; ${t("read.missing", { number: count(row.missing) })}` : ""),
    h("td", {}, gauge(row.spent ?? 0, row.epsilon || 1, ofAll(row))),
    h("td", {}, ofAll(row))))));
}

function sums(found) {
  if (found.kind === "ledger") {
    const said = [t("read.spent", { spent: number(found.spent, 6), lifetime: number(found.lifetime, 6), runs: count(found.runs.length) })];
    if (found.lifetime_delta > 0) said.push(t("read.spent.delta", { spent: number(found.spent_delta), lifetime: number(found.lifetime_delta) }));
    if (found.before > 0) said.push(t("read.before", { epsilon: number(found.before, 6) }));
    if (found.ahead > 0) said.push(t("read.ahead", { epsilon: number(found.ahead, 6) }));
    return said.join(" ");
  }
  const said = [t("read.progress", { queries: count(found.queries ?? 0), agreed: count(found.agreed_queries ?? 0), status: t(`read.status.${ENDS.includes(found.status) ? found.status : "none"}`) })];
  if (found.outcome) said.push(t("read.why", { reason: found.outcome }));
  const estimate = found.realised?.public?.estimate;
  if (typeof estimate === "number") said.push(t("read.estimate", { value: percent(estimate) }));
  const expected = found.forecast?.relative_fitness;
  if (expected) said.push(t("read.expected", { value: percent(expected.median ?? expected.mean), low: percent(expected.low), high: percent(expected.high) }));
  return said.join(" ");
}

function verdict({ kind, problems, rounding }) {
  if (problems.length) return t(problems.length === 1 ? "read.broken" : "read.broken.many", { number: count(problems.length) });
  if (kind === "ledger") return t("read.whole");
  if (kind === "model") return t("read.model");
  return `${t("read.whole.run")} ${rounding === 0 ? t("read.exactly") : t("read.rounding", { off: number(rounding, 2) })}`;
}

/** What it was held against, and what only the file itself says. */
function heldAgainst(found) {
  if (found.kind === "model") return [];
  if (found.kind === "ledger") {
    const beside = found.beside ? t("read.held.runs", { number: count(found.beside) }) : t("read.own.runs");
    return [t(found.held_against_head ? "read.held.head" : "read.own.head"), beside];
  }
  const { from_elsewhere: yes } = found;
  const said = ["agreement", "authority", "model"].map((key) => t(`read.${yes[key] ? "held" : "own"}.${key}`));
  return yes.head ? [...said, t("read.held.head")] : said;
}

function show(found) {
  byId("found").hidden = false;
  const ledger = found.kind === "ledger";
  const name = String(found.run ?? "").slice(0, 8);
  byId("what").textContent = ledger ? t("read.ledger", { owner: found.owner }) : found.agreement ? t("read.run.of", { run: name, agreement: found.agreement }) : t("read.run", { run: name });
  byId("whole").textContent = verdict(found);
  byId("whole").classList.toggle("error", found.problems.length > 0);
  byId("sums").textContent = sums(found);
  byId("held").replaceChildren(...heldAgainst(found).map((text) => h("li", {}, text)));
  byId("head").replaceChildren(...(found.head ? [t("read.head"), " ", h("code", {}, found.head)] : []));
  byId("report").hidden = !ledger;
  byId("report-said").textContent = ledger ? t("read.report.lead") : "";
  byId("by").textContent = t(ledger ? "read.by" : "read.by.owner");
  byId("runs").replaceChildren(found.runs.length ? spent(found.runs) : h("p", { class: "quiet" }, t("read.runs.none")));
  byId("lines-text").textContent = found.all_lines > found.lines.length
    ? t("read.lines.first", { number: count(found.all_lines), shown: count(found.lines.length) })
    : t("read.lines.lead", { number: count(found.lines.length) });
  const wrong = new Set(found.problems.map((one) => one.line));
  const list = windowed(byId("lines"), {
    label: t("read.lines"),
    line(i) {
      const one = found.lines[i];
      const bad = wrong.has(one.number);
      return h("div", { class: bad ? "wrong" : null }, h("span", { class: "number" }, count(one.number)), h("time", {}, when(one)),
        bad ? h("strong", {}, t("read.wrong")) : null, said(ledger ? lineText(one) : eventText(one)));
    },
  });
  list.resize(found.lines.length);
  byId("problems").replaceChildren(...found.problems.map(({ line, what }) => h("li", {}, what, " ",
    line && line <= found.lines.length ? h("button", { type: "button", class: "small", onclick: () => list.to(line - 1) }, t("read.to", { line: count(line) })) : null)));
  for (const id of ["lines-card", "timeline-card"]) byId(id).hidden = found.kind === "model";
  draw = () => byId("timeline").replaceChildren(...timeline({
    points: found.timeline ?? [],
    most: ledger ? found.lifetime : found.agreed_queries,
    label: t(ledger ? "read.most.ledger" : "read.most.run", { most: number(ledger ? found.lifetime : found.agreed_queries, 6) }),
    alt: sums(found),
  }, byId("timeline").clientWidth));
  byId("timeline-text").textContent = t(ledger ? "read.timeline.ledger" : "read.timeline.run");
  draw();
}

let draw = () => {};

async function page() {
  const files = () => [...byId("open").files];
  const ask = (path) => send(path, new Blob(files()), { "x-sizes": files().map((file) => file.size).join(","), "x-names": files().map((file) => encodeURIComponent(file.name)).join(","), "x-head": encodeURIComponent(byId("head-known").value) });

  let reads = 0;

  async function read() {
    if (!files().length) return;
    byId("said").textContent = t("read.reading");
    byId("found").hidden = true;
    const mine = (reads += 1);
    try {
      const found = await ask("/api/file/read");
      if (mine !== reads) return; // other files were chosen in the meantime
      byId("said").textContent = "";
      show(found);
    } catch (error) {
      if (mine === reads) byId("said").textContent = t("read.failed", { reason: error.message });
    }
  }

  byId("report").addEventListener("click", async () => {
    byId("report-said").textContent = t("read.report.making");
    try {
      download("copriv-report.html", "text/html", (await ask("/api/file/report")).html);
      byId("report-said").textContent = t("read.report.made");
    } catch (error) {
      byId("report-said").textContent = error.message;
    }
  });
  byId("open").addEventListener("change", read);
  byId("head-known").addEventListener("change", read);
  byId("print").addEventListener("click", () => window.print());
  new ResizeObserver(() => draw()).observe(byId("timeline"));
}

begin(page);

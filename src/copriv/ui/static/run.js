// A run, live: who answers now, what it has spent, the estimate over the forecast's band, events, pause and stop.

import { post } from "./api.js";
import { byId, gauge, h } from "./dom.js";
import { listen, longList, stopButton } from "./live.js";
import { estimate } from "./estimate.js";
import { eventText } from "./events.js";
import { begin } from "./site.js";
import { count, number, percent, t } from "./text.js";
import { windowed } from "./windowed.js";

const MARKS = { asked: "●", here: "○", away: "–", out: "×" };

// Which phase goes on, and what the pilot told; nothing for a run of one phase.
function phase(found) {
  if (!found) return "";
  const { told } = found;
  const now = t(found.now === "kept" && !found.gives_model ? "run.phase.kept.none" : `run.phase.${found.now}`);
  if (!told) return now;
  const range = (when) => t("run.phase.range", { value: percent(told[`${when}_median`]), low: percent(told[`${when}_low`]), high: percent(told[`${when}_high`]) });
  return t(found.now === "kept" ? "run.phase.would" : "run.phase.known", { now, after: range("after"), before: range("before"), yes: count(told.yes), no: count(told.no), open: count(told.open) });
}

async function page() {
  let state = null;
  const resize = longList(byId("lines"), eventText);
  const owners = windowed(byId("owners"), {
    label: t("run.owners"),
    line(i) {
      const row = state?.rows[i];
      if (!row) return null;
      const said = t(`run.is.${row.state}`);
      return h("div", { class: `party ${row.state}` },
        h("span", { class: "mark", "aria-hidden": "true" }, MARKS[row.state]), h("span", { class: "who", title: row.name }, row.name), h("span", { class: "is", title: row.out }, said),
        gauge(row.spent, row.epsilon, t("run.spent.of", { spent: number(row.spent), all: number(row.epsilon) })),
        h("span", { class: "much" }, t("run.answers", { answers: count(row.answers), most: count(row.most) }), ", ε ", number(row.spent)));
    },
  });

  function show(now, found) {
    state = now;
    const { head, rows } = state;
    byId("state").textContent = !state.connected && !head.status ? t("run.lost") : t(`run.status.${head.status ?? (head.held ? "held" : "going")}`, { reason: head.reason });
    byId("controls").hidden = Boolean(head.status);
    if (head.run) {
      byId("name").textContent = head.name || t("site.run");
      byId("which").textContent = t("run.which", { run: head.run.slice(0, 8), fingerprint: head.fingerprint.slice(0, 16) });
      byId("sums").textContent = head.colluding === null ? "" : t("run.sums", { others: count(head.colluding) });
      byId("phase").textContent = phase(head.phase);
      byId("progress-text").textContent = t("run.progress", { stepped: count(head.stepped), queries: count(head.queries) });
      byId("progress").value = head.queries ? head.stepped / head.queries : 0;
      byId("pause").textContent = t(head.held ? "run.resume" : "run.pause");
    }
    if (found.rows) {
      const of = (kind) => count(rows.filter((row) => row.state === kind).length);
      byId("owners-text").textContent = t("run.owners.lead", { all: count(rows.length), asked: of("asked"), here: of("here"), away: of("away"), out: of("out") });
      owners.resize(rows.length);
    }
    if (found.lines !== undefined) {
      byId("lines-text").textContent = t("run.events.lead", { number: count(state.lines) });
      resize(state.lines);
    }
    if (found.points || found.band || found.head) {
      const last = state.points.at(-1);
      byId("psi-text").textContent = head.public === null ? t("run.psi.none") : t("run.psi.lead", { value: last ? percent(last[1]) : "…", rows: count(head.public ?? 0) });
      byId("psi").replaceChildren(...estimate(state, byId("psi").clientWidth));
    }
  }

  byId("pause").addEventListener("click", () => post(`/api/hold/${state?.head.held ? "resume" : "pause"}`, {}).catch(() => {}));
  stopButton();
  new ResizeObserver(() => state && byId("psi").replaceChildren(...estimate(state, byId("psi").clientWidth))).observe(byId("psi").parentElement);
  listen(show);
}

begin(page);

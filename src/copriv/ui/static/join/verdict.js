// Verdicts in sentences: for everybody at the top, and for one organisation.

import { byId, h } from "../dom.js";
import { listed, percent, t } from "../text.js";

const SURE = 0.9; // a verdict that is less probable than this is said to be probable only

/** How an owner's joining compares with the best it can have without: by the median, and whether the band holds it. */
function compared(row, view) {
  const rival = Math.min(row.alone, view.public_only);
  const { low, high } = view.together;
  const known = row.probability !== null && row.probability !== undefined;
  return { rival, sure: known ? row.probability >= SURE : rival < low || rival > high, public: view.public_only < row.alone };
}

/** The sentence of one organisation, as nodes. */
export function why(row, view) {
  if (!row.joined) return outside(row);
  const found = compared(row, view);
  const verdict = `owner.${row.joining_pays ? "pays" : "not"}${found.sure ? "" : ".likely"}`;
  const mark = h("span", { class: "mark", "aria-hidden": "true" }, row.joining_pays ? "✓" : "–");
  const badge = h("strong", { class: row.joining_pays ? "yes" : "no", "data-verdict": row.joining_pays ? "yes" : "no" }, mark, t(verdict));
  const values = { together: percent(row.together), alone: percent(row.alone), public: percent(view.public_only) };
  const reason = row.joining_pays ? "because" : found.public ? "because.public" : "because.alone";
  const said = [badge, ": ", t(`owner.${reason}`, values)];
  if (row.probability !== null && row.probability !== undefined) said.push(" (", t("owner.probability", { probability: percent(row.probability) }), ")");
  return said;
}

function outside(row) {
  const found = row.if_it_came;
  if (!found) return [t("owner.out.unknown")];
  const values = { together: percent(found.together), alone: percent(found.alone) };
  const change = t(found.gain_to_others > 0 ? "owner.out.better" : "owner.out.worse", { gap: percent(Math.abs(found.gain_to_others)) });
  return [t(found.joining_pays ? "owner.out.pays" : "owner.out.not", values), " ", t("owner.out.others", { change })];
}

function headline(view) {
  const joined = view.owners.filter((row) => row.joined);
  const [gain, rest] = [true, false].map((pays) => joined.filter((row) => row.joining_pays === pays).map((row) => row.name));
  const likely = joined.every((row) => compared(row, view).sure) ? "" : ".likely";
  if (!gain.length) return t(`join.pays.none${likely}`);
  return rest.length ? t(`join.pays.some${likely}`, { names: listed(gain), others: listed(rest) }) : t(`join.pays.all${likely}`);
}

/** What stands there is of before the last change. */
export function showAsking() {
  byId("status").dataset.kind = "asking";
  byId("status").textContent = t("join.asking");
}

/** How far organisations are taken to differ, and who says so. */
function unlikeness({ value, low, high, source }) {
  if (source === "stated" && high === 0) return t("join.alike");
  return t(source === "stated" ? "join.differ.stated" : "join.differ", { value: percent(value), low: percent(low), high: percent(high) });
}

export function showVerdict(view, state) {
  const [verdict, numbers, notes, status] = ["verdict", "verdict-numbers", "verdict-notes", "status"].map(byId);
  status.dataset.kind = view.kind;
  if (view.kind === "few" || view.kind === "failed") {
    verdict.textContent = view.kind === "few" ? t("join.few") : t("join.failed", { reason: view.reason });
    numbers.textContent = status.textContent = "";
    notes.hidden = true;
    return;
  }
  const text = headline(view);
  if (verdict.textContent !== text) verdict.textContent = text; // spoken again only when it changed
  const { median, low, high } = view.together;
  const key = view.kind === "exact" ? "join.together" : "join.together.quick";
  numbers.textContent = `${t(key, { together: percent(median), low: percent(low), high: percent(high) })} ${t("join.public", { public: percent(view.public_only) })}`;
  status.textContent = t(`join.${view.kind}`);
  const said = [];
  if (state.none) said.push(t("join.example"));
  if (view.unlikeness) said.push(unlikeness(view.unlikeness));
  if (view.unlike.length) said.push(t(view.unlikeness ? "join.unlike.all" : "join.unlike", { names: listed(view.unlike) }));
  notes.textContent = said.join(" ");
  notes.hidden = said.length === 0;
}

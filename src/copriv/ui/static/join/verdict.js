// Verdicts in sentences: for everybody at the top, and for one organisation.

import { byId, h } from "../dom.js";
import { chance, listed, percent, t } from "../text.js";

const MARKS = { yes: "✓", no: "–", open: "?" };
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
  const kind = row.close ? "open" : row.joining_pays ? "yes" : "no";
  const mark = h("span", { class: "mark", "aria-hidden": "true" }, MARKS[kind]);
  const verdict = row.close ? "close" : `${row.joining_pays ? "pays" : "not"}${found.sure ? "" : ".likely"}`;
  const badge = h("strong", { class: kind === "yes" ? "yes" : "no", "data-verdict": kind }, mark, t(`owner.${verdict}`));
  const values = { together: percent(row.together), alone: percent(row.alone), public: percent(view.public_only) };
  const reason = row.close ? "because.close" : row.joining_pays ? "because" : found.public ? "because.public" : "because.alone";
  return [badge, ": ", t(`owner.${reason}`, values), ...surely(row)];
}

/** How probable a verdict is; where there is none, how probable it is that joining pays. */
function surely({ probability, joining_pays: pays, close }) {
  if (probability === null || probability === undefined) return [];
  if (!close) return [" (", t("owner.probability", { probability: chance(probability) }), ")"];
  return [" (", t("owner.probability.pays", { probability: chance(pays ? probability : 1 - probability) }), ")"];
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
  const called = (rows) => listed(rows.map((row) => row.name));
  const told = joined.filter((row) => !row.close);
  const even = joined.filter((row) => row.close);
  if (!told.length) return t("join.close.all");
  const [gain, rest] = [told.filter((row) => row.joining_pays), told.filter((row) => !row.joining_pays)];
  const values = { names: called(gain), others: called(rest), even: called(even) };
  const likely = told.every((row) => compared(row, view).sure) ? "" : ".likely";
  if (gain.length && rest.length) return [t(`join.pays.some${likely}`, values), even.length ? t("join.close", values) : ""].join(" ").trim();
  if (!even.length) return t(`join.pays.${gain.length ? "all" : "none"}${likely}`);
  return `${t(`join.${gain.length ? "pays" : "not"}.only${likely}`, values)} ${t("join.close", values)}`;
}

/** What stands there is of before the last change. */
export function showAsking() {
  byId("status").dataset.kind = "asking";
  byId("status").textContent = t("join.asking");
}

/** How far organisations are taken to differ, and who says so. */
function heterogeneity({ value, low, high, source }) {
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
  const alone = view.public_only_band;
  const rows = alone ? t("join.public.band", { public: percent(view.public_only), low: percent(alone.low), high: percent(alone.high) }) : t("join.public", { public: percent(view.public_only) });
  numbers.textContent = `${t(key, { together: percent(median), low: percent(low), high: percent(high) })} ${rows}`;
  status.textContent = t(`join.${view.kind}`);
  const said = [];
  if (view.warning) said.push(t("join.warning"));
  if (state.none) said.push(t("join.example"));
  if (view.heterogeneity) said.push(heterogeneity(view.heterogeneity));
  if (view.unlike.length) said.push(t(view.heterogeneity ? "join.unlike.all" : "join.unlike", { names: listed(view.unlike) }));
  notes.textContent = said.join(" ");
  notes.hidden = said.length === 0;
}

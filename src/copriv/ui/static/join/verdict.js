// Verdicts in sentences: for everybody at the top, and for one organisation.

import { byId, everySecond, h } from "../dom.js";
import { chance, listed, percent, t } from "../text.js";

const MARKS = { yes: "✓", no: "–", open: "?" };

/** The sentence of one organisation, as nodes. */
export function why(row, view) {
  if (!row.joined) return outside(row, view.goal);
  const kind = row.verdict;
  const mark = h("span", { class: "mark", "aria-hidden": "true" }, MARKS[kind]);
  const verdict = kind === "open" ? "close" : `${kind === "yes" ? "pays" : "not"}${row.sure ? "" : ".likely"}`;
  const badge = h("strong", { class: kind === "yes" ? "yes" : "no", "data-verdict": kind }, mark, t(`owner.${verdict}`));
  const own = view.goal === "own" && row.own;
  const values = own
    ? { together: percent(Math.min(own.together, own.personalized)), alone: percent(row.own_without) }
    : { together: percent(row.together), alone: percent(row.alone), public: percent(view.public_only) };
  const reason = own ? "because.own" : { open: "because.close", yes: "because", no: `because.${row.rival}` }[kind];
  return [badge, ": ", t(`owner.${reason}`, values), ...surely(row)];
}

/** How probable a verdict is; where it is open, how probable it is that joining pays. */
function surely({ probability, verdict }) {
  if (probability === null || probability === undefined) return [];
  if (verdict !== "open") return [" (", t("owner.probability", { probability: chance(probability) }), ")"];
  return [" (", t("owner.probability.pays", { probability: chance(probability) }), ")"];
}

function outside(row, goal) {
  const found = row.if_it_came;
  if (!found) return [t("owner.out.unknown")];
  const values = { together: percent(found.together), alone: percent(found.alone), records: t(`owner.out.records.${goal}`) };
  const change = t(found.gain_to_others > 0 ? "owner.out.better" : "owner.out.worse", { gap: percent(Math.abs(found.gain_to_others)) });
  return [t(found.joining_pays ? "owner.out.pays" : "owner.out.not", values), " ", t("owner.out.others", { change })];
}

function headline(view) {
  const joined = view.owners.filter((row) => row.joined);
  const [gain, rest, even] = ["yes", "no", "open"].map((kind) => joined.filter((row) => row.verdict === kind));
  const [names, others, open] = [gain, rest, even].map((rows) => listed(rows.map((row) => row.name)));
  let kind = `pays.${gain.length ? "all" : "none"}`;
  if (even.length) kind = `${gain.length ? "pays" : "not"}.only`;
  if (gain.length && rest.length) kind = "pays.some";
  if (even.length === joined.length) kind = "close.all";
  const sentences = [even.length && even.length < joined.length ? t("join.close", { even: open }) : ""];
  if (view.kind === "exact") sentences.push(...byHowMuch(view, gain, even));
  if (view.goal === "common") sentences.push(t("join.goal.said"));
  const likely = kind === "close.all" || [...gain, ...rest].every((row) => row.sure) ? "" : ".likely";
  return [t(`join.${kind}${likely}`, { names, others }), ...sentences].filter(Boolean).join(" ");
}

/** By how much records would be predicted better, as the full forecast has it; where it is open, both outcomes. */
function byHowMuch(view, gain, even) {
  const own = view.goal === "own" ? "own" : "all";
  const said = [];
  if (gain.length) said.push(t(`join.better.${own}`, { better: range(gain.map((row) => row.joining.gain)) }));
  if (!gain.length && !even.length) said.push(t(`join.better.not.${own}`, { worthwhile: percent(view.worthwhile) }));
  const both = even.map((row) => row.joining).filter((joining) => joining.if_alike && joining.if_unlike);
  if (even.length && view.too_few) said.push(t(`join.close.few.${view.too_few}`));
  else if (both.length) said.push(...outcomes(both, view.worthwhile));
  return said;
}

/** Gains if organisations hardly differ and if they differ as real tables do; with their probabilities, where these gains do not show which way it goes. */
function outcomes(both, worthwhile) {
  const keys = ["if_alike", "if_unlike"];
  const gains = keys.map((key) => both.map((joining) => joining[key].gain));
  const chances = keys.map((key) => range(both.map((joining) => joining[key].probability), chance));
  const [alike, unlike] = gains.map((values) => range(values.map((gain) => Math.max(gain, 0))));
  if (alike === unlike && chances[0] === chances[1]) return [];
  const apart = (upper, lower) => Math.min(...upper) >= worthwhile && Math.max(...lower) < worthwhile;
  if (apart(gains[0], gains[1]) || apart(gains[1], gains[0])) return [t("join.close.both", { alike, unlike })];
  return [t("join.close.chances", { alike, unlike, chance: chances[0], chance_unlike: chances[1] })];
}

function range(values, shown = percent) {
  const [low, high] = [Math.min(...values), Math.max(...values)].map(shown);
  return low === high ? low : t("owner.bar.band", { low, high });
}

let waited = () => {};

/** What stands there is of before the last change; a forecast that takes long says for how long. */
export function showAsking() {
  const status = byId("status");
  status.dataset.kind = "asking";
  status.textContent = t("join.asking");
  waited();
  waited = everySecond((seconds) => {
    status.textContent = t("join.seconds", { text: t(`join.${status.dataset.kind}`), seconds });
  });
}

/** How far organisations are taken to differ, and who says so. */
function heterogeneity({ value, low, high, source }) {
  if (source === "stated" && high === 0) return t("join.alike");
  const sayer = ["stated", "strata", "answers"].includes(source) ? `join.differ.${source}` : "join.differ";
  return t(sayer, { value: percent(value), low: percent(low), high: percent(high) });
}

/** Public rows that are no random sample, by the level in which that shows most: the first one. */
function mixture({ column, levels }) {
  const [[level, shares]] = Object.entries(levels);
  return t("join.mix", { column, level, rows: percent(shares.public), records: percent(shares.records) });
}

export function showVerdict(view, state) {
  const [verdict, numbers, notes, status] = ["verdict", "verdict-numbers", "verdict-notes", "status"].map(byId);
  status.dataset.kind = view.kind;
  if (view.kind !== "quick") waited();
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
  if (view.only_as_recommended) said.push(t("join.agreed.worse", { agreed: percent(view.agreed.relative_fitness.median) }));
  if (state.none) said.push(t("join.example"));
  if (view.heterogeneity) said.push(heterogeneity(view.heterogeneity));
  if (view.public_mix) said.push(t(view.sampled_by_owner ? "join.sample.owner" : "join.sample"), ...view.public_mix.filter((mix) => mix.differs).map(mixture));
  if (view.strata_unused) said.push(t("join.strata.unused", { column: view.strata_unused }));
  if (view.without_stratum?.length) said.push(t("join.strata.without", { names: listed(view.without_stratum) }));
  if (view.unlike.length) said.push(t(view.heterogeneity ? "join.unlike.all" : "join.unlike", { names: listed(view.unlike) }));
  notes.textContent = said.join(" ");
  notes.hidden = said.length === 0;
}

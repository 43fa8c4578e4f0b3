// Verdicts in sentences: for everybody at the top, and for one organisation.

import { byId, everySecond, h } from "../dom.js";
import { chance, count, listed, number, percent, range, t } from "../text.js";

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
  const reason = own ? "because.own" : { open: "because.close", yes: `because.over.${row.rival}`, no: `because.${row.rival}` }[kind];
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

/** How a value in a sentence of the forecast is written, by its kind (`copriv/display/sentences.py`). */
const SHOWN = {
  percent: (ratio) => (ratio === null ? t("site.unbounded") : percent(ratio)), // no JSON has infinity
  range: (low, high) => range(low, high),
  chance: (low, high = low) => range(low, high, chance),
  names: (...names) => listed(names, 5),
  number: (value) => number(value),
  times: (value) => number(value, 2),
  count,
  word: String,
};

/** A sentence of the forecast in the page's language. */
export function sentence({ key, values }) {
  const shown = Object.entries(values).map(([blank, one]) => {
    if (!Array.isArray(one)) return [blank, sentence(one)];
    const [kind, ...value] = one;
    return [blank, SHOWN[kind](...value)];
  });
  return t(`verdict.${key}`, Object.fromEntries(shown));
}

/** The forecast's sentences: for whom joining pays, what it costs and what would help, and what to be careful about. */
function told(view) {
  const parts = { answer: [], rest: [], caution: [] };
  for (const one of view.said) (parts[one.key.split(".")[0]] ?? parts.rest).push(sentence(one));
  return parts;
}

/** For whom joining pays, by a quick estimate. */
function estimated(view) {
  const joined = view.owners.filter((row) => row.joined);
  const [gain, rest, even] = ["yes", "no", "open"].map((kind) => joined.filter((row) => row.verdict === kind));
  const [names, others, open] = [gain, rest, even].map((rows) => listed(rows.map((row) => row.name)));
  let kind = `pays.${gain.length ? "all" : "none"}`;
  if (even.length) kind = `${gain.length ? "pays" : "not"}.only`;
  if (gain.length && rest.length) kind = "pays.some";
  if (even.length === joined.length) kind = "close.all";
  const likely = kind === "close.all" || [...gain, ...rest].every((row) => row.sure) ? "" : ".likely";
  const said = [t(`join.${kind}${likely}`, { names, others })];
  if (even.length && even.length < joined.length) said.push(t("join.close", { even: open }));
  return said;
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
  const { answer, rest, caution } = view.kind === "exact" ? told(view) : { answer: estimated(view), rest: [], caution: [] };
  if (view.goal === "common") answer.push(t("join.goal.said"));
  const text = answer.join(" ");
  if (verdict.textContent !== text) verdict.textContent = text; // spoken again only when it changed
  const { median, low, high } = view.together;
  if (view.kind === "exact") {
    const alone = view.public_only_band;
    rest.push(t("join.together", { band: range(low, high) }), t("join.public.band", { band: range(alone.low, alone.high) }));
  } else {
    const values = { together: percent(median), low: percent(low), high: percent(high) };
    rest.push(t("join.together.quick", values), t("join.public", { public: percent(view.public_only) }));
  }
  numbers.textContent = rest.join(" ");
  status.textContent = t(`join.${view.kind}`);
  const said = caution;
  if (view.warning) said.push(t("join.warning"));
  if (state.none) said.push(t("join.example"));
  if (view.heterogeneity) said.push(heterogeneity(view.heterogeneity));
  if (view.public_mix) said.push(t(view.sampled_by_owner ? "join.sample.owner" : "join.sample"), ...view.public_mix.filter((mix) => mix.differs).map(mixture));
  if (view.strata_unused) said.push(t("join.strata.unused", { column: view.strata_unused }));
  if (view.without_stratum?.length) said.push(t("join.strata.without", { names: listed(view.without_stratum) }));
  if (view.unlike.length) said.push(t(view.heterogeneity ? "join.unlike.all" : "join.unlike", { names: listed(view.unlike) }));
  notes.textContent = said.join(" ");
  notes.hidden = said.length === 0;
}

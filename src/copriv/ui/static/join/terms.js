// How it would be done: the recommended terms, the agreed ones and the next best, in the forecast's own words.

import { byId, h } from "../dom.js";
import { percent, t } from "../text.js";
import { sentence } from "./verdict.js";

/** What a pilot would tell and cost, and what the sum of answers alone would, a paragraph each. */
export function otherwise(view) {
  const told = [view.said_of_pilot, view.said_of_sum].filter((said) => said.length);
  return told.map((said) => h("p", {}, said.map(sentence).join(" ")));
}

export function showTerms(view, state) {
  if (view.kind !== "exact") return;
  const lines = [["recommended", view.recommended.words, view.recommended.relative_fitness]];
  const open = (state.agreement?.rule ?? "auto") === "auto"; // nothing was agreed that could be compared
  if (!open) lines.push(["agreed", view.agreed.words, view.agreed.relative_fitness]);
  if (view.runner_up) lines.push(["next", view.runner_up.words, { median: view.runner_up.median }]);
  byId("terms").replaceChildren(...[
    h("dl", {}, lines.map(([key, words, ψ]) => [
      h("dt", {}, t(`join.terms.${key}`)),
      h("dd", {}, h("span", { lang: "en" }, words), " ", h("strong", {}, percent(ψ.median)),
        ψ.low === undefined ? "" : ` (${t("owner.bar.band", { low: percent(ψ.low), high: percent(ψ.high) })})`),
    ])),
    otherwise(view),
    h("p", { class: "quiet" }, t("join.terms.from"), ": ", h("span", { lang: "en" }, view.description)),
  ].flat());
}

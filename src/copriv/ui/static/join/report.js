// A report that stands alone: one file with the verdicts, the numbers and the map, to print or to send.

import { h } from "../dom.js";
import { count, number, percent, t } from "../text.js";
import { drawing } from "./frontier.js";
import { odds } from "./meaning.js";
import { standalone } from "./picture.js";
import { otherwise } from "./terms.js";
import { why } from "./verdict.js";
import { coalition, worthTable } from "./worth.js";

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2530;background:#fff}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.35rem .8rem .35rem 0;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}
svg{max-width:100%;height:auto}small{color:#55606c}`;

export function report(view, state) {
  const text = (id) => document.getElementById(id).textContent;
  const joined = view.owners.map((row, i) => [row, state.owners[i].terms]);
  const head = ["owner.name", "owner.records", "owner.epsilon", "join.meaning", "join.verdict"];
  const lines = joined.map(([row, terms]) => h("tr", {}, h("th", {}, row.name), h("td", {}, count(terms.records)), h("td", {}, number(terms.epsilon)),
    h("td", {}, t("owner.epsilon.odds", { right: odds(terms).right })), h("td", {}, why(row, view))));
  const page = h("html", { lang: document.documentElement.lang },
    h("head", {}, h("meta", { charset: "utf-8" }), h("title", {}, t("join.title")), h("style", {}, STYLE)),
    h("body", {},
      h("h1", {}, t("join.title")), h("p", {}, h("strong", {}, text("verdict"))), h("p", {}, text("verdict-numbers")), h("p", {}, text("verdict-notes")),
      h("h2", {}, t("join.who")), h("table", {}, h("tr", {}, head.map((key) => h("th", {}, t(key)))), lines),
      h("h2", {}, t("join.frontier")), standalone(drawing(view, 820), "light").drawn,
      h("h2", {}, t("join.worth")), h("p", {}, t("join.worth.lead")), worthTable(view), h("p", {}, coalition(view)),
      h("h2", {}, t("join.terms")), h("p", {}, t("join.terms.lead")), h("p", {}, view.recommended.words, ": ", percent(view.recommended.relative_fitness.median)),
      otherwise(view),
      h("p", {}, h("small", {}, view.description, ". copriv; ", t("join.exact")))));
  return `<!doctype html>\n${page.outerHTML}`;
}

// What each organisation brings: its fair share of the gain, what leaving changes, and the weights that would be best.

import { byId, h } from "../dom.js";
import { listed, number, percent, t } from "../text.js";

const LEAST = 1e-4; // below, any ε will do
const MOST = 50; // organisations shown; the report and the command line have all

function leaving(row) {
  if (row.loss_to_others === null) return t("site.none");
  if (Math.abs(row.loss_to_others) < 1e-3 * row.together) return t("join.worth.same");
  return t(row.loss_to_others > 0 ? "join.worth.lose" : "join.worth.gain", { gap: percent(Math.abs(row.loss_to_others)) });
}

function share(row) {
  if (row.worth === null) return t("join.worth.unknown");
  if (row.share === undefined) return t("site.none"); // joining saves nothing
  return row.share_error > 0 ? `${percent(row.share)} ± ${percent(row.share_error)}` : percent(row.share);
}

function least({ break_even: epsilon }) {
  if (epsilon === null) return t("site.none");
  return epsilon <= LEAST ? t("join.worth.any") : number(epsilon, 2);
}

function weight(row) {
  const [best, now] = [percent(row.best_weight), percent(row.weight)];
  return best === now ? best : t("join.worth.instead", { best, now });
}

export function worthTable(view) {
  const columns = ["owner", "share", "leaves", "epsilon", "best"];
  const joined = view.owners.filter((row) => row.joined).slice(0, MOST);
  const cells = (row) => [share(row), leaving(row), least(row), weight(row)];
  return h("table", { class: "worth" },
    h("thead", {}, h("tr", {}, columns.map((key) => h("th", { scope: "col" }, t(`join.worth.${key}`))))),
    h("tbody", {}, joined.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name), cells(row).map((text, k) => h("td", { "data-label": t(`join.worth.${columns[k + 1]}`) }, text))))));
}

export function coalition(view) {
  const joined = view.owners.filter((row) => row.joined).map((row) => row.name);
  const outside = joined.filter((name) => !view.best_subset.names.includes(name));
  const together = view.together.median;
  const said = outside.length
    ? t("join.worth.subset", { names: listed(outside), value: percent(view.best_subset.value), together: percent(together) })
    : t("join.worth.everybody");
  return view.weights_help ? `${said} ${t("join.worth.weights", { value: percent(view.best_weights) })}` : said;
}

export function showWorth(view) {
  byId("worth").replaceChildren(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "worth-title" }, worthTable(view)), h("p", {}, coalition(view)));
}

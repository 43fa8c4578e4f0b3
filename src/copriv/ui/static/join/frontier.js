// A map of where joining pays: ε to the right, organisations upwards, and where these are.

import { byId, h, svg } from "../dom.js";
import { count, number, t } from "../text.js";

const HEIGHT = 330;
const EDGE = { left: 46, right: 14, top: 14, bottom: 46 };
const TICKS = [2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000];

function axes(view) {
  const { lines, owners, here } = view.frontier;
  const known = Object.values(lines).flat().filter((value) => value !== null && value > 2e-3);
  const low = 10 ** Math.floor(Math.log10(Math.min(...known, here.epsilon, 0.1)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(...known, here.epsilon, 10)));
  return { low, high, least: owners[0], most: owners.at(-1) };
}

function path(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

export function drawing(view, width) {
  const { lines, owners, here, records } = view.frontier;
  const { low, high, least, most } = axes(view);
  const right = width - EDGE.right;
  const bottom = HEIGHT - EDGE.bottom;
  const X = (ε) => EDGE.left + ((Math.log10(Math.min(Math.max(ε, low), high)) - Math.log10(low)) / Math.log10(high / low)) * (right - EDGE.left);
  const Y = (n) => bottom - (Math.log(n / least) / Math.log(most / least)) * (bottom - EDGE.top);
  const along = (line) => owners.map((n, i) => [line[i] === null ? right : X(line[i]), Y(n)]);
  const within = (line) => owners.map((n, i) => [line[i], n]).filter(([ε]) => ε !== null && ε > low * 1.001).map(([ε, n]) => [X(ε), Y(n)]);
  const ever = lines.median.some((ε) => ε !== null);
  const middle = along(lines.median);
  const [from, to] = [along(lines.low), along(lines.high)];
  const parts = [svg("rect", { class: "ground", x: EDGE.left, y: EDGE.top, width: right - EDGE.left, height: bottom - EDGE.top })];
  if (ever) parts.push(svg("path", { class: "pays", d: `${path(middle)}L${right} ${middle.at(-1)[1]}L${right} ${middle[0][1]}Z` }));
  parts.push(svg("path", { class: "unsure", d: `${path(from)}L${path([...to].reverse()).slice(1)}Z` }));
  for (let ε = low; ε <= high * 1.001; ε *= 10) {
    const x = X(ε);
    parts.push(svg("line", { class: "grid", x1: x, x2: x, y1: EDGE.top, y2: bottom }));
    // A long number at the right edge would leave the chart if it stood in the middle below its line.
    const end = x > right - 10 && number(ε).length > 3;
    parts.push(svg("text", { class: "tick", x: end ? width - 1 : x, y: bottom + 17, "text-anchor": end ? "end" : "middle" }, number(ε)));
  }
  let last = Infinity;
  for (const n of TICKS.filter((one) => one >= least && one <= most)) {
    if (last - Y(n) < 20) continue;
    last = Y(n);
    parts.push(svg("text", { class: "tick", x: EDGE.left - 8, y: Y(n) + 4, "text-anchor": "end" }, count(n)));
    parts.push(svg("line", { class: "grid", x1: EDGE.left, x2: right, y1: Y(n), y2: Y(n) }));
  }
  if (ever) parts.push(svg("path", { class: "edge", d: path(within(lines.median)) }));
  parts.push(svg("text", { class: "axis", x: (EDGE.left + right) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, t("join.frontier.x")));
  parts.push(svg("text", { class: "axis", x: 14, y: (EDGE.top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(EDGE.top + bottom) / 2})` }, t("join.frontier.y")));
  parts.push(svg("text", { class: "region", x: EDGE.left + 10, y: EDGE.top + 20 }, t("join.frontier.not")));
  if (ever) parts.push(svg("text", { class: "region yes", x: right - 10, y: bottom - 12, "text-anchor": "end" }, t("join.frontier.pays")));
  const [x, y] = [X(here.epsilon), Y(Math.min(here.owners, most))];
  const side = x > (EDGE.left + right) / 2 ? -1 : 1;
  parts.push(svg("circle", { class: "here", cx: x, cy: y, r: 7 }), svg("circle", { class: "here core", cx: x, cy: y, r: 2.5 }));
  parts.push(svg("text", { class: "here", x: x + side * 13, y: y + 5, "text-anchor": side > 0 ? "start" : "end" }, t("join.frontier.here")));
  const at = owners.findIndex((n) => n >= here.owners);
  const line = lines.median[at] === null ? t("join.frontier.none") : t("join.frontier.point", { owners: owners[at], epsilon: number(lines.median[at], 2) });
  const label = t("join.frontier.alt", { line, owners: here.owners, epsilon: number(here.epsilon, 2), records: count(records) });
  return svg("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label }, parts);
}

function table(view) {
  const { lines, owners } = view.frontier;
  const some = owners.map((n, i) => [n, i]).filter(([, i]) => i % 4 === 0 || i === owners.length - 1);
  const shown = (value) => (value === null ? t("site.none") : number(value, 2));
  return h("details", {}, h("summary", {}, t("join.frontier.table")),
    h("table", {},
      h("thead", {}, h("tr", {}, ...["y", "least", "range"].map((key) => h("th", { scope: "col" }, t(`join.frontier.${key}`))))),
      h("tbody", {}, some.map(([n, i]) => h("tr", {}, h("th", { scope: "row" }, count(n)), h("td", {}, shown(lines.median[i])),
        h("td", {}, `${shown(lines.low[i])} – ${shown(lines.high[i])}`))))));
}

export function frontier(desk) {
  const place = byId("frontier");
  const lead = h("p", { class: "quiet" });
  const chart = h("div", { class: "drawn" });
  const numbers = h("div", {});
  place.append(lead, chart, numbers);

  function draw() {
    const view = desk.view();
    if (!view) return;
    const open = numbers.querySelector("details")?.open ?? false;
    lead.textContent = t("join.frontier.lead", { records: count(view.frontier.records) });
    chart.replaceChildren(drawing(view, Math.max(280, chart.clientWidth)));
    numbers.replaceChildren(table(view));
    numbers.querySelector("details").open = open;
  }

  new ResizeObserver(draw).observe(place);
  return { show: draw };
}

// ψ as the learner can estimate it during a run, over the band that the forecast expects.

import { svg } from "./dom.js";
import { count, percent, t, tick } from "./text.js";

const HEIGHT = 300;
const EDGE = { left: 62, right: 14, top: 12, bottom: 42 };
const MOST = 600; // points drawn; of more, evenly spread ones

function thinned(points) {
  const step = Math.max(1, Math.ceil(points.length / MOST));
  return points.filter((_, i) => i % step === 0 || i === points.length - 1);
}

export function estimate({ points, band, head }, room) {
  if (!points.length && !band) return [];
  const width = Math.max(260, room);
  const last = Math.max(head.queries ?? 1, 1);
  const values = [...points.map((point) => point[1]), ...(band ? [...band.low, ...band.high] : []), ...(band?.before ? [...band.before.low, ...band.before.high] : [])].filter((value) => value > 0);
  if (!values.length) return [];
  const low = 10 ** Math.floor(Math.log10(Math.max(Math.min(...values), 1e-9)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(...values)) + 1e-9);
  const [right, bottom] = [width - EDGE.right, HEIGHT - EDGE.bottom];
  const X = (k) => EDGE.left + (Math.min(k, last) / last) * (right - EDGE.left);
  const Y = (ψ) => bottom - (Math.log10(Math.min(Math.max(ψ, low), high) / low) / Math.log10(high / low || 10)) * (bottom - EDGE.top);
  const path = (pairs) => pairs.map(([k, ψ], i) => `${i ? "L" : "M"}${X(k).toFixed(1)} ${Y(ψ).toFixed(1)}`).join("");
  const parts = [];
  for (let ψ = low; ψ <= high * 1.001; ψ *= 10) {
    parts.push(svg("line", { class: "grid", x1: EDGE.left, x2: right, y1: Y(ψ), y2: Y(ψ) }));
    parts.push(svg("text", { class: "tick", x: EDGE.left - 8, y: Y(ψ) + 4, "text-anchor": "end" }, tick(ψ)));
  }
  for (const [one, kind] of [[band?.before, "expected before"], [band, "expected"]]) {
    if (!one) continue;
    const along = (line) => one.k.map((k, i) => [k, line[i]]);
    parts.push(svg("path", { class: kind, d: `${path(along(one.low))}L${path(along(one.high).reverse()).slice(1)}Z` }));
    if (one === band) parts.push(svg("path", { class: "middle", d: path(along(one.median)) }));
  }
  const drawn = thinned(points);
  parts.push(svg("path", { class: "edge", d: path(drawn) }));
  if (drawn.length) {
    const [k, ψ] = drawn.at(-1);
    parts.push(svg("circle", { class: "here", cx: X(k), cy: Y(ψ), r: 5 }));
  }
  parts.push(svg("text", { class: "tick", x: EDGE.left, y: bottom + 18 }, "0"), svg("text", { class: "tick", x: right, y: bottom + 18, "text-anchor": "end" }, count(last)));
  parts.push(svg("text", { class: "axis", x: (EDGE.left + right) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, t("run.psi.x")));
  const label = t("run.psi.alt", { value: points.length ? percent(points.at(-1)[1]) : t("site.none"), low: band ? percent(band.low.at(-1)) : t("site.none"), high: band ? percent(band.high.at(-1)) : t("site.none") });
  return [svg("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label }, parts)];
}

// What was spent, or answered, along time: a stair that only rises, under the most that was agreed.

import { svg } from "./dom.js";
import { moment, number, t } from "./text.js";

const HEIGHT = 240;
const EDGE = { left: 62, right: 16, top: 22, bottom: 40 };
const MARKS = 4;
const DAY = 86_400;

/** How fine the labels are: days, minutes, seconds, or parts of them. */
function styleFor(span) {
  if (span > 2 * DAY) return { dateStyle: "short" };
  if (span > DAY / 2) return { dateStyle: "short", timeStyle: "short" };
  if (span > 10) return { timeStyle: "medium" };
  return { minute: "2-digit", second: "2-digit", fractionalSecondDigits: 2 };
}

/** `points` are [seconds since 1970, value]; `most` is the line that none may cross, `label` what it is called. */
export function timeline({ points, most, label, alt }, room) {
  if (!points.length) return [];
  const width = Math.max(260, room);
  const [right, bottom] = [width - EDGE.right, HEIGHT - EDGE.bottom];
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const highest = Math.max(most, ...points.map((point) => point[1])) || 1;
  const span = last - first || 1;
  const X = (at) => EDGE.left + ((at - first) / span) * (right - EDGE.left);
  const Y = (value) => bottom - (value / highest) * (bottom - EDGE.top);
  const stair = points.map(([at, value], i) => `${i ? `H${X(at).toFixed(1)}V` : `M${EDGE.left} ${bottom}V`}${Y(value).toFixed(1)}`).join("");
  const line = `${stair}H${right}`;
  const parts = [0, 0.5, 1].flatMap((share) => [
    svg("line", { class: "grid", x1: EDGE.left, x2: right, y1: Y(share * highest), y2: Y(share * highest) }),
    svg("text", { class: "tick", x: EDGE.left - 8, y: Y(share * highest) + 4, "text-anchor": "end" }, number(share * highest)),
  ]);
  parts.push(svg("path", { class: "expected", d: `${line}V${bottom}Z` }), svg("path", { class: "edge", d: line }));
  if (most > 0) {
    parts.push(svg("line", { class: "limit", x1: EDGE.left, x2: right, y1: Y(most), y2: Y(most) }));
    parts.push(svg("text", { class: "tick", x: right, y: Y(most) - 6, "text-anchor": "end" }, label));
  }
  const marks = width < 520 ? 2 : MARKS;
  for (let i = 0; i < marks; i += 1) {
    const at = first + (span * i) / (marks - 1);
    const anchor = i === 0 ? "start" : i === marks - 1 ? "end" : "middle";
    parts.push(svg("text", { class: "tick", x: X(at), y: bottom + 18, "text-anchor": anchor }, moment(new Date(1000 * at), styleFor(span))));
  }
  parts.push(svg("text", { class: "axis", x: (EDGE.left + right) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, t("read.time")));
  return [svg("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": alt }, parts)];
}

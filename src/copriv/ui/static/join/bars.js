// An organisation's bars, without joining and with, with the band of what is not known, for both kinds of records.

import { h, svg } from "../dom.js";
import { percent, t } from "../text.js";

const CLASSES = { personalized: "together personalized", public_personalized: "alone" };
const WIDTH = 1000; // of the drawing, stretched to the room there is

/** One scale for all organisations; a bar beyond it is torn off, and its number says how far it goes. */
function scaleOf(view) {
  const alone = view.owners.filter((row) => row.joined).map((row) => row.alone).sort((a, b) => a - b);
  const middle = alone[Math.floor(alone.length / 2)] ?? 0;
  return 1.15 * Math.max(view.together.high, Math.min(view.public_only, 3 * view.together.high), Math.min(middle, 6 * view.together.high), 1e-12);
}

/** On own records the scale is that of all organisations' own records: there nothing is torn off. */
function ownScaleOf(view) {
  const values = view.owners.flatMap((row) => (row.joined && row.own ? [row.own.alone, row.own.together, row.own.personalized ?? 0, row.own.public_personalized ?? 0] : []));
  return 1.15 * Math.max(...values, 1e-12);
}

function bar(kind, value, most, band) {
  const label = t("owner.bar.alt", { what: t(`owner.bar.${kind}`), value: percent(value) });
  const length = Math.max(2, Math.min(value / most, 1) * WIDTH);
  const torn = value > most;
  const without = kind === "alone" || kind === "public_personalized"; // drawn thin: nobody has to join for it
  const drawn = svg("svg", { class: "bar", viewBox: `0 0 ${WIDTH} 14`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: "track", x: 0, y: 6.5, width: WIDTH, height: 1 }),
    svg("rect", { class: CLASSES[kind] ?? kind, x: 0, y: without ? 4 : 2, width: length, height: without ? 6 : 10 }));
  if (torn) drawn.append(svg("path", { class: "tear", d: `M${WIDTH - 14} 0 l-6 5 l6 4 l-6 5 h8 l6 -5 l-6 -4 l6 -5 z` }));
  if (band) {
    const [from, to] = band.map((end) => Math.min(end / most, 1) * WIDTH);
    drawn.append(svg("rect", { class: "band", x: from, y: 0, width: Math.max(2, to - from), height: 14 }));
  }
  const said = band ? `${percent(value)} (${t("owner.bar.band", { low: percent(band[0]), high: percent(band[1]) })})` : percent(value);
  return [h("span", { class: "what" }, t(`owner.bar.${kind}`)), drawn, h("span", { class: "value" }, said)];
}

export function bars(row, view) {
  if (!row.joined) return [];
  const [most, ownMost] = [scaleOf(view), ownScaleOf(view)];
  const { low, high, median } = view.together;
  const spread = median > 0 ? [row.together * (low / median), row.together * (high / median)] : [low, high];
  return [
    h("p", { class: "on" }, t("owner.everybody")),
    h("div", { class: "lines" }, bar("alone", row.alone, most, row.alone_high === undefined ? null : [row.alone_low, row.alone_high]), bar("together", row.together, most, spread)),
    h("p", { class: "on" }, t("owner.own"), row.own ? "" : ": ", row.own ? "" : h("em", {}, t("owner.own.unknown"))),
    row.own ? h("div", { class: "lines" }, bar("alone", row.own.alone, ownMost),
      typeof row.own.public_personalized === "number" ? bar("public_personalized", row.own.public_personalized, ownMost) : null,
      bar("together", row.own.together, ownMost),
      typeof row.own.personalized === "number" ? bar("personalized", row.own.personalized, ownMost) : null) : null,
  ].filter(Boolean);
}

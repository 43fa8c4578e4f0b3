// The papers' figures with their claims, and a run at any ε.

import { get, post } from "./api.js";
import { byId, h, later, svg } from "./dom.js";
import { begin } from "./site.js";
import { number, percent, t, tick } from "./text.js";

const HEIGHT = 340;
const EDGE = { left: 66, right: 14, top: 12, bottom: 46 };

/** ψ against k on log axes, on scales that stay, so that a smaller ε is seen to rise. */
function curve(now, before, scale, room) {
  const width = Math.max(280, room);
  const [right, bottom] = [width - EDGE.right, HEIGHT - EDGE.bottom];
  const [first, last] = [now.k[0], now.k.at(-1)];
  const X = (k) => EDGE.left + (Math.log(k / first) / Math.log(last / first)) * (right - EDGE.left);
  const Y = (ψ) => bottom - (Math.log10(Math.min(Math.max(ψ, scale.low), scale.high) / scale.low) / Math.log10(scale.high / scale.low)) * (bottom - EDGE.top);
  const path = (line, k = now.k) => line.map((ψ, i) => `${i ? "L" : "M"}${X(k[i]).toFixed(1)} ${Y(ψ).toFixed(1)}`).join("");
  const back = path([...now.high].reverse(), [...now.k].reverse());
  const parts = [];
  for (let ψ = scale.low; ψ <= scale.high * 1.001; ψ *= 10) {
    parts.push(svg("line", { class: "grid", x1: EDGE.left, x2: right, y1: Y(ψ), y2: Y(ψ) }), svg("text", { class: "tick", x: EDGE.left - 8, y: Y(ψ) + 4, "text-anchor": "end" }, tick(ψ)));
  }
  for (let k = 10 ** Math.ceil(Math.log10(first)); k <= last; k *= 10) parts.push(svg("text", { class: "tick", x: X(k), y: bottom + 18, "text-anchor": "middle" }, number(k)));
  parts.push(svg("path", { class: "expected", d: `${path(now.low)}L${back.slice(1)}Z` }));
  if (before) parts.push(svg("path", { class: "middle", d: path(before.mean, before.k) }));
  parts.push(svg("path", { class: "edge", d: path(now.mean) }));
  parts.push(svg("text", { class: "axis", x: (EDGE.left + right) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, t("gallery.x")));
  const label = t("gallery.ends", { epsilon: number(now.epsilon), value: percent(now.mean.at(-1)) });
  return svg("svg", { class: "chart", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label }, parts);
}

const VERDICTS = { reproduced: "✓", "reproduced in part": "≈", "not reproduced": "✗", "not testable": "?", "beyond the papers": "+" };

function outcome({ verdict, why }) {
  if (!verdict) return h("dd", {}, t("gallery.none"));
  const key = verdict.replaceAll(" ", ".");
  return h("dd", {}, h("p", { class: "verdict-of" }, h("span", { class: "mark", "aria-hidden": "true" }, VERDICTS[verdict] ?? ""), h("strong", {}, VERDICTS[verdict] ? t(`gallery.is.${key}`) : verdict)), h("p", { lang: "en" }, why ?? ""));
}

function compared({ compared: rows, data, runs }) {
  if (!rows?.length) return null;
  return h("details", {}, h("summary", {}, t("gallery.compared")),
    h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["what", "paper", "ours", "holds"].map((key) => h("th", { scope: "col" }, t(`gallery.compared.${key}`))))),
      h("tbody", { lang: "en" }, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.what), h("td", {}, row.paper), h("td", {}, row.ours), h("td", {}, row.holds)))))),
    h("p", { class: "quiet", lang: "en" }, (data ?? []).join(" ")),
    runs ? h("p", { class: "quiet" }, t("gallery.runs", { runs })) : null);
}

function card(figure) {
  return h("article", { class: "card" },
    h("h3", { lang: "en" }, `${figure.source}: ${figure.title}`),
    figure.picture ? h("a", { href: `/gallery/${figure.id}.png` }, h("img", { src: `/gallery/${figure.id}.png`, alt: t("gallery.alt", { title: figure.title }), loading: "lazy" })) : h("p", { class: "quiet absent" }, t("gallery.absent")),
    h("dl", {},
      h("dt", {}, t("gallery.claim")), h("dd", { lang: "en" }, figure.claim),
      h("dt", {}, t("gallery.verdict")), outcome(figure),
      h("dt", {}, t("gallery.command")), h("dd", {}, h("code", {}, figure.command ?? `copriv reproduce ${figure.id}`))),
    compared(figure));
}

async function page() {
  const { figures, live, note } = await get("/api/gallery");
  let [now, before, scale] = [null, null, null];
  const named = figures.filter((figure) => live.includes(figure.id));
  byId("figure").append(...named.map((figure) => h("option", { value: figure.id, lang: "en" }, `${figure.source}: ${figure.title}`)));
  const epsilon = () => Number((10 ** byId("epsilon").valueAsNumber).toPrecision(2));
  const draw = () => now && byId("curve").replaceChildren(curve(now, before, scale, byId("curve").clientWidth));

  function label() {
    byId("shown").textContent = number(epsilon());
    byId("epsilon").setAttribute("aria-valuetext", number(epsilon()));
  }

  async function ask() {
    try {
      const found = await post("/api/gallery/transient", { id: byId("figure").value, epsilon: epsilon() });
      if (found.epsilon !== epsilon()) return;
      const seen = [...found.low, ...found.high, ...(scale ? [scale.low, scale.high] : [])].filter((ψ) => ψ > 0);
      scale = { low: 10 ** Math.floor(Math.log10(Math.min(...seen)) + 1e-9), high: 10 ** Math.ceil(Math.log10(Math.max(...seen)) - 1e-9) };
      [before, now] = [now, found];
      byId("live-lead").textContent = t("gallery.live.lead", { runs: found.runs });
      byId("ends").textContent = t("gallery.ends", { epsilon: number(found.epsilon), value: percent(found.mean.at(-1)) });
      byId("made-from").textContent = found.description;
      draw();
    } catch (error) {
      byId("ends").textContent = error.message;
    }
  }

  const askSoon = later(120, ask);
  byId("epsilon").addEventListener("input", () => {
    label();
    askSoon();
  });
  byId("figure").addEventListener("change", () => {
    [now, before, scale] = [null, null, null];
    byId("ends").textContent = t("gallery.running");
    ask();
  });
  new ResizeObserver(draw).observe(byId("curve"));
  byId("figures").append(...figures.map(card));
  byId("note").textContent = note;
  byId("note").hidden = !note;
  label();
  ask();
}

begin(page);

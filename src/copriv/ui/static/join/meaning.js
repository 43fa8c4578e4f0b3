// "What does this ε mean?": as odds, which people understand best, and a hundred people drawn.
//
// With pure ε an adversary who must tell which of two records was used, each as likely, is right with a probability of
// at most e^ε/(1 + e^ε); δ adds δ/(1 + e^ε).

import { byId, h, svg } from "../dom.js";
import { number, t } from "../text.js";

/** Of 100 guesses, at most how many are right: rounded up, for it is a promise. */
export function odds({ epsilon, delta = 0 }) {
  const share = 1 / (1 + Math.exp(-epsilon)) + delta / (1 + Math.exp(epsilon));
  const right = Math.min(100 * share, 100);
  const whole = Math.ceil(right - 1e-9);
  return { share, whole, right: whole < 100 ? whole : number(right, 4) };
}

function people({ whole }) {
  const more = whole - 50;
  const label = t("join.meaning.alt", { more, wrong: 100 - whole });
  const dots = Array.from({ length: 100 }, (_, i) => {
    const kind = i < 50 ? "coin" : i < whole ? "more" : "wrong";
    const [x, y] = [(i % 20) * 12 + 6, Math.floor(i / 20) * 12 + 6];
    // Told apart by shape as well as by colour.
    if (kind === "more") return svg("rect", { class: kind, x: x - 4, y: y - 4, width: 8, height: 8, rx: 1 });
    return svg("circle", { class: kind, cx: x, cy: y, r: kind === "wrong" ? 3 : 4 });
  });
  return svg("svg", { class: "people", viewBox: "0 0 240 60", role: "img", "aria-label": label }, dots);
}

function key(kind, text) {
  const shape = kind === "more" ? svg("rect", { class: kind, x: 2, y: 2, width: 8, height: 8, rx: 1 }) : svg("circle", { class: kind, cx: 6, cy: 6, r: kind === "wrong" ? 3 : 4 });
  return h("li", {}, svg("svg", { viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" }, shape), text);
}

export function meaning(desk) {
  const place = byId("meaning");
  let seat = null;
  let index = 0;

  function draw() {
    if (!desk.state.owners.includes(seat)) [seat, index] = [desk.state.owners[0], 0];
    if (!seat || !(seat.terms.epsilon > 0)) return;
    const said = odds(seat.terms);
    place.replaceChildren(
      h("p", { class: "quiet" }, t("join.meaning.for", { name: desk.nameOf(seat, index) }), ", ε = ", number(seat.terms.epsilon)),
      h("p", {}, t("join.meaning.lead")),
      h("p", { class: "strong" }, t("join.meaning.odds", { right: said.right })),
      people(said),
      h("ul", { class: "key" }, key("coin", t("join.meaning.coin.key")), key("more", t("join.meaning.more.key")), key("wrong", t("join.meaning.wrong.key"))),
      h("p", { class: "quiet" }, t("join.meaning.coin"), " ", t("join.meaning.run")),
    );
  }

  return {
    about(other, i) {
      if (other === seat) return;
      [seat, index] = [other, i];
      draw();
    },
    change: draw,
    show() {},
  };
}

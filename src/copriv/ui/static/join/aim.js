// Whose records count, and the error that people can live with: the least ε that reaches it, or the other way round.

import { byId, h } from "../dom.js";
import { number, percent, t } from "../text.js";

const LOWEST = -5; // from 0.001 % to 100 % away from the best
const HIGHEST = 0;
const ANY = 1e-5; // below, every ε is enough

export function aim(desk) {
  const { state } = desk;
  const place = byId("aim");
  const choice = (value) => {
    const input = h("input", { type: "radio", name: "start", value });
    input.checked = (state.start ?? "epsilon") === value;
    input.addEventListener("change", () => {
      state.start = value;
      use();
      desk.changed();
    });
    return h("label", { class: "tick" }, input, h("span", {}, t(`join.aim.${value}`)));
  };
  const goal = (value) => {
    const input = h("input", { type: "radio", name: "goal", value });
    input.checked = (state.agreement.goal ?? "own") === value;
    input.addEventListener("change", () => {
      state.agreement.goal = value;
      desk.changed();
    });
    return h("label", { class: "tick" }, input, h("span", {}, t(`join.goal.${value}`)));
  };
  const slider = h("input", { type: "range", min: LOWEST, max: HIGHEST, step: 0.02, value: Math.log10(state.target), "aria-label": t("join.aim.gap") });
  const shown = h("output", {});
  const least = h("p", { id: "least" });
  const reached = h("p", { class: "quiet" });
  const button = h("button", { type: "button" }, t("join.aim.use"));
  slider.addEventListener("input", () => {
    state.target = Number((10 ** slider.valueAsNumber).toPrecision(2));
    label();
    desk.changed();
  });
  button.addEventListener("click", () => {
    give();
    desk.changed();
  });
  place.append(
    h("fieldset", { id: "goal" }, h("legend", {}, t("join.goal")), goal("own"), goal("common")),
    h("fieldset", {}, h("legend", {}, t("join.aim.start")), choice("epsilon"), choice("error")),
    h("div", { class: "field" }, h("span", {}, t("join.aim.gap"), " ", shown), slider),
    least, reached, button);

  function label() {
    shown.textContent = percent(state.target);
    slider.setAttribute("aria-valuetext", percent(state.target));
  }

  function needed() {
    const found = desk.view()?.target;
    return found && found.value === state.target ? found.epsilon : null;
  }

  function give() {
    const epsilon = needed()?.median;
    if (!epsilon) return false;
    const rounded = Number((epsilon * 1.0005).toPrecision(3));
    const different = state.owners.some((seat) => seat.joined && seat.terms.epsilon !== rounded);
    for (const seat of state.owners) if (seat.joined) seat.terms.epsilon = rounded;
    return different;
  }

  /** The least ε, and what it may be at the ends of what is not known: any at all, or none that is enough. */
  function sentence({ low, median, high }) {
    if (median === null) return t("join.aim.never");
    if (median <= ANY) return t("join.aim.any");
    const ends = { epsilon: number(median, 2), low: number(low, 2), high: high === null ? "" : number(high, 2) };
    const key = high === null ? "least.open" : low <= ANY ? "least.up" : "least";
    return t(`join.aim.${key}`, ends);
  }

  /** Who starts from the error has ε follow it. */
  function use() {
    return state.start === "error" && give();
  }

  label();
  return {
    show(view) {
      const { epsilon, value } = view.target;
      button.hidden = state.start === "error" || epsilon.median === null;
      least.textContent = sentence(epsilon);
      reached.textContent = t(view.together.median <= value ? "join.aim.reached" : "join.aim.missed");
      if (view.kind !== "exact" && use()) desk.changed();
    },
  };
}

// The organisations, one line each: what a person enters, the verdict in a sentence, and its bars.

import { byId, h } from "../dom.js";
import { count, number, t } from "../text.js";
import { bars } from "./bars.js";
import { odds } from "./meaning.js";
import { why } from "./verdict.js";

const LOWEST = -3; // ε from 0.001 to 100 on the slider; the number beside it takes any
const HIGHEST = 2;

export function owners(desk, meaning) {
  const list = byId("owners");
  let lines = [];

  function rebuild() {
    lines = desk.state.owners.map((seat, i) => line(seat, i));
    list.replaceChildren(...lines.map((one) => one.element));
    list.classList.toggle("many", lines.length > 40); // those out of sight are not laid out
  }

  function line(seat, i) {
    const { terms } = seat;
    const called = () => desk.nameOf(seat, i);
    const name = h("input", { type: "text", value: terms.name ?? "", placeholder: t("owner.number", { number: i + 1 }), autocomplete: "off", spellcheck: "false", maxlength: "200" });
    const records = h("input", { type: "number", inputmode: "numeric", min: 1, step: 1, value: terms.records });
    const slider = h("input", { type: "range", min: LOWEST, max: HIGHEST, step: 0.01, value: Math.log10(terms.epsilon) });
    const exact = h("input", { type: "number", inputmode: "decimal", min: 0.0001, step: "any", value: terms.epsilon });
    const joined = h("input", { type: "checkbox" });
    const unlike = h("input", { type: "checkbox" });
    const remove = h("button", { type: "button", class: "plain" }, "×");
    joined.checked = seat.joined;
    unlike.checked = seat.unlike;
    const verdict = h("p", { class: "says" }, t("owner.wait"));
    const drawn = h("div", { class: "bars" });
    const group = h(
      "div", { role: "group" },
      h("div", { class: "entry" },
        h("label", { class: "tick" }, joined, h("span", {}, t("owner.joined"))),
        h("label", { class: "name" }, h("span", {}, t("owner.name")), name),
        h("label", { class: "records" }, h("span", {}, t("owner.records")), records),
        h("div", { class: "epsilon" },
          h("span", { class: "label", "aria-hidden": "true" }, t("owner.epsilon")),
          h("div", { class: "slide" }, slider,
            h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, t("owner.private")), h("span", {}, t("owner.accurate")))),
          exact),
        h("label", { class: "tick unlike" }, unlike, h("span", {}, t("owner.unlike"))),
        remove),
      terms.count > 1 ? h("p", { class: "quiet" }, t("owner.count", { number: count(terms.count) })) : null,
      verdict, drawn);
    const element = h("li", { class: "owner" }, group);

    function named() {
      const is = { name: called() };
      group.setAttribute("aria-label", is.name);
      joined.setAttribute("aria-label", t("owner.joined.label", is));
      unlike.setAttribute("aria-label", t("owner.unlike.label", is));
      slider.setAttribute("aria-label", t("owner.epsilon.slider", is));
      exact.setAttribute("aria-label", t("owner.epsilon.exact", is));
      remove.setAttribute("aria-label", t("owner.remove", is));
    }

    function spent(from) {
      if (from !== slider) slider.value = Math.log10(terms.epsilon);
      if (from !== exact) exact.value = terms.epsilon;
      slider.setAttribute("aria-valuetext", `${number(terms.epsilon)}: ${t("owner.epsilon.odds", { right: odds(terms).right })}`);
    }

    function entered(input, take) {
      input.addEventListener("input", () => {
        if (take(input) === false) return;
        named();
        meaning.about(seat, i);
        desk.changed();
      });
    }

    entered(name, () => void (terms.name = name.value));
    entered(records, () => void (terms.records = records.valueAsNumber));
    entered(slider, () => {
      terms.epsilon = Number((10 ** slider.valueAsNumber).toPrecision(2));
      spent(slider);
    });
    entered(exact, () => {
      terms.epsilon = exact.valueAsNumber;
      if (terms.epsilon > 0) spent(exact);
    });
    entered(joined, () => void (seat.joined = joined.checked));
    entered(unlike, () => void (seat.unlike = unlike.checked));
    element.addEventListener("focusin", () => meaning.about(seat, i));
    name.addEventListener("paste", (event) => pasted(event, i));
    remove.addEventListener("click", () => {
      desk.state.owners.splice(i, 1);
      rebuild();
      (lines[Math.min(i, lines.length - 1)]?.element.querySelector("input[type=text]") ?? byId("add")).focus();
      desk.changed();
    });
    named();
    spent();
    return {
      element,
      spent,
      show(row, view) {
        element.classList.toggle("out", !seat.joined);
        verdict.replaceChildren(...why(row, view));
        drawn.replaceChildren(...bars(row, view));
      },
      wait() {
        element.classList.toggle("out", !seat.joined);
        spent(document.activeElement);
      },
    };
  }

  /** Lines from a spreadsheet: name, records and ε, parted by tabs, semicolons or commas. */
  function pasted(event, first) {
    const text = event.clipboardData?.getData("text") ?? "";
    const cells = text.trim().split(/\r?\n/).map((one) => one.split(/\t|;|,/).map((cell) => cell.trim()));
    if (cells.length < 2 && cells[0].length < 2) return;
    event.preventDefault();
    cells.forEach(([name, records, epsilon], k) => {
      const seat = (desk.state.owners[first + k] ??= fresh());
      seat.terms.name = name;
      if (Number(records) >= 1) seat.terms.records = Number(records);
      if (Number(epsilon) > 0) seat.terms.epsilon = Number(epsilon);
    });
    rebuild();
    desk.changed();
  }

  function fresh() {
    const last = desk.state.owners.at(-1)?.terms;
    return { terms: { name: "", records: last?.records ?? 1000, epsilon: last?.epsilon ?? 1 }, joined: true, unlike: false };
  }

  byId("add").addEventListener("click", () => {
    desk.state.owners.push(fresh());
    rebuild();
    lines.at(-1).element.querySelector("input[type=text]").focus();
    desk.changed();
  });
  byId("same").addEventListener("input", (event) => {
    const epsilon = event.target.valueAsNumber;
    if (!(epsilon > 0)) return;
    for (const seat of desk.state.owners) seat.terms.epsilon = epsilon;
    desk.changed();
  });

  rebuild();
  return {
    change(state) {
      for (const one of lines) one.wait();
      const spent = new Set(state.owners.map((seat) => seat.terms.epsilon));
      if (document.activeElement !== byId("same")) byId("same").value = spent.size === 1 ? [...spent][0] : "";
    },
    show(view) {
      view.owners.forEach((row, i) => lines[i]?.show(row, view));
    },
  };
}


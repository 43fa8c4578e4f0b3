// A list of any length, of which only the lines in sight exist: a thousand owners or 10⁵ events scroll smoothly.

import { h } from "./dom.js";

const ROW = 36; // pixels, as in style.css
const SPARE = 6; // lines beyond each edge
const PRINTED = 1000; // lines that go on paper; a file has them all
const paper = matchMedia("print");

/** `line(i)` gives the element of line i, or null while it is not there yet; `want(from, to)` hears what is in sight. */
export function windowed(place, { line, want = () => {}, label }) {
  let total = 0;
  let top = true; // whether the newest line is in sight and stays there, as lines come
  const inner = h("div", { class: "lines", role: "list" });
  const scroller = h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": label }, inner);
  place.replaceChildren(scroller);

  function draw() {
    const from = paper.matches ? 0 : Math.max(0, Math.floor(scroller.scrollTop / ROW) - SPARE);
    const to = Math.min(total, paper.matches ? PRINTED : Math.ceil((scroller.scrollTop + scroller.clientHeight) / ROW) + SPARE);
    want(from, to);
    const lines = [];
    for (let i = from; i < to; i += 1) {
      const made = line(i) ?? h("div", {}, "…");
      made.setAttribute("role", "listitem");
      made.setAttribute("aria-posinset", i + 1);
      made.setAttribute("aria-setsize", total);
      made.style.top = `${i * ROW}px`;
      lines.push(made);
    }
    inner.style.height = `${(paper.matches ? to : total) * ROW}px`;
    inner.replaceChildren(...lines);
  }

  paper.addEventListener("change", draw); // at once: the browser prints what is there when it asks

  let asked = false;
  function drawSoon() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  }

  scroller.addEventListener("scroll", () => {
    top = scroller.scrollTop + scroller.clientHeight >= inner.offsetHeight - ROW;
    drawSoon();
  });
  return {
    /** There are so many lines now; with `follow`, the newest stays in sight for who has not scrolled away from it. */
    resize(number, follow = false) {
      total = number;
      scroller.style.height = `${Math.max(total, 1) * ROW + 2}px`; // as far as style.css lets it grow
      inner.style.height = `${total * ROW}px`;
      if (follow && top) scroller.scrollTop = total * ROW;
      drawSoon();
    },
    /** Bring a line into sight, and the keyboard to the list. */
    to(i) {
      scroller.scrollTop = Math.max(0, (i - 2) * ROW);
      scroller.focus();
      drawSoon();
    },
    draw: drawSoon,
  };
}

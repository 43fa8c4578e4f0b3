// What the learner's page and an owner's page share: the stream, the long list of lines, and the stop that asks first.

import { get, leave } from "./api.js";
import { byId, h } from "./dom.js";
import { moment, t } from "./text.js";
import { windowed } from "./windowed.js";

const AGAIN = 1000; // milliseconds until a line that was refused is tried again
const PAGE = 200; // lines that are fetched at once

/** Listens, and keeps one state; `show` hears of every change. The browser comes back by itself when the line breaks. */
export function listen(show) {
  const state = { head: {}, rows: [], lines: 0, points: [], band: null, connected: false };
  function connect() {
    const source = new EventSource("/api/live");
    source.onopen = () => {
      Object.assign(state, { rows: [], points: [], connected: true }); // the stream begins anew
    };
    source.onmessage = (event) => {
      const found = JSON.parse(event.data);
      for (const [i, row] of Object.entries(found.rows ?? {})) state.rows[i] = row;
      for (const point of found.points ?? []) state.points.push(point); // any number of them
      for (const key of ["head", "lines", "band"]) if (found[key] !== undefined) state[key] = found[key];
      show(state, found);
    };
    source.onerror = () => {
      state.connected = false;
      show(state, {});
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN); // refused: the browser gives up then
    };
  }

  connect();
}

/** Lines that are fetched where they are looked at. `text` makes a line's words. */
export function longList(place, text) {
  const pages = new Map();
  let total = 0;
  const list = windowed(place, {
    label: t("run.events"),
    line(i) {
      const one = pages.get(Math.floor(i / PAGE))?.[i % PAGE];
      return one ? h("div", {}, h("time", { datetime: new Date(1000 * one.time).toISOString() }, clock(one.time)), " ", h("span", { title: text(one) }, text(one))) : null;
    },
    want(from, to) {
      for (let page = Math.floor(from / PAGE); page * PAGE < to; page += 1) fetchPage(page);
    },
  });

  async function fetchPage(page) {
    const expected = Math.min(PAGE, total - page * PAGE);
    const known = pages.get(page);
    if (known?.pending || (known?.length ?? 0) >= expected) return;
    if (known) known.pending = true;
    else pages.set(page, Object.assign([], { pending: true }));
    try {
      pages.set(page, (await get(`/api/lines/${page * PAGE}`)).lines);
    } catch {
      if (pages.get(page)) pages.get(page).pending = false;
      setTimeout(list.draw, AGAIN); // not at once, without end, from a server that is gone
      return;
    }
    list.draw();
  }

  return (number) => {
    total = number;
    list.resize(number, true);
  };
}

function clock(seconds) {
  return moment(new Date(1000 * seconds), { timeStyle: "medium" });
}

/** Stop, after a person said twice that they want it. */
export function stopButton() {
  const dialog = byId("sure");
  byId("stop").addEventListener("click", () => dialog.showModal());
  // At the click itself: that the dialog has closed is told later, and by then the window may be gone.
  dialog.querySelector("form").addEventListener("submit", (event) => {
    if (event.submitter?.value === "yes") leave("/api/stop", {}).catch(() => {});
  });
}

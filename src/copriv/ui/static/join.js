// "Should we join?": keeps the state, asks quickly at every change and exactly soon after, and has each part drawn.

import { get, post } from "./api.js";
import { byId, later } from "./dom.js";
import { aim } from "./join/aim.js";
import { exports } from "./join/export.js";
import { frontier } from "./join/frontier.js";
import { meaning } from "./join/meaning.js";
import { owners } from "./join/owners.js";
import { rows } from "./join/rows.js";
import { showTerms } from "./join/terms.js";
import { showAsking, showVerdict } from "./join/verdict.js";
import { showWorth } from "./join/worth.js";
import { begin } from "./site.js";
import { fromAddress, keepSoon, namesOf } from "./state.js";
import { withoutPublicRows } from "./text.js";

const AGAIN = 1500; // milliseconds until what could not be answered is asked again
const PATIENCE = 350; // milliseconds without a change, after which the full forecast is asked for

async function page() {
  const start = await get("/api/start");
  const state = fromAddress() ?? start.state;
  const parts = [];
  let view = null;
  let exact = null; // the full forecast of what stands there now
  let asking = false;
  let again = false;
  let exactly = new AbortController();
  let changes = 0;
  let settled = 0; // the change that was answered exactly

  function asked() {
    // A person may not have named everybody yet; an agreement needs names, and different ones.
    return { ...state, owners: state.owners.map((seat, i) => ({ ...seat, terms: { ...seat.terms, name: nameOf(seat, i) } })) };
  }

  let names = null; // for one task, in which many ask for them

  function allNames() {
    if (names) return names;
    queueMicrotask(() => {
      names = null;
    });
    names = namesOf(state.owners);
    return names;
  }

  const nameOf = (seat, i) => allNames()[i];

  /** An answer to what stood there a moment ago is shown while the next one is made, where it is about the same people. */
  function inTime(found, of) {
    if (of === changes) return found;
    const same = found.owners.length === state.owners.length && found.owners.every((row, i) => row.name === nameOf(state.owners[i], i) && row.joined === state.owners[i].joined);
    return same ? { ...found, kind: "quick" } : null;
  }

  function show(found) {
    view = found;
    withoutPublicRows(found.public_rows === 0);
    exact = found.kind === "exact" ? found : null;
    for (const part of parts) part.show(view, state);
    showVerdict(view, state);
    showWorth(view);
    showTerms(view, state);
    performance.mark("shown");
  }

  function fail(error) {
    if (error.name === "AbortError") return;
    showVerdict({ kind: "failed", reason: error.message }, state);
    for (const part of parts) part.fail?.(error.message);
  }

  /** One quick question at a time; changes in the meantime are asked together when it is answered. */
  async function quickly() {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    do {
      again = false;
      const of = changes;
      try {
        const found = await post("/api/join/quick", asked());
        const now = found.kind !== "none" && of > settled ? inTime(found, of) : null;
        if (now) show(now);
        else if (found.kind === "none") setTimeout(() => of === changes && of > settled && quickly(), AGAIN);
      } catch (error) {
        if (of > settled) fail(error);
      }
    } while (again && changes > settled);
    asking = false;
  }

  const exactlySoon = later(PATIENCE, async () => {
    if (changes === settled) return;
    exactly = new AbortController();
    const { signal } = exactly;
    const of = changes;
    try {
      const found = await post("/api/join/exact", asked(), signal);
      if (signal.aborted) return;
      if (found.kind === "superseded") {
        setTimeout(exactlySoon, AGAIN); // another window came first
        return;
      }
      settled = of;
      show(found);
    } catch (error) {
      if (!signal.aborted) fail(error);
    }
  });

  /** Something was entered. */
  function changed() {
    changes += 1;
    exact = null;
    keepSoon(state);
    exactly.abort();
    performance.mark("changed");
    showAsking();
    for (const part of parts) part.change?.(state);
    if (state.owners.filter((seat) => seat.joined).length < 2) {
      settled = changes;
      showVerdict({ kind: "few" }, state);
      return;
    }
    quickly();
    exactlySoon();
  }

  const desk = { state, start, changed, nameOf, view: () => view, exact: () => exact, asked };
  const told = meaning(desk);
  parts.push(told, owners(desk, told), rows(desk), aim(desk), frontier(desk), exports(desk));
  changed();
}

begin(page);

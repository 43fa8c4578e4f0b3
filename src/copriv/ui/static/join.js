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
import { showVerdict } from "./join/verdict.js";
import { showWorth } from "./join/worth.js";
import { begin } from "./site.js";
import { fromAddress, keepSoon } from "./state.js";
import { t } from "./text.js";

const PATIENCE = 350; // milliseconds without a change, after which the full forecast is asked for

async function page() {
  const start = await get("/api/start");
  const state = fromAddress() ?? start.state;
  const parts = [];
  let view = null;
  let asking = false;
  let again = false;
  let exactly = new AbortController();

  function asked() {
    // A person may not have named everybody yet; an agreement needs names, and different ones.
    const seats = state.owners.map((seat, i) => ({ ...seat, terms: { ...seat.terms, name: nameOf(seat, i) } }));
    return { ...state, owners: seats };
  }

  function nameOf(seat, i) {
    const name = String(seat.terms.name ?? "").trim() || t("owner.number", { number: i + 1 });
    const before = state.owners.slice(0, i).filter((other) => String(other.terms.name ?? "").trim() === name);
    return before.length ? `${name} (${before.length + 1})` : name;
  }

  function show(found) {
    view = found;
    for (const part of parts) part.show(view, state);
    showVerdict(view, state);
    showWorth(view);
    showTerms(view);
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
      try {
        const found = await post("/api/join/quick", asked());
        if (found.kind !== "none") show(found);
      } catch (error) {
        fail(error);
      }
    } while (again);
    asking = false;
  }

  const exactlySoon = later(PATIENCE, async () => {
    exactly = new AbortController();
    const { signal } = exactly;
    try {
      const found = await post("/api/join/exact", asked(), signal);
      if (found.kind === "exact" && !signal.aborted) show(found);
    } catch (error) {
      if (!signal.aborted) fail(error);
    }
  });

  /** Something was entered. */
  function changed() {
    keepSoon(state);
    exactly.abort();
    performance.mark("changed");
    for (const part of parts) part.change?.(state);
    if (state.owners.filter((seat) => seat.joined).length < 2) {
      showVerdict({ kind: "few" }, state);
      return;
    }
    quickly();
    exactlySoon();
  }

  const desk = { state, start, changed, nameOf, view: () => view, asked };
  const told = meaning(desk);
  parts.push(told, owners(desk, told), rows(desk), aim(desk), frontier(desk), exports(desk));
  changed();
}

begin(page);

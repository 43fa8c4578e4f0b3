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
  let changes = 0;
  let settled = 0; // the change that was answered exactly

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
        if (found.kind !== "none" && of > settled) show(found);
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
      if (found.kind !== "exact" || signal.aborted) return;
      settled = of;
      show(found);
    } catch (error) {
      if (!signal.aborted) fail(error);
    }
  });

  /** Something was entered. */
  function changed() {
    changes += 1;
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

  const desk = { state, start, changed, nameOf, view: () => view, asked };
  const told = meaning(desk);
  parts.push(told, owners(desk, told), rows(desk), aim(desk), frontier(desk), exports(desk));
  changed();
}

begin(page);

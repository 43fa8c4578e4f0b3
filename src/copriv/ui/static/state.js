// Everything a person entered, kept in the address after the # sign: a reload, a bookmark or a link brings it back.
// Browsers never send that part anywhere.

import { later } from "./dom.js";
import { t } from "./text.js";

function encode(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function decode(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes));
}

const table = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** What pages rest on; values that make no sense are for copriv to refuse, in words. */
function whole(state) {
  return table(state) && ["agreement", "model", "data"].every((key) => table(state[key])) && state.target > 0 && Number.isFinite(state.target)
    && Array.isArray(state.owners) && state.owners.every((seat) => table(seat) && table(seat.terms));
}

/** The state in the address, or null where there is none that can be read. */
export function fromAddress() {
  if (location.hash.length < 3) return null;
  try {
    const state = decode(location.hash.slice(1));
    return whole(state) ? state : null;
  } catch {
    return null;
  }
}

/** A name for each owner, which an agreement needs: different ones, and a number for who has none yet. */
export function namesOf(owners) {
  const seen = new Map();
  return owners.map((seat, i) => {
    const name = String(seat.terms.name ?? "").trim() || t("owner.number", { number: i + 1 });
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    return times > 1 ? `${name} (${times})` : name;
  });
}

/** The address of this state: for the person's own bookmarks, without the token. */
export function link(state) {
  return `${location.origin}${location.pathname}#${encode(state)}`;
}

/** Write the state into the address, and into the links to the other pages. */
export function keep(state) {
  const hash = `#${encode(state)}`;
  history.replaceState(null, "", hash);
  for (const other of document.querySelectorAll("a[data-page]")) other.setAttribute("href", `/${other.dataset.page}${hash}`);
}

export const keepSoon = later(150, keep);
// A link that is pasted into this very page changes only what stands after the #: no browser loads the page again for it.
addEventListener("hashchange", () => {
  keepSoon.never();
  location.reload();
});
// Who types and goes on at once takes the last word along: to another page, or into a reload.
for (const leaving of ["click", "pagehide"]) addEventListener(leaving, keepSoon.now, { capture: true });

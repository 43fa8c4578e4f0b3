// What every page has: texts, language, colours. Pages call `begin` and build themselves in it.

import { byId } from "./dom.js";
import { loadTexts } from "./text.js";

const YEAR = 31_536_000;

function remember(name, value) {
  document.cookie = `${name}=${value}; Max-Age=${YEAR}; SameSite=Strict; Path=/`;
}

function followChoices() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the part of the address after # is taken: it holds the state
    byId("content").focus();
  });
  byId("language").addEventListener("change", (event) => {
    remember("copriv-language", event.target.value);
    location.reload(); // the state is in the address
  });
  byId("theme").addEventListener("change", (event) => {
    remember("copriv-theme", event.target.value);
    document.documentElement.dataset.theme = event.target.value;
  });
}

export async function begin(page) {
  followChoices();
  await loadTexts();
  await page();
  document.documentElement.dataset.ready = "yes";
}

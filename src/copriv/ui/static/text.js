// The texts of the chosen language, and numbers as that language writes them.

const language = document.documentElement.lang;
let entries = {};
let declared = false;

export async function loadTexts() {
  const answer = await fetch(`/texts/${language}.json`);
  entries = await answer.json();
}

/** Whether what is shown is without public rows; a text may then have another one, of the key with ".declared". */
export function withoutPublicRows(is) {
  declared = is;
}

/** A name that turns the direction of writing turns its own letters only, not the sentence that it stands in. */
function among(value) {
  return /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(value) ? `\u2068${value}\u2069` : value;
}

/**
 * The text of a key such as "join.title", with {names} filled in; {number|answer|answers} is "1 answer" or "5 answers".
 * A key that is missing shows itself.
 */
export function t(key, values = {}) {
  const [part, ...rest] = key.split(".");
  let name = rest.join(".");
  if (declared && Object.hasOwn(entries[part] ?? {}, `${name}.declared`)) name = `${name}.declared`;
  // Own keys only: a file may call a kind of line "constructor", which every object has.
  const text = Object.hasOwn(entries, part) && Object.hasOwn(entries[part], name) ? entries[part][name] : key;
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (whole, blank, one, many) => {
    if (!Object.hasOwn(values, blank)) return whole;
    const value = among(String(values[blank]));
    return one === undefined ? value : `${value} ${value === "1" ? one : many}`;
  });
}

const LONG = 1e15; // with more digits than anybody reads

export function number(value, digits = 3) {
  if (Math.abs(value) >= LONG) return new Intl.NumberFormat(language, { maximumSignificantDigits: digits, notation: "scientific" }).format(value);
  // Halves to even, as the terminal rounds.
  return new Intl.NumberFormat(language, { maximumSignificantDigits: digits, roundingMode: "halfEven" }).format(value);
}

export function count(value) {
  if (Math.abs(value) >= LONG) return number(value, 2);
  return new Intl.NumberFormat(language, { maximumFractionDigits: 0 }).format(value);
}

function large(value) {
  if (value >= LONG) return number(value, 2);
  return new Intl.NumberFormat(language, { maximumSignificantDigits: 2, notation: "compact", compactDisplay: "long" }).format(value);
}

/** 0.0123 as "1.2 %"; what is very large in words such as "1.2 million %", what is below 0.001 % as that. */
export function percent(ratio) {
  if (ratio === null || ratio === undefined) return t("site.none");
  if (ratio === 0) return t("site.nothing");
  if (ratio >= 1000) return t("site.percent", { number: large(100 * ratio) });
  const small = Math.abs(ratio) < 1e-5;
  const shown = t("site.percent", { number: number(100 * (small ? 1e-5 : ratio), 2) });
  return small ? t("site.below", { number: shown }) : shown;
}

/** A probability per cent; what is nearly certain is not said to be. */
export function chance(probability) {
  if (probability > 0.99) return t("site.above", { number: t("site.percent", { number: 99 }) });
  if (probability < 0.01) return t("site.below", { number: t("site.percent", { number: 1 }) });
  return percent(probability);
}

/** "1 % to 2 %", or one number where both ends have the same digits. */
export function range(low, high, shown = percent) {
  const [first, last] = [low, high].map((end) => shown(end));
  return first === last ? first : t("owner.bar.band", { low: first, high: last });
}

/** "a", "a and b", "a, b and c"; of many, the first ones and how many more. */
export function listed(names, most = 3) {
  const shown = names.length > most + 1 ? [...names.slice(0, most), t("site.others", { number: names.length - most })] : names;
  if (shown.length < 2) return shown[0] ?? "";
  return t("site.and", { list: shown.slice(0, -1).join(", "), last: shown.at(-1) });
}

/** A tick of a log axis: always per cent, and short. */
export function tick(ratio) {
  const shown = new Intl.NumberFormat(language, { maximumSignificantDigits: 1, notation: ratio >= 100 ? "compact" : "standard" }).format(100 * ratio);
  return t("site.percent", { number: shown });
}

/** A date and time as the person's own country writes them, where its language is the page's. */
export function moment(at, style = { dateStyle: "short", timeStyle: "medium" }) {
  if (Number.isNaN(at.valueOf())) return ""; // a file can name a time beyond all
  const country = navigator.languages.find((one) => one.startsWith(language)) ?? language;
  return new Intl.DateTimeFormat(country, { ...style, ...(style.timeStyle || style.second ? { hourCycle: "h23" } : {}) }).format(at);
}

// Elements from data. Text goes in as text nodes only, so a name can never become markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

/** Call later, and only once for calls that come quickly one after the other; `now()` calls at once what is waiting. */
export function later(wait, action) {
  let timer = 0;
  let waiting = null;
  const called = (...values) => {
    clearTimeout(timer);
    waiting = values;
    timer = setTimeout(called.now, wait);
  };
  called.now = () => {
    clearTimeout(timer);
    const values = waiting;
    waiting = null;
    if (values) action(...values);
  };
  called.never = () => {
    clearTimeout(timer);
    waiting = null;
  };
  return called;
}

/** Call every second, with the seconds that have passed, until what is given back is called. */
export function everySecond(action) {
  const begun = performance.now();
  const timer = setInterval(() => action(Math.round((performance.now() - begun) / 1000)), 1000);
  return () => clearInterval(timer);
}

/** Give a person a file that the browser made. */
export function download(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = h("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** How much of `most` is used, drawn; browsers' own <meter> cannot be given colours and heights in one way. */
export function gauge(value, most, label, element = h("span", { class: "gauge", role: "meter", "aria-valuemin": 0 }, h("span", {}))) {
  element.setAttribute("aria-valuemax", most);
  element.setAttribute("aria-valuenow", value);
  element.setAttribute("aria-label", label);
  element.firstElementChild.style.width = `${(100 * Math.min(most > 0 ? value / most : 1, 1)).toFixed(2)}%`;
  return element;
}

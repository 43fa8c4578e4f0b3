// A form from a JSON schema: one field a key, what it means beside it, and its error below it. No key is named here.

import { h } from "./dom.js";
import { t } from "./text.js";

/** What a key's schema asks for: "choice", "flag", "number", "text" or "json"; whether words stand among the numbers. */
function kindOf(one) {
  const kinds = (one.anyOf ?? [one]).filter((kind) => kind.type !== "null");
  const choices = kinds.flatMap((kind) => kind.enum ?? (kind.const === undefined ? [] : [kind.const]));
  const types = new Set(kinds.map((kind) => kind.type));
  if (types.has("array") || types.has("object")) return { kind: "json", choices };
  if (types.has("boolean")) return { kind: "flag", choices };
  if (types.has("number") || types.has("integer")) return { kind: "number", choices, whole: types.has("integer") };
  return { kind: choices.length ? "choice" : "text", choices };
}

function shown(value, kind) {
  if (value === undefined || value === null) return "";
  return kind === "json" ? JSON.stringify(value) : String(value);
}

/** What was typed, as the agreement holds it; undefined leaves the key out. What is no number stays text, and is refused. */
function read(text, kind) {
  if (text.trim() === "") return undefined;
  if (kind === "number") return Number.isFinite(Number(text)) ? Number(text) : text.trim();
  if (kind !== "json") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A sentence of the source, in which `names` are marked as names. */
function coded(sentence) {
  return sentence.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

let lists = 0;

/** One key of a table: its element, and how to show its errors. `known` are names that a text may be. */
export function field(key, one, { values, meaning, known, needed, label, changed }) {
  const { kind, choices } = kindOf(one);
  const options = [...choices, ...(known ?? [])];
  const id = `f${(lists += 1)}`;
  const described = [meaning && `${id}-m`, `${id}-e`].filter(Boolean).join(" ");
  const common = { id, "aria-describedby": described, "aria-label": label, required: needed };
  const left = one.default === undefined || one.default === null ? t("form.left") : shown(one.default, kind);
  let input;
  if (kind === "flag") {
    input = h("input", { ...common, type: "checkbox", required: false });
    input.checked = values[key] ?? one.default ?? false;
  } else if (kind === "choice" || (kind === "text" && known)) {
    const names = options.includes(values[key]) || values[key] === undefined ? options : [values[key], ...options];
    input = h("select", common, needed ? [] : h("option", { value: "" }, t("form.usual", { value: left })), names.map((name) => h("option", { value: name }, String(name))));
    input.value = shown(values[key], kind);
  } else if (kind === "json") {
    input = h("textarea", { ...common, rows: 2, spellcheck: "false", class: "mono" });
    input.value = shown(values[key], kind);
  } else {
    input = h("input", { ...common, type: "text", inputmode: kind === "number" ? "decimal" : "text", autocomplete: "off", spellcheck: "false", placeholder: needed ? "" : left, list: choices.length ? `${id}-l` : null });
    input.value = shown(values[key], kind);
  }
  input.addEventListener(kind === "flag" || input.tagName === "SELECT" ? "change" : "input", () => {
    const value = kind === "flag" ? input.checked : read(input.value, kind);
    if (value === undefined) delete values[key];
    else values[key] = value;
    changed();
  });
  const error = h("p", { class: "error", id: `${id}-e` });
  const name = h("span", { lang: "en" }, key.replaceAll("_", " "), needed ? h("span", { "aria-hidden": "true" }, " *") : "");
  const element = h("div", { class: kind === "flag" ? "field flag" : "field" },
    kind === "flag" ? h("label", { class: "tick", for: id }, input, name) : [h("label", { for: id }, name), input],
    choices.length && input.tagName === "INPUT" ? h("datalist", { id: `${id}-l` }, choices.map((value) => h("option", { value }))) : null,
    meaning ? h("p", { class: "quiet", id: `${id}-m`, lang: "en" }, coded(meaning)) : null, error);
  return {
    element,
    tell(messages) {
      element.classList.toggle("wrong", messages.length > 0);
      input.setAttribute("aria-invalid", messages.length > 0);
      error.textContent = messages.join("; ");
    },
  };
}

/** An error in the page's language, where it is of a known kind; else in copriv's own words. */
export function said({ kind, values, message }) {
  const text = kind ? t(`problem.${kind}`, values ?? {}) : "";
  return text && text !== `problem.${kind}` ? text : message;
}

/** The fields of one table: what is required or given first, the others folded away. `path` is where errors name it. */
export function table(definition, settings) {
  const { values, meanings, known, path, changed, prefix } = settings;
  const needed = new Set(definition.required ?? []);
  const fields = Object.entries(definition.properties).map(([key, one]) => [key, field(key, one, {
    values, meaning: meanings[key], known: known[key], needed: needed.has(key), changed,
    label: prefix ? `${key.replaceAll("_", " ")}: ${prefix}` : null,
  })]);
  const first = fields.filter(([key]) => needed.has(key) || values[key] !== undefined);
  const more = fields.filter(([key]) => !first.some(([other]) => other === key));
  const folded = more.length ? h("details", {}, h("summary", {}, t("form.more", { number: more.length })), h("div", { class: "fields" }, more.map(([, one]) => one.element))) : null;
  return {
    element: h("div", {}, h("div", { class: "fields" }, first.map(([, one]) => one.element)), folded),
    /** Shows the errors that are about this table's keys; returns the others. */
    tell(errors) {
      const here = (error) => path.every((part, i) => error.path[i] === part);
      const about = (key) => errors.filter((error) => here(error) && error.path[path.length] === key);
      for (const [key, one] of fields) {
        const found = about(key).map(said);
        one.tell(found);
        if (found.length && more.some(([other]) => other === key)) folded.open = true;
      }
      return errors.filter((error) => !(here(error) && fields.some(([key]) => error.path[path.length] === key)));
    },
  };
}

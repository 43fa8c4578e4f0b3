// Columns as the agreement declares them: proposed of public rows by copriv, or the names alone of a private table.

/** [data] and the loss for columns that were proposed, of which `target` is to be predicted (`as_declared` in Python). */
export function declared(file, target) {
  const used = file.columns;
  const kind = (column) => (column.name === target && column.classes.length ? "categories" : column.kind);
  const value = (column) => (column.name === target && column.classes.length ? column.classes : column.value);
  const of = (key) => Object.fromEntries(used.filter((column) => kind(column) === key).map((column) => [column.name, value(column)]));
  const features = used.filter((column) => column.name !== target);
  const names = (some) => some.map((column) => column.name);
  return {
    data: {
      dataset: "table", public: file.path, features: names(features), target, components: Math.min(10, features.length),
      bounds: of("bounds"), categories: of("categories"), dates: of("dates"),
      booleans: names(used.filter((column) => kind(column) === "booleans")),
      ordered: names(features.filter((column) => column.ordered)),
      missing: Object.fromEntries(features.filter((column) => column.missing !== null).map((column) => [column.name, column.missing])),
      clamp: names(used.filter((column) => column.clamp && ["bounds", "dates"].includes(kind(column)))),
    },
    loss: target in of("categories") ? "logistic" : "squared",
  };
}

/** What can be predicted: the last of them is usual. */
export const targets = (file) => file.columns.filter((column) => column.predictable);

/** The names in the first line of a CSV file; no other line of it is looked at. */
export async function names(file) {
  const [line] = (await file.slice(0, 100_000).text()).replace(/^\uFEFF/, "").split(/\r?\n/, 1);
  return [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) => (quoted ?? plain).replaceAll('""', '"').trim()).filter(Boolean);
}

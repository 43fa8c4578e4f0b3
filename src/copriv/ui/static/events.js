// A line of a run's record in words.

import { listed, t } from "./text.js";

/** Kinds that are known have a text; of others, their name. */
export function eventText(one) {
  const { kind } = one;
  const values = { ...one, owner: one.owner ?? "", owners: listed((one.owners ?? []).map(String)), reason: one.reason ?? "", error: one.error ?? "" };
  const key = `event.${kind}`;
  const text = t(key, values);
  const said = text === key ? String(kind) : text;
  return one.dropped?.length ? `${said} ${t("event.dropped", { owners: listed(one.dropped.map(String)) })}` : said;
}

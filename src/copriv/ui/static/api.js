// Questions to copriv on this machine. What it refuses comes back as an Error with its text.

import { t } from "./text.js";

async function answered(request) {
  let answer;
  try {
    answer = await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(t("site.unreachable"));
  }
  const type = answer.headers.get("content-type") ?? "";
  const content = type.startsWith("application/json") ? await answer.json() : { error: await answer.text() };
  if (!answer.ok) throw new Error(content.error ?? `${answer.status}`);
  return content;
}

export const get = (path, signal) => answered(fetch(path, { signal }));

/** A question that reaches copriv though the person closes the window at once. */
export const leave = (path, content) =>
  answered(fetch(path, { method: "POST", body: JSON.stringify(content), keepalive: true }));

export const post = (path, content, signal) =>
  answered(fetch(path, { method: "POST", body: JSON.stringify(content), signal }));

export const send = (path, file, headers = { "x-file-name": encodeURIComponent(file.name) }) =>
  answered(fetch(path, { method: "POST", body: file, headers }));

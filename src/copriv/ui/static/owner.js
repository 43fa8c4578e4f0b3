// An owner's own page: its lifetime budget, what was asked and by whom, and a big stop. It can cause no answer.

import { byId, h } from "./dom.js";
import { listen, longList, stopButton } from "./live.js";
import { begin } from "./site.js";
import { count, number, percent, t } from "./text.js";
import { windowed } from "./windowed.js";

async function page() {
  let state = null;
  const resize = longList(byId("lines"), (one) => one.text ?? "");
  const runs = windowed(byId("owners"), {
    label: t("mine.asked"),
    line(i) {
      const row = state?.rows[i];
      if (!row) return null;
      return h("div", { class: "party" },
        h("span", { class: "mark", "aria-hidden": "true" }, "●"), h("span", { class: "who mono" }, row.name.slice(0, 8)),         h("meter", { min: 0, max: row.epsilon, value: row.spent, "aria-label": t("run.spent.of", { spent: number(row.spent), all: number(row.epsilon) }) }),
        h("span", { class: "much" }, t("run.answers", { answers: count(row.answers), most: count(row.most) }), ", ε ", number(row.spent)));
    },
  });

  function show(now, found) {
    state = now;
    const { head } = state;
    if (!head.name) return;
    byId("name").textContent = head.name;
    byId("which").textContent = t("mine.which", { fingerprint: head.fingerprint.slice(0, 16) });
    byId("learner").textContent = t("mine.learner", { learner: head.learner });
    byId("promise").textContent = head.promise;
    const share = head.lifetime > 0 ? head.spent / head.lifetime : 1;
    byId("gauge").max = head.lifetime;
    byId("gauge").value = head.spent;
    byId("gauge").textContent = percent(share);
    byId("state").textContent = head.over ? t("mine.over", { reason: head.over }) : state.connected ? t("mine.serving") : t("run.lost");
    byId("left").textContent = t("mine.left", { spent: number(head.spent), lifetime: number(head.lifetime), left: number(Math.max(0, head.lifetime - head.spent)) });
    byId("stop").hidden = Boolean(head.over);
    if (found.rows) runs.resize(state.rows.length);
    if (found.lines !== undefined) resize(state.lines);
  }

  stopButton();
  listen(show);
}

begin(page);

// An owner's own page: its lifetime budget, what was asked and by whom, and a big stop. It can cause no answer.

import { byId, gauge, h } from "./dom.js";
import { listen, longList, stopButton } from "./live.js";
import { begin } from "./site.js";
import { count, number, t } from "./text.js";
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
        h("span", { class: "mark", "aria-hidden": "true" }, "●"), h("span", { class: "who mono" }, row.name.slice(0, 8)),
        gauge(row.spent, row.epsilon, t("run.spent.of", { spent: number(row.spent), all: number(row.epsilon) })),
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
    const values = { spent: number(head.spent, 6), lifetime: number(head.lifetime, 6), left: number(Math.max(0, head.lifetime - head.spent - head.ahead), 6), ahead: number(head.ahead, 6) };
    gauge(head.spent + head.ahead, head.lifetime, t("run.spent.of", { spent: values.spent, all: values.lifetime }), byId("gauge"));
    byId("state").textContent = head.over ? t("mine.over", { reason: head.over }) : state.connected ? t("mine.serving") : t("run.lost");
    byId("left").textContent = t(head.ahead > 0 ? "mine.left.ahead" : "mine.left", values);
    byId("stop").hidden = Boolean(head.over);
    if (found.rows) runs.resize(state.rows.length);
    if (found.lines !== undefined) resize(state.lines);
  }

  stopButton();
  listen(show);
}

begin(page);

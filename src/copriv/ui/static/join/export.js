// Take it with you: the agreement, a report, a picture, a link; all made here, nothing is sent.

import { byId, download, h } from "../dom.js";
import { link } from "../state.js";
import { t } from "../text.js";
import { picture } from "./picture.js";
import { report } from "./report.js";

export function exports(desk) {
  const said = h("p", { class: "quiet", role: "status" });
  const place = h("div", {});

  function button(key, action) {
    return h("button", { type: "button", id: `export-${key}`, onclick: async () => {
      const view = desk.exact();
      said.textContent = view ? ((await action(view)) ?? "") : t("join.export.wait");
    } }, t(`join.export.${key}`));
  }

  byId("export").append(
    h("div", { class: "buttons" },
      button("toml", (view) => download("agreement.toml", "application/toml", view.toml)),
      button("report", (view) => download("copriv-report.html", "text/html", report(view, desk.state))),
      button("picture", async (view) => download("copriv.png", "image/png", await picture(view))),
      button("link", async () => {
        place.replaceChildren();
        try {
          await navigator.clipboard.writeText(link(desk.state));
          return t("join.export.copied");
        } catch {
          // No browser lets an address that others reach write there, and a person may have forbidden it.
          const shown = h("input", { type: "text", readonly: true, value: link(desk.state), "aria-label": t("join.export.link.here") });
          place.replaceChildren(shown);
          shown.select();
          return t("join.export.link.here");
        }
      })),
    said, place);
  return { show() {} };
}

// What the page shows when it is not its usual self: loading, failed, the server gone; and a short tour at first.
import type { Server } from "./data";
import { clean, fill, h } from "./dom";

export function loading(root: HTMLElement): void {
  fill(root, h("p", { class: "loading", role: "status" }, "Opening…"));
}

/** Nothing can be shown: what happened, and a way out. */
export function failed(root: HTMLElement, message: string, live: boolean): void {
  const old = /format|version|newer|column/i.test(message);
  fill(
    root,
    h(
      "main",
      { class: "alone" },
      h(
        "div",
        { class: "state", role: "alert" },
        h("h2", {}, old ? "This session is of another version of plumb" : "This cannot be shown"),
        h("p", {}, clean(message)),
        h(
          "p",
          { class: "quiet" },
          old
            ? "Make it again with plumb analyze, or open it with the plumb that made it."
            : live
              ? "Check the terminal where plumb view runs. The link works only as long as that runs."
              : "Make the report again with plumb report.",
        ),
        h("button", { id: "reload", class: "primary", onclick: () => location.reload() }, "Try again"),
      ),
    ),
  );
  root.dataset.ready = "1";
}

/** A bar on top while the server cannot be reached; it asks again until it can. */
export function watchServer(server: Server): void {
  const bar = h("div", { class: "gone", id: "gone", role: "alert", hidden: true });
  document.body.prepend(bar);
  let timer = 0;
  server.onreach = (there) => {
    if (there) {
      clearInterval(timer);
      timer = 0;
      bar.hidden = true;
      return;
    }
    if (timer) return;
    fill(
      bar,
      h("strong", {}, "plumb view does not answer. "),
      "What is on the screen stays. Waiting for it; if it has ended, start it again and open the new link.",
    );
    bar.hidden = false;
    timer = window.setInterval(() => void server.get("/api/setup").catch(() => {}), 2000);
  };
}

const KEY = "plumb-tour";
const steps: [string, string, string][] = [
  [
    ".navigator",
    "The list",
    "Values, worst first. What is to blame stands on top, with the kind of error and its effect.",
  ],
  [
    ".structure",
    "The graph",
    "Folded by module and coloured by verdict. Click a box to select or unfold it; Fit shows all of it.",
  ],
  [
    ".inspector",
    "The inspector",
    "The tensors of A and B and their difference; in its tabs errors, distribution, elements, the operation.",
  ],
];

/** Three steps at the first start with a session; Skip ends it for good. */
export function tour(): void {
  try {
    if (localStorage.getItem(KEY) || navigator.webdriver) return;
  } catch {
    return;
  }
  const box = h("div", { class: "tour", role: "dialog", "aria-label": "Tour", id: "tour" });
  let at = 0;
  const end = (): void => {
    document.querySelector(".pointed")?.classList.remove("pointed");
    box.remove();
    try {
      localStorage.setItem(KEY, "1");
    } catch {
      // it comes again
    }
  };
  const show = (): void => {
    document.querySelector(".pointed")?.classList.remove("pointed");
    if (at >= steps.length) {
      end();
      return;
    }
    const [where, title, text] = steps[at];
    document.querySelector(where)?.classList.add("pointed");
    fill(
      box,
      h("h2", {}, `${title} (${at + 1} of ${steps.length})`),
      h("p", {}, text),
      h(
        "div",
        { class: "bar" },
        h("button", { class: "primary", onclick: () => (at++, show()) }, at + 1 < steps.length ? "Next" : "Done"),
        h("button", { onclick: end }, "Skip"),
      ),
    );
  };
  document.body.append(box);
  show();
}

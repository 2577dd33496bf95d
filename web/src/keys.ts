// Keyboard first: one table makes the keys and their help.
import type { App } from "./app";
import { h } from "./dom";
import type { Navigator } from "./navigator";
import type { Structure } from "./structure";

/** A dialog is open, other than this one: keys are not for what lies behind it. */
export function behind(own: HTMLDialogElement | null = null): boolean {
  return [...document.querySelectorAll("dialog")].some((d) => d.open && d !== own);
}

export function keys(
  app: App,
  navigator: Navigator,
  structure: Structure,
): { element: HTMLDialogElement; toggle(): void } {
  const { store } = app;
  const cycle = <T extends string>(all: readonly T[], now: T): T => all[(all.indexOf(now) + 1) % all.length];
  const table: [string[], string, () => void][] = [
    [["j", "ArrowDown"], "next sync point", () => app.step(1)],
    [["k", "ArrowUp"], "previous sync point", () => app.step(-1)],
    [["c"], "next culprit", () => app.culprit()],
    [["n"], "next red", () => app.step(1, true)],
    [["p"], "previous red", () => app.step(-1, true)],
    [["f"], "first divergence", () => app.first()],
    [["w"], "worst value: the one blamed, or the top of the list", () => app.worst()],
    [["/"], "search", () => navigator.focusSearch()],
    [
      ["m"],
      "next metric",
      () =>
        store.set({
          metric: cycle(
            app.session.metrics.map((m) => m.name),
            app.session.metrics[app.metric].name,
          ),
        }),
    ],
    [
      ["s"],
      "sort by blame, similarity or operation",
      () => store.set({ sort: cycle(["blame", "similarity", "operation"] as const, app.state.sort) }),
    ],
    [
      ["g"],
      "group by module, by op, or not at all",
      () => store.set({ group: cycle(["none", "module", "op"] as const, app.state.group) }),
    ],
    [[" "], "fit the graph", () => structure.fit()],
    [["["], "fold the selection's module", () => structure.foldSelection()],
    [["]"], "unfold the selection's module", () => structure.unfoldSelection()],
    [["a"], "paths from the selection to what is selected next", () => structure.path()],
    [["t"], "trace inputs and outputs", () => store.set({ trace: !app.state.trace })],
    [["+", "="], "zoom in", () => structure.zoom(1.25)],
    [["-"], "zoom out", () => structure.zoom(0.8)],
    [
      ["Escape"],
      "back: clear the search, then the selection",
      () => store.set(app.state.query ? { query: "" } : { value: "" }),
    ],
    [["?"], "this help", () => toggle()],
  ];
  const name: Record<string, string> = { " ": "space", ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };
  const element = h(
    "dialog",
    { id: "help-dialog", "aria-label": "Keys" },
    h("h2", {}, "Keys"),
    h(
      "table",
      {},
      ...table.map(([k, text]) =>
        h("tr", {}, h("th", {}, ...k.map((x) => h("kbd", {}, name[x] ?? x))), h("td", {}, text)),
      ),
    ),
    app.source.live
      ? h(
          "p",
          { class: "quiet" },
          "b pins the selection, 1 to 9 go to pins, Ctrl+Z undoes a pin, note, pair or acceptance.",
        )
      : null,
    h(
      "p",
      { class: "quiet" },
      "Search: words, shapes [1,64,*], attributes axis=1, fields op=Conv verdict=culprit dtype=float module=a.b, metrics psnr<40 q>4; a leading - negates a term, quotes allow spaces. " +
        "Graph: drag or scroll to move, Ctrl + wheel to zoom; with the focus on it, the arrow keys go along the edges and Enter folds. Pictures: drag to zoom, arrow keys move the cursor.",
    ),
    h("button", { onclick: () => toggle() }, "Close"),
  );
  function toggle(): void {
    if (element.open) element.close();
    else element.showModal();
  }
  addEventListener("keydown", (e) => {
    const target = e.target as HTMLElement;
    if (behind(element) || (e.key === " " && target.closest?.("button, summary, input[type=checkbox]"))) return; // a dialog's own keys; what the space presses
    const typing =
      (target instanceof HTMLInputElement && target.type !== "checkbox") ||
      target instanceof HTMLSelectElement ||
      target instanceof HTMLTextAreaElement;
    if (typing) {
      if (e.key === "Escape") navigator.focusRows();
      return;
    }
    if (e.ctrlKey || e.metaKey || e.altKey) {
      if ((e.ctrlKey || e.metaKey) && e.key === "f") {
        e.preventDefault();
        navigator.focusSearch();
      }
      return;
    }
    if (element.open && e.key !== "?") return;
    const row = table.find(([k]) => k.includes(e.key));
    if (row) {
      e.preventDefault();
      row[2]();
    }
  });
  return { element, toggle };
}

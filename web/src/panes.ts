// How the panes share the window: borders that can be dragged or moved by keys; on a narrow screen one pane at a time.
import { h } from "./dom";
import type { Store } from "./state";

const KEY = "plumb-panes";

/** Kept by the browser, not in the address: a link should not carry the size of somebody's screen. */
function load(): Record<string, string> {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}");
  } catch {
    return {}; // a file from disk may have no storage
  }
}

export function splitter(vertical: boolean, name: string, label: string, first: boolean): HTMLElement {
  const sizes = load(),
    root = document.documentElement.style;
  if (/^\d+(\.\d+)?%$/.test(sizes[name] ?? "")) root.setProperty(`--${name}`, sizes[name]);
  const e = h("div", {
    class: `splitter ${vertical ? "vertical" : "horizontal"}`,
    role: "separator",
    tabIndex: 0,
    "aria-label": label,
    "aria-orientation": vertical ? "vertical" : "horizontal",
    "aria-valuemin": 15,
    "aria-valuemax": 60,
    "aria-valuenow": 30,
  });
  const set = (share: number): void => {
    const now = Math.min(60, Math.max(15, share));
    root.setProperty(`--${name}`, `${now.toFixed(1)}%`);
    e.setAttribute("aria-valuenow", now.toFixed(0));
    try {
      localStorage.setItem(KEY, JSON.stringify({ ...load(), [name]: `${now.toFixed(1)}%` }));
    } catch {
      // it holds until the page is left
    }
  };
  const shareAt = (x: number, y: number): number => {
    const box = e.parentElement!.getBoundingClientRect();
    const at = vertical ? (x - box.left) / box.width : (y - box.top) / box.height;
    return 100 * (first ? at : 1 - at);
  };
  e.onpointerdown = (ev) => {
    e.setPointerCapture(ev.pointerId);
    e.classList.add("dragged");
    ev.preventDefault();
  };
  e.onpointermove = (ev) => {
    if (e.hasPointerCapture(ev.pointerId)) set(shareAt(ev.clientX, ev.clientY));
  };
  e.onpointerup = () => e.classList.remove("dragged");
  e.onkeydown = (ev) => {
    const by = { ArrowLeft: -2, ArrowRight: 2, ArrowUp: -2, ArrowDown: 2 }[ev.key];
    if (!by) return;
    ev.preventDefault();
    ev.stopPropagation();
    const box = e.getBoundingClientRect();
    set(shareAt(box.left, box.top) + (first ? by : -by));
  };
  return e;
}

/** The bar at the bottom of a narrow screen. */
export function paneBar(store: Store, main: HTMLElement): HTMLElement {
  const names: [string, string][] = [
    ["navigator", "List"],
    ["inspector", "Inspector"],
    ["structure", "Graph"],
    ["source", "Source"],
  ];
  const buttons = names.map(([pane, label]) =>
    h("button", { "data-pane": pane, onclick: () => store.set({ pane }) }, label),
  );
  const show = (): void => {
    main.dataset.pane = store.state.pane;
    for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.pane === store.state.pane));
  };
  store.on((_, changed) => {
    if (changed.has("value") && !changed.has("pane") && store.state.value && matchMedia("(max-width: 760px)").matches)
      store.set({ pane: "inspector" });
    show();
  });
  show();
  return h("nav", { class: "panes", "aria-label": "Panes" }, ...buttons);
}

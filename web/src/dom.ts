// Elements. Text goes in as text only: there is no way from here to markup, whatever a model's names hold.

type Child = Node | string | number | null | undefined | false;
type Attrs = Record<string, unknown>;

/** A new element. on* are listeners, `class` and aria-* attributes, the rest properties. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attrs: Attrs = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(attrs)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value as EventListener);
    else if (key in e && !key.includes("-") && key !== "list" && key !== "role") (e as unknown as Attrs)[key] = value;
    else e.setAttribute(key === "className" ? "class" : key, `${value as string | number | boolean}`);
  }
  append(e, children);
  return e;
}

function append(e: Element, children: Child[]): void {
  for (const c of children) {
    if (c === null || c === undefined || c === false) continue;
    e.append(c instanceof Node ? c : String(c));
  }
}

export function fill(e: Element, ...children: Child[]): void {
  e.textContent = "";
  append(e, children);
}

/** Makes parts of `root` anew by f, and leaves the focus on what stands for what had it: whoever uses the keyboard goes on from there. */
export function keepFocus(root: Element, f: () => void): void {
  const all = (): HTMLElement[] => [
    ...root.querySelectorAll<HTMLElement>("button, input, select, textarea, canvas, summary"),
  ];
  const was = document.activeElement as HTMLElement | null,
    at = was ? all().indexOf(was) : -1;
  f();
  if (!was || at < 0) return;
  const name = (e: HTMLElement): string => e.id || (e.getAttribute("aria-label") ?? e.textContent ?? "");
  const now = all(),
    same = (e?: HTMLElement): boolean => !!e && e.tagName === was.tagName && name(e) === name(was);
  (now.includes(was) ? was : same(now[at]) ? now[at] : now.find(same))?.focus({ preventScroll: true });
}

/** Names from strangers on one line: control characters and bidirectional overrides become visible. */
export function clean(s: string, max = 400): string {
  const cut = s.length > max ? s.slice(0, max) + "…" : s;
  return cut.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");
}

export function number(x: number | null | undefined, digits = 4): string {
  if (x === null || x === undefined) return "–";
  if (Number.isNaN(x)) return "NaN";
  if (x === Infinity) return "inf";
  if (x === -Infinity) return "-inf";
  if (x === 0) return "0";
  const m = Math.abs(x);
  if (Number.isInteger(x) && m < (digits < 7 ? 1e9 : 2 ** 53)) return String(x);
  return m >= 1e-3 && m < 1e6
    ? String(Number(x.toPrecision(digits)))
    : x.toExponential(digits < 7 ? Math.max(0, digits - 2) : digits - 1);
}

/** A share; what rounds to nothing is not 0. */
export const percent = (x: number): string =>
  x > 0 && x < 0.005 ? "< 1 %" : Number.isFinite(x) ? `${number(Math.round(x * 100))} %` : number(x);

/** A metric or a limit of one: as the command line prints it, a cosine's digits are those of its distance from 1. */
export function score(x: number | null | undefined, digits = 4): string {
  return x !== null && x !== undefined && x < 1 && x > 1 - 1e-4
    ? `1-${Number((1 - x).toPrecision(2))}`
    : number(x, digits);
}

/** A canvas of the element's own size in device pixels; draws in CSS pixels. */
export function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const scale = window.devicePixelRatio || 1;
  const [w, hgt] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  if (canvas.width !== w || canvas.height !== hgt) {
    // a new size takes new memory: not for every frame
    canvas.width = w;
    canvas.height = hgt;
  }
  const [cssWidth, cssHeight] = [`${width}px`, `${height}px`];
  if (canvas.style.width !== cssWidth) canvas.style.width = cssWidth;
  if (canvas.style.height !== cssHeight) canvas.style.height = cssHeight;
  const g = canvas.getContext("2d")!;
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

let scheme: MediaQueryList | null = null;
export const darkScheme = (): MediaQueryList => (scheme ??= matchMedia("(prefers-color-scheme: dark)"));
/** All that colours depend on. */
export function look(): string {
  const { theme, palette } = document.documentElement.dataset;
  return `${theme} ${palette} ${darkScheme().matches}`;
}

let coloursOf = "";
const colours = new Map<string, string>();
/** A colour of the theme. Asking the browser makes it compute all styles, so answers are kept. */
export function cssColour(name: string): string {
  if (coloursOf !== look()) {
    colours.clear();
    coloursOf = look();
  }
  let found = colours.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    colours.set(name, found);
  }
  return found;
}

/** The inner size of an element, kept: reading it from a page that has changed makes the browser lay it out. */
export class Box {
  private size: [number, number] | null = null;
  constructor(
    private e: Element,
    changed: () => void,
  ) {
    new ResizeObserver(() => {
      this.size = null;
      changed();
    }).observe(e);
  }
  get width(): number {
    return this.read()[0];
  }
  get height(): number {
    return this.read()[1];
  }
  private read(): [number, number] {
    return (this.size ??= [this.e.clientWidth, this.e.clientHeight]);
  }
}

/** Rows of text; the first cell of each is its heading. */
export function table(rows: string[][]): HTMLElement {
  return h(
    "table",
    {},
    ...rows.map((r) =>
      h("tr", {}, ...r.map((c, i) => (i === 0 ? h("th", { scope: "row" }, c) : h("td", { class: "mono" }, c)))),
    ),
  );
}

/** A small button that puts a text on the clipboard, and says so. */
export function copyButton(text: string, title: string): HTMLElement {
  const e = h("button", { class: "copy", title, "aria-label": title }, "Copy");
  e.onclick = () => {
    const done = (ok: boolean): void => {
      e.textContent = ok ? "Copied" : "No clipboard";
      setTimeout(() => (e.textContent = "Copy"), 1200);
    };
    const written = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));
    written.then(
      () => done(true),
      () => done(false),
    );
  };
  return e;
}

let tipBox: HTMLElement | null = null;
/** A tooltip at the pointer; "" takes it away. */
export function tip(text: string, x = 0, y = 0): void {
  if (!tipBox) {
    tipBox = h("div", { class: "tip", role: "tooltip", id: "tip" });
    document.body.append(tipBox);
  }
  tipBox.hidden = !text;
  if (!text) return;
  tipBox.textContent = text;
  const { offsetWidth: w, offsetHeight: hgt } = tipBox;
  tipBox.style.left = `${Math.max(4, Math.min(innerWidth - w - 4, x + 14))}px`;
  tipBox.style.top = `${y + 16 + hgt > innerHeight ? Math.max(4, y - hgt - 8) : y + 16}px`;
}

// The user's choices. All of them are in the URL, so that a link shows the same state and the back button works.

export interface State {
  value: string; // the selected sync point, by name
  metric: string;
  sort: "blame" | "similarity" | "operation";
  group: "none" | "module" | "op";
  query: string;
  hide: string; // colours that are not shown, of "gyr-"
  verdict: string; // only this one
  rest: boolean; // constants and unpaired values are listed, too
  closed: string[]; // groups folded in the navigator
  open: string[]; // groups unfolded in the graph; "*": all but those with a "!"
  tab: string; // of the inspector
  pane: string; // on a narrow screen, the one that is shown
  dims: string; // of a model that nothing was compared with: "batch=2"
  graph: string; // which one, or two: "given", "executed", "given+executed" (merged), "given|executed" (side by side), …
  trace: boolean;
  path: string; // a value: what lies between it and the selection
  axes: string; // "row,col" of the heatmaps; "" = chosen by plumb
  index: string; // of the other axes
  window: string; // "row,col,rows,cols"
  reduce: string;
  range: "shared" | "own";
  log: boolean;
  clip: boolean;
  palette: "default" | "blue";
  theme: "auto" | "light" | "dark";
}

export const defaults: State = {
  value: "",
  metric: "",
  sort: "blame",
  group: "none",
  query: "",
  hide: "",
  verdict: "",
  rest: false,
  closed: [],
  open: [],
  tab: "tensors",
  pane: "navigator",
  dims: "",
  graph: "given",
  trace: false,
  path: "",
  axes: "",
  index: "",
  window: "",
  reduce: "max",
  range: "shared",
  log: false,
  clip: false,
  palette: "default",
  theme: "auto",
};

export function encode(s: State): string {
  const out = new URLSearchParams();
  for (const key of Object.keys(defaults) as (keyof State)[]) {
    const value = s[key],
      base = defaults[key];
    if (Array.isArray(value)) {
      if (value.length) out.set(key, value.map(safeEncode).join(","));
    } else if (value !== base) out.set(key, typeof value === "boolean" ? (value ? "1" : "0") : String(value));
  }
  return out.toString();
}

export function decode(text: string): State {
  const given = new URLSearchParams(text.replace(/^#/, ""));
  const s: any = { ...defaults };
  for (const key of Object.keys(defaults) as (keyof State)[]) {
    const value = given.get(key);
    if (value === null) continue;
    if (Array.isArray(defaults[key])) s[key] = value ? value.split(",").map(safeDecode) : [];
    else if (typeof defaults[key] === "boolean") s[key] = value === "1";
    else s[key] = value;
  }
  const one = (key: keyof State, ...of: string[]): void => {
    if (!of.includes(s[key])) s[key] = defaults[key];
  };
  one("sort", "blame", "similarity", "operation");
  one("tab", "tensors", "error", "distribution", "elements", "weights", "operation", "replay", "notes");
  one("pane", "navigator", "structure", "source", "inspector");
  one("group", "none", "module", "op");
  one(
    "graph",
    "given",
    "executed",
    "reference",
    "given+executed",
    "given|executed",
    "given+reference",
    "given|reference",
  );
  one("range", "shared", "own");
  one("reduce", "max", "mean", "sample");
  one("palette", "default", "blue");
  one("theme", "auto", "light", "dark");
  return s;
}

/** A name that was cut in the middle of a character cannot be encoded. */
function safeEncode(x: string): string {
  return encodeURIComponent(
    x.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd"),
  );
}

function safeDecode(x: string): string {
  try {
    return decodeURIComponent(x);
  } catch {
    return x;
  }
}

const ADDRESS_AFTER = 100; // milliseconds
type Listener = (s: State, changed: Set<keyof State>) => void;

export class Store {
  state: State;
  private listeners: Listener[] = [];
  constructor() {
    this.state = decode(location.hash);
    addEventListener("popstate", () => this.replace(decode(location.hash)));
    addEventListener("pagehide", () => this.writeAddress());
  }
  on(f: Listener): void {
    this.listeners.push(f);
  }
  /** A new selection or pane is a step for the back button; the rest replaces the address. */
  set(patch: Partial<State>): void {
    const next = { ...this.state, ...patch };
    const changed = this.diff(next);
    if (!changed.size) return;
    if (this.step && changed.has("value")) this.writeAddress(); // each selection is a step of its own
    this.state = next;
    this.step ||= changed.has("value");
    this.address ??= setTimeout(() => this.writeAddress(), ADDRESS_AFTER);
    this.tell(changed);
  }
  private address: ReturnType<typeof setTimeout> | null = null;
  private step = false; // what is to be written is a step for the back button
  /** A new address costs the browser more than a drawn pane: it is written when the panes are drawn. */
  writeAddress(): void {
    if (this.address === null) return;
    clearTimeout(this.address);
    const url = `${location.pathname}${location.search}#${encode(this.state)}`;
    try {
      if (this.step) history.pushState(null, "", url);
      else history.replaceState(null, "", url);
    } catch {
      /* too often for the browser: the address follows with the next change */
    }
    this.address = null;
    this.step = false;
  }
  private replace(next: State): void {
    if (this.address !== null) clearTimeout(this.address);
    this.address = null;
    this.step = false;
    const changed = this.diff(next);
    this.state = next;
    if (changed.size) this.tell(changed);
  }
  private diff(next: State): Set<keyof State> {
    const changed = new Set<keyof State>();
    for (const key of Object.keys(defaults) as (keyof State)[])
      if (JSON.stringify(next[key]) !== JSON.stringify(this.state[key])) changed.add(key);
    return changed;
  }
  private tell(changed: Set<keyof State>): void {
    for (const f of this.listeners) f(this.state, changed);
  }
}

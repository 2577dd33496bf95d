// What needs `plumb view` behind the page, and is not in a report: pins and notes, pairs by hand, accepted divergences, saving tensors, minify.
import type { App } from "./app";
import type { GraphNode, Point, Server } from "./data";
import { clean, fill, h } from "./dom";
import type { Inspector } from "./inspector";
import { behind } from "./keys";
import { follow, setupForm, type Setup } from "./setup";

interface Pair {
  a: string | null;
  b: string | null;
}
interface Notes {
  pins: string[];
  accepted: string[];
  notes: Record<string, string>;
  pairs: Pair[];
}
/** Notes by names that may be any: "constructor" has none before it is given one. */
const readNotes = (n: any): Notes => ({
  pins: n.pins ?? [],
  accepted: n.accepted ?? [],
  notes: Object.assign(Object.create(null), n.notes),
  pairs: n.pairs ?? [],
});
const alerts = (e: Error): void => alert(e.message);

class Noted {
  notes: Notes = readNotes({});
  private undone: string[] = [];
  private loaded: Promise<void> | null = null; // until it is over
  private unread = ""; // why there is nothing to change
  constructor(
    private server: Server,
    private app: App,
    private changed: (typed?: boolean) => void,
  ) {}
  get canUndo(): boolean {
    return this.undone.length > 0;
  }
  /** Again when the window is come back to: another one may have changed them. */
  load(): void {
    if (!this.loaded && !this.saving)
      this.loaded = this.read().finally(() => {
        this.loaded = null;
      });
  }
  private async read(): Promise<void> {
    try {
      const now = readNotes(await (await this.server.get("/api/notes")).json());
      this.unread = "";
      if (JSON.stringify(now) === JSON.stringify(this.notes)) return;
      this.notes = now;
      this.undone = [];
      this.changed();
    } catch (e) {
      this.unread = (e as Error).message;
    }
  }
  /** The whole is saved: it must have been read, or what others wrote would be gone. typed: the page shows it already. */
  change(f: (n: Notes) => void, typed = false): void {
    if (this.loaded) {
      void this.loaded.then(() => this.change(f, typed));
      return;
    }
    if (this.unread) {
      alert(`not saved: ${this.unread}`);
      return;
    }
    this.undone.push(JSON.stringify(this.notes));
    f(this.notes);
    void this.save(typed);
  }
  undo(): void {
    const last = this.undone.pop();
    if (!last) return;
    this.notes = readNotes(JSON.parse(last));
    void this.save();
  }
  /** One at a time, and the newest last: two on the way could arrive the other way round. */
  private async save(typed = false): Promise<void> {
    this.changed(typed);
    this.dirty = true;
    this.saving ??= this.send();
    await this.saving;
  }
  private async send(): Promise<void> {
    try {
      while (this.dirty) {
        this.dirty = false;
        await this.server.post("/api/notes", this.notes);
      }
    } catch (e) {
      alert(`not saved: ${(e as Error).message}`);
    }
    this.saving = null;
  }
  /** What the server makes of the notes has all of them. */
  async saved(): Promise<void> {
    await this.loaded;
    await this.saving;
  }
  private dirty = false;
  private saving: Promise<void> | null = null; // until it is over
  toggle(list: "pins" | "accepted", value: string): void {
    this.change((n) => {
      n[list] = n[list].includes(value) ? n[list].filter((x) => x !== value) : [...n[list], value];
    });
  }
  pair(a: string, b: string | null): void {
    this.change((n) => {
      n.pairs = [...n.pairs.filter((p) => p.a !== a && (b === null || p.b !== b)), { a, b }];
    });
  }
  forget(a: string): void {
    this.change((n) => {
      n.pairs = n.pairs.filter((p) => p.a !== a);
    });
  }
  go(i: number): void {
    this.app.select(this.app.byValue.get(this.notes.pins[i] ?? ""));
  }
}

/** B is a recording or another model: then a person can know better which value is which. */
function canPair(app: App): boolean {
  const s = app.session;
  return s.has_reference || s.b.path !== "" || s.left_over.length > 0;
}

function pairing(app: App, noted: Noted, value: string, now: string): HTMLElement {
  const mine = noted.notes.pairs.find((p) => p.a === value),
    free = app.session.left_over.filter((l) => !noted.notes.pairs.some((p) => p.b === l.value));
  const list = h("datalist", { id: "left-over" });
  const to = h("input", {
    id: "pair-with",
    "aria-label": "Value of B",
    placeholder: free.length
      ? `${free.length} ${free.length === 1 ? "value" : "values"} of B without a counterpart`
      : "value of B",
  });
  to.setAttribute("list", "left-over");
  to.onfocus = () => {
    if (!list.childElementCount)
      fill(list, ...free.slice(0, 5000).map((l) => h("option", { value: l.value }, clean(l.op, 60))));
  };
  return h(
    "details",
    { id: "pairing", open: !!mine || !now },
    h("summary", {}, "Pairing"),
    h(
      "p",
      { class: "quiet" },
      mine
        ? `set by hand: ${mine.b === null ? "no counterpart" : clean(mine.b, 200)}; applies to the next comparison`
        : now
          ? `B: ${clean(now, 200)}`
          : "no counterpart in B",
    ),
    h(
      "div",
      { class: "bar" },
      list,
      to,
      h(
        "button",
        {
          id: "pair",
          onclick: () => {
            if (to.value) noted.pair(value, to.value);
          },
        },
        "Pair",
      ),
      now && !mine
        ? h(
            "button",
            {
              id: "unpair",
              title: "not the right counterpart: remove the pair",
              onclick: () => noted.pair(value, null),
            },
            "Unpair",
          )
        : null,
      mine ? h("button", { id: "forget-pair", onclick: () => noted.forget(value) }, "Forget") : null,
    ),
  );
}

/** Compare…: the form in a dialog, for a session and for a model alone. */
export function addCompare(server: Server, app: App, tools: HTMLElement): HTMLDialogElement {
  const dialog = h("dialog", { id: "setup-dialog", "aria-label": "Compare" });
  const open = async (): Promise<void> => {
    const setup: Setup = await (await server.get("/api/setup")).json();
    fill(
      dialog,
      setup.offered
        ? setupForm(server, setup, app)
        : h("p", {}, "This server cannot start comparisons. Use plumb analyze, then plumb view SESSION."),
      h("button", { onclick: () => dialog.close() }, "Close"),
    );
    dialog.showModal();
  };
  const look = app.session.kind === "model" ? "primary" : "";
  tools.append(h("button", { id: "open-setup", class: look, onclick: () => void open().catch(alerts) }, "Compare…"));
  document.body.append(dialog);
  return dialog;
}

export function addServerSide(server: Server, app: App, inspector: Inspector, tools: HTMLElement): void {
  const pins = h("span", { id: "pins" });
  const undo = h(
    "button",
    {
      id: "undo",
      title: "undo the last pin, note, pair or acceptance (Ctrl+Z)",
      hidden: true,
      onclick: () => noted.undo(),
    },
    "Undo",
  );
  const baseline = h("button", {
    id: "baseline",
    title:
      "save the accepted divergences for plumb compare --baseline and analyze --baseline; they are also in the session folder",
    hidden: true,
    onclick: () =>
      void noted
        .saved()
        .then(() => download(server, "/api/baseline", "baseline.json"))
        .catch(alerts),
  });
  tools.append(pins, undo, baseline);
  const dialog = addCompare(server, app, tools);
  const noted = new Noted(server, app, (typed) => {
    const { notes } = noted;
    fill(
      pins,
      ...notes.pins
        .slice(0, 9)
        .map((v, i) =>
          h(
            "button",
            { title: clean(v), "aria-label": `${i + 1}: pin ${clean(v, 80)}`, onclick: () => noted.go(i) },
            String(i + 1),
          ),
        ),
    );
    undo.hidden = !noted.canUndo;
    baseline.hidden = !notes.accepted.length;
    baseline.textContent = `Baseline (${notes.accepted.length})`;
    if (typed) return; // a button that is being pressed must not be made anew
    if (app.selected) inspector.update();
  });
  inspector.onpoint = (p: Point, into: HTMLElement, more: HTMLElement) => {
    const { notes } = noted;
    const button = (id: string, label: string, title: string, on: boolean | null, f: () => void): HTMLElement =>
      h("button", { id, title, "aria-pressed": on === null ? undefined : String(on), onclick: f }, label);
    const node = app.graph?.producer.get(p.value);
    const canShrink = app.session.model.path !== "" && app.session.a.spec !== "";
    const shrink = (): void => {
      if (canShrink && p.blame)
        into.append(
          button(
            "minify",
            "Minify",
            "shrink the model to the smallest that fails in the same way",
            null,
            () => void minify(server, app, dialog, null),
          ),
        );
      if (canShrink && node)
        into.append(
          button(
            "repro",
            "Repro of this op",
            "extract this operation as a repro",
            null,
            () => void minify(server, app, dialog, node),
          ),
        );
    };
    if (p.index < 0) {
      if (p.blame) shrink();
      else if (canPair(app) && node) more.append(pairing(app, noted, p.value, ""));
      return;
    }
    const text = h("textarea", {
      id: "note",
      rows: 3,
      "aria-label": "Note",
      placeholder: "A note on this value",
      value: notes.notes[p.value] ?? "",
    });
    text.onchange = () =>
      noted.change((n) => {
        if (text.value) n.notes[p.value] = text.value;
        else delete n.notes[p.value];
      }, true);
    const pinned = notes.pins.includes(p.value),
      accepted = notes.accepted.includes(p.value);
    into.append(
      button("pin", pinned ? "Unpin" : "Pin", "pin this value (b)", pinned, () => noted.toggle("pins", p.value)),
      button(
        "accept",
        accepted ? "Accepted ✓" : "Accept",
        "accept this divergence: add it to the baseline",
        accepted,
        () => noted.toggle("accepted", p.value),
      ),
    );
    shrink();
    for (const s of ["a", "b"] as const)
      if (p[s]?.kept)
        into.append(
          button(
            `npy-${s}`,
            `${s.toUpperCase()}.npy`,
            "save the tensor",
            null,
            () => void save(server, p, s).catch(alerts),
          ),
        );
    more.append(text);
    if (canPair(app) && !p.input) more.append(pairing(app, noted, p.value, p.counterpart));
  };
  addEventListener("keydown", (e) => {
    const typing =
      e.target instanceof HTMLInputElement ||
      e.target instanceof HTMLTextAreaElement ||
      e.target instanceof HTMLSelectElement;
    if (typing || behind()) return;
    if ((e.ctrlKey || e.metaKey) && e.key === "z") {
      e.preventDefault();
      noted.undo();
    }
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    if (/^[1-9]$/.test(e.key)) noted.go(Number(e.key) - 1);
    if (e.key === "b" && app.point) noted.toggle("pins", app.point.value);
  });
  noted.load();
  addEventListener("focus", () => noted.load());
}

/** Shrinks the session's model on A, or only the part that is one operation; the repro folder is shown at the end. */
async function minify(server: Server, app: App, dialog: HTMLDialogElement, node: GraphNode | null): Promise<void> {
  const text = h("output", { id: "minify-text", role: "status", class: "mono" }, "starting"),
    g = app.graph;
  fill(
    dialog,
    h("h2", {}, node ? `Repro of ${clean(node.op, 60)}` : "Minify"),
    text,
    h(
      "div",
      { class: "bar" },
      h("button", { onclick: () => void server.post("/api/cancel", {}) }, "Cancel"),
      h("button", { onclick: () => dialog.close() }, "Close"),
    ),
  );
  dialog.showModal();
  const request: Record<string, string> = { model: app.session.model.path, backend: app.session.a.spec };
  if (node && g) {
    const names = (values: number[]): string =>
      [
        ...new Set(
          values
            .filter((v) => v >= 0 && !g.weights.has(v) && g.producer.get(g.values[v])?.op !== "Constant")
            .map((v) => g.values[v]),
        ),
      ].join(",");
    request.from = names(node.inputs);
    request.to = names(node.outputs);
  }
  try {
    await server.post("/api/minify", request);
    await follow(server, (p) => {
      text.textContent = clean(p.message || p.phase || "running");
    });
  } catch (e) {
    text.textContent = clean((e as Error).message);
  }
}

async function download(server: Server, path: string, name: string): Promise<void> {
  const url = URL.createObjectURL(await (await server.get(path)).blob());
  h("a", { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

function save(server: Server, p: Point, side: string): Promise<void> {
  return download(
    server,
    `/api/npy?point=${p.index}&side=${side}`,
    `${p.value.replace(/[^A-Za-z0-9_.-]+/g, "_").slice(-80) || "tensor"}.${side}.npy`,
  );
}

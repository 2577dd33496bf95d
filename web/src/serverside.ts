// What needs `plumb view` behind the page, and is not in a report: comparisons, pins and notes, saving tensors.
import type { App } from "./app";
import type { Point, Server } from "./data";
import { clean, fill, h } from "./dom";
import type { Inspector } from "./inspector";

interface Setup { offered: boolean; model: string; a: string; b: string; session: string; backends: { name: string; available: boolean; reason: string }[] }
interface Progress { running: boolean; phase: string; done: number; total: number; message: string; cancelled: boolean; fresh: boolean; exit_code: number; session: string }
interface Notes { pins: string[]; accepted: string[]; notes: Record<string, string> }

// ---- comparisons ----

const RECENT = "plumb-recent";
function recent(add?: Record<string, string>): Record<string, string>[] {
  try {
    const old: Record<string, string>[] = JSON.parse(localStorage.getItem(RECENT) ?? "[]");
    if (!add) return old;
    const next = [add, ...old.filter((x) => JSON.stringify(x) !== JSON.stringify(add))].slice(0, 8);
    localStorage.setItem(RECENT, JSON.stringify(next));
    return next;
  } catch { return []; }
}

/** The form: a model, Configuration A and B, inputs; Compare; live progress; cancel. */
export function setupForm(server: Server, setup: Setup, done: () => void): HTMLElement {
  const field = (name: string, label: string, value: string, hint: string, list?: string): HTMLElement => {
    const input = h("input", { name, id: `set-${name}`, value, placeholder: hint, autocomplete: "off" });
    if (list) input.setAttribute("list", list);
    return h("label", { class: "field" }, h("span", {}, label), input);
  };
  const specs = h("datalist", { id: "specs" });
  for (const b of setup.backends) if (b.available) for (const o of b.name === "jit" ? ["", ":fuse=off"] : b.name === "ort" ? ["", ":opt=off", ":opt=all"] : b.name === "eager" ? ["", ":fp64"] : []) specs.append(h("option", { value: b.name + o }));
  const fillPicker = h("select", { name: "fill", id: "set-fill" }, ...["random", "zeros", "ones"].map((x) => h("option", { value: x }, x)));
  const bar = h("progress", { id: "job-bar", max: 1, "aria-label": "Progress" }), text = h("output", { id: "job-text", role: "status" });
  const go = h("button", { id: "compare", type: "submit" }, "Compare"), stop = h("button", { id: "cancel", type: "button", disabled: true, onclick: () => void server.post("/api/cancel", {}) }, "Cancel");
  bar.hidden = true;
  const old = h("select", { "aria-label": "Recent comparisons", id: "recent" }, h("option", { value: "" }, "recent…"));
  const lately = recent();
  lately.forEach((r, i) => old.append(h("option", { value: i }, clean(`${r.model?.split("/").pop()} · ${r.backend} / ${r.reference || "eager"}`, 90))));
  const form = h("form", { class: "setup", id: "setup", "aria-label": "Comparison" }, specs, h("h2", {}, "Compare"),
    field("model", "Model", setup.model, "model.onnx"),
    h("fieldset", {}, h("legend", {}, "Configuration A, under test"), field("backend", "Target", setup.a || "jit", "jit, ort:opt=all, eager", "specs")),
    h("fieldset", {}, h("legend", {}, "Configuration B, the reference"), field("reference", "Target, recording or model", setup.b || "eager", "eager, ort:opt=off, FILE.safetensors", "specs"),
      field("reference-model", "Another model for B", "", "the same")),
    h("fieldset", {}, h("legend", {}, "Part and inputs"), field("function", "Function", "", "the whole model"), field("from", "From values", "", ""), field("to", "To values", "", ""),
      h("label", { class: "field" }, h("span", {}, "Fill"), fillPicker), field("seed", "Seed", "0", "0"), field("inputs", "Input files", "", "npy, npz, test data set")),
    h("div", { class: "bar" }, go, stop, lately.length ? old : null), bar, text);
  old.onchange = () => {
    const r = lately[Number(old.value)];
    if (old.value !== "" && r) for (const [k, v] of Object.entries(r)) { const e = form.elements.namedItem(k) as HTMLInputElement | null; if (e) e.value = v; }
  };
  form.onsubmit = async (e) => {
    e.preventDefault();
    const request: Record<string, string> = {};
    for (const [k, v] of new FormData(form)) if (v) request[k] = String(v);
    text.textContent = "starting";
    go.disabled = true;
    try {
      await server.post("/api/analyze", request);
      recent(request);
      stop.disabled = false;
      bar.hidden = false;
      const last = await follow(server, (p) => {
        if (p.total > 0) bar.value = p.done / p.total; else bar.removeAttribute("value");
        text.textContent = p.running ? clean(`${p.phase} ${p.total > 0 ? `${p.done}/${p.total}` : ""}`) : clean(p.message);
      });
      if (last?.fresh) { done(); return; }
      text.textContent = clean(last?.message || "the comparison left no session");
    } catch (error) { text.textContent = clean((error as Error).message); }
    go.disabled = false;
    stop.disabled = true;
    bar.hidden = true;
  };
  return form;
}

/** Server-Sent Events over fetch, because EventSource cannot show the token. */
async function follow(server: Server, show: (p: Progress) => void): Promise<Progress | null> {
  const answer = await server.get("/api/events"), reader = answer.body!.getReader(), decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return null;
    text += decoder.decode(value, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const line = text.slice(0, end);
      text = text.slice(end + 2);
      if (!line.startsWith("data: ")) continue;
      const p: Progress = JSON.parse(line.slice(6));
      show(p);
      if (!p.running) { void reader.cancel(); return p; }
    }
  }
}

/** A fresh session is another page: the address starts anew. */
function reload(): void {
  history.replaceState(null, "", `${location.pathname}${location.search}`);
  location.reload();
}

export async function showSetup(server: Server, root: HTMLElement): Promise<void> {
  const setup: Setup = await (await server.get("/api/setup")).json();
  fill(root, h("header", {}, h("h1", {}, "plumb"), h("span", { class: "headline" }, "no session yet: compare a model")), setupForm(server, setup, reload));
  root.dataset.ready = "1";
}

// ---- pins and notes ----

class Noted {
  notes: Notes = { pins: [], accepted: [], notes: {} };
  private undone: string[] = [];
  constructor(private server: Server, private app: App, private changed: () => void) {}
  async load(): Promise<void> {
    try {
      const n = await (await this.server.get("/api/notes")).json();
      this.notes = { pins: n.pins ?? [], accepted: n.accepted ?? [], notes: n.notes ?? {} };
      this.changed();
    } catch { /* a session without a folder has none */ }
  }
  change(f: (n: Notes) => void): void {
    this.undone.push(JSON.stringify(this.notes));
    f(this.notes);
    void this.save();
  }
  undo(): void {
    const last = this.undone.pop();
    if (!last) return;
    this.notes = JSON.parse(last);
    void this.save();
  }
  private async save(): Promise<void> {
    this.changed();
    try { await this.server.post("/api/notes", this.notes); } catch (e) { alert(`not saved: ${(e as Error).message}`); }
  }
  toggle(list: "pins" | "accepted", value: string): void {
    this.change((n) => { n[list] = n[list].includes(value) ? n[list].filter((x) => x !== value) : [...n[list], value]; });
  }
  go(i: number): void { this.app.select(this.app.byValue.get(this.notes.pins[i] ?? "")); }
}

export function addServerSide(server: Server, app: App, inspector: Inspector, tools: HTMLElement): void {
  const pins = h("span", { id: "pins" }), dialog = h("dialog", { id: "setup-dialog" });
  const noted = new Noted(server, app, () => {
    fill(pins, ...noted.notes.pins.slice(0, 9).map((v, i) => h("button", { title: clean(v), onclick: () => noted.go(i) }, String(i + 1))));
    if (app.point) inspector.update();
  });
  inspector.onpoint = (p: Point, into: HTMLElement) => {
    const { notes } = noted;
    const text = h("textarea", { id: "note", rows: 2, "aria-label": "Note", placeholder: "note", value: notes.notes[p.value] ?? "" });
    text.onchange = () => noted.change((n) => { if (text.value) n.notes[p.value] = text.value; else delete n.notes[p.value]; });
    fill(into, h("div", { class: "bar" },
      h("button", { id: "pin", "aria-pressed": String(notes.pins.includes(p.value)), onclick: () => noted.toggle("pins", p.value) }, notes.pins.includes(p.value) ? "Unpin" : "Pin"),
      h("button", { id: "accept", "aria-pressed": String(notes.accepted.includes(p.value)), onclick: () => noted.toggle("accepted", p.value) }, notes.accepted.includes(p.value) ? "Accepted" : "Accept"),
      ...(["a", "b"] as const).filter((s) => p[s]?.kept).map((s) => h("button", { id: `npy-${s}`, title: "save the tensor", onclick: () => void save(server, p, s) }, `${s.toUpperCase()}.npy`)),
      p.blame && app.session.model.path ? h("button", { id: "minify", title: "shrink the model to the smallest that fails in the same way", onclick: () => void minify(server, app, dialog) }, "Minify") : null), text);
  };
  addEventListener("keydown", (e) => {
    const typing = e.target instanceof HTMLInputElement || e.target instanceof HTMLTextAreaElement || e.target instanceof HTMLSelectElement;
    if (typing) return;
    if ((e.ctrlKey || e.metaKey) && e.key === "z") { e.preventDefault(); noted.undo(); }
    if (!e.ctrlKey && !e.altKey && /^[1-9]$/.test(e.key)) noted.go(Number(e.key) - 1);
    if (!e.ctrlKey && !e.altKey && e.key === "b" && app.point) noted.toggle("pins", app.point.value);
  });
  const open = async (): Promise<void> => {
    const setup: Setup = await (await server.get("/api/setup")).json();
    fill(dialog, setup.offered ? setupForm(server, setup, reload) : h("p", {}, "this server starts no comparisons"), h("button", { onclick: () => dialog.close() }, "Close"));
    dialog.showModal();
  };
  tools.append(pins, h("button", { id: "open-setup", onclick: () => void open() }, "Compare…"));
  document.body.append(dialog);
  void noted.load();
}

/** Shrinks the session's model on A; the repro's folder is told at the end. */
async function minify(server: Server, app: App, dialog: HTMLDialogElement): Promise<void> {
  const text = h("output", { id: "minify-text", role: "status", class: "mono" }, "starting");
  fill(dialog, h("h2", {}, "Minify"), text, h("div", { class: "bar" }, h("button", { onclick: () => void server.post("/api/cancel", {}) }, "Cancel"), h("button", { onclick: () => dialog.close() }, "Close")));
  dialog.showModal();
  try {
    await server.post("/api/minify", { model: app.session.model.path, backend: app.session.a.spec });
    await follow(server, (p) => { text.textContent = clean(p.message || p.phase || "running"); });
  } catch (e) { text.textContent = clean((e as Error).message); }
}

async function save(server: Server, p: Point, side: string): Promise<void> {
  const answer = await server.get(`/api/npy?point=${p.index}&side=${side}`);
  const url = URL.createObjectURL(await answer.blob());
  h("a", { href: url, download: `${p.value.replace(/[^A-Za-z0-9_.-]+/g, "_").slice(-80) || "tensor"}.${side}.npy` }).click();
  URL.revokeObjectURL(url);
}

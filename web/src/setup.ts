// A comparison set up in the page: a model or recordings, Configuration A and B, inputs; Compare; live progress; cancel;
// recent sessions. Each field is checked when it is left, and says what is wrong beside itself.
import type { App } from "./app";
import { browse, placeOf, sizeText } from "./browser";
import type { Server } from "./data";
import { clean, fill, h } from "./dom";
import { dimsOf } from "./summary";

export interface Setup {
  offered: boolean;
  model: string;
  a: string;
  b: string;
  session: string;
  a_path: string;
  b_path: string;
  noted: boolean;
  running: boolean;
  recent: [string, number][];
  backends: { name: string; available: boolean; reason: string }[];
}
interface Progress {
  running: boolean;
  phase: string;
  done: number;
  total: number;
  message: string;
  cancelled: boolean;
  fresh: boolean;
  exit_code: number;
  session: string;
}

const isModel = (path: string): boolean => /\.onnx(txt)?$/.test(path);
const isRecording = (path: string): boolean => /\.(safetensors|npz|pt|pth|aimodelintermediates)\/?$/.test(path);
const isInput = (path: string): boolean => /\.(npy|npz|pb|safetensors|pt)$/.test(path);
const options: Record<string, string[]> = {
  jit: ["", "fuse=off"],
  ort: ["", "opt=off", "opt=basic", "opt=all"],
  eager: ["", "fp64"],
};

interface Field {
  e: HTMLElement;
  input: HTMLInputElement;
  why: HTMLElement;
  say(text: string, wrong: boolean): void;
}

class Form {
  readonly element: HTMLFormElement;
  private fields = new Map<string, Field>();
  private inputs = h("div", { id: "inputs" });
  private from = h("select", { id: "inputs-from", name: "from-where", "aria-label": "Inputs" });
  private ui: Controls;

  constructor(
    private server: Server,
    private setup: Setup,
    private app: App | null,
  ) {
    const twice = setup.a_path !== ""; // recordings were compared
    const values = h(
      "datalist",
      { id: "set-values" },
      ...(app?.graph?.values ?? [])
        .slice(0, 2000)
        .filter((v) => v.length < 200)
        .map((v) => h("option", { value: v })),
    );
    const bar = h("progress", { id: "job-bar", max: 1, "aria-label": "Progress", hidden: true }),
      text = h("output", { id: "job-text", role: "status" });
    const go = h("button", { id: "compare", type: "submit", class: "primary" }, "Compare"),
      stop = h(
        "button",
        { id: "cancel", type: "button", disabled: true, onclick: () => void server.post("/api/cancel", {}) },
        "Cancel",
      );
    this.ui = { go, stop, bar, text };
    const reference = setup.b_path && !isModel(setup.b_path) ? setup.b_path : setup.b || "eager";
    this.element = h(
      "form",
      { class: "setup", id: "setup", "aria-label": "Comparison", noValidate: true },
      this.specs(),
      values,
      h("h2", {}, "Compare"),
      this.file(
        "model",
        "Model",
        twice ? setup.a_path : setup.model,
        "model.onnx, or a recording of A",
        (n) => isModel(n) || isRecording(n),
      ),
      h(
        "div",
        { class: "sides" },
        h(
          "fieldset",
          {},
          h("legend", {}, "Configuration A, under test"),
          this.text("backend", "Target", setup.a || "jit", "jit, ort:opt=all, eager", "specs"),
          this.choices("backend"),
          this.pick("graph", "Graph shown", [
            ["given", "as given"],
            ["executed", "as executed (optimised)"],
            ["given+executed", "both, merged"],
          ]),
        ),
        h(
          "fieldset",
          {},
          h("legend", {}, "Configuration B, the reference"),
          this.file(
            "reference",
            "Target or file",
            reference,
            "eager, or a recording",
            (n) => isModel(n) || isRecording(n),
            "specs",
          ),
          this.choices("reference"),
          this.file(
            "reference-model",
            "Different model",
            !twice && isModel(setup.b_path) ? setup.b_path : "",
            "the same",
            isModel,
          ),
        ),
      ),
      h(
        "fieldset",
        {},
        h("legend", {}, "Inputs"),
        h("label", { class: "field" }, h("span", { class: "label" }, "Inputs"), this.from),
        this.inputs,
      ),
      h(
        "details",
        {},
        h("summary", {}, "A part of the model"),
        this.text("function", "Function", "", "the whole model"),
        this.text("from", "From values", "", "the inputs; comma-separated", "set-values"),
        this.text("to", "To values", "", "the outputs", "set-values"),
      ),
      setup.noted
        ? h(
            "label",
            { class: "tick" },
            h("input", { type: "checkbox", name: "keep", id: "set-keep", value: "on", checked: true }),
            "keep the pairs and accepted divergences of this session",
          )
        : null,
      h("div", { class: "actions" }, go, stop, recent(server, setup, text)),
      bar,
      text,
    );
    this.from.onchange = () => this.drawInputs();
    this.fields.get("reference")!.input.addEventListener("input", () => this.offerInputs());
    this.fields.get("model")!.input.addEventListener("input", () => this.offerInputs());
    this.offerInputs();
    this.element.onsubmit = (e) => {
      e.preventDefault();
      void this.submit();
    };
    if (setup.running) void watch(server, "given", this.ui, null); // one that was started before: it can be followed and cancelled
  }

  // ---- fields ----

  private field(name: string, label: string, input: HTMLInputElement, more: HTMLElement | null): HTMLElement {
    const why = h("div", { class: "why", id: `why-${name}`, role: "status" });
    input.setAttribute("aria-describedby", why.id);
    const e = h("div", { class: "field" }, h("label", { class: "label", htmlFor: input.id }, label), input, more, why);
    const say = (text: string, wrong: boolean): void => {
      why.textContent = text;
      why.className = `why ${wrong ? "bad" : "quiet"}`;
      input.setAttribute("aria-invalid", String(wrong));
    };
    this.fields.set(name, { e, input, why, say });
    // Not at once: what appears would move the button away from under the pointer that left the field to press it.
    input.addEventListener("change", () => setTimeout(() => void this.check(name), 300));
    input.addEventListener("input", () => say("", false));
    return e;
  }

  private input(name: string, value: string, hint: string, list?: string): HTMLInputElement {
    const e = h("input", { name, id: `set-${name}`, value, placeholder: hint, autocomplete: "off", spellcheck: false });
    if (list) e.setAttribute("list", list);
    return e;
  }

  private text(name: string, label: string, value: string, hint: string, list?: string): HTMLElement {
    return this.field(name, label, this.input(name, value, hint, list), null);
  }

  private file(
    name: string,
    label: string,
    value: string,
    hint: string,
    fits: (n: string) => boolean,
    list?: string,
  ): HTMLElement {
    const input = this.input(name, value, hint, list);
    const e = this.field(
      name,
      label,
      input,
      h(
        "button",
        {
          type: "button",
          id: `browse-${name}`,
          "aria-label": `Browse: ${label}`,
          onclick: () =>
            browse(this.server, e, input.value.includes("/") ? input.value : "", fits, (path) => {
              input.value = path;
              input.dispatchEvent(new Event("input"));
              input.dispatchEvent(new Event("change"));
              input.focus();
            }),
        },
        "Browse…",
      ),
    );
    return e;
  }

  private pick(name: string, label: string, all: [string, string][]): HTMLElement {
    return h(
      "label",
      { class: "field" },
      h("span", { class: "label" }, label),
      h("select", { name, id: `set-${name}` }, ...all.map(([v, t]) => h("option", { value: v }, t))),
    );
  }

  /** Specs that the backends of this machine take, for the pickers. */
  private specs(): HTMLElement {
    return h(
      "datalist",
      { id: "specs" },
      ...this.setup.backends
        .filter((b) => b.available)
        .flatMap((b) => (options[b.name] ?? []).map((o) => h("option", { value: o ? `${b.name}:${o}` : b.name }))),
    );
  }

  /** The backends as buttons; those that this machine lacks say why. */
  private choices(name: string): HTMLElement {
    const input = this.fields.get(name)!.input;
    return h(
      "div",
      { class: "actions" },
      ...this.setup.backends
        .filter((b) => options[b.name])
        .map((b) =>
          h(
            "button",
            {
              type: "button",
              disabled: !b.available,
              title: b.available ? `use ${b.name}` : clean(b.reason),
              "data-backend": b.name,
              onclick: () => {
                input.value = b.name;
                input.dispatchEvent(new Event("input"));
                input.dispatchEvent(new Event("change"));
              },
            },
            clean(b.name, 20),
          ),
        ),
    );
  }

  // ---- inputs ----

  private get recorded(): boolean {
    return isRecording(this.fields.get("reference")!.input.value.trim());
  }

  /** A recording brings the inputs it was made with; others would be refused. */
  private offerInputs(): void {
    const all: [string, string][] = this.recorded
      ? [["recording", "from the reference recording"]]
      : [
          ["random", "generated: random, by seed"],
          ["zeros", "generated: zeros"],
          ["ones", "generated: ones"],
          ["files", "one file for each input"],
          ["folder", "one file or folder for all"],
        ];
    const was = this.from.value;
    fill(this.from, ...all.map(([v, t]) => h("option", { value: v }, t)));
    if (all.some(([v]) => v === was)) this.from.value = was;
    this.drawInputs();
  }

  private drawInputs(): void {
    const g = this.app?.graph,
      kind = this.from.value,
      out: HTMLElement[] = [];
    for (const k of [...this.fields.keys()]) if (/^(input|dim)-|^(seed|inputs)$/.test(k)) this.fields.delete(k);
    const own = g && this.fields.get("model")!.input.value === (this.setup.model || this.app!.session.model.path);
    const list = own ? g.inputs.filter((v) => !g.weights.has(v)) : [];
    if (kind === "random") out.push(this.text("seed", "Seed", "0", "0"));
    if (kind === "folder")
      out.push(this.file("inputs", "File or folder", "", "npy, npz, safetensors, test data set", isInput));
    for (const v of list) {
      const name = g!.values[v],
        type = clean(g!.types[v], 80);
      if (kind === "files")
        out.push(
          this.file(
            `input-${v}`,
            `${clean(name, 40)} ${type}`,
            "",
            `npy or TensorProto of ${type}; empty: generated`,
            isInput,
          ),
        );
      else
        out.push(
          h(
            "div",
            { class: "field" },
            h("span", { class: "label" }, clean(name, 60)),
            h("span", { class: "mono" }, type),
          ),
        );
    }
    if (own && kind !== "recording")
      for (const d of dimsOf(list.map((v) => g.types[v]))) out.push(this.text(`dim-${d}`, `Size of ${d}`, "", "1"));
    fill(this.inputs, ...out);
  }

  // ---- checks ----

  private async check(name: string): Promise<boolean> {
    const f = this.fields.get(name);
    if (!f) return true;
    const value = f.input.value.trim();
    const wrong = (text: string): boolean => {
      f.say(text, true);
      return false;
    };
    f.say("", false);
    if (name === "seed" && !/^\d+$/.test(value)) return wrong("expected a whole number");
    if (name.startsWith("dim-") && value && !/^[1-9]\d*$/.test(value)) return wrong("expected a size of 1 or more");
    if (name === "backend" || (name === "reference" && !value.includes("/") && !isModel(value) && !isRecording(value)))
      return this.checkBackend(f, value, wrong);
    if (!/^(model|reference|reference-model|inputs|input-\d+)$/.test(name)) return true;
    if (!value) return name === "model" && !this.setup.model ? wrong("choose a model or a recording") : true;
    if (name === "reference-model" && !isModel(value)) return wrong("expected a .onnx file");
    if (!value.startsWith("/")) return true; // relative to where plumb view was started: it finds out
    try {
      const place = await placeOf(this.server, value);
      if (place.kind === "outside")
        f.say("outside the folders of plumb view (--files DIR): checked at the start", false);
      else if (place.kind === "none") return wrong("not found");
      else if (place.kind === "folder" && isModel(value)) return wrong("is a folder");
      else if (place.kind === "file") f.say(sizeText(place.bytes), false);
    } catch (e) {
      f.say(clean((e as Error).message), false);
    }
    return true;
  }

  private checkBackend(f: Field, value: string, wrong: (text: string) => boolean): boolean {
    const known = this.setup.backends.find((b) => b.name === value.split(":")[0]);
    if (!value) return wrong("choose a backend");
    if (!known)
      return wrong(
        `unknown backend; available: ${this.setup.backends
          .filter((b) => b.available)
          .map((b) => b.name)
          .join(", ")}`,
      );
    if (!known.available) return wrong(clean(known.reason || "not available here"));
    return true;
  }

  private request(): Record<string, unknown> {
    const out: Record<string, unknown> = {},
      input: string[] = [],
      dim: string[] = [];
    for (const [k, v] of new FormData(this.element)) {
      const value = typeof v === "string" ? v.trim() : "";
      if (!value) continue;
      if (k === "from-where") {
        if (["random", "zeros", "ones"].includes(value)) out.fill = value;
      } else if (k.startsWith("input-")) input.push(`${this.app!.graph!.values[Number(k.slice(6))]}=${value}`);
      else if (k.startsWith("dim-")) dim.push(`${k.slice(4)}=${value}`);
      else out[k] = value;
    }
    if (input.length) out.input = input;
    if (dim.length) out.dim = dim;
    return out;
  }

  private async submit(): Promise<void> {
    const good = await Promise.all([...this.fields.keys()].map((k) => this.check(k)));
    const bad = [...this.fields.values()][good.indexOf(false)];
    if (bad) {
      this.ui.text.textContent = clean(`${bad.e.querySelector(".label")!.textContent}: ${bad.why.textContent}`);
      bad.input.focus();
      return;
    }
    const request = this.request(),
      graph = (request.graph as string) ?? "given",
      model = (request.model as string) ?? "";
    delete request.graph;
    this.ui.text.textContent = "starting";
    const refused = await watch(this.server, graph, this.ui, () =>
      this.server.post(isModel(model) || !model ? "/api/analyze" : "/api/compare", request),
    );
    // What the server says of a value stands beside its field.
    for (const f of this.fields.values()) {
      const value = f.input.value.trim();
      if (value.length > 2 && refused.includes(value)) f.say(refused, true);
    }
  }
}

export function setupForm(server: Server, setup: Setup, app: App | null): HTMLElement {
  return new Form(server, setup, app).element;
}

function recent(server: Server, setup: Setup, text: HTMLElement): HTMLElement | null {
  if (!setup.recent.length) return null;
  const old = h(
    "select",
    { "aria-label": "Recent sessions", id: "recent" },
    h("option", { value: "" }, "recent sessions…"),
    ...setup.recent.map(([name, when]) =>
      h("option", { value: name }, clean(`${name} · ${new Date(when * 1000).toLocaleString()}`, 100)),
    ),
  );
  old.onchange = () => {
    if (!old.value) return;
    server.post("/api/open", { session: old.value }).then(
      () => reload("given"),
      (e: Error) => {
        text.textContent = clean(e.message);
      },
    );
  };
  return old;
}

interface Controls {
  go: HTMLButtonElement;
  stop: HTMLButtonElement;
  bar: HTMLProgressElement;
  text: HTMLElement;
}

/** Follows a comparison to its end; why there is no session, "" when there is one. */
async function watch(
  server: Server,
  graph: string,
  { go, stop, bar, text }: Controls,
  start: (() => Promise<unknown>) | null,
): Promise<string> {
  let refused: string;
  go.disabled = true;
  try {
    await start?.();
    stop.disabled = false;
    bar.hidden = false;
    const last = await follow(server, (p) => {
      if (p.total > 0) bar.value = p.done / p.total;
      else bar.removeAttribute("value");
      text.textContent = p.running
        ? clean(`${p.phase} ${p.total > 0 ? `${p.done}/${p.total}` : ""}`)
        : clean(p.message);
    });
    if (last?.fresh) {
      reload(graph);
      return "";
    }
    refused = clean(last?.message || "the comparison wrote no session");
  } catch (error) {
    refused = clean((error as Error).message);
  }
  text.textContent = refused;
  go.disabled = false;
  stop.disabled = true;
  bar.hidden = true;
  return refused;
}
/** Server-Sent Events over fetch, because EventSource cannot show the token. */
export async function follow(server: Server, show: (p: Progress) => void): Promise<Progress | null> {
  const answer = await server.get("/api/events"),
    reader = answer.body!.getReader(),
    decoder = new TextDecoder();
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
      if (!p.running) {
        void reader.cancel();
        return p;
      }
    }
  }
}

/** A fresh session is another page: the address starts anew. */
function reload(graph: string): void {
  history.replaceState(
    null,
    "",
    `${location.pathname}${location.search}${graph === "given" ? "" : `#graph=${encodeURIComponent(graph)}`}`,
  );
  location.reload();
}

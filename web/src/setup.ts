// A comparison set up in the page: a model or recordings, Configuration A and B, inputs; Compare; live progress; cancel; recent sessions.
import type { App } from "./app";
import type { Server } from "./data";
import { clean, fill, h } from "./dom";

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

/** Specs that the backends of this machine take, for the pickers. */
function specs(setup: Setup): HTMLElement {
  const options: Record<string, string[]> = {
    jit: ["", ":fuse=off"],
    ort: ["", ":opt=off", ":opt=basic", ":opt=all"],
    eager: ["", ":fp64"],
  };
  return h(
    "datalist",
    { id: "specs" },
    ...setup.backends
      .filter((b) => b.available)
      .flatMap((b) => (options[b.name] ?? []).map((o) => h("option", { value: b.name + o }))),
  );
}

export function setupForm(server: Server, setup: Setup, app: App | null): HTMLElement {
  const field = (name: string, label: string, value: string, hint: string, list?: string): HTMLElement => {
    const input = h("input", {
      name,
      id: `set-${name}`,
      value,
      placeholder: hint,
      autocomplete: "off",
      spellcheck: false,
    });
    if (list) input.setAttribute("list", list);
    return h("label", { class: "field" }, h("span", {}, label), input);
  };
  const pick = (name: string, label: string, options: [string, string][]): HTMLElement =>
    h(
      "label",
      { class: "field" },
      h("span", {}, label),
      h("select", { name, id: `set-${name}` }, ...options.map(([v, t]) => h("option", { value: v }, t))),
    );
  const values = h(
    "datalist",
    { id: "set-values" },
    ...(app?.graph?.values ?? [])
      .slice(0, 2000)
      .filter((v) => v.length < 200)
      .map((v) => h("option", { value: v })),
  );
  const bar = h("progress", { id: "job-bar", max: 1, "aria-label": "Progress" }),
    text = h("output", { id: "job-text", role: "status" });
  const go = h("button", { id: "compare", type: "submit", class: "primary" }, "Compare"),
    stop = h(
      "button",
      { id: "cancel", type: "button", disabled: true, onclick: () => void server.post("/api/cancel", {}) },
      "Cancel",
    );
  bar.hidden = true;
  const twice = setup.a_path !== ""; // recordings were compared
  const form = h(
    "form",
    { class: "setup", id: "setup", "aria-label": "Comparison" },
    specs(setup),
    values,
    h("h2", {}, "Compare"),
    field("model", "Model, or recording of A", twice ? setup.a_path : setup.model, "model.onnx or FILE.safetensors"),
    h(
      "div",
      { class: "sides" },
      h(
        "fieldset",
        {},
        h("legend", {}, "Configuration A, under test"),
        field("backend", "Target", setup.a || "jit", "jit, ort:opt=all, eager", "specs"),
        pick("graph", "Graph shown", [
          ["given", "as given"],
          ["executed", "as executed (optimised)"],
          ["given+executed", "both, merged"],
        ]),
      ),
      h(
        "fieldset",
        {},
        h("legend", {}, "Configuration B, the reference"),
        field(
          "reference",
          "Target or file",
          setup.b_path && !isModel(setup.b_path) ? setup.b_path : setup.b || "eager",
          "eager, ort:opt=off, FILE.safetensors",
          "specs",
        ),
        field("reference-model", "Different model", !twice && isModel(setup.b_path) ? setup.b_path : "", "the same"),
      ),
    ),
    h(
      "fieldset",
      {},
      h("legend", {}, "Subgraph and inputs"),
      field("function", "Function", "", "the whole model"),
      field("from", "From values", "", "the inputs; comma-separated", "set-values"),
      field("to", "To values", "", "the outputs", "set-values"),
      pick("fill", "Inputs", [
        ["random", "random, by seed"],
        ["zeros", "zeros"],
        ["ones", "ones"],
      ]),
      field("seed", "Seed", "0", "0"),
      field("inputs", "Input file", "", "npy, npz, safetensors, test data set"),
    ),
    setup.noted
      ? h(
          "label",
          { class: "field" },
          h("input", { type: "checkbox", name: "keep", id: "set-keep", value: "on", checked: true }),
          "keep the pairs and accepted divergences of this session",
        )
      : null,
    h("div", { class: "bar" }, go, stop, recent(server, setup, text)),
    bar,
    text,
  );
  const ui: Controls = { go, stop, bar, text };
  form.onsubmit = (e) => {
    e.preventDefault();
    void compare(server, form, ui);
  };
  if (setup.running) void watch(server, "given", ui, null); // one that was started before: it can be followed and cancelled
  return form;
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

async function compare(server: Server, form: HTMLFormElement, ui: Controls): Promise<void> {
  const request: Record<string, string> = {};
  for (const [k, v] of new FormData(form)) if (typeof v === "string" && v) request[k] = v;
  const graph = request.graph ?? "given";
  delete request.graph;
  ui.text.textContent = "starting";
  await watch(server, graph, ui, () =>
    server.post(isModel(request.model ?? "") || !request.model ? "/api/analyze" : "/api/compare", request),
  );
}

async function watch(
  server: Server,
  graph: string,
  { go, stop, bar, text }: Controls,
  start: (() => Promise<unknown>) | null,
): Promise<void> {
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
      return;
    }
    text.textContent = clean(last?.message || "the comparison wrote no session");
  } catch (error) {
    text.textContent = clean((error as Error).message);
  }
  go.disabled = false;
  stop.disabled = true;
  bar.hidden = true;
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

export async function showSetup(server: Server, root: HTMLElement): Promise<void> {
  const setup: Setup = await (await server.get("/api/setup")).json();
  fill(
    root,
    h("header", {}, h("h1", {}, "plumb"), h("span", { class: "headline" }, "no session yet: start a comparison")),
    h("main", { class: "alone" }, setupForm(server, setup, null)),
  );
  root.dataset.ready = "1";
}

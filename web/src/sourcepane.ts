// Where the selected operation comes from: module, line of the program, and its ONNX text.
import { colourVars, dots, type App } from "./app";
import { isServer, type GraphNode, type Point } from "./data";
import { clean, fill, h } from "./dom";
import { rankOf, signOf } from "./rows";

/** Comments, strings, numbers, keywords of Python and C: enough to read by. Everything stays text. */
const words: Record<"py" | "c", RegExp> = {
  py: /(#.*)|("""[^]*?"""|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|\b(\d[\w.]*)\b|\b(and|as|assert|async|await|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|not|or|pass|raise|return|self|True|try|while|with|yield)\b/g,
  c: /(\/\*[^]*?\*\/|\/\/.*)|("(?:[^"\\\n]|\\.)*")|\b(\d[\w.]*)\b|\b(auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|if|inline|int|int32_t|int64_t|long|restrict|return|size_t|static|struct|switch|typedef|uint8_t|unsigned|void|while)\b/g,
};
export function highlight(text: string, language: "py" | "c"): (Node | string)[] {
  const out: (Node | string)[] = [];
  let at = 0;
  for (const m of text.matchAll(words[language])) {
    if (m.index > at) out.push(text.slice(at, m.index));
    out.push(h("span", { class: `tok-${m[1] ? "c" : m[2] ? "s" : m[3] ? "n" : "k"}` }, m[0]));
    at = m.index + m[0].length;
  }
  out.push(text.slice(at));
  return out;
}

export class SourcePane {
  private path = h("span", { class: "path" }); // stays on top, however far the text is scrolled
  private body = h("div", { class: "scroll", id: "source-body", tabIndex: 0 });
  readonly element = h(
    "section",
    { class: "pane source", "aria-label": "Source" },
    h("div", { class: "bar" }, h("strong", {}, "Source"), this.path),
    this.body,
  );
  constructor(private app: App) {}

  update(): void {
    const p = this.app.selected;
    fill(this.path, p && this.crumbs(p));
    if (!p) {
      fill(this.body, this.lost(), ...this.modules());
      if (!this.body.childElementCount)
        fill(this.body, h("p", { class: "quiet" }, "Select a value to see the line of the program that makes it."));
      return;
    }
    const node = this.app.graph?.producer.get(p.value) ?? null;
    const file = h("div", { class: "file" });
    fill(
      this.body,
      this.line(p, node, file),
      this.lost(p),
      h("h3", {}, "ONNX"),
      h("pre", { class: "onnx", id: "onnx-text" }, this.text(p, node)),
      this.emitted(p),
      ...this.modules(),
    );
    this.body.scrollTop = 0;
    if (this.app.source.live && node?.file && node.file.length < 1000 && node.line > 0)
      void this.load(file, node.file, node.line, node.code);
  }

  private crumbs(p: Point): HTMLElement {
    const parts = p.module ? p.module.slice(0, 1000).split(".") : [];
    const nav = h("nav", { class: "crumbs", id: "crumbs", "aria-label": "Module path" });
    const go = (module: string) => () =>
      this.app.store.set({
        query: !module ? "" : /\s/.test(module) ? `module="${module}"` : `module=${module}`,
      });
    nav.append(h("button", { onclick: go(""), title: "list all values" }, "model"));
    parts.forEach((part, i) =>
      nav.append(
        " › ",
        h(
          "button",
          { onclick: go(parts.slice(0, i + 1).join(".")), title: "list the values of this module" },
          clean(part, 80),
        ),
      ),
    );
    return nav;
  }

  private line(p: Point, node: GraphNode | null, file: HTMLElement): HTMLElement {
    const where = p.source || (node?.file ? `${node.file}:${node.line}` : "");
    const named = /^\w+$/.test(node?.code ?? ""); // some exporters give the function instead of the line
    if (node?.code && !named) fill(file, h("pre", { class: "lit" }, ...highlight(clean(node.code), "py")));
    return h(
      "div",
      {},
      h("h3", {}, "Program"),
      where
        ? h(
            "div",
            { class: "mono" },
            h("span", { id: "source-line" }, clean(where)),
            named ? ` in ${clean(node!.code, 80)}` : "",
          )
        : h(
            "div",
            { class: "quiet" },
            "The model does not say which line made this (export with torch 2.5 or later, or use save_intermediates).",
          ),
      file,
    );
  }

  /** The lines around, with the line itself in the middle of the view. */
  private async load(into: HTMLElement, file: string, line: number, code: string): Promise<void> {
    try {
      const text = await this.app.source.source(file, line);
      const lines = text.lines.map((t, i) =>
        h(
          "div",
          { class: text.first + i === line ? "lit" : "" },
          h("span", { class: "no" }, String(text.first + i)),
          ...highlight(clean(t), "py"),
        ),
      );
      const pre = h("pre", { class: "code", id: "source-text", tabIndex: 0 }, ...lines);
      fill(into, pre);
      const lit = pre.querySelector<HTMLElement>(".lit");
      if (lit) {
        pre.scrollTop = lit.offsetTop - pre.offsetTop - pre.clientHeight / 2;
        const below = lit.getBoundingClientRect().bottom - this.body.getBoundingClientRect().bottom;
        if (below > -8) this.body.scrollTop += below + Math.min(60, this.body.clientHeight / 2);
      }
    } catch {
      // Not below --source: the recorded line stands above.
      into.append(
        h(
          "p",
          { class: "quiet", id: "source-hint" },
          code ? "" : "The file is not shown. ",
          "To see the lines around it: plumb view … --source DIR, with the folder of the program.",
        ),
      );
    }
  }

  /** Calls that the exporter lost, for a finding that is the exporter's. */
  private lost(p?: Point): HTMLElement | null {
    const calls = this.app.session.lost_calls.filter((c) => !p || c.module === p.module || p.model_wrong);
    if (!calls.length) return null;
    return h(
      "div",
      { id: "lost" },
      h("h3", {}, "Calls that the exporter lost"),
      ...calls
        .slice(0, 20)
        .map((c) =>
          h(
            "div",
            {},
            h("div", { class: "mono" }, clean(`${c.file}:${c.line}  ${c.op} ${c.status}`)),
            c.source ? h("pre", { class: "lit" }, ...highlight(clean(c.source), "py")) : null,
          ),
        ),
    );
  }

  private text(p: Point, node: GraphNode | null): string {
    const g = this.app.graph;
    if (!node || !g) return p.input ? `${clean(p.value)}: an input of the model` : clean(`${p.value} = ${p.op}(…)`);
    const name = (v: number): string => (v < 0 ? "" : clean(g.values[v], 120));
    const attrs = node.attrs.length
      ? ` <${node.attrs.map(([k, t]) => `${clean(k, 60)} = ${clean(t, 200)}`).join(", ")}>`
      : "";
    const head = `${node.outputs.map(name).join(", ")} =\n  ${node.domain ? clean(node.domain, 60) + "." : ""}${clean(node.op, 60)}${attrs}\n  (${node.inputs.map(name).join(", ")})`;
    const types = [...node.inputs, ...node.outputs]
      .filter((v) => v >= 0)
      .map(
        (v) =>
          `  ${name(v)}: ${clean(g.types[v] || this.shape(g.values[v]), 120)}${g.weights.has(v) ? "  (weight)" : ""}`,
      );
    return `${head}\n\n${types.join("\n")}`;
  }

  /** The C of the step that makes the value; compiled when it is first opened. */
  private emitted(p: Point): HTMLElement | null {
    const { source, session } = this.app;
    if (!isServer(source) || !/^jit($|:)/.test(session.a.spec)) return null;
    const code = h("pre", { id: "emitted-text" }, "…");
    const e = h("details", { id: "emitted", open: this.emittedOpen }, h("summary", {}, "Emitted C"), code);
    const show = async (): Promise<void> => {
      try {
        this.emittedText ??= source.emitted();
        fill(code, ...highlight(step(await this.emittedText, p.value), "c"));
      } catch (error) {
        this.emittedText = null;
        code.textContent = clean((error as Error).message);
      }
    };
    e.ontoggle = () => {
      this.emittedOpen = e.open;
      if (e.open) void show();
    };
    return e;
  }
  private emittedOpen = false;
  private emittedText: Promise<{ schedule: string; c: string }> | null = null;

  private shape(value: string): string {
    const s = this.app.byValue.get(value)?.a;
    return s ? `${s.dtype}[${s.shape.join(",")}]` : "?";
  }

  /** Modules with values that diverge, the worst first. */
  private modules(): HTMLElement[] {
    if (this.badOf !== this.app.metric) {
      const rows = [...this.findBad()]
        .sort((x, y) => rankOf(y[1].worst.verdict) - rankOf(x[1].worst.verdict))
        .slice(0, 60);
      this.bad = rows.length ? this.moduleList(rows) : [];
      this.badOf = this.app.metric;
    }
    return this.bad;
  }
  private bad: HTMLElement[] = [];
  private badOf = -1; // the metric they are counted by
  private findBad(): Map<string, { n: number; worst: Point }> {
    const bad = new Map<string, { n: number; worst: Point }>(); // by module
    for (const p of this.app.session.points) {
      const c = signOf(p, this.app.metric);
      if (c !== "r" && rankOf(p.verdict) < 5) continue;
      const old = bad.get(p.module);
      if (!old) bad.set(p.module, { n: 1, worst: p });
      else {
        old.n++;
        if (rankOf(p.verdict) > rankOf(old.worst.verdict)) old.worst = p;
      }
    }
    return bad;
  }
  private moduleList(rows: [string, { n: number; worst: Point }][]): HTMLElement[] {
    return [
      h("h3", {}, "Diverging modules"),
      h(
        "ul",
        { class: "modules", id: "modules" },
        ...rows.map(([m, { n, worst }]) => {
          const c = signOf(worst, this.app.metric);
          return h(
            "li",
            {},
            h(
              "button",
              { onclick: () => this.app.select(worst) },
              h("span", { class: colourVars[c] }, dots[c]),
              ` ${clean(m || "(no module)", 160)} — ${n} diverging, worst ${worst.verdict}`,
            ),
          );
        }),
      ),
    ];
  }
}

/** The schedule says which step a value belongs to; the C has a comment before each step's functions. */
function step(text: { schedule: string; c: string }, value: string): string {
  let at = -1,
    found = -1;
  const lines: string[] = [];
  for (const line of text.schedule.split("\n")) {
    const head = /^step (\d+):/.exec(line);
    if (head) at = Number(head[1]);
    if (found < 0 && line.endsWith(` ${value}`)) found = at;
  }
  if (found < 0) return "no jit step computes this value";
  at = -1;
  for (const line of text.schedule.split("\n")) {
    const head = /^step (\d+):/.exec(line);
    if (head) at = Number(head[1]);
    if (at === found && line) lines.push(clean(line, 300));
  }
  let inside = false;
  lines.push("");
  for (const line of text.c.split("\n")) {
    const head = /^\/\* step (\d+):/.exec(line);
    if (head) inside = Number(head[1]) === found;
    if (inside) lines.push(clean(line, 300));
  }
  return lines.join("\n");
}

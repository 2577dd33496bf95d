// Where the selected operation comes from: module, line of the program, and its ONNX text.
import { colourVars, dots, type App } from "./app";
import { isServer, type GraphNode, type Point } from "./data";
import { clean, fill, h } from "./dom";
import { colourOf, rankOf } from "./rows";

export class SourcePane {
  private body = h("div", { class: "scroll", id: "source-body", tabIndex: 0 });
  readonly element = h(
    "section",
    { class: "pane source", "aria-label": "Source" },
    h("div", { class: "bar" }, h("strong", {}, "Source")),
    this.body,
  );
  constructor(private app: App) {}

  update(): void {
    const p = this.app.point;
    if (!p) {
      fill(this.body, ...this.modules());
      return;
    }
    const node = this.app.graph?.producer.get(p.value) ?? null;
    const file = h("div", { class: "file" });
    fill(
      this.body,
      this.crumbs(p),
      this.line(p, node),
      file,
      h("h3", {}, "ONNX"),
      h("pre", { class: "onnx", id: "onnx-text" }, this.text(p, node)),
      this.emitted(p),
      ...this.modules(),
    );
    if (this.app.source.live && node?.file && node.file.length < 1000 && node.line > 0)
      void this.load(file, node.file, node.line);
  }

  private crumbs(p: Point): HTMLElement {
    const parts = p.module ? p.module.slice(0, 1000).split(".") : [];
    const nav = h("nav", { class: "crumbs", id: "crumbs", "aria-label": "Module path" });
    const go = (module: string) => () =>
      this.app.store.set({ query: !module ? "" : /\s/.test(module) ? `module="${module}"` : `module=${module}` });
    nav.append(h("button", { onclick: go("") }, "model"));
    parts.forEach((part, i) =>
      nav.append(" › ", h("button", { onclick: go(parts.slice(0, i + 1).join(".")) }, clean(part, 80))),
    );
    return nav;
  }

  private line(p: Point, node: GraphNode | null): HTMLElement {
    const where = p.source || (node?.file ? `${node.file}:${node.line}` : "");
    return h(
      "div",
      {},
      h("h3", {}, "Program"),
      where
        ? h("div", { class: "mono", id: "source-line" }, clean(where))
        : h("div", { class: "quiet" }, "not recorded in the model (export with torch 2.5 or later)"),
      node?.code ? h("pre", { class: "lit" }, clean(node.code)) : null,
    );
  }

  private async load(into: HTMLElement, file: string, line: number): Promise<void> {
    try {
      const text = await this.app.source.source(file, line);
      fill(
        into,
        h(
          "pre",
          {},
          ...text.lines.map((t, i) =>
            h(
              "div",
              { class: text.first + i === line ? "lit" : "" },
              `${String(text.first + i).padStart(5)}  ${clean(t)}`,
            ),
          ),
        ),
      );
    } catch {
      /* the file is not below --source: the recorded line stands above */
    }
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
        code.textContent = step(await this.emittedText, p.value);
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
    const bad = new Map<string, { n: number; worst: Point }>();
    for (const p of this.app.session.points) {
      const c = colourOf(p, this.app.metric);
      if (c !== "r" && rankOf(p.verdict) < 5) continue;
      const old = bad.get(p.module);
      if (!old) bad.set(p.module, { n: 1, worst: p });
      else {
        old.n++;
        if (rankOf(p.verdict) > rankOf(old.worst.verdict)) old.worst = p;
      }
    }
    const rows = [...bad].sort((x, y) => rankOf(y[1].worst.verdict) - rankOf(x[1].worst.verdict)).slice(0, 60);
    if (!rows.length) return [];
    return [
      h("h3", {}, "Diverging modules"),
      h(
        "ul",
        { class: "modules", id: "modules" },
        ...rows.map(([m, { n, worst }]) => {
          const c = colourOf(worst, this.app.metric);
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

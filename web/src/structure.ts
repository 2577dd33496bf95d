// The structure pane: the graph as given, as A executes it, or B's; two of them merged or side by side, on one selection.
import type { App } from "./app";
import { isServer, type Graph, type GraphNode, type GraphOf, type Point } from "./data";
import { clean, fill, h } from "./dom";
import { Stage, type Scenery } from "./stage";
import {
  compareGraphs,
  graphOfSchedule,
  merge,
  pairsOf,
  placed,
  renamed,
  type Change,
  type Comparison,
  type Side,
} from "./variants";

const titles: Record<GraphOf, string> = { given: "A as given", executed: "A as executed", reference: "B" };
const words: Record<Change, string> = {
  same: "",
  changed: "changed",
  added: "added",
  removed: "removed",
  fused: "fused",
  folded: "folded to a constant",
};

export class Structure {
  readonly element: HTMLElement;
  private stages: Stage[] = [];
  private box = h("div", { class: "stages" });
  private picker = h("select", { id: "graph-of", "aria-label": "Graph" });
  private legend = h("span", { class: "quiet", id: "graph-legend", role: "status" });
  private graphs = new Map<GraphOf, Promise<Graph | null>>();
  private asked = 0;

  constructor(private app: App) {
    const button = (id: string, label: string, title: string, f: () => void): HTMLElement =>
      h("button", { id, title, onclick: f }, label);
    const sign = (id: string, label: string, title: string, f: () => void): HTMLElement =>
      h("button", { id, title, "aria-label": title, onclick: f }, label);
    this.picker.onchange = () => app.store.set({ graph: this.picker.value });
    this.element = h(
      "section",
      { class: "pane structure", "aria-label": "Structure" },
      h(
        "div",
        { class: "bar" },
        h("strong", {}, "Structure"),
        this.picker,
        button("fit", "Fit", "fit (space)", () => this.fit()),
        app.session.blame.length ? button("next-culprit", "▲ next", "next culprit (c)", () => app.culprit()) : null,
        h(
          "span",
          { class: "joined", role: "group", "aria-label": "Fold" },
          sign("fold-all", "⊟", "Fold all", () => app.store.set({ open: [] })),
          sign("fold", "−", "Fold the selection's module ([)", () => this.foldSelection()),
          sign("unfold", "+", "Unfold the selection's module (])", () => this.unfoldSelection()),
          sign("unfold-all", "⊞", "Unfold all", () => app.store.set({ open: ["*"] })),
        ),
        button("trace", "Trace", "dim everything that is not upstream or downstream (t)", () =>
          app.store.set({ trace: !app.state.trace }),
        ),
        button("path", "Path", "paths between the selection and the next value you select (a)", () => this.path()),
        sign("png", "↧", "Save as PNG", () => this.stages[0].save()),
        this.legend,
      ),
      this.box,
    );
    this.arrange(1);
    const pressed = (): void => {
      for (const key of ["trace", "path"] as const)
        this.element.querySelector(`#${key}`)!.setAttribute("aria-pressed", String(!!app.state[key]));
    };
    app.store.on(pressed);
    pressed();
  }

  private arrange(n: number): void {
    while (this.stages.length > n) this.stages.pop()!.close();
    while (this.stages.length < n) {
      const s = new Stage(this.app);
      s.canvas.id = this.stages.length ? "graph-b" : "graph";
      this.stages.push(s);
    }
    fill(this.box, ...this.stages.map((s) => s.element));
  }

  /** What can be shown of this session. */
  private choices(): string[] {
    const { session, source } = this.app,
      spec = session.a.spec;
    const executed = isServer(source) && spec !== "" && !/^eager($|:)/.test(spec) && !/^(cmd|plugin):/.test(spec);
    return [
      "given",
      ...(executed ? ["executed", "given+executed", "given|executed"] : []),
      ...(session.has_reference ? ["reference", "given+reference", "given|reference"] : []),
    ];
  }

  start(): void {
    if (!this.app.graph) {
      this.stages[0].say("This session has no model, so there is no graph to show.");
      this.picker.hidden = true;
      return;
    }
    const label = (c: string): string =>
      c.includes("+")
        ? `${titles.given} + ${titles[c.split("+")[1] as GraphOf]}, merged`
        : c.includes("|")
          ? `${titles.given} | ${titles[c.split("|")[1] as GraphOf]}, side by side`
          : titles[c as GraphOf];
    const choices = this.choices();
    fill(this.picker, ...choices.map((c) => h("option", { value: c }, label(c))));
    this.picker.hidden = choices.length < 2;
    void this.choose();
  }

  private graph(of: GraphOf): Promise<Graph | null> {
    const { source, session } = this.app,
      given = this.app.graph!;
    let found = this.graphs.get(of);
    if (!found) {
      found =
        of === "given"
          ? Promise.resolve(given)
          : of === "executed" && isServer(source) && /^jit($|:)/.test(session.a.spec)
            ? source.emitted().then((e) => graphOfSchedule(given, e.schedule))
            : source.graph(of);
      found.catch(() => this.graphs.delete(of));
      this.graphs.set(of, found);
    }
    return found;
  }

  /** Shows what the state asks for; what must be compiled first comes when it is there. */
  async choose(): Promise<void> {
    const given = this.app.graph,
      want = this.choices().includes(this.app.state.graph) ? this.app.state.graph : "given";
    if (!given) return;
    const ask = ++this.asked;
    this.picker.value = want;
    this.element.dataset.shown = "";
    fill(this.legend);
    if (want === "given") this.put(want, [this.alone(given, "")]);
    else {
      this.legend.textContent = "compiling…";
      try {
        const of = want.split(/[+|]/).pop() as GraphOf,
          other = await this.graph(of);
        if (ask !== this.asked) return;
        if (!other) throw new Error(`graph not available: ${titles[of]}`);
        const c = compareGraphs(given, other, of === "reference" ? pairsOf(this.app.session) : renamed(other));
        const right = placed(other, c.right, given);
        this.put(
          want,
          want.includes("+")
            ? [this.merged(given, right, c, of)]
            : want.includes("|")
              ? [this.left(given, c, of, right), this.right(right, given, c, of)]
              : [this.right(right, given, c, of)],
        );
        this.count(c, of);
      } catch (e) {
        if (ask !== this.asked) return;
        this.put("given", [this.alone(given, "")]);
        this.picker.value = "given";
        this.legend.textContent = clean((e as Error).message, 200);
      }
    }
  }

  private put(name: string, sceneries: Scenery[]): void {
    this.arrange(sceneries.length);
    sceneries.forEach((s, i) => this.stages[i].show(s));
    if (this.app.selected) this.reveal();
    this.element.dataset.shown = name;
  }

  /** How many nodes are what, and what the signs mean. */
  private count(c: Comparison, of: GraphOf): void {
    const n = (s: Side, k: Change): number => s.change.filter((x) => x === k).length;
    const far = of === "reference" ? "B" : "running";
    const parts: [string, number][] = [
      ["⊂ fused", n(c.left, "fused") + n(c.right, "fused")],
      ["k folded", n(c.left, "folded")],
      ["≠ changed", n(c.left, "changed")],
      [`− not ${far === "B" ? "in B" : "run"}`, n(c.left, "removed")],
      [`+ only ${far}`, n(c.right, "added")],
    ];
    this.legend.textContent =
      parts
        .filter((p) => p[1])
        .map(([t, k]) => `${t} ${k}`)
        .join(" · ") || "the same operations";
  }

  // ---- what a stage shows ----

  private points(g: Graph): (Point | null)[] {
    return g.nodes.map(
      (n) =>
        n.outputs.map((v) => this.app.byValue.get(g.values[v]) ?? this.app.blamed(g.values[v])).find((p) => p) ?? null,
    );
  }

  private alone(g: Graph, title: string): Scenery {
    return {
      graph: g,
      title,
      pointOf: this.points(g),
      change: null,
      told: () => "",
      nodeOf: (p) => g.producer.get(p.value) ?? null,
    };
  }

  private told(s: Side, other: Graph) {
    return (n: number): string =>
      s.into[n] >= 0
        ? `fused into ${clean(other.nodes[s.into[n]].op, 40)} ${clean(other.values[other.nodes[s.into[n]].outputs[0]] ?? "", 80)}`
        : words[s.change[n]];
  }

  private left(g: Graph, c: Comparison, of: GraphOf, other: Graph): Scenery {
    void of;
    return { ...this.alone(g, titles.given), change: c.left.change, told: this.told(c.left, other) };
  }

  private right(g: Graph, given: Graph, c: Comparison, of: GraphOf): Scenery {
    const { byValue, session } = this.app,
      byB = new Map(session.points.map((p) => [p.counterpart, p] as const));
    const find = (v: number): Point | undefined =>
      of === "executed" ? byValue.get(g.stands_for?.[v] ?? g.values[v]) : byB.get(g.values[v]);
    const pointOf = g.nodes.map((n) => n.outputs.map(find).find((p) => p) ?? null),
      names = of === "executed" ? renamed(g) : pairsOf(session);
    const nodeOf = (p: Point): GraphNode | null => {
      const own = g.producer.get(names.get(p.value) ?? p.value);
      if (own) return own;
      const at = given.producer.get(p.value)?.index ?? -1,
        to = at < 0 ? -1 : c.left.twin[at] >= 0 ? c.left.twin[at] : c.left.into[at];
      return g.nodes[to] ?? null;
    };
    return { graph: g, title: titles[of], pointOf, change: c.right.change, told: this.told(c.right, given), nodeOf };
  }

  private merged(given: Graph, other: Graph, c: Comparison, of: GraphOf): Scenery {
    const m = merge(given, other, c),
      left = this.points(given),
      right = this.right(other, given, c, of).pointOf;
    const at = new Map(m.left.map((l, i) => [l, i] as const));
    const [tellLeft, tellRight] = [this.told(c.left, other), this.told(c.right, given)];
    return {
      graph: m.graph,
      title: "",
      pointOf: m.graph.nodes.map((_, i) => (m.left[i] >= 0 ? left[m.left[i]] : right[m.right[i]])),
      change: m.change,
      told: (n) => (m.left[n] >= 0 ? tellLeft(m.left[n]) : tellRight(m.right[n])),
      nodeOf: (p) => {
        const n = given.producer.get(p.value);
        return n ? (m.graph.nodes[at.get(n.index) ?? -1] ?? null) : null;
      },
    };
  }

  // ---- all stages ----

  fit(): void {
    for (const s of this.stages) s.fit();
  }
  zoom(by: number): void {
    for (const s of this.stages) s.zoom(by);
  }
  reveal(): void {
    for (const s of this.stages) s.reveal();
  }
  relayout(): void {
    for (const s of this.stages) s.relayout();
  }
  recolour(): void {
    for (const s of this.stages) s.recolour();
  }
  redraw(): void {
    for (const s of this.stages) s.redraw();
  }
  clearNote(): void {
    for (const s of this.stages) s.clearNote();
  }
  /** From the selection to what is selected next; the second time it ends. */
  path(): void {
    const { state, store, selected } = this.app;
    if (state.path) store.set({ path: "" });
    else if (selected) store.set({ path: selected.value });
    else this.stages[0].say("Select a value first: a path starts at the selection.");
  }
  foldSelection(): void {
    this.stages[0].foldSelection();
  }
  unfoldSelection(): void {
    this.stages[0].unfoldSelection();
  }
}

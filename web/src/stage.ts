// One graph on a canvas: folded by module, only what is visible is laid out and drawn.
import { colourVars, figureOf, opOf, shapeOf, verdictWords, type App } from "./app";
import type { Graph, GraphNode, Point } from "./data";
import { Box, clean, cssColour, fill, h, sized, tip } from "./dom";
import { isUnfolded, outline, rollUp, scene, type Edge, type Item, type Outline, type Scene } from "./groups";
import { signOf } from "./rows";
import type { Change } from "./variants";

declare const WORKER_SOURCE: string;
const MARGIN = 16; // around a graph that is fitted
const SPECKS = 0.12; // zoomed out further, boxes have no borders
let workerUrl = "";

/** What a stage shows: a graph, its points, and what became of each node on the other side. */
export interface Scenery {
  graph: Graph;
  title: string;
  pointOf: (Point | null)[];
  change: Change[] | null;
  told: (node: number) => string;
  nodeOf(p: Point): GraphNode | null;
}
const signs: Record<Change, string> = { same: "", changed: "≠", added: "+", removed: "−", fused: "⊂", folded: "k" };

/** Colours of a model that nothing was compared with: what computes, what bends, what norms, what only moves. */
const families: [string, RegExp][] = [
  ["a", /^(Conv|Gemm|MatMul|QLinear|Einsum|Attention|LSTM|GRU|RNN)/],
  ["key", /(Relu|Sigmoid|Tanh|Gelu|Softmax|Erf|Swish|Elu)$/i],
  ["b", /Norm/],
];
const family = (op: string): string => families.find(([, test]) => test.test(op))?.[0] ?? "-";

export class Stage {
  readonly canvas = h("canvas", { tabIndex: 0, id: "graph", role: "img", "aria-label": "Graph" });
  private mini = h("canvas", { class: "mini", "aria-hidden": "true" });
  private note = h("div", { class: "note", role: "status", id: "graph-note" });
  private title = h("div", { class: "stage-title" });
  readonly element = h("div", { class: "stage" }, this.canvas, this.mini, this.note, this.title);
  private box = new Box(this.element, () => {
    if (this.fitNext) this.settle();
    else this.redraw();
  });
  private scenery: Scenery | null = null;
  private workerFailed = false;
  private outline: Outline | null = null;
  private shown: Scene = { items: [], edges: [], width: 0, height: 0 };
  private rolled = new Map<string, Record<string, number>>();
  private x = 0;
  private y = 0;
  private k = 1;
  private worker: Worker | null = null;
  private asked = 0;
  private laid = 0; // of what was asked for, what is there
  private pending = false;
  private keptGroups = new Set<string>();
  private kept: Set<number> | null = null; // nodes up- and downstream of the selection
  private fitNext = true;
  private colours: Record<string, string> = {};

  constructor(private app: App) {
    this.listen();
  }

  say(text: string): void {
    this.note.textContent = text;
  }

  show(s: Scenery): void {
    this.scenery = s;
    this.outline = outline(s.graph);
    this.title.textContent = s.title;
    this.title.hidden = !s.title;
    this.fitNext = true;
    this.shown = { items: [], edges: [], width: 0, height: 0 };
    fill(this.note);
    if (!this.worker && !this.workerFailed) {
      try {
        workerUrl ||= URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" })); // one, however many stages come and go
        this.worker = new Worker(workerUrl);
        this.worker.onmessage = (e) => {
          if (e.data.id === this.asked) this.take(e.data.scene);
        };
        this.worker.onerror = () => {
          this.worker = null;
          this.workerFailed = true;
          this.relayout();
        };
      } catch {
        this.workerFailed = true;
      }
    }
    this.worker?.postMessage({ outline: this.outline });
    this.recolour();
    this.relayout();
  }

  close(): void {
    this.worker?.terminate();
    this.worker = null;
  }

  /** Groups above the selected node are opened, so that it can be seen. */
  reveal(): void {
    const node = this.selectedNode();
    this.trace();
    if (!node || !this.outline) {
      this.redraw();
      return;
    }
    const open = new Set(this.app.state.open);
    let changed = false;
    for (let g = this.outline.nodeGroup[node.index]; g > 0; g = this.outline.parents[g]) {
      const id = this.outline.ids[g];
      if (isUnfolded(open, id)) continue;
      changed = true;
      if (open.has("*")) open.delete(`!${id}`);
      else open.add(id);
    }
    if (changed) this.app.store.set({ open: [...open] });
    else this.centre();
  }

  relayout(): void {
    if (!this.outline) return;
    const open = this.app.state.open;
    this.asked++;
    this.tellBusy();
    if (this.worker) this.worker.postMessage({ id: this.asked, open });
    else this.take(scene(this.outline, new Set(open)));
  }

  recolour(): void {
    const { app } = this;
    if (!this.scenery || !this.outline) return;
    this.rolled = rollUp(this.outline, this.scenery.pointOf, (p) => signOf(p, app.metric));
    for (const c of "gyr-") this.colours[c] = cssColour(colourVars[c]);
    for (const name of [
      "bad-tint",
      "key",
      "a",
      "b",
      "text",
      "line",
      "panel",
      "panel2",
      "select",
      "faint",
      "soft",
      "good",
      "mid",
    ])
      this.colours[name] = cssColour(name);
    this.miniDrawn = false;
    this.trace();
    this.redraw();
  }

  /** Whether the picture is still to follow what was chosen: a layout or a frame is under way. */
  private tellBusy(): void {
    this.canvas.setAttribute("aria-busy", String(this.pending || this.laid !== this.asked));
  }

  private take(s: Scene): void {
    this.shown = s;
    this.miniDrawn = false;
    this.laid = this.asked;
    if (this.fitNext) this.settle();
    if (this.app.selected) this.centre();
    else this.redraw();
    const n = s.items.filter((i) => i.node >= 0).length,
      folded = s.items.length - n;
    this.canvas.setAttribute("aria-label", `Graph: ${n} operations and ${folded} modules shown`);
    this.canvas.dataset.items = String(s.items.length);
    this.canvas.dataset.nodes = String(n);
  }

  private selectedNode(): GraphNode | null {
    const p = this.app.selected;
    return (p && this.scenery?.nodeOf(p)) || null;
  }

  /** The item that stands for the selection: its node, or the folded group around it. */
  private selectedItem(): Item | null {
    const node = this.selectedNode(),
      o = this.outline;
    if (!node || !o) return null;
    const own = this.shown.items.find((i) => i.node === node.index);
    if (own) return own;
    const above = new Set<string>();
    for (let g = o.nodeGroup[node.index]; g > 0; g = o.parents[g]) above.add(o.ids[g]);
    return this.shown.items.find((i) => i.node < 0 && !i.open && above.has(i.group)) ?? null;
  }

  /** Everything that is reached from a node along the edges, or against them; with the node itself. */
  private reached(node: number, against: boolean): Set<number> {
    const [from, to] = against ? [1, 0] : [0, 1],
      next = new Map<number, number[]>();
    for (const e of this.outline!.edges) {
      const l = next.get(e[from]);
      if (l) l.push(e[to]);
      else next.set(e[from], [e[to]]);
    }
    const seen = new Set<number>([node]),
      stack = [node];
    for (let n = stack.pop(); n !== undefined; n = stack.pop())
      for (const v of next.get(n) ?? [])
        if (!seen.has(v)) {
          seen.add(v);
          stack.push(v);
        }
    return seen;
  }

  /** What lies on a path between two nodes, whichever comes first. */
  private between(a: number, b: number): Set<number> {
    for (const [from, to] of [
      [a, b],
      [b, a],
    ]) {
      const down = this.reached(from, false);
      if (!down.has(to)) continue;
      const up = this.reached(to, true);
      return new Set([...down].filter((n) => up.has(n)));
    }
    return new Set();
  }

  /** Says what the path is, and what is on it. */
  private alongPath(end: GraphNode | null): Set<number> | null {
    const { app } = this,
      start = app.byValue.get(app.state.path) ?? app.others.get(app.state.path),
      first = start && this.scenery?.nodeOf(start);
    if (!first) return null;
    const name = clean(app.state.path, 60);
    if (!end || end === first) {
      this.say(`Path from ${name}: select the other end.`);
      return null;
    }
    const on = this.between(first.index, end.index),
      inside = on.size - 2;
    if (!on.size) {
      this.say(`No path between ${name} and the selection.`);
      return new Set([first.index, end.index]);
    }
    this.say(
      `Path from ${name}: ${inside < 1 ? "directly connected" : inside === 1 ? "1 operation between" : `${inside} operations between`}. Path again ends it.`,
    );
    return on;
  }

  private trace(): void {
    const node = this.selectedNode(),
      o = this.outline,
      { state } = this.app;
    this.kept = null;
    if (!o) return;
    if (state.path) this.kept = this.alongPath(node);
    else if (state.trace && node)
      this.kept = new Set([...this.reached(node.index, false), ...this.reached(node.index, true)]);
    this.keptGroups.clear();
    for (const n of this.kept ?? [])
      for (let g = o.nodeGroup[n]; g > 0 && !this.keptGroups.has(o.ids[g]); g = o.parents[g])
        this.keptGroups.add(o.ids[g]);
  }

  /** All of it, however small. */
  fit(): void {
    this.place(0.02);
  }
  /** At first a tall graph is readable at its top rather than whole and tiny. */
  private settle(): void {
    this.place(0.35);
  }
  private place(least: number): void {
    const { width: w, height: hgt } = this.box;
    if (!w || !this.shown.width) return;
    this.fitNext = false;
    const free = (n: number): number => Math.max(40, n - 2 * MARGIN),
      across = free(w) / this.shown.width;
    this.k = Math.min(1.2, Math.max(0.005, Math.min(across, free(hgt) / this.shown.height)));
    if (this.k < least) this.k = Math.min(0.8, Math.max(this.k, across));
    this.x = w / 2 - (this.shown.width * this.k) / 2;
    this.y = Math.max(MARGIN, hgt / 2 - (this.shown.height * this.k) / 2);
    this.redraw();
  }

  private centre(): void {
    const item = this.selectedItem();
    if (item) {
      const { width: w, height: hgt } = this.box;
      const far = this.k < 0.5;
      if (far) this.k = 0.9;
      const [cx, cy] = [
        this.x + (item.x + item.width / 2) * this.k,
        this.y + (item.y + Math.min(item.height, 60) / 2) * this.k,
      ];
      if (far || cx < 60 || cx > w - 60 || cy < 40 || cy > hgt - 40) {
        this.x += w / 2 - cx;
        this.y += hgt / 2 - cy;
      }
    }
    this.redraw();
  }

  toggle(id: string): void {
    const open = this.app.state.open;
    if (open.includes("*"))
      this.app.store.set({ open: open.includes(`!${id}`) ? open.filter((g) => g !== `!${id}`) : [...open, `!${id}`] });
    else
      this.app.store.set({
        open: open.includes(id) ? open.filter((g) => g !== id && !g.startsWith(`${id}.`)) : [...open, id],
      });
  }

  foldSelection(): void {
    const node = this.selectedNode(),
      o = this.outline;
    if (!node || !o) return;
    let g = o.nodeGroup[node.index];
    while (g > 0 && !isUnfolded(new Set(this.app.state.open), o.ids[g])) g = o.parents[g];
    if (g > 0) this.toggle(o.ids[g]);
  }

  unfoldSelection(): void {
    const node = this.selectedNode(),
      o = this.outline;
    if (!node || !o) return;
    const up: number[] = [];
    for (let g = o.nodeGroup[node.index]; g > 0; g = o.parents[g]) up.unshift(g);
    const next = up.find((g) => !isUnfolded(new Set(this.app.state.open), o.ids[g]));
    if (next !== undefined) this.toggle(o.ids[next]);
  }

  private listen(): void {
    let drag: { x: number; y: number; moved: boolean } | null = null;
    this.canvas.onpointerdown = (e) => {
      drag = { x: e.clientX, y: e.clientY, moved: false };
      this.canvas.setPointerCapture(e.pointerId);
    };
    this.canvas.onpointermove = (e) => {
      if (!drag) {
        const item = this.at(e.offsetX, e.offsetY);
        this.canvas.style.cursor = item ? "pointer" : "grab";
        tip(item ? this.tell(item) : "", e.clientX, e.clientY);
        return;
      }
      const [dx, dy] = [e.clientX - drag.x, e.clientY - drag.y];
      if (Math.abs(dx) + Math.abs(dy) > 3) drag.moved = true;
      if (!drag.moved) return;
      this.x += dx;
      this.y += dy;
      drag.x = e.clientX;
      drag.y = e.clientY;
      this.redraw();
    };
    this.canvas.onpointerleave = () => tip("");
    this.canvas.onkeydown = (e) => this.key(e);
    this.canvas.onpointerup = (e) => {
      const clicked = drag && !drag.moved;
      drag = null;
      if (clicked) this.click(e.offsetX, e.offsetY);
    };
    this.canvas.ondblclick = (e) => {
      const item = this.at(e.offsetX, e.offsetY);
      if (item && item.node < 0) this.toggle(item.group);
    };
    this.canvas.onwheel = (e) => {
      e.preventDefault();
      if (e.ctrlKey || e.metaKey) this.zoom(Math.exp(-e.deltaY / 300), e.offsetX, e.offsetY);
      else {
        this.x -= e.deltaX;
        this.y -= e.deltaY;
        this.redraw();
      }
    };
    this.mini.onclick = (e) => {
      const s = Math.min(140 / this.shown.width, 100 / this.shown.height);
      this.x = this.box.width / 2 - (e.offsetX / s) * this.k;
      this.y = this.box.height / 2 - (e.offsetY / s) * this.k;
      this.redraw();
    };
  }

  zoom(by: number, x = this.box.width / 2, y = this.box.height / 2): void {
    const k = Math.min(4, Math.max(0.01, this.k * by));
    this.x = x - ((x - this.x) * k) / this.k;
    this.y = y - ((y - this.y) * k) / this.k;
    this.k = k;
    this.redraw();
  }

  private at(px: number, py: number): Item | null {
    const x = (px - this.x) / this.k,
      y = (py - this.y) / this.k;
    let best: Item | null = null;
    for (const i of this.shown.items)
      if (
        x >= i.x &&
        x <= i.x + i.width &&
        y >= i.y &&
        y <= i.y + (i.open ? 26 : i.height) &&
        (!best || i.depth >= best.depth)
      )
        best = i;
    return best;
  }

  /** What a box is, for the pointer. */
  private tell(i: Item): string {
    const s = this.scenery!;
    if (i.node < 0) {
      const roll = this.rolled.get(i.group);
      const parts = roll
        ? [
            roll.C ? `${roll.C} ${roll.C === 1 ? "culprit" : "culprits"}` : "",
            roll.r ? `${roll.r} red` : "",
            roll.y ? `${roll.y} yellow` : "",
            roll.g ? `${roll.g} green` : "",
            roll["-"] ? `${roll["-"]} ${this.app.session.kind === "model" ? "operations" : "not compared"}` : "",
          ].filter((x) => x)
        : [];
      return `${clean(i.group.replace(/#.*/, "") || i.label, 120)}\n${parts.join(", ")}\nclick to ${i.open ? "fold" : "unfold"}`;
    }
    const n = s.graph.nodes[i.node],
      p = s.pointOf[i.node],
      name = s.graph.values[n.outputs.find((v) => v >= 0) ?? -1] ?? n.name;
    const b = p ? this.app.opOfB(p) : "";
    return [
      p ? (b && b !== p.op ? `${opOf(p)} ↔ ${b}` : opOf(p)) : n.op,
      clean(name, 160),
      p && p.verdict !== "not recorded" ? `${p.verdict}: ${verdictWords[p.verdict] ?? ""}` : "",
      p && p.measured ? figureOf(p, this.app.metric) : "",
      clean(s.graph.types[n.outputs[0]] ?? "", 80),
      s.told(i.node),
    ]
      .filter((x) => x)
      .join("\n");
  }

  /** Along the edges: down to what reads the selection, up to what it reads, sideways to its siblings. */
  private key(e: KeyboardEvent): void {
    const o = this.outline,
      s = this.scenery;
    if (!o || !s || e.ctrlKey || e.altKey || e.metaKey) return;
    if (e.key === "Enter") {
      const item = this.selectedItem();
      if (item && item.node < 0) this.toggle(item.group);
      return;
    }
    if (!["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].includes(e.key)) return;
    e.preventDefault();
    e.stopPropagation();
    const now = this.selectedNode()?.index ?? -1;
    const down = o.edges.filter(([u]) => u === now).map(([, v]) => v),
      up = o.edges.filter(([, v]) => v === now).map(([u]) => u);
    let to: number | undefined;
    if (now < 0) to = o.nodeGroup.findIndex((g) => g >= 0);
    else if (e.key === "ArrowDown") to = down[0];
    else if (e.key === "ArrowUp") to = up[0];
    else {
      const beside = new Set<number>();
      for (const [u, v] of o.edges) {
        if (up.includes(u)) beside.add(v);
        if (down.includes(v)) beside.add(u);
      }
      beside.add(now);
      const all = [...beside].sort((x, y) => x - y),
        at = all.indexOf(now) + (e.key === "ArrowRight" ? 1 : -1);
      to = all[(at + all.length) % all.length];
    }
    if (to !== undefined && to >= 0 && to !== now) this.pick(to);
  }

  private pick(node: number): void {
    const s = this.scenery!,
      p = s.pointOf[node],
      n = s.graph.nodes[node];
    if (p) this.app.select(p);
    else {
      const name = n.outputs.map((v) => s.graph.values[v]).find((v) => this.app.others.has(v));
      if (name !== undefined) this.app.selectValue(name);
    }
  }

  private click(px: number, py: number): void {
    const item = this.at(px, py);
    tip("");
    if (!item) return;
    if (item.node >= 0) {
      const s = this.scenery!,
        p = s.pointOf[item.node],
        told = s.told(item.node);
      this.pick(item.node);
      this.note.textContent = [clean(item.label, 60), p ? "" : "not recorded by A", told].filter((x) => x).join(": ");
      if (p && !told) fill(this.note);
    } else if ((py - this.y) / this.k < item.y + 26 || !item.open) this.toggle(item.group);
  }

  redraw(): void {
    if (this.pending) return;
    this.pending = true;
    this.tellBusy();
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
      this.tellBusy();
    });
  }

  private draw(): void {
    const start = performance.now(),
      { width: w, height: hgt } = this.box;
    if (!w || (!this.shown.items.length && this.laid !== this.asked)) return; // what was shown stays until the next is laid out
    const g = sized(this.canvas, w, hgt),
      { x, y, k } = this;
    const [left, top, right, bottom] = [-x / k, -y / k, (w - x) / k, (hgt - y) / k];
    const visible = (i: Item): boolean => i.x < right && i.x + i.width > left && i.y < bottom && i.y + i.height > top;
    g.translate(x, y);
    g.scale(k, k);
    const selected = this.selectedItem();
    for (const i of this.shown.items) if (i.open && visible(i)) this.drawFrame(g, i);
    this.drawEdges(g, [left, top, right, bottom]);
    for (const i of this.shown.items) if (!i.open && visible(i)) this.drawBox(g, i, i === selected);
    if (selected?.open) this.outlineOf(g, selected);
    this.drawMini();
    this.canvas.dataset.frame = (performance.now() - start).toFixed(1);
  }

  private drawFrame(g: CanvasRenderingContext2D, i: Item): void {
    g.fillStyle = i.depth % 2 ? this.colours.panel2 : this.colours.panel;
    g.strokeStyle = this.colours.line;
    g.beginPath();
    g.roundRect(i.x, i.y, i.width, i.height, 6);
    g.fill();
    g.stroke();
    if (this.k > 0.25) {
      g.fillStyle = this.colours.text;
      g.font = "600 12px system-ui, sans-serif";
      g.fillText(`▾ ${clean(i.label, 60)}`, i.x + 8, i.y + 17, i.width - 16);
    }
  }

  /** Edges of one look are one path: thousands of strokes would take longer than a frame. */
  private drawEdges(g: CanvasRenderingContext2D, [left, top, right, bottom]: number[]): void {
    const looks = new Map<string, { path: Path2D; colour: string; width: number }>(),
      told: [Edge, number, number][] = [];
    for (const e of this.shown.edges) {
      const a = this.shown.items[e.from],
        b = this.shown.items[e.to];
      if (!a || !b) continue;
      const [ax, ay, bx, by] = [a.x + a.width / 2, a.y + a.height, b.x + b.width / 2, b.y],
        straight = Number.isNaN(e.lane);
      if (Math.max(ay, by) < top || Math.min(ay, by) > bottom) continue;
      if (Math.max(ax, bx, straight ? ax : e.lane) < left || Math.min(ax, bx, straight ? ax : e.lane) > right) continue;
      const colour = this.kept && !(this.isKept(a) && this.isKept(b)) ? this.colours.faint : this.colours.line,
        width = Math.min(4, 1 + Math.log2(e.count) / 2),
        key = `${colour} ${width}`;
      let look = looks.get(key);
      if (!look) looks.set(key, (look = { path: new Path2D(), colour, width }));
      look.path.moveTo(ax, ay);
      if (straight) {
        look.path.bezierCurveTo(ax, ay + 16, bx, by - 16, bx, by);
        if (this.k > 0.75) told.push([e, (ax + bx) / 2 + 3, (ay + by) / 2 + 3]);
      } else this.lane(look.path, e.lane, [ax, ay, bx, by], top, bottom);
    }
    for (const { path, colour, width } of looks.values()) {
      g.strokeStyle = colour;
      g.lineWidth = width;
      g.stroke(path);
    }
    this.drawShapes(g, told);
  }

  /** A long edge runs beside the boxes; of its line only what is seen is drawn. */
  private lane(path: Path2D, x: number, [ax, ay, bx, by]: number[], top: number, bottom: number): void {
    const down = (y: number): number => Math.min(bottom + 9, Math.max(top - 9, y));
    if (ay + 26 > top) path.bezierCurveTo(ax, ay + 14, x, ay + 6, x, ay + 26);
    else path.moveTo(x, down(ay + 26));
    path.lineTo(x, down(by - 26));
    if (by - 26 < bottom) {
      path.moveTo(x, by - 26);
      path.bezierCurveTo(x, by - 6, bx, by - 14, bx, by);
    }
  }

  /** Shapes of the values beside their edges. */
  private drawShapes(g: CanvasRenderingContext2D, edges: [Edge, number, number][]): void {
    g.fillStyle = this.colours.text;
    g.globalAlpha = 0.6;
    g.font = "9px ui-monospace, monospace";
    for (const [e, x, y] of edges) {
      const p = this.app.byValue.get(this.scenery!.graph.values[e.value]),
        shape = p?.a?.shape ?? p?.b?.shape;
      if (shape) g.fillText(`[${shape.join(",")}]`, x, y);
    }
    g.globalAlpha = 1;
  }

  private isKept(i: Item): boolean {
    if (!this.kept || !this.outline) return true;
    return i.node >= 0 ? this.kept.has(i.node) : this.keptGroups.has(i.group);
  }

  private outlineOf(g: CanvasRenderingContext2D, i: Item): void {
    g.strokeStyle = this.colours.select;
    g.lineWidth = 3;
    g.setLineDash([]);
    g.beginPath();
    g.roundRect(i.x - 3, i.y - 3, i.width + 6, i.height + 6, 7);
    g.stroke();
    g.lineWidth = 1;
  }

  /** The colour of a box: of its verdict, or of what kind of operation it is when nothing was compared. */
  private paintOf(i: Item): string {
    if (i.node < 0) {
      const roll = this.rolled.get(i.group);
      return this.colours[!roll ? "-" : roll.r ? "r" : roll.y ? "y" : roll.g ? "g" : "-"];
    }
    const p = this.scenery!.pointOf[i.node];
    if (!p) return this.colours.faint;
    if (this.app.session.kind === "model") return this.colours[family(p.op)];
    return this.colours[signOf(p, this.app.metric)];
  }

  private drawBox(g: CanvasRenderingContext2D, i: Item, selected: boolean): void {
    const p = i.node >= 0 ? this.scenery!.pointOf[i.node] : null,
      change = i.node >= 0 ? (this.scenery!.change?.[i.node] ?? null) : null,
      culprit = p?.verdict === "culprit",
      paint = this.paintOf(i);
    if (this.k < SPECKS) {
      this.drawSpeck(g, i, paint, selected);
      return;
    }
    const gone = change === "removed" || change === "fused" || change === "folded";
    g.globalAlpha = this.isKept(i) ? 1 : 0.25;
    g.fillStyle = this.k < 0.35 ? paint : culprit ? this.colours["bad-tint"] : this.colours.panel;
    g.strokeStyle = i.node < 0 || !p ? this.colours.line : paint;
    g.lineWidth = culprit ? 2.5 : 1.2;
    g.setLineDash(
      change === "fused" || (!change && p && p.relation !== "1:1" && p.relation !== "")
        ? [6, 3]
        : gone || (i.node >= 0 && !p)
          ? [2, 3]
          : [],
    );
    g.beginPath();
    g.roundRect(i.x, i.y, i.width, i.height, 6);
    g.fill();
    g.stroke();
    g.setLineDash([]);
    if (this.k >= 0.35) {
      if (i.node >= 0) this.drawOperation(g, i, paint, change, gone);
      else this.drawGroup(g, i);
    }
    g.globalAlpha = 1;
    if (selected) this.outlineOf(g, i);
  }

  /** From far away a box is its colour: thousands of them are on the screen. */
  private drawSpeck(g: CanvasRenderingContext2D, i: Item, paint: string, selected: boolean): void {
    g.globalAlpha = this.isKept(i) ? 1 : 0.25;
    g.fillStyle = paint;
    g.fillRect(i.x, i.y, i.width, i.height);
    g.globalAlpha = 1;
    if (selected) this.outlineOf(g, i);
  }

  private drawOperation(
    g: CanvasRenderingContext2D,
    i: Item,
    paint: string,
    change: Change | null,
    gone: boolean,
  ): void {
    const p = this.scenery!.pointOf[i.node],
      sign = change ? signs[change] : "",
      model = this.app.session.kind === "model";
    g.fillStyle = paint;
    g.font = "12px system-ui, sans-serif";
    if (model) {
      g.beginPath();
      g.roundRect(i.x, i.y, 6, i.height, [6, 0, 0, 6]);
      g.fill();
    } else if (p) g.fillText(shapeOf(p, this.app.metric), i.x + 8, i.y + 19);
    g.fillStyle = gone ? this.colours.soft : this.colours.text;
    g.font = `${p?.verdict === "culprit" ? "650 " : ""}12px system-ui, sans-serif`;
    const left = model ? 14 : p ? 25 : 10;
    g.fillText(clean(i.label, 60), i.x + left, i.y + 19, i.width - left - (sign ? 22 : 6));
    if (!sign) return;
    g.font = "700 12px ui-monospace, monospace";
    g.fillStyle = this.colours[change === "added" ? "good" : change === "changed" ? "select" : "mid"];
    g.fillText(sign, i.x + i.width - 14, i.y + 19);
  }

  /** How the values inside a folded group are: a bar of its colours, and how many of them are culprits. */
  private drawGroup(g: CanvasRenderingContext2D, i: Item): void {
    const roll = this.rolled.get(i.group);
    g.fillStyle = this.colours.text;
    g.font = "600 12px system-ui, sans-serif";
    let room = i.width - 16;
    if (roll) {
      const total = roll.g + roll.y + roll.r + roll["-"],
        width = i.width - 16;
      let at = i.x + 8;
      for (const c of "ryg-") {
        const part = (roll[c] / total) * width;
        if (!part) continue;
        g.fillStyle = this.colours[c === "-" ? "faint" : c];
        g.fillRect(at, i.y + 29, Math.max(part - 1, 1.5), 5);
        at += part;
      }
      g.font = "11px system-ui, sans-serif";
      const text = roll.C ? `▲ ${roll.C} of ${total}` : String(total),
        w = g.measureText(text).width;
      g.fillStyle = roll.C ? this.colours.r : this.colours.soft;
      g.fillText(text, i.x + i.width - 8 - w, i.y + 18);
      room -= w + 6;
    }
    g.fillStyle = this.colours.text;
    g.font = "600 12px system-ui, sans-serif";
    g.fillText(`▸ ${clean(i.label, 60)}`, i.x + 8, i.y + 18, room);
  }

  private drawMini(): void {
    const s = Math.min(140 / this.shown.width, 100 / this.shown.height),
      { x, y, k } = this;
    const whole =
      x >= 0 && y >= 0 && x + this.shown.width * k <= this.box.width && y + this.shown.height * k <= this.box.height;
    this.mini.hidden = whole; // all of it is seen anyway
    if (whole) return;
    const [w, hgt] = [Math.max(8, this.shown.width * s), Math.max(8, this.shown.height * s)];
    if (!this.miniDrawn) this.paintMini(w, hgt, s);
    this.miniDrawn = true;
    const g = sized(this.mini, w, hgt);
    g.drawImage(this.miniBase, 0, 0, w, hgt);
    g.strokeStyle = this.colours.select;
    g.lineWidth = 1.5;
    g.strokeRect((-x / k) * s, (-y / k) * s, (this.box.width / k) * s, (this.box.height / k) * s);
  }

  private miniBase = document.createElement("canvas"); // the minimap without the frame of what is visible
  private miniDrawn = false;
  private paintMini(w: number, hgt: number, s: number): void {
    const g = sized(this.miniBase, w, hgt),
      red: Item[] = [];
    for (const i of this.shown.items) {
      if (i.open) continue;
      const roll = i.node < 0 ? this.rolled.get(i.group) : null;
      if (roll?.C || this.scenery!.pointOf[i.node]?.verdict === "culprit") red.push(i);
      g.fillStyle = this.paintOf(i);
      g.fillRect(i.x * s, i.y * s, Math.max(1.5, i.width * s), Math.max(1.5, i.height * s));
    }
    g.fillStyle = this.colours.r;
    for (const i of red) g.fillRect(i.x * s - 2, i.y * s - 1, i.width * s + 4, Math.max(4, i.height * s + 2));
  }

  save(): void {
    this.canvas.toBlob((b) => {
      if (!b) return;
      const url = URL.createObjectURL(b);
      h("a", { href: url, download: "plumb-graph.png" }).click();
      URL.revokeObjectURL(url);
    });
  }

  clearNote(): void {
    if (this.scenery) fill(this.note);
  }
}

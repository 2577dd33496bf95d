// The tensors of the selection: heatmaps of A, the difference and B with one cursor, their figures, and the worst
// elements. Cells are square, so that a picture has the shape of its slice.
import type { App } from "./app";
import { ChannelGrid } from "./channelgrid";
import { channels, errorHistogram, histogram, profile, scatter } from "./charts";
import { difference, type Picture, type Point, type SliceRequest, type Stats, type TensorOf } from "./data";
import { Box, clean, fill, h, keepFocus, number, table, tip } from "./dom";
import { isReplayed, replayBounds } from "./replay";
import { paint, paintScale, rangeOf, valueAt, wildOf, type Range } from "./heat";

type SideName = "a" | "b" | "d";
const names: Record<SideName, string> = { a: "A", d: "A − B", b: "B" };
const GAP = 12,
  HEIGHT = 260,
  VECTOR_HEIGHT = 22;

/** Pixels of a cell, and whether three pictures stand side by side. A vector is drawn as a strip. */
export function cellSize(
  rows: number,
  cols: number,
  width: number,
  n: number,
  height = HEIGHT,
): [number, number, boolean] {
  const fit = (w: number): number => {
    const k = Math.min(w / cols, height / rows);
    return k >= 1 ? Math.floor(k * 2) / 2 : k;
  };
  const beside = fit((width - GAP * (n - 1)) / n),
    alone = fit(width);
  const k = n > 1 && beside * cols >= 60 && cols <= 2 * rows ? beside : alone; // a wide picture would be a thin strip
  const tall = rows * k < VECTOR_HEIGHT && rows <= 4 ? VECTOR_HEIGHT / rows : k;
  const wide = cols * k < VECTOR_HEIGHT && cols <= 4 ? VECTOR_HEIGHT / cols : k;
  return [tall, wide, k === beside && n > 1];
}

interface HeatMap {
  side: SideName;
  canvas: HTMLCanvasElement;
  image: HTMLCanvasElement;
  bar: HTMLCanvasElement;
  ticks: HTMLElement;
}

export class Tensors {
  private selected: Point | null = null;
  private of: TensorOf | null = null;
  private own: TensorOf | null = null; // of the selection, whatever it is compared with
  private stats: Stats | null = null;
  private first: Picture | null = null; // as plumb chooses it
  private picture: Picture | null = null; // as it is shown
  private cursor: [number, number] | null = null; // cell of the picture
  private readout = h("output", { class: "mono readout", id: "readout", "aria-live": "polite" });
  private maps: HeatMap[] = [];
  private grid: ChannelGrid;
  private asked = 0;
  private pendingJump: number[] | null = null;
  private enlarged = h("dialog", { id: "enlarged", "aria-label": "Tensors, enlarged" });
  private tab = "tensors";
  private box: Box;

  constructor(
    private app: App,
    private pane: HTMLElement,
    private into: { tensors: HTMLElement; distribution: HTMLElement; elements: HTMLElement; replay: HTMLElement },
  ) {
    this.box = new Box(pane, () => this.drawMaps());
    this.grid = new ChannelGrid(app.source, (axis, c) => this.pickChannel(axis, c));
    document.body.append(this.enlarged);
    this.enlarged.onclose = () => this.redraw();
  }

  /** Which tab is open: charts are drawn for the width they have when they are seen. */
  shown(tab: string): void {
    const was = this.tab;
    this.tab = tab;
    if (was === tab || !this.selected) return;
    if ((was === "replay") !== (tab === "replay")) this.compareWith(tab === "replay");
    else if (this.stats && this.picture) this.redraw();
  }

  /** A against B, or against the replay: other tensors. */
  private compareWith(replay: boolean): void {
    const p = this.selected!;
    this.clear();
    this.of = replay ? (isReplayed(p) ? { replay: p.index } : null) : this.own;
    if (this.of !== null) void this.load(this.of);
  }

  forget(): void {
    this.selected = null;
    this.of = null;
    this.asked++;
    this.pane.setAttribute("aria-busy", "false");
  }

  show(p: Point, of: TensorOf | null): void {
    const fresh = this.selected !== p;
    this.selected = p;
    this.own = of;
    if (fresh) this.clear();
    this.of = this.tab !== "replay" ? of : isReplayed(p) ? { replay: p.index } : null;
    if (this.of !== null) void this.load(this.of);
  }

  private clear(): void {
    this.stats = null;
    this.first = this.picture = null;
    this.cursor = this.pendingJump = null;
    this.maps = [];
    this.asked++;
    this.grid.forget();
    for (const e of Object.values(this.into)) fill(e);
    this.pane.setAttribute("aria-busy", "false");
  }

  private get width(): number {
    const box = this.enlarged.open ? this.enlarged.clientWidth - 40 : this.box.width - 28;
    return Math.max(160, box);
  }

  private request(): SliceRequest | null {
    const s = this.app.state,
      base = this.first!;
    if (!s.axes && !s.index && !s.window && (s.reduce === "max" || base.mode === "exact")) return null;
    const ints = (text: string): number[] => text.split(",").map((x) => Math.trunc(Number(x)) || 0);
    const axes = (s.axes ? ints(s.axes) : base.axes) as [number, number];
    const index = base.dims.map((d, i) =>
      Math.min(Math.max(0, d - 1), Math.max(0, (s.index ? ints(s.index)[i] : base.index[i]) ?? 0)),
    );
    const size = axes.map((a) => (a < 0 ? 1 : (base.dims[a] ?? 1)));
    const w = s.window ? ints(s.window) : [0, 0, size[0], size[1]];
    const at: [number, number] = [Math.min(Math.max(0, w[0]), size[0] - 1), Math.min(Math.max(0, w[1]), size[1] - 1)];
    return {
      axes,
      index,
      at,
      of: [Math.max(1, Math.min(w[2] || 1, size[0] - at[0])), Math.max(1, Math.min(w[3] || 1, size[1] - at[1]))],
      mode: s.reduce,
      max: 256,
    };
  }

  private async load(of: TensorOf): Promise<void> {
    const ask = ++this.asked,
      { tensors, replay } = this.into;
    this.pane.setAttribute("aria-busy", "true");
    if (!this.stats) fill(this.tab === "replay" ? replay : tensors, h("p", { class: "quiet" }, "Loading…"));
    await this.fetch(of, ask);
    if (ask === this.asked) this.pane.setAttribute("aria-busy", "false");
  }

  /** Answers may come in another order than they were asked for: what is late is dropped before it is kept. */
  private async fetch(of: TensorOf, ask: number): Promise<void> {
    const start = performance.now(),
      { source } = this.app;
    try {
      const [stats, first] = await Promise.all([this.stats ?? source.stats(of), this.first ?? source.slice(of, null)]);
      if (ask !== this.asked) return;
      this.stats = stats;
      this.first = first;
      const request = this.request();
      let picture = first,
        refused = "";
      if (request) {
        try {
          picture = await source.slice(of, request);
        } catch (e) {
          picture = this.picture ?? first;
          refused = (e as Error).message;
        }
        if (ask !== this.asked) return;
      }
      this.picture = picture;
      if (!this.cursor) this.clearReadout(); // it told of another slice, or of another point
      this.redraw();
      if (refused) {
        this.readout.textContent = refused;
        return;
      }
      this.pane.dataset.ms = (performance.now() - start).toFixed(1);
    } catch (e) {
      if (ask === this.asked) this.lost((e as Error).message);
    }
  }

  /** Why there is nothing to show, in every tab that would show it. */
  private lost(why: string): void {
    for (const [name, e] of Object.entries(this.into))
      fill(e, h("p", { class: "callout", id: name === "tensors" ? "no-tensors" : undefined }, clean(why)));
  }

  /** Only the tab that is open: the others are drawn when they are. */
  private redraw(): void {
    const s = this.stats;
    if (!s || !this.picture) return;
    keepFocus(this.pane, () => {
      if (this.tab === "distribution") this.drawDistribution(s);
      else if (this.tab === "elements") fill(this.into.elements, this.worst(s));
      else if (this.tab === "tensors" || this.tab === "replay" || this.enlarged.open) this.drawTensors(s);
    });
  }

  private drawTensors(s: Stats): void {
    if (!this.readout.textContent)
      this.readout.textContent = "Move over a picture, or focus it and use the arrow keys.";
    const into = this.tab === "replay" ? this.into.replay : this.into.tensors;
    const view = [
      replayBounds(s),
      s.why ? h("p", { class: "quiet" }, clean(s.why)) : null,
      this.heatmaps(),
      this.readout,
      this.pickers(),
    ];
    if (!this.enlarged.open) this.drawMaps(); // before they are put into the page: it is laid out once
    if (this.enlarged.open) {
      fill(into, h("p", { class: "quiet" }, "Shown enlarged."));
      fill(
        this.enlarged,
        h("button", { id: "shrink", class: "corner", onclick: () => this.enlarged.close() }, "Close"),
        h("h2", {}, clean(this.selected!.value, 160)),
        ...view,
      );
      this.drawMaps();
    } else {
      fill(this.enlarged);
      fill(into, ...view, this.grid.show(this.of!, s, this.picture!, this.app.state.log));
    }
  }

  private drawDistribution(s: Stats): void {
    const width = Math.max(180, this.box.width - 28);
    fill(
      this.into.distribution,
      histogram(s, width),
      errorHistogram(s, width),
      this.sides(s),
      scatter(s, width),
      channels(s, width, (c) => this.pickChannel(s.channel_axis ?? 0, c)),
      ...(s.profiles ?? []).map((x) => profile(x, width, (i) => this.pickChannel(x.axis, i))),
      s.seen < s.n ? h("p", { class: "quiet" }, `From a sample of ${s.seen} of ${s.n} elements.`) : null,
    );
  }

  private sides(s: Stats): HTMLElement {
    const rows: string[][] = [s.b ? ["", "A", this.nameOf("b")] : ["", "value"]];
    for (const key of ["min", "max", "mean", "std", "nan", "inf", "zero"] as const)
      rows.push([key, s.a ? number(s.a[key]) : "–", ...(s.b ? [number(s.b[key])] : [])]);
    const q = Object.entries(s.quantiles ?? {});
    return h(
      "div",
      { id: "figures" },
      table(rows),
      q.length ? h("p", { class: "quiet" }, `|A − B|: ${q.map(([k, v]) => `${k} ${number(v)}`).join(", ")}`) : null,
    );
  }

  private worst(s: Stats): HTMLElement {
    if (!s.worst?.length) return h("p", { class: "quiet" }, "No element differs.");
    return h(
      "table",
      { id: "worst" },
      h("tr", {}, ...["index", "A", this.nameOf("b"), this.nameOf("d")].map((t) => h("th", { scope: "col" }, t))),
      ...s.worst.map((w) =>
        h(
          "tr",
          {},
          h(
            "td",
            {},
            h(
              "button",
              { title: "show it in the pictures", onclick: () => this.jump(w.index) },
              `[${w.index.join(",")}]`,
            ),
          ),
          ...(w.whole ?? [number(w.a, 7), number(w.b, 7), number(difference(w.a, w.b), 5)]).map((x) =>
            h("td", { class: "mono" }, x),
          ),
        ),
      ),
    );
  }

  private pickers(): HTMLElement {
    const p = this.picture!,
      { store, state } = this.app;
    const axisPicker = (which: 0 | 1): HTMLElement => {
      const e = h("select", {
        "aria-label": which ? "column axis" : "row axis",
        id: which ? "col-axis" : "row-axis",
      });
      if (p.axes[which] < 0) e.append(h("option", { value: -1 }, "–"));
      p.dims.forEach((d, i) => {
        if (i !== p.axes[1 - which]) e.append(h("option", { value: i }, `${i} (${d})`));
      });
      e.value = String(p.axes[which]);
      e.onchange = () => {
        const axes = [...p.axes];
        axes[which] = Number(e.value);
        store.set({ axes: axes.join(), index: p.index.join(), window: "" });
      };
      return e;
    };
    const index = p.dims.map((d, i) => {
      if (p.axes.includes(i) || d < 2) return null;
      return h(
        "label",
        {},
        `axis ${i} `,
        h("input", {
          type: "number",
          class: "index",
          min: 0,
          max: d - 1,
          value: p.index[i],
          "data-axis": i,
          "aria-label": `index of axis ${i}`,
          onchange: (e: Event) => {
            const at = [...p.index];
            at[i] = Number((e.target as HTMLInputElement).value);
            store.set({ axes: p.axes.join(), index: at.join() });
          },
        }),
        ` of ${d}`,
      );
    });
    const option = (id: string, label: string, on: boolean, f: (on: boolean) => void): HTMLElement =>
      h(
        "label",
        {},
        h("input", {
          type: "checkbox",
          id,
          checked: on,
          onchange: (e: Event) => f((e.target as HTMLInputElement).checked),
        }),
        label,
      );
    const mode = h(
      "select",
      { id: "reduce", "aria-label": "Reduction", title: "how a cell stands for several elements" },
      ...["max", "mean", "sample"].map((m) => h("option", { value: m }, m)),
    );
    mode.value = state.reduce;
    mode.onchange = () => store.set({ reduce: mode.value });
    const button = (id: string, text: string, title: string, f: () => void): HTMLElement =>
      h("button", { id, title, "aria-label": title, onclick: f }, text);
    return h(
      "div",
      { class: "pickers" },
      h("label", {}, "rows ", axisPicker(0)),
      h("label", {}, "columns ", axisPicker(1)),
      ...index,
      p.mode === "exact" ? null : h("label", {}, "reduce ", mode),
      p.mode === "exact" && state.reduce !== "max" ? h("label", {}, "reduce ", mode) : null,
      p.b
        ? option("shared", "shared range", state.range === "shared", (on) =>
            store.set({ range: on ? "shared" : "own" }),
          )
        : null,
      option("log", "log", state.log, (on) => store.set({ log: on })),
      option("clip", "clip p99", state.clip, (on) => store.set({ clip: on })),
      button("zoom-in", "+", "Zoom in", () => this.zoomBy(0.5)),
      button("zoom-out", "−", "Zoom out", () => this.zoomBy(2)),
      button("zoom-whole", "whole", "whole: the whole slice", () => store.set({ window: "" })),
      this.enlarged.open ? null : button("enlarge", "enlarge", "enlarge: fill the window", () => this.enlarge()),
      h(
        "span",
        { class: "quiet", id: "picture-mode" },
        p.mode === "exact"
          ? `exact, ${p.rows}×${p.cols}`
          : `${p.mode} of ${p.of[0]}×${p.of[1]}${p.sampled ? ", sampled" : ""}`,
      ),
    );
  }

  private nameOf(side: SideName): string {
    if (this.stats?.replay) return { a: "A", d: "A − replay", b: "Replay" }[side];
    return this.stats?.gold ? { a: "A", d: "A − fp64", b: "fp64" }[side] : names[side];
  }

  private enlarge(): void {
    this.enlarged.showModal();
    this.redraw();
  }

  private heatmaps(): HTMLElement {
    const p = this.picture!;
    this.maps = [];
    const figures = (["a", "d", "b"] as const)
      .filter((s) => p[s])
      .map((side) => {
        const name = p.b || side !== "a" ? this.nameOf(side) : "Values";
        const canvas = h("canvas", {
          class: "heat",
          tabIndex: 0,
          id: `heat-${side}`,
          role: "img",
          "aria-label": `Heatmap of ${name}; arrow keys move the cursor`,
        });
        const bar = h("canvas", { class: "scale", id: `scale-${side}`, "aria-hidden": "true" }),
          ticks = h("div", { class: "ticks", id: `range-${side}` });
        this.maps.push({ side, canvas, image: document.createElement("canvas"), bar, ticks });
        this.listen(canvas, p);
        return h(
          "figure",
          { class: "heat", id: `figure-${side}` },
          h("figcaption", {}, h("strong", {}, name)),
          canvas,
          bar,
          ticks,
          this.wild(side),
        );
      });
    return h("div", { class: `heats${this.enlarged.open ? " large" : ""}` }, ...figures);
  }

  /** What is not a number has colours of its own, named where they occur. */
  private wild(side: SideName): HTMLElement | null {
    const n = wildOf(this.picture![side]!);
    const item = (look: string, name: string, count: number): HTMLElement | null =>
      count ? h("span", {}, h("span", { class: `swatch ${look}` }), `${name} ×${count}`) : null;
    const parts = [item("nan", "NaN", n.nan), item("plus", "+Inf", n.plus), item("minus", "−Inf", n.minus)];
    return parts.some((x) => x) ? h("div", { class: "wild", id: `wild-${side}` }, ...parts) : null;
  }

  private listen(canvas: HTMLCanvasElement, p: Picture): void {
    const cell = (e: MouseEvent): [number, number] => [
      Math.min(p.rows - 1, Math.max(0, Math.floor((e.offsetY / canvas.clientHeight) * p.rows))),
      Math.min(p.cols - 1, Math.max(0, Math.floor((e.offsetX / canvas.clientWidth) * p.cols))),
    ];
    let from: [number, number] | null = null;
    canvas.onpointerdown = (e) => {
      from = cell(e);
      this.point(from);
    };
    canvas.onpointermove = (e) => {
      const at = cell(e);
      this.point(at);
      if (from && e.buttons) this.frame(from, at);
    };
    canvas.onpointerup = (e) => {
      const at = cell(e);
      if (from && Math.abs(at[0] - from[0]) + Math.abs(at[1] - from[1]) > 1) this.zoomTo(from, at);
      from = null;
    };
    canvas.onwheel = (e) => {
      if (!e.ctrlKey) return;
      e.preventDefault();
      this.point(cell(e));
      this.zoomBy(e.deltaY > 0 ? 2 : 0.5);
    };
    canvas.onkeydown = (e) => {
      const by: Record<string, [number, number]> = {
        ArrowUp: [-1, 0],
        ArrowDown: [1, 0],
        ArrowLeft: [0, -1],
        ArrowRight: [0, 1],
      };
      const d = by[e.key];
      if (!d) return;
      e.preventDefault();
      e.stopPropagation();
      const at = this.cursor ?? [0, 0];
      this.point([Math.min(p.rows - 1, Math.max(0, at[0] + d[0])), Math.min(p.cols - 1, Math.max(0, at[1] + d[1]))]);
    };
  }

  private drawMaps(): void {
    const p = this.picture,
      { state } = this.app;
    if (!p || !this.maps.length || !p.rows || !p.cols) return;
    const height = this.enlarged.open ? Math.max(200, innerHeight - 260) : HEIGHT;
    const [cellH, cellW] = cellSize(p.rows, p.cols, this.width, this.maps.length, height);
    const w = Math.max(2, Math.round(p.cols * cellW)),
      hgt = Math.max(2, Math.round(p.rows * cellH));
    const shared = rangeOf([p.a, p.b], state.clip);
    for (const m of this.maps) {
      const cells = p[m.side]!,
        kind = m.side === "d" ? "difference" : "value",
        range = m.side !== "d" && state.range === "shared" ? shared : rangeOf([cells], state.clip);
      m.image.width = p.cols;
      m.image.height = p.rows;
      const ig = m.image.getContext("2d")!,
        data = ig.createImageData(p.cols, p.rows);
      paint(data, cells, kind, range, state.log);
      ig.putImageData(data, 0, 0);
      m.canvas.width = w;
      m.canvas.height = hgt;
      m.canvas.style.width = `${w}px`;
      m.canvas.style.height = `${hgt}px`;
      this.drawScale(m, kind, range, Math.max(w, 72));
    }
    this.drawCursor();
  }

  /** The colour bar with its ends and its middle. */
  private drawScale({ bar, ticks }: HeatMap, kind: "value" | "difference", range: Range, width: number): void {
    const { log } = this.app.state;
    bar.style.width = ticks.style.width = `${width}px`;
    paintScale(bar, kind);
    fill(
      ticks,
      ...(width < 130 ? [0, 1] : [0, 0.5, 1]).map((t) =>
        h("span", {}, number(valueAt(t, kind, range, log), width < 100 ? 2 : 3)),
      ),
    );
    bar.onmousemove = (e) =>
      tip(number(valueAt(e.offsetX / Math.max(1, bar.clientWidth), kind, range, log), 4), e.clientX, e.clientY);
    bar.onmouseleave = () => tip("");
  }

  private drawCursor(): void {
    const p = this.picture;
    if (!p) return;
    for (const m of this.maps) {
      const g = m.canvas.getContext("2d")!,
        { width: w, height: hgt } = m.canvas;
      g.imageSmoothingEnabled = false;
      g.drawImage(m.image, 0, 0, w, hgt);
      if (this.cursor) this.outline(g, this.cursor, this.cursor, w / p.cols, hgt / p.rows);
    }
  }

  private outline(g: CanvasRenderingContext2D, a: [number, number], b: [number, number], cw: number, ch: number): void {
    const [r, c] = [Math.min(a[0], b[0]), Math.min(a[1], b[1])];
    const [w, hgt] = [(Math.abs(a[1] - b[1]) + 1) * cw, (Math.abs(a[0] - b[0]) + 1) * ch];
    for (const [colour, line] of [
      ["#000", 3],
      ["#fff", 1],
    ] as const) {
      g.strokeStyle = colour;
      g.lineWidth = line;
      g.strokeRect(c * cw, r * ch, Math.max(w, 3), Math.max(hgt, 3));
    }
  }

  /** What is being dragged over, to be zoomed to. */
  private frame(a: [number, number], b: [number, number]): void {
    const p = this.picture!;
    this.drawCursor();
    for (const m of this.maps)
      this.outline(m.canvas.getContext("2d")!, a, b, m.canvas.width / p.cols, m.canvas.height / p.rows);
  }

  private zoomTo(a: [number, number], b: [number, number]): void {
    const p = this.picture!;
    const w = [0, 1].map((k) => {
      const n = k ? p.cols : p.rows;
      const first = p.at[k] + Math.floor((Math.min(a[k], b[k]) * p.of[k]) / n);
      const last = p.at[k] + Math.ceil(((Math.max(a[k], b[k]) + 1) * p.of[k]) / n);
      return [first, Math.max(1, last - first)];
    });
    this.cursor = null;
    this.app.store.set({
      axes: p.axes.join(),
      index: p.index.join(),
      window: [w[0][0], w[1][0], w[0][1], w[1][1]].join(),
    });
  }

  private clearReadout(): void {
    this.readout.textContent = "";
    for (const key of Object.keys(this.readout.dataset)) delete this.readout.dataset[key];
  }

  /** The linked cursor: one cell, the same in all three. */
  private point(cell: [number, number]): void {
    const p = this.picture!;
    this.cursor = cell;
    this.drawCursor();
    const i = cell[0] * p.cols + cell[1],
      index = [...p.index];
    const edge = (k: number, n: number): number =>
      p.edges?.[k][n] ?? p.at[k] + Math.floor((n * p.of[k]) / (k ? p.cols : p.rows));
    const first = [0, 1].map((k) => edge(k, cell[k])),
      last = [0, 1].map((k) => edge(k, cell[k] + 1) - 1);
    const text = index.map((x, axis) => {
      const k = p.axes.indexOf(axis);
      return k < 0
        ? String(x)
        : first[k] === last[k] || p.mode === "exact"
          ? String(first[k])
          : `${first[k]}…${last[k]}`;
    });
    const value = (side: SideName): string => String(p.whole?.[side]?.[i] ?? (p[side] ? number(p[side][i], 9) : "–"));
    this.readout.textContent =
      (p.b
        ? `[${text.join(",")}]  A ${value("a")}  ${this.nameOf("b")} ${value("b")}  ${this.nameOf("d").replace(/ /g, "")} ${value("d")}`
        : `[${text.join(",")}]  ${value("a")}`) + (p.mode === "exact" ? "" : ` (${p.mode})`);
    this.readout.dataset.index = text.join(",");
    if (p.a) this.readout.dataset.a = String(p.a[i]);
    if (p.b) this.readout.dataset.b = String(p.b[i]);
    if (p.d) this.readout.dataset.d = String(p.d[i]);
  }

  private zoomBy(factor: number): void {
    const p = this.picture;
    if (!p) return;
    const size = p.axes.map((a) => (a < 0 ? 1 : p.dims[a]));
    const at = this.cursor ?? [Math.floor(p.rows / 2), Math.floor(p.cols / 2)];
    const w = [0, 1].map((k) => {
      const centre = p.at[k] + ((at[k] + 0.5) * p.of[k]) / (k ? p.cols : p.rows);
      const n = Math.max(1, Math.min(size[k], Math.round(p.of[k] * factor)));
      return [Math.max(0, Math.min(size[k] - n, Math.round(centre - n / 2))), n];
    });
    this.cursor = null;
    this.app.store.set({
      axes: p.axes.join(),
      index: p.index.join(),
      window: [w[0][0], w[1][0], w[0][1], w[1][1]].join(),
    });
  }

  /** Shows an element in the pictures, with the cursor on it. */
  private jump(index: number[]): void {
    const p = this.picture!;
    const size = p.axes.map((a) => (a < 0 ? 1 : p.dims[a]));
    const w = p.axes.map((a, k) => {
      const n = Math.min(size[k], 32),
        at = a < 0 ? 0 : index[a];
      return [Math.max(0, Math.min(size[k] - n, at - Math.floor(n / 2))), n];
    });
    this.pendingJump = index;
    const window = size.every((n) => n <= 64) ? "" : [w[0][0], w[1][0], w[0][1], w[1][1]].join();
    const next = { axes: p.axes.join(), index: index.join(), window };
    const s = this.app.state;
    if (s.axes === next.axes && s.index === next.index && s.window === next.window) {
      this.app.store.set({ tab: this.pictures() });
      this.finishJump();
    } else this.app.store.set({ ...next, tab: this.pictures() });
  }
  /** The tab with the pictures that the element is of. */
  private pictures(): string {
    return this.tab === "replay" ? "replay" : "tensors";
  }
  /** After the slice has come: the cursor on the element. */
  private finishJump(): void {
    const p = this.picture,
      at = this.pendingJump;
    this.pendingJump = null;
    if (!p || !at) return;
    const cell = p.axes.map((a, k) => (a < 0 ? 0 : Math.floor(((at[a] - p.at[k]) * (k ? p.cols : p.rows)) / p.of[k])));
    if (cell[0] >= 0 && cell[0] < p.rows && cell[1] >= 0 && cell[1] < p.cols) this.point([cell[0], cell[1]]);
  }

  /** A slice, a range or a map was chosen: the tensors alone change. */
  async reslice(loads: boolean): Promise<void> {
    const p = this.selected,
      of = this.of;
    if (!p || of === null) return;
    if (loads) {
      this.cursor = null;
      await this.load(of);
    } else this.redraw();
    if (this.selected === p) this.finishJump();
  }

  /** An index of an axis: the slice there, or the part of the pictures where it stands. */
  private pickChannel(axis: number, c: number): void {
    const p = this.picture!,
      index = [...p.index];
    index[axis] = c;
    if (p.axes.includes(axis)) {
      const other = p.axes[1 - p.axes.indexOf(axis)];
      if (other >= 0) index[other] = Math.floor(p.dims[other] / 2);
      this.jump(index);
    } else this.app.store.set({ axes: p.axes.join(), index: index.join(), tab: this.pictures() });
  }
}

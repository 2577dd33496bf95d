// Everything about the selected sync point: metadata, metrics, the three errors, and its tensors.
import { colourNames, colourVars, dots, opOf, type App } from "./app";
import { channels, errorHistogram, histogram, scatter } from "./charts";
import {
  difference,
  type GraphNode,
  type Picture,
  type Point,
  type Run,
  type Side,
  type SliceRequest,
  type Stats,
} from "./data";
import { clean, fill, h, keepFocus, number, score } from "./dom";
import { paint, rangeOf } from "./heat";

const same = (x: unknown, y: unknown): boolean => JSON.stringify(x) === JSON.stringify(y);

export class Inspector {
  private body = h("div", { class: "scroll", id: "inspector-body", tabIndex: 0 });
  readonly element = h(
    "section",
    { class: "pane inspector", "aria-label": "Inspector" },
    h("div", { class: "bar" }, h("strong", {}, "Inspector")),
    this.body,
  );
  private tensors = h("div", { id: "tensors" });
  private more = h("div", { id: "distribution" });
  private shown: Point | null = null;
  private stats: Stats | null = null;
  private first: Picture | null = null; // as plumb chooses it
  private picture: Picture | null = null; // as it is shown
  private cursor: [number, number] | null = null; // cell of the picture
  private readout = h("output", { class: "mono readout", id: "readout", "aria-live": "polite" });
  private maps: { side: "a" | "b" | "d"; canvas: HTMLCanvasElement; image: HTMLCanvasElement }[] = [];
  private asked = 0;
  onpoint: ((p: Point, into: HTMLElement) => void) | null = null; // more sections, from the server's side of the page
  onnode: ((n: GraphNode, into: HTMLElement) => void) | null = null;

  constructor(private app: App) {
    new ResizeObserver(() => this.drawMaps()).observe(this.body);
  }

  update(): void {
    const p = this.app.point;
    if (!p) {
      fill(this.body, ...this.summary());
      this.shown = null;
      this.asked++;
      this.element.setAttribute("aria-busy", "false");
      return;
    }
    const fresh = this.shown !== p;
    this.shown = p;
    keepFocus(this.body, () => {
      const extra = h("div");
      fill(
        this.body,
        this.head(p),
        this.errors(p),
        extra,
        this.tensors,
        this.metrics(p),
        this.metadata(p),
        this.attributes(p),
        this.more,
      );
      this.onpoint?.(p, extra);
    });
    if (fresh) {
      this.stats = null;
      this.first = this.picture = null;
      this.cursor = this.pendingJump = null;
      fill(this.tensors, h("p", { class: "quiet" }, "…"));
      fill(this.more);
    }
    void this.load(p);
  }

  /** An operation without a sync point: what the graph knows of it. */
  showNode(n: GraphNode): void {
    const extra = h("div");
    this.app.store.set({ value: "" });
    fill(
      this.body,
      h("h2", { id: "point-name" }, clean(this.app.graph?.values[n.outputs[0]] ?? n.name)),
      h(
        "p",
        {},
        `${clean(n.op, 80)}${n.name ? ` · ${clean(n.name, 160)}` : ""}: no sync point, because A does not expose this value or it has no counterpart.`,
      ),
      extra,
      n.attrs.length
        ? h(
            "details",
            { open: true },
            h("summary", {}, "Attributes"),
            table(n.attrs.map(([k, v]) => [clean(k, 80), clean(v, 300)])),
          )
        : null,
    );
    this.onnode?.(n, extra);
  }

  private summary(): HTMLElement[] {
    const s = this.app.session;
    return [
      h("h2", {}, `Verdict: ${s.verdict}`),
      h("p", {}, clean(s.reason)),
      ...(s.observer_effect
        ? [h("p", { class: "warn" }, `Recording changes the outputs. ${clean(s.observer_note)}`)]
        : []),
      table([
        ["A", run(s.a)],
        ["B", run(s.b)],
        ...(s.a.failure ? [["A failed", clean(s.a.failure)]] : []),
        ...(s.b.failure ? [["B failed", clean(s.b.failure)]] : []),
        ["profile", s.profile],
        ...(s.replayed + s.unreplayed
          ? [
              [
                "replayed in fp64",
                `${s.replayed} ${s.replayed === 1 ? "value" : "values"}${s.unreplayed ? `, not ${s.unreplayed}` : ""}`,
              ],
            ]
          : []),
        ...(s.created ? [["created", clean(s.created)]] : []),
      ]),
      ...(s.blame.length
        ? [
            h("h3", {}, "Blame"),
            h(
              "ol",
              { id: "blame" },
              ...s.blame
                .slice(0, 50)
                .map((b) =>
                  h(
                    "li",
                    {},
                    h(
                      "button",
                      { onclick: () => this.app.select(this.app.byValue.get(b.value)) },
                      clean(`${b.op} ${b.value}`, 200),
                    ),
                    ` ${clean([b.kind, b.where].filter((x) => x).join(", "))}${b.q === null ? "" : `; local error ${number(b.q)} times its bound`}${b.effect === null ? "" : `; effect on the outputs ${number(b.effect)}`}`,
                  ),
                ),
            ),
          ]
        : []),
      ...(s.left_over.length
        ? [
            h("h3", {}, "Only in B"),
            h(
              "ul",
              {},
              ...s.left_over.slice(0, 50).map((l) => h("li", {}, clean(`${l.value} (${l.op}): ${l.reason}`))),
            ),
          ]
        : []),
      ...(s.notes.length ? [h("h3", {}, "Notes"), h("ul", {}, ...s.notes.map((n) => h("li", {}, clean(n))))] : []),
      h("h3", {}, "How to read this"),
      h(
        "p",
        { class: "quiet", id: "how" },
        "Each row on the left is a value computed by A, next to the same value of B, with a score and a verdict. “C” is a culprit: wrong although its inputs are " +
          "right; “i” inherited an error, “a” amplified a small one, “.” differs only by rounding, “=” is bit-identical. A box with a dotted border is an operation whose value A never stored. " +
          "Select a row or a box to see its tensors. Press w for the worst value, n for the next red one, ? for all keys.",
      ),
    ];
  }

  private head(p: Point): HTMLElement {
    const c = p.colours[this.app.metric] ?? "-";
    return h(
      "div",
      {},
      h("h2", { id: "point-name" }, clean(p.value)),
      h(
        "p",
        {},
        h("span", { class: colourVars[c], title: colourNames[c] }, `${dots[c]} `),
        h("strong", { class: `verdict ${p.verdict}`, id: "point-verdict" }, p.verdict),
        ` · ${clean(opOf(p), 60)}${p.node ? ` · ${clean(p.node, 160)}` : ""}`,
      ),
      p.reason ? h("p", {}, clean(p.reason)) : null,
      p.blame
        ? h(
            "p",
            { class: "warn", id: "kind" },
            `Blamed: ${clean(p.blame.kind)} ${clean(p.blame.where)}; effect on the outputs ${number(p.blame.effect)}`,
          )
        : null,
      p.excuse ? h("p", {}, `Excuse: ${clean(p.excuse)}`) : null,
      p.accepted ? h("p", {}, "Accepted by the baseline.") : null,
      this.app.session.samples > 1
        ? h("p", { class: "quiet", id: "sample" }, `of sample ${p.sample}, the worst of ${this.app.session.samples}`)
        : null,
    );
  }

  private errors(p: Point): HTMLElement {
    const worst = Math.max(p.local ?? 0, p.propagated ?? 0, p.amplified ?? 0) || 1;
    const bar = (x: number | null): HTMLElement =>
      h("meter", {
        min: 0,
        max: 1,
        value: x === null ? 0 : x === worst ? 1 : x / worst,
        "aria-label": "share of the largest error",
      });
    const row = (name: string, title: string, x: number | null): HTMLElement =>
      h("tr", {}, h("th", { title }, name), h("td", { class: "mono" }, number(x)), h("td", {}, bar(x)));
    return h(
      "div",
      {},
      h("h3", {}, "Origin of the error"),
      h(
        "table",
        { id: "errors" },
        row("local", "the segment replayed in fp64 on A's own inputs, against A's value (rms)", p.local),
        row("propagated", "A's value against gold (rms)", p.propagated),
        row("amplified", "the segment on A's inputs against gold (rms)", p.amplified),
      ),
      h(
        "p",
        { class: "quiet" },
        p.q === null
          ? "not replayed: no bound"
          : `q = ${number(p.q)}: the local error is ${number(p.q)} times its bound${p.q > 4 ? "; above 4 is a culprit" : ""}`,
      ),
    );
  }

  private metrics(p: Point): HTMLElement {
    const s = this.app.session;
    return h(
      "details",
      { open: true },
      h("summary", {}, "Metrics"),
      h(
        "table",
        { id: "metrics" },
        ...s.metrics.map((m, i) => {
          const c = p.colours[i] ?? "-",
            l = p.limits[i],
            unit = m.unit.startsWith("=") ? "" : m.unit;
          return h(
            "tr",
            { class: i === this.app.metric ? "current" : "" },
            h("th", { title: m.long }, clean(m.name)),
            h("td", { class: "mono" }, `${score(p.metrics[i], 6)} ${unit}`),
            h("td", { class: colourVars[c], title: colourNames[c] }, dots[c]),
            h("td", { class: "quiet" }, l ? `${m.higher ? "≥" : "≤"} ${score(l[0])}, ${score(l[1])}` : ""),
          );
        }),
      ),
      p.class
        ? h(
            "p",
            { class: "quiet" },
            `class ${p.class}, precision ${p.precision ?? "–"}, paired by ${clean(p.paired_by || "–")} (${number(p.confidence)})${p.layout ? `, layout ${clean(p.layout)}` : ""}`,
          )
        : null,
    );
  }

  private metadata(p: Point): HTMLElement {
    const row = (name: string, f: (s: Side) => number[] | string | string[] | number | null): HTMLElement => {
      const [x, y] = [p.a && f(p.a), p.b && f(p.b)];
      const text = (v: number[] | string | string[] | number | null): string =>
        v === null ? "–" : Array.isArray(v) ? `[${v.join(",")}]` : clean(String(v));
      return h(
        "tr",
        { class: p.a && p.b && !same(x, y) ? "differs" : "" },
        h("th", {}, name),
        h("td", { class: "mono" }, text(x)),
        h("td", { class: "mono" }, text(y)),
        h("td", {}, p.a && p.b && !same(x, y) ? "≠" : ""),
      );
    };
    return h(
      "details",
      { open: true },
      h("summary", {}, "Metadata"),
      h(
        "table",
        { id: "metadata" },
        h("tr", {}, h("th"), h("th", {}, "A"), h("th", {}, "B"), h("th")),
        row("dtype", (s) => s.dtype),
        row("shape", (s) => s.shape),
        row("strides", (s) => s.strides),
        row("offset", (s) => s.offset),
        row("flags", (s) => s.flags),
        row("hash", (s) => s.hash?.slice(0, 12) ?? null),
      ),
      p.counterpart && p.counterpart !== p.value ? h("p", { class: "quiet" }, `B: ${clean(p.counterpart)}`) : null,
      p.metadata_reason ? h("p", { class: "warn" }, clean(p.metadata_reason)) : null,
    );
  }

  private attributes(p: Point): HTMLElement | null {
    const g = this.app.graph,
      node = g?.producer.get(p.value);
    if (!g || !node) return null;
    const weights = node.inputs.filter((v) => v >= 0 && g.weights.has(v));
    if (!node.attrs.length && !weights.length) return null;
    return h(
      "details",
      {},
      h("summary", {}, "Attributes and weights"),
      table([
        ...node.attrs.map(([k, v]) => [clean(k, 80), clean(v, 300)]),
        ...weights.map((v) => [clean(g.values[v], 120), clean(g.types[v], 120)]),
      ]),
    );
  }

  // ---- tensors ----

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

  private async load(p: Point): Promise<void> {
    const ask = ++this.asked;
    this.element.setAttribute("aria-busy", "true");
    await this.fetch(p, ask);
    if (ask === this.asked) this.element.setAttribute("aria-busy", "false");
  }

  /** Answers may come in another order than they were asked for: what is late is dropped before it is kept. */
  private async fetch(p: Point, ask: number): Promise<void> {
    const start = performance.now(),
      { source } = this.app;
    try {
      const stats = this.stats ?? (await source.stats(p.index));
      if (ask !== this.asked) return;
      this.stats = stats;
      const first = this.first ?? (await source.slice(p.index, null));
      if (ask !== this.asked) return;
      this.first = first;
      const request = this.request();
      let picture = first,
        refused = "";
      if (request) {
        try {
          picture = await source.slice(p.index, request);
        } catch (e) {
          picture = this.picture ?? first;
          refused = (e as Error).message;
        }
        if (ask !== this.asked) return;
      }
      this.picture = picture;
      if (!this.cursor) this.clearReadout(); // it told of another slice, or of another point
      this.drawTensors(p);
      if (refused) {
        this.readout.textContent = refused;
        return;
      }
      this.element.dataset.ms = (performance.now() - start).toFixed(1);
    } catch (e) {
      if (ask === this.asked)
        fill(
          this.tensors,
          h("h3", {}, "Tensors"),
          h("p", { class: "quiet", id: "no-tensors" }, clean((e as Error).message)),
        );
    }
  }

  private drawTensors(p: Point): void {
    const s = this.stats!,
      width = Math.max(180, this.body.clientWidth - 30);
    keepFocus(this.body, () => {
      fill(
        this.tensors,
        h("h3", {}, "Tensors"),
        s.why ? h("p", { class: "quiet" }, clean(s.why)) : null,
        this.heatmaps(),
        this.readout,
        this.pickers(),
      );
      fill(
        this.more,
        h("h3", {}, "Distribution"),
        histogram(s, width),
        errorHistogram(s, width),
        this.sides(s),
        scatter(s, width),
        channels(s, width, (c) => this.pickChannel(s.channel_axis ?? 0, c)),
        this.worst(s),
        s.seen < s.n ? h("p", { class: "quiet" }, `a sample of ${s.seen} of ${s.n} elements`) : null,
      );
    });
    void p;
    this.drawMaps();
    if (!this.readout.textContent) this.readout.textContent = "move over a heatmap, or focus it and use the arrow keys";
  }

  private sides(s: Stats): HTMLElement {
    const rows: string[][] = [["", "A", "B"]];
    for (const key of ["min", "max", "mean", "std", "nan", "inf", "zero"] as const)
      rows.push([key, s.a ? number(s.a[key]) : "–", s.b ? number(s.b[key]) : "–"]);
    const q = Object.entries(s.quantiles ?? {});
    return h(
      "div",
      {},
      table(rows),
      q.length ? h("p", { class: "quiet" }, `|A − B|: ${q.map(([k, v]) => `${k} ${number(v)}`).join(", ")}`) : null,
    );
  }

  private worst(s: Stats): HTMLElement | null {
    if (!s.worst?.length) return null;
    return h(
      "div",
      {},
      h("h3", {}, "Worst elements"),
      h(
        "table",
        { id: "worst" },
        h("tr", {}, h("th", {}, "index"), h("th", {}, "A"), h("th", {}, "B"), h("th", {}, "A − B")),
        ...s.worst.map((w) =>
          h(
            "tr",
            {},
            h("td", {}, h("button", { onclick: () => this.jump(w.index) }, `[${w.index.join(",")}]`)),
            ...(w.whole ?? [number(w.a, 7), number(w.b, 7), number(difference(w.a, w.b), 5)]).map((x) =>
              h("td", { class: "mono" }, x),
            ),
          ),
        ),
      ),
    );
  }

  private pickers(): HTMLElement {
    const p = this.picture!,
      { store, state } = this.app;
    const axisPicker = (which: 0 | 1): HTMLElement => {
      const e = h("select", { "aria-label": which ? "column axis" : "row axis", id: which ? "col-axis" : "row-axis" });
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
      { id: "reduce", "aria-label": "Reduction" },
      ...["max", "mean", "sample"].map((m) => h("option", { value: m }, m)),
    );
    mode.value = state.reduce;
    mode.onchange = () => store.set({ reduce: mode.value });
    return h(
      "div",
      { class: "pickers" },
      h("label", {}, "rows ", axisPicker(0)),
      h("label", {}, "columns ", axisPicker(1)),
      ...index,
      h("label", {}, "reduce ", mode),
      option("shared", "shared range", state.range === "shared", (on) => store.set({ range: on ? "shared" : "own" })),
      option("log", "log", state.log, (on) => store.set({ log: on })),
      option("clip", "clip p99", state.clip, (on) => store.set({ clip: on })),
      h("button", { onclick: () => this.zoomBy(0.5), title: "zoom in" }, "+"),
      h("button", { onclick: () => this.zoomBy(2), title: "zoom out" }, "−"),
      h("button", { onclick: () => store.set({ window: "" }), title: "whole slice" }, "whole"),
      h(
        "span",
        { class: "quiet", id: "picture-mode" },
        p.mode === "exact"
          ? `exact, ${p.rows}×${p.cols}`
          : `${p.mode} of ${p.of[0]}×${p.of[1]}${p.sampled ? ", sampled" : ""}`,
      ),
    );
  }

  private heatmaps(): HTMLElement {
    const p = this.picture!;
    this.maps = [];
    const names = { a: "A", d: "A − B", b: "B" };
    const figures = (["a", "d", "b"] as const)
      .filter((s) => p[s])
      .map((side) => {
        const canvas = h("canvas", {
          class: "heat",
          tabIndex: 0,
          id: `heat-${side}`,
          role: "img",
          "aria-label": `Heatmap of ${names[side]}; arrow keys move the cursor`,
        });
        const image = document.createElement("canvas");
        this.maps.push({ side, canvas, image });
        const cell = (e: MouseEvent): [number, number] => [
          Math.min(p.rows - 1, Math.max(0, Math.floor((e.offsetY / canvas.clientHeight) * p.rows))),
          Math.min(p.cols - 1, Math.max(0, Math.floor((e.offsetX / canvas.clientWidth) * p.cols))),
        ];
        canvas.onmousemove = (e) => this.point(cell(e));
        canvas.onclick = (e) => this.point(cell(e));
        canvas.onwheel = (e) => {
          if (e.ctrlKey) {
            e.preventDefault();
            this.point(cell(e));
            this.zoomBy(e.deltaY > 0 ? 2 : 0.5);
          }
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
          this.point([
            Math.min(p.rows - 1, Math.max(0, at[0] + d[0])),
            Math.min(p.cols - 1, Math.max(0, at[1] + d[1])),
          ]);
        };
        return h(
          "figure",
          { class: "heat" },
          h("figcaption", {}, h("strong", {}, names[side]), h("span", { class: "range", id: `range-${side}` })),
          canvas,
        );
      });
    return h("div", { class: "heats" }, ...figures);
  }

  private drawMaps(): void {
    const p = this.picture,
      { state } = this.app;
    if (!p || !this.maps.length || !p.rows || !p.cols) return;
    const width = Math.max(120, this.body.clientWidth - 30),
      height = Math.max(24, Math.min(200, Math.round((width * p.rows) / p.cols)));
    const shared = rangeOf([p.a, p.b], state.clip);
    for (const m of this.maps) {
      const cells = p[m.side]!,
        range = m.side !== "d" && state.range === "shared" ? shared : rangeOf([cells], state.clip);
      m.image.width = p.cols;
      m.image.height = p.rows;
      const ig = m.image.getContext("2d")!,
        data = ig.createImageData(p.cols, p.rows);
      paint(data, cells, m.side === "d" ? "difference" : "value", range, state.log);
      ig.putImageData(data, 0, 0);
      m.canvas.width = width;
      m.canvas.height = height;
      m.canvas.style.height = `${height}px`;
      const label = document.getElementById(`range-${m.side}`),
        most = Math.max(Math.abs(range.lo), Math.abs(range.hi));
      if (label)
        label.textContent =
          m.side === "d" ? `−${number(most)} … ${number(most)}` : `${number(range.lo)} … ${number(range.hi)}`;
    }
    this.drawCursor();
  }

  private drawCursor(): void {
    const p = this.picture;
    if (!p) return;
    for (const m of this.maps) {
      const g = m.canvas.getContext("2d")!,
        { width: w, height: hgt } = m.canvas;
      g.imageSmoothingEnabled = false;
      g.drawImage(m.image, 0, 0, w, hgt);
      if (!this.cursor) continue;
      const [r, c] = this.cursor,
        [cw, ch] = [w / p.cols, hgt / p.rows];
      g.strokeStyle = "#000";
      g.lineWidth = 3;
      g.strokeRect(c * cw, r * ch, Math.max(cw, 3), Math.max(ch, 3));
      g.strokeStyle = "#fff";
      g.lineWidth = 1;
      g.strokeRect(c * cw, r * ch, Math.max(cw, 3), Math.max(ch, 3));
    }
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
    const value = (side: "a" | "b" | "d"): string =>
      String(p.whole?.[side]?.[i] ?? (p[side] ? number(p[side][i], 9) : "–"));
    this.readout.textContent = `[${text.join(",")}]  A ${value("a")}  B ${value("b")}  A−B ${value("d")}${p.mode === "exact" ? "" : ` (${p.mode})`}`;
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
    if (s.axes === next.axes && s.index === next.index && s.window === next.window) this.finishJump();
    else this.app.store.set(next);
  }
  private pendingJump: number[] | null = null;
  /** After the slice has come: the cursor on the element. */
  finishJump(): void {
    const p = this.picture,
      at = this.pendingJump;
    this.pendingJump = null;
    if (!p || !at) return;
    const cell = p.axes.map((a, k) => (a < 0 ? 0 : Math.floor(((at[a] - p.at[k]) * (k ? p.cols : p.rows)) / p.of[k])));
    if (cell[0] >= 0 && cell[0] < p.rows && cell[1] >= 0 && cell[1] < p.cols) this.point([cell[0], cell[1]]);
  }

  /** A slice, a range or a map was chosen: the tensors alone change. */
  async reslice(loads: boolean): Promise<void> {
    if (!this.shown) return;
    const p = this.shown;
    if (loads) {
      this.cursor = null;
      await this.load(p);
    } else if (this.stats && this.picture) this.drawTensors(p);
    if (this.shown === p) this.finishJump();
  }

  private pickChannel(axis: number, c: number): void {
    const p = this.picture!;
    if (p.axes.includes(axis)) return;
    const index = [...p.index];
    index[axis] = c;
    this.app.store.set({ axes: p.axes.join(), index: index.join() });
  }
}

const run = (r: Run): string => clean([r.spec || r.backend, r.version, r.path].filter((x) => x).join(" "));

function table(rows: string[][]): HTMLElement {
  return h(
    "table",
    {},
    ...rows.map((r) => h("tr", {}, ...r.map((c, i) => (i === 0 ? h("th", {}, c) : h("td", { class: "mono" }, c))))),
  );
}

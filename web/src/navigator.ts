// The list of sync points: only the rows on screen exist, so that 100,000 scroll as well as ten.
import { colourNames, colourVars, dots, figureOf, opOf, shapeOf, verdictWords, type App } from "./app";
import type { Point } from "./data";
import { Box, clean, cssColour, fill, h, keepFocus, look, percent, score, sized } from "./dom";
import { colourOf, signOf, type Heading, type Row } from "./rows";

const heights = { point: 42, culprit: 62, heading: 30 };
const heightOf = (r: Row): number => (r.heading ? heights.heading : r.culprit ? heights.culprit : heights.point);

/** The end of a name tells values apart, the start where they are: what is cut is the middle. */
export function middle(name: string, tail = 22): HTMLElement[] {
  const text = clean(name.replace(/_output_0$/, ""), 200);
  const at = text.length > tail ? text.length - tail : 0;
  return [h("span", { class: "start" }, text.slice(0, at)), h("span", { class: "end" }, text.slice(at))];
}

export class Navigator {
  readonly element: HTMLElement;
  private scroller = h("div", {
    class: "rows",
    tabIndex: 0,
    role: "listbox",
    "aria-label": "Sync points",
    id: "rows",
  });
  private inner = h("div", { class: "rows-inner", role: "presentation" });
  private nothing = h("div", { class: "nothing", id: "nothing", hidden: true });
  private count = h("span", { class: "count", id: "row-count", role: "status" });
  private plot = h("canvas", { class: "plot", id: "plot", role: "img" });
  private search = h("input", { type: "search", id: "search", "aria-label": "Search" });
  private words = h("datalist", { id: "search-words" });
  private legend = h("div", { class: "legend", id: "legend" });
  private metric = h("select", { id: "metric", "aria-label": "Metric" });
  private sort = h("select", { id: "sort", "aria-label": "Sort" });
  private group = h("select", { id: "group", "aria-label": "Group" });
  private verdict = h("select", { id: "verdict", "aria-label": "Verdict" });
  private colours = h("span", { class: "chips" });
  private tops: number[] = [0]; // of each row, and the end
  private made = new Map<number, HTMLElement>(); // the rows that exist
  private chosen = -1; // of the rows, the selected one
  private box = new Box(this.scroller, () => this.draw());
  private pane: Box;

  constructor(private app: App) {
    const { session, store } = app,
      model = session.kind === "model";
    this.search.placeholder = model ? "name, op=Conv, [1,64,*], axis=1" : "name, op=Conv, [1,64,*], psnr<40";
    for (const m of session.metrics) this.metric.append(h("option", { value: m.name, title: m.long }, clean(m.name)));
    for (const [v, t] of [
      ["blame", "by blame"],
      ["similarity", "by similarity"],
      ["operation", "by operation"],
    ])
      this.sort.append(h("option", { value: v }, t));
    for (const [v, t] of [
      ["none", "no groups"],
      ["module", "modules"],
      ["op", "ops"],
    ])
      this.group.append(h("option", { value: v }, t));
    this.verdict.append(h("option", { value: "" }, model ? "everything" : "all verdicts"));
    const n: Record<string, number> = {};
    for (const p of session.points) n[p.verdict] = (n[p.verdict] ?? 0) + 1;
    const kinds = model ? ["input", "not recorded", "weight"] : Object.keys(session.verdicts);
    const label = (v: string): string => (v === "not recorded" ? "operation" : v);
    for (const v of kinds)
      if (n[v]) this.verdict.append(h("option", { value: v, title: verdictWords[v] ?? "" }, `${label(v)} (${n[v]})`));
    this.search.setAttribute("list", "search-words");
    this.search.onfocus = () => this.suggest();
    this.metric.onchange = () => store.set({ metric: this.metric.value });
    this.sort.onchange = () => store.set({ sort: this.sort.value as "similarity" });
    this.group.onchange = () => store.set({ group: this.group.value as "none" });
    this.verdict.onchange = () => store.set({ verdict: this.verdict.value });
    this.search.oninput = () => store.set({ query: this.search.value });
    this.scroller.append(this.inner);
    this.scroller.onscroll = () => this.draw();
    this.plot.onclick = (e) => {
      const points = session.points;
      app.select(points[Math.min(points.length - 1, Math.floor((e.offsetX / this.plot.clientWidth) * points.length))]);
    };
    const step = (id: string, label: string, title: string, f: () => void): HTMLElement =>
      h("button", { id, title, "aria-label": title, onclick: f }, label);
    for (const e of [this.metric, this.sort]) e.hidden = model;
    for (const e of [this.plot, this.legend]) e.hidden = model || !session.points.length;
    this.element = h(
      "section",
      { class: "pane navigator", "aria-label": "Navigator" },
      h("div", { class: "bar" }, this.search, this.words),
      h("div", { class: "bar" }, this.metric, this.sort, this.group, this.verdict),
      h(
        "div",
        { class: "bar" },
        model ? null : this.colours,
        model ? null : step("prev-red", "↑", "Previous red (p)", () => app.step(-1, true)),
        model ? null : step("next-red", "↓", "Next red (n)", () => app.step(1, true)),
        this.count,
      ),
      this.plot,
      this.legend,
      this.scroller,
      this.nothing,
    );
    this.pane = new Box(this.element, () => this.drawPlot());
  }

  /** What the search knows of this session: operators, types, modules. */
  private suggest(): void {
    if (this.words.childElementCount) return;
    const found = new Set<string>();
    for (const p of this.app.session.points) {
      if (p.op) found.add(`op=${p.op}`);
      if (p.a) found.add(`dtype=${p.a.dtype}`);
      if (p.module && p.module.length < 200 && !/\s/.test(p.module)) found.add(`module=${p.module}`);
    }
    const metrics = this.app.session.metrics.filter((m) => m.name);
    fill(
      this.words,
      ...[...found]
        .sort()
        .slice(0, 500)
        .map((w) => h("option", { value: w })),
      ...metrics.map((m) => h("option", { value: `${m.name}${m.higher ? "<" : ">"}` })),
    );
  }

  focusSearch(): void {
    this.search.focus();
    this.search.select();
  }
  focusRows(): void {
    this.scroller.focus({ preventScroll: true });
  }

  update(): void {
    const { state, session, listing } = this.app;
    this.metric.value = session.metrics[this.app.metric].name;
    this.sort.value = state.sort;
    this.group.value = state.group;
    this.verdict.value = state.verdict;
    if (this.search.value !== state.query) this.search.value = state.query;
    const own = listing.shown.filter((p) => p.index >= 0).length,
      only = listing.shown.length - own;
    this.count.textContent = `${own} of ${session.points.length}${only ? `, ${only} only in the graph` : ""}`;
    this.tops = [0];
    for (const r of listing.rows) this.tops.push(this.tops[this.tops.length - 1] + heightOf(r));
    this.inner.style.height = `${this.tops[listing.rows.length]}px`;
    this.made.clear();
    fill(this.inner);
    this.drawNothing();
    this.drawColours();
    this.drawLegend();
    this.findChosen();
    this.draw();
    this.drawPlot();
  }

  private findChosen(): void {
    this.chosen = this.app.listing.rows.findIndex((r) => r.point?.value === this.app.state.value);
  }

  private drawNothing(): void {
    const { state, session, listing } = this.app,
      empty = !listing.rows.length;
    this.nothing.hidden = !empty;
    this.scroller.hidden = empty;
    if (!empty) return;
    const narrowed = state.query || state.hide || state.verdict;
    fill(
      this.nothing,
      h(
        "p",
        {},
        narrowed ? "Nothing matches." : session.points.length ? "Nothing to list." : "No values were recorded.",
      ),
      state.query
        ? h("p", { class: "quiet" }, `Searched names, operations, modules and source for “${clean(state.query, 80)}”.`)
        : null,
      narrowed
        ? h(
            "button",
            { id: "show-all", onclick: () => this.app.store.set({ query: "", hide: "", verdict: "" }) },
            "Show everything",
          )
        : null,
    );
  }

  /** Brings the selection on screen. */
  reveal(): void {
    const at = this.chosen;
    if (at >= 0) {
      const [top, end] = [this.tops[at], this.tops[at + 1]],
        view = this.scroller,
        now = view.scrollTop;
      if (top < now) view.scrollTop = top - 24;
      else if (end > now + this.box.height) view.scrollTop = end + 24 - this.box.height;
    }
    this.draw();
    this.drawPlot();
  }

  /** Another value is selected: the list is the same. */
  follow(): void {
    this.mark(this.chosen, false);
    this.findChosen();
    this.mark(this.chosen, true);
    this.drawLegend();
    this.reveal();
  }
  private mark(row: number, on: boolean): void {
    const e = this.made.get(row);
    e?.classList.toggle("selected", on);
    e?.setAttribute("aria-selected", String(on));
  }

  private counted = -1;
  private counts: Record<string, number> = {};
  private drawColours(): void {
    const { app } = this;
    if (this.counted !== app.metric) {
      this.counted = app.metric;
      this.counts = { g: 0, y: 0, r: 0, "-": 0 };
      for (const p of app.session.points) this.counts[signOf(p, app.metric)]++;
    }
    const n = this.counts;
    keepFocus(this.colours, () =>
      fill(
        this.colours,
        ...["r", "y", "g", "-"].map((c) => {
          const hidden = app.state.hide.includes(c);
          return h(
            "button",
            {
              class: `chip ${colourVars[c]}`,
              "aria-pressed": String(!hidden),
              title: `${hidden ? "show" : "hide"} ${colourNames[c]}`,
              "aria-label": `${dots[c]} ${n[c]} ${colourNames[c]}`,
              "data-colour": c,
              onclick: () => app.store.set({ hide: hidden ? app.state.hide.replace(c, "") : app.state.hide + c }),
            },
            `${dots[c]} ${n[c]}`,
          );
        }),
      ),
    );
  }

  /** The limits in force: those of the selection, else of the most common precision. */
  private drawLegend(): void {
    const { app } = this,
      m = app.session.metrics[app.metric];
    const p = app.point ?? app.listing.shown.find((x) => x.limits[app.metric]);
    const limits = p?.limits[app.metric];
    const cmp = m.higher ? "≥" : "≤";
    const unit = m.unit.startsWith("=") ? "" : m.unit;
    fill(
      this.legend,
      `${clean(m.long)}${unit ? ` (${unit})` : ""}, ${m.higher ? "higher" : "lower"} is better`,
      p?.nonfinite ? " · NaN or Inf on one side: no figure, always red" : "",
      limits && !p?.nonfinite
        ? ` · ${dots.g} ${cmp} ${score(limits[0])} · ${dots.y} ${cmp} ${score(limits[1])} · ${dots.r} else`
        : "",
      limits && p?.precision ? ` (${p.precision})` : "",
    );
  }

  /** The row at a height: the last that begins above it. */
  private rowAt(y: number): number {
    let lo = 0,
      hi = this.tops.length - 1;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (this.tops[mid] <= y) lo = mid;
      else hi = mid - 1;
    }
    return lo;
  }

  /** Rows that come into view are made, those that leave it go; the others stay as they are. */
  private draw(): void {
    const rows = this.app.listing.rows,
      view = this.scroller,
      at = view.scrollTop;
    const first = Math.max(0, this.rowAt(at) - 4);
    const last = Math.min(rows.length, this.rowAt(at + this.box.height) + 5);
    for (const [i, e] of this.made)
      if (i < first || i >= last) {
        e.remove();
        this.made.delete(i);
      }
    let next = this.inner.firstElementChild;
    for (let i = first; i < last; i++) {
      const e = this.made.get(i) ?? this.make(i);
      if (e === next) next = next.nextElementSibling;
      else this.inner.insertBefore(e, next);
    }
    if (this.made.has(this.chosen)) view.setAttribute("aria-activedescendant", `row-${this.chosen}`);
    else view.removeAttribute("aria-activedescendant");
  }

  private make(i: number): HTMLElement {
    const row = this.app.listing.rows[i];
    const e = row.point ? this.pointRow(row.point, i, !!row.culprit) : this.headingRow(row.heading);
    e.style.top = `${this.tops[i]}px`;
    e.style.height = `${this.tops[i + 1] - this.tops[i]}px`;
    if (row.depth) e.style.setProperty("--depth", String(row.depth));
    this.made.set(i, e);
    return e;
  }

  private pointRow(p: Point, i: number, culprit: boolean): HTMLElement {
    const { app } = this,
      c = signOf(p, app.metric),
      b = app.opOfB(p),
      bare = p.index < 0 || app.session.kind === "model",
      side = p.a ?? p.b;
    const figure = bare
      ? side
        ? `${side.dtype}[${side.shape.map((d) => (Number.isNaN(d) ? "?" : d)).join(",")}]`
        : ""
      : figureOf(p, app.metric);
    const selected = p.value === app.state.value;
    return h(
      "div",
      {
        class: `row${selected ? " selected" : ""}${culprit ? " blamed" : ""}`,
        role: "option",
        id: `row-${i}`,
        "aria-selected": String(selected),
        "data-value": p.value,
        "aria-setsize": app.listing.rows.length,
        "aria-posinset": i + 1,
        title: `${clean(p.value)}\n${p.verdict}: ${verdictWords[p.verdict] ?? ""}${p.reason ? `\n${clean(p.reason)}` : ""}`,
        onclick: () => {
          app.select(p);
        },
      },
      h(
        "span",
        { class: `dot ${colourVars[c]}` },
        h("span", { "aria-hidden": "true" }, shapeOf(p, app.metric)),
        h("span", { class: "sr" }, bare ? "" : colourNames[c]),
      ),
      h(
        "span",
        { class: "ops" },
        h("span", { class: "op" }, clean(opOf(p), 60)),
        b && b !== p.op ? h("span", { class: "op b" }, clean(b, 60)) : null,
      ),
      h("span", { class: `score ${bare ? "quiet" : colourVars[p.nonfinite ? "r" : colourOf(p, app.metric)]}` }, figure),
      h(
        "span",
        { class: "name" },
        ...middle(p.value),
        bare ? null : h("span", { class: `verdict ${p.verdict}` }, p.verdict),
      ),
      culprit ? this.about(p) : null,
    );
  }

  /** Why it is on top. */
  private about(p: Point): HTMLElement {
    const b = p.blame!,
      kind = [b.kind, b.where].filter((x) => x).join(", ");
    return h(
      "span",
      { class: "about" },
      h("span", { class: "kind" }, clean(kind || "local error", 80)),
      b.effect === null
        ? null
        : h(
            "span",
            { class: "effect", title: `${percent(b.effect)} of the outputs' error comes from this operation` },
            `effect ${percent(b.effect)}`,
          ),
      h("span", { class: "module quiet" }, clean(b.module || p.module, 80)),
    );
  }

  private headingRow(g: Heading): HTMLElement {
    const { app } = this;
    const toggle = (): void =>
      app.store.set(
        g.fold === "rest"
          ? { rest: !app.state.rest }
          : { closed: g.closed ? app.state.closed.filter((x) => x !== g.group) : [...app.state.closed, g.group] },
      );
    return h(
      "div",
      {
        class: "row heading",
        role: "option",
        "aria-selected": "false",
        "data-group": g.group,
        title: `${clean(g.group.replace(/^~.*/, "")) || clean(g.label)}: ${g.count} values; click to ${g.closed ? "unfold" : "fold"}`,
        onclick: toggle,
      },
      h("span", { class: "fold" }, g.closed ? "▸" : "▾"),
      h("span", { class: "label" }, clean(g.label, 160)),
      h(
        "span",
        { class: "roll" },
        ...["r", "y", "g", "-"]
          .filter((c) => g.colours[c])
          .map((c) => h("span", { class: colourVars[c] }, `${dots[c]}${g.colours[c]} `)),
      ),
      g.worst ? h("span", { class: `verdict ${g.worst}` }, g.worst) : null,
    );
  }

  private plotPending = false;
  private drawPlot(): void {
    if (this.plotPending) return;
    this.plotPending = true;
    requestAnimationFrame(() => {
      this.plotPending = false;
      this.paintPlot();
    });
  }

  /** Error along the graph: how far down the list of colours and the metric each value is. */
  private paintPlot(): void {
    const { app } = this,
      points = app.session.points,
      m = app.metric;
    const width = this.pane.width,
      height = 44;
    if (!width || !points.length) return;
    const drawn = [m, width, look(), devicePixelRatio].join();
    if (drawn !== this.barsLook) this.paintBars(width, height);
    this.barsLook = drawn;
    const g = sized(this.plot, width, height);
    g.drawImage(this.bars, 0, 0, width, height);
    if (app.point) {
      g.fillStyle = cssColour("text");
      g.fillRect((app.point.index / points.length) * width, 0, 1.5, height);
    }
    this.plot.setAttribute(
      "aria-label",
      `Error along the graph, ${app.session.metrics[m].name}; ${points.length} values`,
    );
  }

  private bars = document.createElement("canvas"); // the plot without the selection
  private barsLook = "";
  private paintBars(width: number, height: number): void {
    const { app } = this,
      points = app.session.points,
      m = app.metric,
      higher = app.session.metrics[m].higher;
    const g = sized(this.bars, width, height);
    const bad = (p: Point): number => {
      const x = p.metrics[m];
      if (p.class === "structural" || p.class === "nonfinite") return Infinity;
      if (x === null || p.class === "exact") return -Infinity;
      return higher ? -x : Math.log10(Math.max(Math.abs(x), 1e-300));
    };
    let lo = Infinity,
      hi = -Infinity;
    for (const p of points) {
      const b = bad(p);
      if (Number.isFinite(b)) {
        lo = Math.min(lo, b);
        hi = Math.max(hi, b);
      }
    }
    const colours: Record<string, string> = {};
    for (const c of "gyr-") colours[c] = cssColour(colourVars[c]);
    const tall = new Float64Array(Math.ceil(width)),
      of = new Array<Point | null>(Math.ceil(width)).fill(null);
    points.forEach((p, i) => {
      const b = bad(p),
        x = Math.floor((i / points.length) * width);
      const share = b === Infinity ? 1 : b === -Infinity ? 0.03 : hi > lo ? 0.08 + 0.9 * ((b - lo) / (hi - lo)) : 0.5;
      if (share >= tall[x]) {
        tall[x] = share;
        of[x] = p;
      }
    });
    const bar = Math.max(1, Math.floor(width / points.length) - 0.5);
    of.forEach((p, x) => {
      if (!p) return;
      g.fillStyle = colours[signOf(p, m)];
      g.fillRect(x, height - tall[x] * height, bar, tall[x] * height);
    });
  }
}

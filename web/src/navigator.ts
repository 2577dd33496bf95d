// The list of sync points: only the rows on screen exist, so that 100,000 scroll as well as ten.
import { colourNames, colourVars, dots, opOf, type App } from "./app";
import type { Point } from "./data";
import { clean, cssColour, fill, h, keepFocus, score, sized } from "./dom";
import { colourOf, type Heading } from "./rows";

const ROW = 24;

export class Navigator {
  readonly element: HTMLElement;
  private scroller = h("div", { class: "rows", tabIndex: 0, role: "listbox", "aria-label": "Sync points", id: "rows" });
  private inner = h("div", { class: "rows-inner" });
  private count = h("span", { class: "count", id: "row-count", role: "status" });
  private plot = h("canvas", { class: "plot", id: "plot", role: "img" });
  private search = h("input", {
    type: "search",
    id: "search",
    placeholder: "name  [1,64,*]  axis=1  psnr<40",
    "aria-label": "Search sync points",
  });
  private words = h("datalist", { id: "search-words" });
  private legend = h("div", { class: "legend", id: "legend" });
  private metric = h("select", { id: "metric", "aria-label": "Metric" });
  private sort = h("select", { id: "sort", "aria-label": "Sort" });
  private group = h("select", { id: "group", "aria-label": "Group" });
  private verdict = h("select", { id: "verdict", "aria-label": "Verdict" });
  private colours = h("span", { class: "colours" });

  constructor(private app: App) {
    const { session, store } = app;
    for (const m of session.metrics) this.metric.append(h("option", { value: m.name, title: m.long }, clean(m.name)));
    for (const [v, t] of [
      ["similarity", "similarity"],
      ["operation", "operation"],
    ])
      this.sort.append(h("option", { value: v }, t));
    for (const [v, t] of [
      ["none", "no groups"],
      ["module", "modules"],
      ["op", "ops"],
    ])
      this.group.append(h("option", { value: v }, t));
    this.verdict.append(h("option", { value: "" }, "all verdicts"));
    const n: Record<string, number> = {};
    for (const p of session.points) n[p.verdict] = (n[p.verdict] ?? 0) + 1;
    for (const v of Object.keys(session.verdicts))
      if (n[v]) this.verdict.append(h("option", { value: v }, `${v} (${n[v]})`));
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
    this.element = h(
      "section",
      { class: "pane navigator", "aria-label": "Navigator" },
      h("div", { class: "bar" }, this.search, this.words),
      h("div", { class: "bar" }, this.metric, this.sort, this.group, this.verdict),
      h(
        "div",
        { class: "bar" },
        this.colours,
        h(
          "button",
          {
            id: "prev-red",
            title: "previous red (p)",
            "aria-label": "Previous red",
            onclick: () => app.step(-1, true),
          },
          "▲ prev",
        ),
        h(
          "button",
          { id: "next-red", title: "next red (n)", "aria-label": "Next red", onclick: () => app.step(1, true) },
          "▲ next",
        ),
        this.count,
      ),
      this.plot,
      this.legend,
      this.scroller,
    );
    new ResizeObserver(() => {
      this.draw();
      this.drawPlot();
    }).observe(this.scroller);
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
    fill(
      this.words,
      ...[...found]
        .sort()
        .slice(0, 500)
        .map((w) => h("option", { value: w })),
      ...this.app.session.metrics.map((m) => h("option", { value: `${m.name}${m.higher ? "<" : ">"}` })),
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
    const { state, session } = this.app;
    this.metric.value = session.metrics[this.app.metric].name;
    this.sort.value = state.sort;
    this.group.value = state.group;
    this.verdict.value = state.verdict;
    if (this.search.value !== state.query) this.search.value = state.query;
    const rows = this.app.listing.rows;
    this.count.textContent = `${this.app.listing.shown.length} of ${session.points.length}`;
    this.inner.style.height = `${rows.length * ROW}px`;
    this.drawColours();
    this.drawLegend();
    this.draw();
    this.drawPlot();
  }

  /** Brings the selection on screen. */
  reveal(): void {
    const at = this.app.listing.rows.findIndex((r) => r.point?.value === this.app.state.value);
    if (at >= 0) {
      const top = at * ROW,
        view = this.scroller;
      if (top < view.scrollTop) view.scrollTop = top - ROW;
      else if (top + ROW > view.scrollTop + view.clientHeight) view.scrollTop = top + 2 * ROW - view.clientHeight;
    }
    this.draw();
    this.drawPlot();
  }

  private counted = -1;
  private counts: Record<string, number> = {};
  private drawColours(): void {
    const { app } = this;
    if (this.counted !== app.metric) {
      this.counted = app.metric;
      this.counts = { g: 0, y: 0, r: 0, "-": 0 };
      for (const p of app.session.points) this.counts[colourOf(p, app.metric)]++;
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
              "aria-label": `${colourNames[c]}: ${n[c]}`,
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
      limits ? ` · ${dots.g} ${cmp} ${score(limits[0])} · ${dots.y} ${cmp} ${score(limits[1])} · ${dots.r} else` : "",
      limits && p?.precision ? ` (${p.precision})` : "",
    );
  }

  private draw(): void {
    const rows = this.app.listing.rows,
      view = this.scroller;
    const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 4);
    const last = Math.min(rows.length, Math.ceil((view.scrollTop + view.clientHeight) / ROW) + 4);
    const out: HTMLElement[] = [];
    for (let i = first; i < last; i++) {
      const row = rows[i];
      const e = row.point ? this.pointRow(row.point, i) : this.headingRow(row.heading);
      e.style.top = `${i * ROW}px`;
      if (row.depth) e.style.setProperty("--depth", String(row.depth));
      out.push(e);
    }
    fill(this.inner, ...out);
    const selected = this.inner.querySelector("[aria-selected=true]");
    if (selected) view.setAttribute("aria-activedescendant", selected.id);
    else view.removeAttribute("aria-activedescendant");
  }

  private pointRow(p: Point, i: number): HTMLElement {
    const { app } = this,
      c = colourOf(p, app.metric),
      letter = app.session.verdicts[p.verdict] ?? "?";
    const b = app.opOfB(p),
      figure = score(p.metrics[app.metric]);
    const selected = p.value === app.state.value;
    return h(
      "div",
      {
        class: `row${selected ? " selected" : ""}`,
        role: "option",
        id: `row-${i}`,
        "aria-selected": String(selected),
        "data-value": p.value,
        "aria-setsize": app.listing.rows.length,
        "aria-posinset": i + 1,
        title: `${clean(p.value)}\n${clean(p.reason)}`,
        "aria-label": `${clean(opOf(p), 60)} ${clean(p.value, 120)}, ${figure}, ${p.verdict}, ${colourNames[c]}`,
        onclick: () => {
          app.select(p);
        },
      },
      h("span", { class: `dot ${colourVars[c]}` }, dots[c]),
      h("span", { class: "letter" }, letter),
      h("span", { class: "op" }, clean(opOf(p), 60)),
      h("span", { class: "op b" }, clean(b || "–", 60)),
      h("span", { class: "score" }, figure),
      h("span", { class: "name" }, h("bdi", {}, clean(p.value.replace(/_output_0$/, ""), 160))),
      h("span", { class: `verdict ${p.verdict}` }, p.verdict),
    );
  }

  private headingRow(g: Heading): HTMLElement {
    const { app } = this;
    const toggle = (): void =>
      app.store.set({
        closed: g.closed ? app.state.closed.filter((x) => x !== g.group) : [...app.state.closed, g.group],
      });
    return h(
      "div",
      {
        class: "row heading",
        role: "option",
        "aria-selected": "false",
        "aria-expanded": String(!g.closed),
        "data-group": g.group,
        title: `${clean(g.group)}: ${g.count} values`,
        onclick: toggle,
      },
      h("span", { class: "fold" }, g.closed ? "▸" : "▾"),
      h("span", { class: "name" }, clean(g.label, 160)),
      h(
        "span",
        { class: "roll" },
        ...["r", "y", "g", "-"]
          .filter((c) => g.colours[c])
          .map((c) => h("span", { class: colourVars[c] }, `${dots[c]}${g.colours[c]} `)),
      ),
      h("span", { class: `verdict ${g.worst}` }, g.worst),
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
      m = app.metric,
      higher = app.session.metrics[m].higher;
    const width = this.plot.parentElement?.clientWidth ?? 0,
      height = 44;
    if (!width || !points.length) return;
    const g = sized(this.plot, width, height);
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
      g.fillStyle = colours[colourOf(p, m)];
      g.fillRect(x, height - tall[x] * height, bar, tall[x] * height);
    });
    if (app.point) {
      g.fillStyle = cssColour("text");
      g.fillRect((app.point.index / points.length) * width, 0, 1.5, height);
    }
    this.plot.setAttribute(
      "aria-label",
      `Error along the graph, ${app.session.metrics[m].name}; ${points.length} values`,
    );
  }
}

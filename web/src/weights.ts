// The tab of the weights that an operation reads: of each its type, figures, values by frequency, and a picture.
import type { App } from "./app";
import { histogram } from "./charts";
import type { Graph, Picture, Stats } from "./data";
import { clean, fill, h, number, table } from "./dom";
import { paint, paintScale, rangeOf } from "./heat";
import { cellSize } from "./tensors";

const AT_MOST = 12; // weights that are shown at once

/** The weights among the inputs of what makes a value; Constants are weights, too. */
export function weightsOf(g: Graph | null, value: string): number[] {
  const node = g?.producer.get(value);
  if (!g || !node) return [];
  const constant = (v: number): boolean => g.weights.has(v) || g.producer.get(g.values[v])?.op === "Constant";
  return [...new Set(node.inputs.filter((v) => v >= 0 && constant(v)))];
}

function picture(p: Picture, width: number, name: string): (HTMLElement | null)[] {
  if (!p.a || !p.rows || !p.cols) return [];
  const image = h("canvas", { width: p.cols, height: p.rows }),
    g = image.getContext("2d")!,
    data = g.createImageData(p.cols, p.rows),
    range = rangeOf([p.a], false);
  paint(data, p.a, "value", range, false);
  g.putImageData(data, 0, 0);
  const [cellH, cellW] = cellSize(p.rows, p.cols, width, 1, 160);
  const [w, hgt] = [Math.max(2, Math.round(p.cols * cellW)), Math.max(2, Math.round(p.rows * cellH))];
  const canvas = h("canvas", {
    class: "heat",
    role: "img",
    "aria-label": `Picture of ${name}`,
    width: w,
    height: hgt,
  });
  canvas.style.width = `${w}px`;
  canvas.style.height = `${hgt}px`;
  const shown = canvas.getContext("2d")!;
  shown.imageSmoothingEnabled = false;
  shown.drawImage(image, 0, 0, w, hgt);
  const bar = h("canvas", { class: "scale", "aria-hidden": "true" }),
    ticks = h("div", { class: "ticks" }, h("span", {}, number(range.lo, 3)), h("span", {}, number(range.hi, 3)));
  bar.style.width = ticks.style.width = `${Math.max(w, 72)}px`;
  paintScale(bar, "value");
  const cut = p.dims.map((_, i) => (p.axes.includes(i) ? ":" : p.index[i])).join(",");
  const caption = p.dims.length > 2 ? h("figcaption", {}, h("span", {}, `slice [${cut}]`)) : null;
  return [h("figure", { class: "heat" }, caption, canvas, bar, ticks)];
}

function figures(s: Stats): HTMLElement | null {
  if (!s.a) return null;
  const a = s.a;
  return table((["min", "max", "mean", "std", "nan", "inf", "zero"] as const).map((key) => [key, number(a[key])]));
}

export class Weights {
  private asked = 0;
  constructor(
    private app: App,
    private into: HTMLElement,
  ) {}

  /** Shows the weights of what makes the value; the tab is busy until they are there. */
  async show(value: string, width: number): Promise<void> {
    const ask = ++this.asked,
      g = this.app.graph,
      all = weightsOf(g, value);
    fill(this.into, h("p", { class: "quiet" }, "Loading…"));
    this.into.setAttribute("aria-busy", "true");
    const parts: HTMLElement[] = [];
    for (const v of all.slice(0, AT_MOST)) {
      const part = await this.one(g!.values[v], g!.types[v] || "", width);
      if (ask !== this.asked) return;
      parts.push(part);
    }
    if (all.length > AT_MOST) parts.push(h("p", { class: "quiet" }, `${all.length - AT_MOST} more are not shown.`));
    fill(this.into, ...parts);
    this.into.setAttribute("aria-busy", "false");
  }

  private async one(name: string, type: string, width: number): Promise<HTMLElement> {
    const { app } = this,
      known = app.byValue.has(name) || app.others.has(name);
    const title = h(
      "h3",
      {},
      known ? h("button", { class: "link", onclick: () => app.selectValue(name) }, clean(name, 120)) : clean(name, 120),
      h("span", { class: "quiet" }, ` ${clean(type, 80)}`),
    );
    try {
      const [s, p] = await Promise.all([app.source.stats(name), app.source.slice(name, null)]);
      return h(
        "div",
        { class: "weight", "data-weight": name },
        title,
        ...picture(p, width, clean(name, 80)),
        histogram(s, width),
        figures(s),
      );
    } catch (e) {
      return h("div", { class: "weight" }, title, h("p", { class: "quiet" }, clean((e as Error).message)));
    }
  }
}

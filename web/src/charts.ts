// Small drawings: histograms, scatter, bars. Each is a canvas with a label that says in words what it shows, ticks on
// its axes, and the value under the pointer. Ticks are ten lines of ours: d3-scale would be 30 kB for them.
import type { Profile, Stats } from "./data";
import { cssColour, h, number, sized, tip } from "./dom";

const LEFT = 34,
  BOTTOM = 18;

/** Round figures between lo and hi: steps of 1, 2 or 5 times a power of ten. */
export function ticks(lo: number, hi: number, n: number): number[] {
  const span = hi - lo;
  if (!(span > 0) || !Number.isFinite(span)) return [lo];
  const rough = span / Math.max(1, n),
    power = 10 ** Math.floor(Math.log10(rough)),
    step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough)!;
  const out: number[] = [];
  for (let k = Math.ceil(lo / step); k * step <= hi * (1 + 1e-12) && out.length < 20; k++)
    out.push(Number((k * step).toPrecision(12)));
  return out;
}

interface Chart {
  e: HTMLCanvasElement;
  g: CanvasRenderingContext2D;
  width: number; // of the plot
  height: number;
}

function chart(label: string, width: number, height: number, told: (x: number, y: number) => string): Chart {
  const e = h("canvas", { role: "img", "aria-label": label, class: "chart" });
  const g = sized(e, width, height);
  const plot = { width: width - LEFT - 6, height: height - BOTTOM - 4 };
  e.onmousemove = (ev) => {
    const x = (ev.offsetX - LEFT) / plot.width,
      y = (ev.offsetY - 4) / plot.height;
    tip(x >= 0 && x < 1 && y >= 0 && y <= 1 ? told(x, y) : "", ev.clientX, ev.clientY);
  };
  e.onmouseleave = () => tip("");
  g.translate(LEFT, 4);
  g.font = "10px system-ui, sans-serif";
  return { e, g, ...plot };
}

function axes(c: Chart, xs: [number, string][], ys: [number, string][]): void {
  const { g, width, height } = c;
  g.strokeStyle = cssColour("edge");
  g.fillStyle = cssColour("soft");
  g.lineWidth = 1;
  for (const [y, text] of ys) {
    const at = height * (1 - y);
    g.beginPath();
    g.moveTo(0, at);
    g.lineTo(width, at);
    g.stroke();
    g.textAlign = "right";
    g.fillText(text, -4, at + 3);
  }
  g.strokeStyle = cssColour("line");
  g.beginPath();
  g.moveTo(0, height);
  g.lineTo(width, height);
  g.stroke();
  let free = -Infinity;
  for (const [x, text] of xs) {
    const w = g.measureText(text).width,
      at = Math.min(width - w / 2, Math.max(w / 2 - LEFT + 4, x * width));
    if (at - w / 2 < free) continue;
    free = at + w / 2 + 6;
    g.textAlign = "center";
    g.fillText(text, at, height + 13);
    g.beginPath();
    g.moveTo(x * width, height);
    g.lineTo(x * width, height + 3);
    g.stroke();
  }
}

const tall = (n: number, most: number): number => (n > 0 ? Math.log10(n + 1) / Math.log10(most + 1) : 0);
/** Counts on a log scale: 1, 10, 100, … */
function countTicks(most: number): [number, string][] {
  const out: [number, string][] = [];
  for (let n = 1; n <= most && out.length < 12; n *= 10) out.push([tall(n, most), number(n)]);
  return out.length > 4 ? out.filter((_, i) => i % Math.ceil(out.length / 4) === 0) : out;
}
const figure = (title: string, c: Chart, ...more: (HTMLElement | null)[]): HTMLElement =>
  h("figure", {}, h("figcaption", {}, h("strong", {}, title), ...more.filter((x) => x)), c.e);

export function histogram(s: Stats, width: number): HTMLElement {
  const a = s.bins_a ?? [],
    b = s.bins_b ?? [],
    n = Math.max(a.length, b.length, 1),
    span = s.hi - s.lo;
  const edge = (i: number): number => s.lo + (Number.isFinite(span) ? (span * i) / n : (s.hi / n) * i - (s.lo / n) * i);
  const most = Math.max(1, ...a, ...b);
  const c = chart(`Histogram from ${number(s.lo)} to ${number(s.hi)}, counts on a log scale`, width, 120, (x) => {
    const i = Math.min(n - 1, Math.floor(x * n));
    return `${number(edge(i))} … ${number(edge(i + 1))}\n${s.b ? `A ${a[i] ?? 0}, B ${b[i] ?? 0}` : `${a[i] ?? 0}`} elements`;
  });
  axes(
    c,
    ticks(s.lo, s.hi, 5).map((x) => [span > 0 ? (x - s.lo) / span : 0.5, number(x, 3)]),
    countTicks(most),
  );
  const w = c.width / n;
  for (let i = 0; i < n; i++) {
    c.g.fillStyle = cssColour("b");
    const hb = tall(b[i] ?? 0, most) * c.height;
    c.g.fillRect(i * w, c.height - hb, Math.max(1, w - 0.5), hb);
    c.g.strokeStyle = cssColour("a");
    c.g.lineWidth = 1.5;
    const ha = tall(a[i] ?? 0, most) * c.height;
    if (ha) c.g.strokeRect(i * w + 0.5, c.height - ha + 0.5, Math.max(1, w - 1), ha);
  }
  return figure("Values", c, h("span", {}, s.b ? "A outlined, B filled; log counts" : "log counts"));
}

export function errorHistogram(s: Stats, width: number): HTMLElement | null {
  if (!s.decades) return null;
  const first = s.decades.findIndex((n) => n > 0),
    wild = s.seen - (s.equal ?? 0) - s.decades.reduce((n, x) => n + x, 0);
  if (first < 0)
    return h(
      "p",
      { class: "quiet", id: "no-error" },
      wild
        ? `${wild} ${wild === 1 ? "element differs" : "elements differ"}, by NaN or Inf; ${s.equal} equal`
        : "all elements are equal",
    );
  let last = s.decades.length - 1;
  while (!s.decades[last]) last--;
  const from = Math.max(0, first - 1),
    n = last - from + 2,
    low = from + (s.decade_first ?? 0),
    most = Math.max(1, ...s.decades);
  const c = chart(`Histogram of the error by powers of ten from 1e${low}`, width, 100, (x) => {
    const i = Math.min(n - 1, Math.floor(x * n));
    return `1e${low + i} … 1e${low + i + 1}\n${s.decades![from + i] ?? 0} elements`;
  });
  axes(
    c,
    Array.from({ length: n + 1 }, (_, i) => [i / n, `1e${low + i}`]),
    countTicks(most),
  );
  const w = c.width / n;
  c.g.fillStyle = cssColour("bad");
  for (let i = 0; i < n; i++) {
    const t = tall(s.decades[from + i] ?? 0, most) * c.height;
    c.g.fillRect(i * w + 1, c.height - t, Math.max(1, w - 2), t);
  }
  return figure("|A − B|", c, h("span", {}, `log counts; ${s.equal} equal${wild ? `, ${wild} NaN or Inf` : ""}`));
}

export function scatter(s: Stats, width: number): HTMLElement | null {
  const points = s.scatter;
  if (!points?.length) return null;
  const half = Number.isFinite(s.hi - s.lo) ? 1 : 0.5,
    lo = s.lo * half,
    span = s.hi * half - lo || 1;
  const share = (x: number): number => (x * half - lo) / span;
  const c = chart("Scatter plot: B horizontal, A vertical; the line is A = B", width, 170, (x, y) => {
    let best = -1,
      near = 0.002;
    for (let i = 0; i + 1 < points.length; i += 2) {
      const d = (share(points[i]) - x) ** 2 + (1 - share(points[i + 1]) - y) ** 2;
      if (d < near) [best, near] = [i, d];
    }
    return best < 0 ? "" : `B ${number(points[best], 6)}\nA ${number(points[best + 1], 6)}`;
  });
  const marks = ticks(s.lo, s.hi, 4).map((x): [number, string] => [share(x), number(x, 3)]);
  axes(c, marks, marks);
  const { g, width: w, height: hgt } = c;
  g.strokeStyle = cssColour("line");
  g.beginPath();
  g.moveTo(0, hgt);
  g.lineTo(w, 0);
  g.stroke();
  const far: [number, number][] = [];
  g.fillStyle = cssColour("a");
  g.globalAlpha = 0.55;
  for (let i = 0; i + 1 < points.length; i += 2) {
    if (!Number.isFinite(points[i]) || !Number.isFinite(points[i + 1])) continue;
    const [x, y] = [share(points[i]) * w, (1 - share(points[i + 1])) * hgt];
    if (Math.abs(share(points[i]) - share(points[i + 1])) > 0.05) far.push([x, y]);
    else g.fillRect(x - 1, y - 1, 2.5, 2.5);
  }
  g.globalAlpha = 1;
  g.fillStyle = cssColour("bad"); // what is off the line stays visible under a thousand that are on it
  for (const [x, y] of far) {
    g.beginPath();
    g.arc(x, y, 3, 0, 7);
    g.fill();
  }
  return figure("A against B", c, h("span", {}, "B →, A ↑; red: off by more than 5 % of the range"));
}

/** Bars of the largest error by index; one that is not finite is as tall as the chart, in the colour of NaN. */
function errorBars(
  label: string,
  errors: number[],
  dim: number,
  width: number,
  told: (bar: number) => string,
  pick: (bar: number) => void,
): Chart {
  const most = Math.max(...errors.filter(Number.isFinite), 1e-300),
    n = errors.length;
  const at = (x: number): number => Math.min(n - 1, Math.max(0, Math.floor(x * n)));
  const c = chart(label, width, 100, (x) => `${told(at(x))}: ${number(errors[at(x)])}\nclick to show it`);
  axes(
    c,
    ticks(0, dim, 6).map((x) => [x / dim, String(x)]),
    [
      [1, number(most, 2)],
      [0.5, number(most / 2, 2)],
    ],
  );
  const w = c.width / n;
  errors.forEach((x, i) => {
    c.g.fillStyle = Number.isFinite(x) ? cssColour("bad") : "#f0f";
    const t = Number.isFinite(x) ? (x / most) * c.height : c.height;
    c.g.fillRect(i * w, c.height - t, Math.max(1, w - 0.5), t);
  });
  c.e.onclick = (ev) => pick(at((ev.offsetX - LEFT) / c.width));
  return c;
}

export function channels(s: Stats, width: number, pick: (channel: number) => void): HTMLElement | null {
  const errors = s.channels,
    axis = s.channel_axis ?? 0;
  if (!errors?.length) return null;
  const label = `Largest error of each of ${errors.length} channels of axis ${axis}`;
  const c = errorBars(label, errors, errors.length, width, (i) => `index ${i} of axis ${axis}`, pick);
  return figure(`Largest error along axis ${axis}`, c, h("span", {}, "click to show a channel"));
}

/** The same along another axis; a bar may stand for several indices. */
export function profile(p: Profile, width: number, pick: (index: number) => void): HTMLElement {
  const n = p.largest.length,
    first = (i: number): number => Math.ceil((i * p.dim) / n),
    last = (i: number): number => Math.ceil(((i + 1) * p.dim) / n) - 1;
  const name = (i: number): string =>
    first(i) === last(i) ? `index ${first(i)}` : `indices ${first(i)} to ${last(i)}`;
  const c = errorBars(
    `Largest error along axis ${p.axis}, ${p.dim} indices`,
    p.largest,
    p.dim,
    width,
    (i) => `${name(i)} of axis ${p.axis}`,
    (i) => pick(first(i)),
  );
  c.e.dataset.axis = String(p.axis);
  return figure(`Largest error along axis ${p.axis}`, c, h("span", {}, n < p.dim ? `${n} groups of ${p.dim}` : ""));
}

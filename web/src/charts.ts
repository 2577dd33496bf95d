// Small drawings: histograms, scatter, bars. Each is a canvas with a label that says in words what it shows.
import type { Stats } from "./data";
import { cssColour, h, number, sized } from "./dom";

function canvas(label: string, width: number, height: number): { e: HTMLCanvasElement; g: CanvasRenderingContext2D } {
  const e = h("canvas", { role: "img", "aria-label": label, class: "chart" });
  return { e, g: sized(e, width, height) };
}
const tall = (n: number, most: number): number => (n > 0 ? Math.log10(n + 1) / Math.log10(most + 1) : 0);

export function histogram(s: Stats, width: number): HTMLElement {
  const height = 70,
    a = s.bins_a ?? [],
    b = s.bins_b ?? [],
    n = Math.max(a.length, b.length);
  const { e, g } = canvas(
    `Histogram of A and B from ${number(s.lo)} to ${number(s.hi)}, counts on a log scale`,
    width,
    height,
  );
  const most = Math.max(1, ...a, ...b),
    w = width / n;
  for (let i = 0; i < n; i++) {
    g.fillStyle = cssColour("b");
    const hb = tall(b[i] ?? 0, most) * height;
    g.fillRect(i * w, height - hb, w, hb);
    g.strokeStyle = cssColour("a");
    g.lineWidth = 1.5;
    const ha = tall(a[i] ?? 0, most) * height;
    if (ha) g.strokeRect(i * w + 0.5, height - ha + 0.5, w - 1, ha);
  }
  return h(
    "figure",
    {},
    e,
    h(
      "figcaption",
      {},
      h("span", {}, number(s.lo)),
      h("span", {}, "A outlined, B filled, log counts"),
      h("span", {}, number(s.hi)),
    ),
  );
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
    height = 60;
  const low = from + (s.decade_first ?? 0);
  const { e, g } = canvas(`Histogram of the error by powers of ten from 1e${low}`, width, height);
  const most = Math.max(1, ...s.decades),
    w = width / n;
  g.fillStyle = cssColour("bad");
  for (let i = 0; i < n; i++) {
    const t = tall(s.decades[from + i] ?? 0, most) * height;
    g.fillRect(i * w + 1, height - t, w - 2, t);
  }
  return h(
    "figure",
    {},
    e,
    h(
      "figcaption",
      {},
      h("span", {}, `1e${low}`),
      h("span", {}, `|A − B|, log counts; ${s.equal} equal${wild ? `, ${wild} NaN or Inf` : ""}`),
      h("span", {}, `1e${low + n}`),
    ),
  );
}

export function scatter(s: Stats, width: number): HTMLElement | null {
  const points = s.scatter;
  if (!points?.length) return null;
  const height = 120,
    { e, g } = canvas("Scatter plot: B horizontal, A vertical; the line is A = B", width, height);
  const half = Number.isFinite(s.hi - s.lo) ? 1 : 0.5,
    lo = s.lo * half,
    span = s.hi * half - lo || 1;
  const at = (x: number, size: number): number => ((x * half - lo) / span) * (size - 6) + 3;
  g.strokeStyle = cssColour("line");
  g.beginPath();
  g.moveTo(3, height - 3);
  g.lineTo(width - 3, 3);
  g.stroke();
  g.fillStyle = cssColour("a");
  for (let i = 0; i + 1 < points.length; i += 2)
    if (Number.isFinite(points[i]) && Number.isFinite(points[i + 1]))
      g.fillRect(at(points[i], width) - 1, height - at(points[i + 1], height) - 1, 2.5, 2.5);
  return h(
    "figure",
    {},
    e,
    h("figcaption", {}, h("span", {}, "B →"), h("span", {}, "A against B"), h("span", {}, "↑ A")),
  );
}

export function channels(s: Stats, width: number, pick: (channel: number) => void): HTMLElement | null {
  const c = s.channels;
  if (!c?.length) return null;
  const height = 60,
    { e, g } = canvas(`Largest error of each of ${c.length} channels of axis ${s.channel_axis}`, width, height);
  const most = Math.max(...c.filter(Number.isFinite), 1e-300),
    w = width / c.length;
  c.forEach((x, i) => {
    g.fillStyle = Number.isFinite(x) ? cssColour("bad") : "#f0f";
    const t = Number.isFinite(x) ? (x / most) * height : height;
    g.fillRect(i * w, height - t, Math.max(1, w - 0.5), t);
  });
  e.onclick = (ev) => pick(Math.min(c.length - 1, Math.floor((ev.offsetX / width) * c.length)));
  return h(
    "figure",
    {},
    e,
    h(
      "figcaption",
      {},
      h("span", {}, "0"),
      h("span", {}, `largest error by index of axis ${s.channel_axis}`),
      h("span", {}, String(c.length - 1)),
    ),
  );
}

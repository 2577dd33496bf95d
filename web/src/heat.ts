// Colours of a heatmap: a sequential map for values, a diverging one centred on zero for differences, and colours
// outside both for what is not a number.

type Rgb = [number, number, number];
const viridis: Rgb[] = [
  [68, 1, 84],
  [72, 40, 120],
  [62, 74, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [109, 205, 89],
  [180, 222, 44],
  [253, 231, 37],
];
const diverging: Rgb[] = [
  [5, 48, 97],
  [33, 102, 172],
  [67, 147, 195],
  [146, 197, 222],
  [247, 247, 247],
  [253, 219, 160],
  [253, 174, 97],
  [230, 97, 1],
  [127, 39, 4],
];
export const reserved = { nan: [255, 0, 255] as Rgb, plus: [0, 255, 255] as Rgb, minus: [0, 130, 130] as Rgb };

function at(map: Rgb[], t: number): Rgb {
  const x = Math.min(1, Math.max(0, t)) * (map.length - 1),
    i = Math.min(map.length - 2, Math.floor(x)),
    f = x - i;
  return [0, 1, 2].map((k) => Math.round(map[i][k] + (map[i + 1][k] - map[i][k]) * f)) as Rgb;
}

export interface Range {
  lo: number;
  hi: number;
}

/** Of the finite cells; clipped to the 1st and 99th percentile when asked. */
export function rangeOf(parts: (ArrayLike<number> | null)[], clip: boolean): Range {
  const all: number[] = [];
  for (const p of parts) if (p) for (let i = 0; i < p.length; i++) if (Number.isFinite(p[i])) all.push(p[i]);
  if (!all.length) return { lo: 0, hi: 0 };
  if (clip) {
    all.sort((x, y) => x - y);
    return { lo: all[Math.floor(all.length * 0.01)], hi: all[Math.min(all.length - 1, Math.floor(all.length * 0.99))] };
  }
  let [lo, hi] = [Infinity, -Infinity];
  for (const x of all) {
    if (x < lo) lo = x;
    if (x > hi) hi = x;
  }
  return { lo, hi };
}

const squeeze = (x: number, unit: number): number => (Math.sign(x) * Math.log10(1 + (9999 * Math.abs(x)) / unit)) / 4;

export function paint(
  image: ImageData,
  cells: ArrayLike<number>,
  kind: "value" | "difference",
  range: Range,
  log: boolean,
): void {
  const most = Math.max(Math.abs(range.lo), Math.abs(range.hi)) || 1;
  const half = Number.isFinite(range.hi - range.lo) ? 1 : 0.5; // the range of doubles is wider than a double
  const low = range.lo * half,
    span = range.hi * half - low || 1;
  for (let i = 0; i < cells.length; i++) {
    const x = cells[i];
    let c: Rgb;
    if (Number.isNaN(x)) c = reserved.nan;
    else if (x === Infinity) c = reserved.plus;
    else if (x === -Infinity) c = reserved.minus;
    else if (kind === "difference") c = at(diverging, 0.5 + (log ? squeeze(x, most) : x / most) / 2);
    else c = at(viridis, log ? 0.5 + squeeze(x, most) / 2 : (x * half - low) / span);
    image.data.set([c[0], c[1], c[2], 255], i * 4);
  }
}

/** How many cells are not a number, and which. */
export function wildOf(cells: ArrayLike<number>): { nan: number; plus: number; minus: number } {
  const n = { nan: 0, plus: 0, minus: 0 };
  for (let i = 0; i < cells.length; i++) {
    if (Number.isNaN(cells[i])) n.nan++;
    else if (cells[i] === Infinity) n.plus++;
    else if (cells[i] === -Infinity) n.minus++;
  }
  return n;
}

/** The value whose colour stands at t, from 0 to 1, of the colour bar: what paint() does, backwards. */
export function valueAt(t: number, kind: "value" | "difference", range: Range, log: boolean): number {
  const most = Math.max(Math.abs(range.lo), Math.abs(range.hi));
  const wide = (x: number): number => Math.sign(x) * ((10 ** (4 * Math.abs(x)) - 1) / 9999) * most;
  if (kind === "difference") return log ? wide(2 * t - 1) : (2 * t - 1) * most;
  if (log) return wide(2 * t - 1);
  return range.lo * (1 - t) + range.hi * t;
}

export function paintScale(canvas: HTMLCanvasElement, kind: "value" | "difference"): void {
  canvas.width = 128;
  canvas.height = 1;
  const g = canvas.getContext("2d")!,
    image = g.createImageData(128, 1);
  for (let i = 0; i < 128; i++) image.data.set([...at(kind === "value" ? viridis : diverging, i / 127), 255], i * 4);
  g.putImageData(image, 0, 0);
}

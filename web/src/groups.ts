// The graph folded by module: a tree of groups, and what of it is visible with some of them open. No screen.
import type { Graph, Point } from "./data";
import { layout } from "./layout";

export interface Group {
  id: string;
  label: string;
  parent: Group | null;
  groups: Group[];
  nodes: number[];
  count: number;
  colours: Record<string, number>;
  order: number;
}
export interface Item {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
  node: number;
  group: string;
  open: boolean;
  label: string;
  depth: number;
}
export interface Edge {
  from: number;
  to: number;
  lane: number;
  value: number;
  count: number;
}
export interface Scene {
  items: Item[];
  edges: Edge[];
  width: number;
  height: number;
}

/** What the worker needs; small enough to be sent. */
export interface Outline {
  parents: number[];
  labels: string[];
  ids: string[];
  nodeGroup: number[];
  nodeLabel: string[];
  edges: [number, number, number][];
  order: number[];
}

const CHUNK = 48,
  CHUNK_FROM = 120,
  DEPTH_MAX = 32;
const NODE_WIDTH = 156,
  NODE_HEIGHT = 30,
  GROUP_HEIGHT = 42,
  PAD = 14,
  HEAD = 26,
  LANE = 7;

export function outline(graph: Graph): Outline {
  const ids = [""],
    labels = ["model"],
    parents = [-1],
    order = [0];
  const byId = new Map<string, number>([["", 0]]);
  const add = (id: string, label: string, parent: number, at: number): number => {
    ids.push(id);
    labels.push(label);
    parents.push(parent);
    order.push(at);
    byId.set(id, ids.length - 1);
    return ids.length - 1;
  };
  const nodeGroup: number[] = [],
    nodeLabel: string[] = [];
  const members: number[][] = [],
    gone = new Set<number>();
  for (const n of graph.nodes) {
    nodeLabel.push(n.op);
    if (n.op === "Constant") {
      nodeGroup.push(-1);
      continue;
    } // shown with the nodes that use it
    let at = 0,
      id = "";
    for (const part of n.module ? n.module.slice(0, 1000).split(".", DEPTH_MAX) : []) {
      id = id ? `${id}.${part}` : part;
      at = byId.get(id) ?? add(id, part, at, n.index);
    }
    nodeGroup.push(at);
    (members[at] ??= []).push(n.index);
  }
  // A module of one operation is that operation: folding it would hide nothing.
  const inner = new Set(parents);
  for (let g = members.length - 1; g > 0; g--) {
    if (members[g]?.length !== 1 || inner.has(g)) continue;
    const [n] = members[g];
    nodeGroup[n] = parents[g];
    nodeLabel[n] = `${graph.nodes[n].op} · ${labels[g]}`;
    (members[parents[g]] ??= []).push(n);
    members[g] = [];
    gone.add(g);
  }
  for (const m of members) m?.sort((a, b) => a - b);
  for (let g = members.length - 1; g >= 0; g--) chunk(members[g] ?? [], g);
  function chunk(nodes: number[], group: number): void {
    // long flat runs get groups of their own
    let level = nodes.map((n) => ({ at: n, node: n, group: -1 }));
    if (level.length <= CHUNK_FROM) return;
    for (let round = 0; level.length > CHUNK_FROM; round++) {
      const next: typeof level = [];
      for (let i = 0; i < level.length; i += CHUNK) {
        const part = level.slice(i, i + CHUNK);
        const made = add(
          `${ids[group]}#${round}.${i / CHUNK}`,
          `${graph.nodes[part[0].at].op} … (${round ? "part" : "run"} ${i / CHUNK + 1})`,
          group,
          part[0].at,
        );
        for (const x of part)
          if (x.group < 0) nodeGroup[x.node] = made;
          else parents[x.group] = made;
        next.push({ at: part[0].at, node: -1, group: made });
      }
      level = next;
    }
  }
  const producer = new Map<number, number>();
  for (const n of graph.nodes)
    if (nodeGroup[n.index] >= 0) for (const v of n.outputs) if (v >= 0) producer.set(v, n.index);
  const edges: [number, number, number][] = [];
  for (const n of graph.nodes) {
    if (nodeGroup[n.index] < 0) continue;
    for (const v of n.inputs) {
      const p = v >= 0 ? producer.get(v) : undefined;
      if (p !== undefined) edges.push([p, n.index, v]);
    }
  }
  return { parents: parents.map((p, g) => (gone.has(g) ? -2 : p)), labels, ids, nodeGroup, nodeLabel, edges, order };
}

/** "*" unfolds all, "!ID" folds one of these. */
export function isUnfolded(open: Set<string>, id: string): boolean {
  return open.has("*") ? !open.has(`!${id}`) : open.has(id);
}

/** Lays out what is open: each open group on its own, from the inside out. */
export function scene(o: Outline, open: Set<string>): Scene {
  const kids: number[][] = o.ids.map(() => []),
    nodes: number[][] = o.ids.map(() => []);
  o.parents.forEach((p, g) => {
    if (p >= 0) kids[p].push(g);
  });
  o.nodeGroup.forEach((g, n) => {
    if (g >= 0) nodes[g].push(n);
  });
  const depth = o.parents.map(() => 0);
  const isOpen = (g: number): boolean => g === 0 || isUnfolded(open, o.ids[g]);
  // For an edge, the two children of the lowest open group that holds both ends.
  const chain = (n: number): number[] => {
    const up: number[] = [];
    for (let g = o.nodeGroup[n]; g >= 0; g = o.parents[g]) up.push(g);
    return up.reverse();
  };
  interface Local {
    members: { node: number; group: number }[];
    at: Map<number, number>;
    edges: Map<string, { e: [number, number]; ends: [number, number, number][] }>; // ends: nodes, and the value
  }
  const locals = new Map<number, Local>();
  const make = (g: number, d: number): void => {
    depth[g] = d;
    const members = [
      ...kids[g].map((k) => ({ node: -1, group: k, order: o.order[k] })),
      ...nodes[g].map((n) => ({ node: n, group: -1, order: n })),
    ];
    members.sort((a, b) => a.order - b.order);
    const at = new Map<number, number>();
    members.forEach((m, i) => at.set(m.node >= 0 ? m.node : -1 - m.group, i));
    locals.set(g, { members, at, edges: new Map() });
    for (const k of kids[g]) if (isOpen(k)) make(k, d + 1);
  };
  make(0, 0);
  const chains = new Map<number, number[]>();
  const chainOf = (n: number): number[] => {
    let c = chains.get(n);
    if (!c) {
      c = chain(n);
      chains.set(n, c);
    }
    return c;
  };
  for (const [u, v, value] of o.edges) {
    const a = chainOf(u),
      b = chainOf(v);
    let k = 0;
    while (k + 1 < a.length && k + 1 < b.length && a[k + 1] === b[k + 1] && isOpen(a[k + 1])) k++;
    if (k + 1 < a.length && k + 1 < b.length && a[k + 1] === b[k + 1]) continue; // both inside one folded group
    const local = locals.get(a[k]);
    if (!local) continue;
    const i = local.at.get(k + 1 < a.length ? -1 - a[k + 1] : u),
      j = local.at.get(k + 1 < b.length ? -1 - b[k + 1] : v);
    if (i === undefined || j === undefined || i === j) continue;
    const key = `${i},${j}`,
      old = local.edges.get(key);
    if (old) old.ends.push([u, v, value]);
    else local.edges.set(key, { e: [i, j], ends: [[u, v, value]] });
  }
  // What stands for a node on the screen: itself, or the outermost folded group around it.
  const standsFor = (n: number): string => {
    const folded = chainOf(n).find((g) => !isOpen(g));
    return folded === undefined ? `n${n}` : o.ids[folded];
  };
  const itemOf = new Map<string, number>();
  const pending: { from: number; to: number; lane: number; ends: [number, number, number][] }[] = [];
  const items: Item[] = [],
    edges: Edge[] = [];
  const place = (g: number): { width: number; height: number; put(x: number, y: number): void } => {
    const local = locals.get(g)!;
    const inner = local.members.map((m) => (m.group >= 0 && isOpen(m.group) ? place(m.group) : null));
    const boxes = local.members.map(
      (m, i) => inner[i] ?? { width: NODE_WIDTH, height: m.group >= 0 ? GROUP_HEIGHT : NODE_HEIGHT },
    );
    const list = [...local.edges.values()];
    const p = layout(
      boxes,
      list.map((x) => x.e),
    );
    const width = p.width + 2 * PAD + p.lanes * LANE,
      height = p.height + 2 * PAD + (g ? HEAD : 0);
    return {
      width,
      height,
      put(x, y) {
        const base: number[] = [];
        if (g)
          items.push({
            id: o.ids[g],
            x,
            y,
            width,
            height,
            node: -1,
            group: o.ids[g],
            open: true,
            label: o.labels[g],
            depth: depth[g],
          });
        local.members.forEach((m, i) => {
          const [px, py] = [x + PAD + p.x[i], y + PAD + (g ? HEAD : 0) + p.y[i]];
          base[i] = items.length;
          const open = inner[i];
          if (!open) itemOf.set(m.group >= 0 ? o.ids[m.group] : `n${m.node}`, items.length);
          if (open) open.put(px, py);
          else
            items.push(
              m.group >= 0
                ? {
                    id: o.ids[m.group],
                    x: px,
                    y: py,
                    width: NODE_WIDTH,
                    height: GROUP_HEIGHT,
                    node: -1,
                    group: o.ids[m.group],
                    open: false,
                    label: o.labels[m.group],
                    depth: depth[g] + 1,
                  }
                : {
                    id: `n${m.node}`,
                    x: px,
                    y: py,
                    width: NODE_WIDTH,
                    height: NODE_HEIGHT,
                    node: m.node,
                    group: o.ids[g],
                    open: false,
                    label: o.nodeLabel[m.node],
                    depth: depth[g] + 1,
                  },
            );
        });
        let lane = 0;
        for (const {
          e: [i, j],
          ends,
        } of list) {
          const long = Math.abs(p.layer[j] - p.layer[i]) > 1;
          const right = x + PAD + p.width + (long ? (lane++ % Math.max(1, p.lanes)) * LANE + 4 : 0);
          pending.push({ from: base[i], to: base[j], lane: long ? right : NaN, ends });
        }
      },
    };
  };
  const root = place(0);
  root.put(0, 0);
  for (const { from, to, lane, ends } of pending) {
    const seen = new Map<string, Edge>();
    for (const [u, v, value] of ends) {
      const a = itemOf.get(standsFor(u)),
        b = itemOf.get(standsFor(v));
      if (a === undefined || b === undefined) continue;
      const old = seen.get(`${a},${b}`);
      if (old) {
        old.count++;
        continue;
      }
      const edge = { from: a, to: b, lane: Number.isNaN(lane) ? aside(items, from, to, a, b) : lane, value, count: 1 };
      seen.set(`${a},${b}`, edge);
      edges.push(edge);
    }
  }
  return { items, edges, width: root.width, height: root.height };
}

/** An edge that goes deep into a group, or comes from deep inside one, runs along its border instead of across it. */
function aside(items: Item[], from: number, to: number, a: number, b: number): number {
  if (items[b].y - items[a].y - items[a].height < 90) return NaN;
  const frame = items[to].open ? items[to] : items[from].open ? items[from] : null;
  return frame ? frame.x + 5 : NaN;
}

/** Colours of every group, with all below it; pointOf by node. */
export function rollUp(
  o: Outline,
  pointOf: (Point | null)[],
  colour: (p: Point) => string,
): Map<string, Record<string, number>> {
  const sums: (Record<string, number> | undefined)[] = [];
  for (let n = 0; n < o.nodeGroup.length; n++) {
    if (o.nodeGroup[n] < 0) continue;
    const p = pointOf[n],
      c = p ? colour(p) : "-";
    for (let g = o.nodeGroup[n]; g >= 0; g = o.parents[g]) {
      const r = (sums[g] ??= { g: 0, y: 0, r: 0, "-": 0, C: 0 });
      r[c]++;
      if (p?.verdict === "culprit") r.C++;
    }
  }
  return new Map(o.ids.flatMap((id, g) => (sums[g] ? [[id, sums[g]] as const] : [])));
}

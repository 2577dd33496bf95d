// The navigator's list, without a screen: which points, in which order, under which headings.
import type { Graph, Metric, Point, Session } from "./data";
import { parseQuery } from "./query";
import type { State } from "./state";

export interface Heading {
  group: string;
  label: string;
  count: number;
  colours: Record<string, number>;
  worst: string;
  closed: boolean;
  fold?: "rest"; // not a group of the list: what is put away at its end
}
export type Row = (
  | { point: Point; heading?: undefined; culprit?: boolean }
  | { heading: Heading; point?: undefined; culprit?: undefined }
) & {
  depth: number;
};
export interface Listing {
  rows: Row[];
  shown: Point[];
}

const classRank: Record<string, number> = { structural: 4, nonfinite: 3, finite: 2, exact: 0 };
const verdictRank: Record<string, number> = {
  culprit: 9,
  mismatch: 8,
  nondeterministic: 7,
  amplified: 6,
  inherited: 5,
  unverified: 3,
  unpaired: 3,
  within: 2,
  same: 1,
};
export const rankOf = (v: string): number => verdictRank[v] ?? 0;

const more = (x: number, y: number): number => (x === y ? 0 : x > y ? -1 : 1);

/** The worst first, in the order of pl_session_order: by class, by the metric's own direction (no figure is the least), then, where the reference is 0, by max_abs. */
export function byDivergence(points: Point[], metrics: Metric[], metric: number): Point[] {
  const sign = metrics[metric].higher ? -1 : 1,
    largest = metrics.findIndex((m) => m.name === "max_abs");
  const keys = points.map((point) => {
    const x = point.metrics[metric];
    return {
      point,
      rank: point.class === null ? 1 : (classRank[point.class] ?? 1),
      bad: x === null ? -Infinity : sign * x,
      size: (point.zero && point.metrics[largest]) || 0,
      index: point.index,
    };
  });
  keys.sort((x, y) => more(x.rank, y.rank) || more(x.bad, y.bad) || more(x.size, y.size) || x.index - y.index);
  return keys.map((k) => k.point);
}

/** Those that are blamed first, as the session ranks them; then outputs that fail, then the rest by divergence. */
export function byBlame(session: Session, points: Point[], metric: number): Point[] {
  const place = new Map(session.blame.map((b, i) => [b.value, i] as const));
  const key = (p: Point): number => {
    const at = place.get(p.value);
    if (at !== undefined) return -1e9 + at;
    if (p.model_wrong) return -1e6;
    const rank = rankOf(p.verdict);
    return rank >= 7 ? -1e3 - rank : p.fails ? -1e2 : 0;
  };
  const sorted = byDivergence(points, session.metrics, metric);
  const keys = new Map(sorted.map((p, i) => [p, [key(p), i] as const]));
  return sorted.sort((x, y) => keys.get(x)![0] - keys.get(y)![0] || keys.get(x)![1] - keys.get(y)![1]);
}

/** The colour of the metric's own limits. */
export function colourOf(p: Point, metric: number): string {
  return p.colours[metric] ?? "-";
}

/** The colour that is shown. A definite verdict decides; where there is none, the metric does. */
export function signOf(p: Point, metric: number): string {
  if (rankOf(p.verdict) >= 7 || p.fails || p.nonfinite) return "r";
  if (p.verdict === "same") return "g";
  return colourOf(p, metric);
}

export function metricIndex(session: Session, name: string): number {
  const i = session.metrics.findIndex((m) => m.name === name);
  return i >= 0
    ? i
    : Math.max(
        0,
        session.metrics.findIndex((m) => m.name === session.metric),
      );
}

function heading(group: string, label: string, points: Point[], metric: number, closed: boolean): Heading {
  const colours: Record<string, number> = { g: 0, y: 0, r: 0, "-": 0 };
  let worst = "same";
  for (const p of points) {
    colours[signOf(p, metric)]++;
    if (rankOf(p.verdict) > rankOf(worst)) worst = p.verdict;
  }
  return { group, label, count: points.length, colours, worst, closed };
}

/** Nothing can be said about it: put away until asked for. Never what is blamed, and no output. */
export function isRest(p: Point): boolean {
  return !p.blame && !p.output && !p.model_wrong && (p.verdict === "unpaired" || p.op === "Constant");
}

/** others: of the graph, without a sync point. They are found by a search, and by nothing else. */
export function list(session: Session, graph: Graph | null, s: State, others: Point[] = []): Listing {
  const metric = metricIndex(session, s.metric);
  const test = parseQuery(s.query, session.metrics, graph);
  const keeps = (p: Point): boolean =>
    !s.hide.includes(signOf(p, metric)) && (!s.verdict || p.verdict === s.verdict) && test(p);
  const found = session.points.filter(keeps);
  const shown =
    s.sort === "operation" || session.kind === "model"
      ? found
      : s.sort === "similarity"
        ? byDivergence(found, session.metrics, metric)
        : byBlame(session, found, metric);
  const unseen = s.query ? others.filter((p) => !s.verdict && test(p)) : [];
  const out = s.group === "none" ? flat(session, s, shown, metric) : grouped(s, shown, metric);
  const lost = s.query ? [] : others.filter((p) => p.blame && keeps(p)); // what A died of comes first
  out.rows.unshift(...lost.map((point): Row => ({ point, depth: 0, culprit: true })));
  out.shown = [...lost, ...out.shown];
  if (unseen.length) {
    const closed = s.closed.includes("~unseen");
    out.rows.push({
      heading: { ...heading("~unseen", "Only in the graph", unseen, metric, closed), worst: "" },
      depth: 0,
    });
    if (!closed) for (const point of unseen) out.rows.push({ point, depth: 0 });
    out.shown = closed ? out.shown : [...out.shown, ...unseen];
  }
  return out;
}

function flat(session: Session, s: State, shown: Point[], metric: number): Listing {
  const blamed = new Set(s.sort === "blame" ? session.blame.map((b) => b.value) : []);
  const row = (point: Point): Row => ({ point, depth: 0, culprit: blamed.has(point.value) });
  const folds = s.sort === "blame" && !s.query && !s.verdict && session.kind === "session";
  const rest = folds ? shown.filter(isRest) : [];
  if (rest.length < 2 || rest.length === shown.length) return { rows: shown.map(row), shown };
  const first = shown.filter((p) => !isRest(p));
  const rows = first.map(row);
  const constants = rest.filter((p) => p.op === "Constant").length,
    unpaired = rest.length - constants;
  const label = [
    unpaired ? `${unpaired} unpaired` : "",
    constants ? `${constants} ${constants === 1 ? "constant" : "constants"}` : "",
  ].filter((x) => x);
  rows.push({
    heading: { ...heading("~rest", label.join(", "), rest, metric, !s.rest), fold: "rest", worst: "" },
    depth: 0,
  });
  if (!s.rest) return { rows, shown: first };
  return { rows: [...rows, ...rest.map(row)], shown: [...first, ...rest] };
}

function grouped(s: State, shown: Point[], metric: number): Listing {
  const root = tree(
    shown,
    s.group === "module" ? modulePath(shown) : (p) => [p.op || (p.input ? "(input)" : "(no op)")],
  );
  const rows: Row[] = [],
    visible: Point[] = [];
  const put = (g: Group, depth: number): void => {
    for (const item of g.items) {
      if (!(item instanceof Group)) {
        rows.push({ point: item, depth });
        visible.push(item);
        continue;
      }
      const closed = s.closed.includes(item.id);
      rows.push({ heading: heading(item.id, item.label, item.all, metric, closed), depth });
      if (!closed) put(item, depth + 1);
    }
  };
  put(root, 0);
  return { rows, shown: visible };
}
class Group {
  readonly items: (Group | Point)[] = [];
  readonly all: Point[] = []; // with those of the groups below
  readonly groups = new Map<string, Group>();
  constructor(
    readonly id: string,
    readonly label: string,
  ) {}
}

/** Groups stand where the first of their points stands in the list: the worst on top when that is how it is sorted. */
function tree(points: Point[], path: (p: Point) => string[]): Group {
  const root = new Group("", "");
  for (const p of points) {
    let at = root,
      id = "";
    for (const part of path(p)) {
      id = id ? `${id}.${part}` : part;
      let next = at.groups.get(part);
      if (!next) {
        next = new Group(id, part);
        at.groups.set(part, next);
        at.items.push(next);
      }
      next.all.push(p);
      at = next;
    }
    at.items.push(p);
  }
  return root;
}

/** The module of a point, from the outside; one that holds a single value stands for nothing and is left out. */
function modulePath(points: Point[]): (p: Point) => string[] {
  const n = new Map<string, number>(),
    parts = (p: Point): string[] => (p.module ? p.module.slice(0, 1000).split(".", 32) : ["(no module)"]);
  for (const p of points) {
    let id = "";
    for (const part of parts(p)) {
      id = id ? `${id}.${part}` : part;
      n.set(id, (n.get(id) ?? 0) + 1);
    }
  }
  return (p) => {
    const all = parts(p);
    while (all.length > 1 && n.get(all.join(".")) === 1) all.pop();
    return all;
  };
}

// The navigator's list, without a screen: which points, in which order, under which headings.
import type { Graph, Point, Session } from "./data";
import { parseQuery } from "./query";
import type { State } from "./state";

export interface Heading { group: string; count: number; colours: Record<string, number>; worst: string; closed: boolean }
export type Row = { point: Point; heading?: undefined } | { heading: Heading; point?: undefined };
export interface Listing { rows: Row[]; shown: Point[] }

const classRank: Record<string, number> = { structural: 4, nonfinite: 3, finite: 2, exact: 0 };
const verdictRank: Record<string, number> = { culprit: 9, mismatch: 8, nondeterministic: 7, amplified: 6, inherited: 5, unverified: 3, unpaired: 3, within: 2, same: 1 };
export const rankOf = (v: string): number => verdictRank[v] ?? 0;

/** Negative when x is worse: by class first, then by the metric's own direction. */
export function byDivergence(metric: number, higher: boolean): (x: Point, y: Point) => number {
  const rank = (p: Point): number => (p.class === null ? 1 : classRank[p.class] ?? 1);
  return (x, y) => {
    if (rank(x) !== rank(y)) return rank(y) - rank(x);
    const [a, b] = [x.metrics[metric], y.metrics[metric]];
    if (a === b || a === null || b === null) return x.index - y.index;
    return (higher ? a - b : b - a) || x.index - y.index;
  };
}

export function colourOf(p: Point, metric: number): string { return p.colours[metric] ?? "-"; }

export function metricIndex(session: Session, name: string): number {
  const i = session.metrics.findIndex((m) => m.name === name);
  return i >= 0 ? i : Math.max(0, session.metrics.findIndex((m) => m.name === session.metric));
}

function heading(group: string, points: Point[], metric: number, closed: boolean): Heading {
  const colours: Record<string, number> = { g: 0, y: 0, r: 0, "-": 0 };
  let worst = "same";
  for (const p of points) {
    colours[colourOf(p, metric)]++;
    if (rankOf(p.verdict) > rankOf(worst)) worst = p.verdict;
  }
  return { group, count: points.length, colours, worst, closed };
}

export function list(session: Session, graph: Graph | null, s: State): Listing {
  const metric = metricIndex(session, s.metric);
  const test = parseQuery(s.query, session.metrics, graph);
  const shown = session.points.filter((p) => !s.hide.includes(colourOf(p, metric)) && (!s.verdict || p.verdict === s.verdict) && test(p));
  if (s.sort === "similarity") shown.sort(byDivergence(metric, session.metrics[metric].higher));
  if (s.group === "none") return { rows: shown.map((point) => ({ point })), shown };
  const groups = new Map<string, Point[]>();
  for (const p of shown) {
    const key = s.group === "module" ? p.module || "(no module)" : p.op || "(input)";
    const of = groups.get(key);
    if (of) of.push(p); else groups.set(key, [p]);
  }
  const rows: Row[] = [], visible: Point[] = [];
  for (const [group, points] of groups) {
    const closed = s.closed.includes(group);
    rows.push({ heading: heading(group, points, metric, closed) });
    if (!closed) for (const point of points) { rows.push({ point }); visible.push(point); }
  }
  return { rows, shown: visible };
}

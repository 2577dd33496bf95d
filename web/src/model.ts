// What a graph knows by itself: its operations, inputs and weights as rows of the list, for a model that nothing was
// compared with yet, and for what a session did not record.
import type { Graph, Point, Session, Side } from "./data";

/** "float32[1,64,56,56]": an element type and dims, of which some may be names. */
export function sideOf(type: string): Side | null {
  const found = /^(?:tensor\()?([a-z0-9_]+)\)?\s*\[([^\]]*)\]/i.exec(type);
  if (!found) return null;
  const shape = found[2].trim() ? found[2].split(",").map((d) => Number(d.trim())) : [];
  return { dtype: found[1], shape, strides: [], offset: 0, flags: [], hash: null, kept: false };
}

/** A row that stands for a value of the graph alone. `verdict` is "weight", "input" or "not recorded". */
function row(graph: Graph, v: number, index: number, more: Partial<Point>): Point {
  const name = graph.values[v];
  return {
    index, value: name, node: "", op: "", module: "", source: "", counterpart: "", counterpart_op: "", paired_by: "",
    confidence: null, relation: "", layout: "", input: false, output: graph.outputs.includes(v), accepted: false,
    match: false, measured: false, zero: false, fails: false, model_wrong: false, nonfinite: null, metadata_reason: "",
    a: null, b: null, class: null, precision: null, metrics: [null], colours: "-", limits: [null], propagated: null,
    local: null, amplified: null, q: null, excuse: "", verdict: "not recorded", reason: "", sample: 0, left_out: 0, worst: -1,
    limits_from: "", blame: null, ...more,
  }; // prettier-ignore
}

/** Rows of everything in the graph that `known` does not have: inputs, then operations, then weights. */
export function rowsOf(graph: Graph, known: Map<string, Point>): Point[] {
  const out: Point[] = [];
  const put = (v: number, more: Partial<Point>): void => {
    if (!known.has(graph.values[v])) out.push(row(graph, v, -1 - out.length, more));
  };
  const weightModule = (name: string): string => name.split(".").slice(0, -1).join(".");
  for (const v of graph.inputs)
    if (!graph.weights.has(v)) put(v, { input: true, verdict: "input", a: sideOf(graph.types[v]) });
  for (const n of graph.nodes) {
    const v = n.outputs.find((x) => x >= 0);
    if (v === undefined) continue;
    const source = n.file ? `${n.file}:${n.line}` : "";
    put(v, { node: n.name, op: n.op, module: n.module, source, a: sideOf(graph.types[v]) });
  }
  for (const v of graph.weights)
    put(v, { op: "", verdict: "weight", module: weightModule(graph.values[v]), a: sideOf(graph.types[v]) });
  return out;
}

const nobody = { backend: "", spec: "", version: "", path: "", failure: "", signal: 0 };

/** A session of a model that nothing was compared with: no verdict, no metric. */
export function sessionOf(graph: Graph, path: string): Session {
  return {
    plumb: "", kind: "model", verdict: "", at_fault: "", coverage: null, lost_calls: [], reason: "", created: "",
    model: { path, hash: "", nodes: graph.nodes.length }, a: nobody, b: nobody, observer_effect: false,
    observer_note: "", samples: 1, metric: "", profile: "", tol: null, first_divergence: null, replayed: 0,
    unreplayed: 0, peak_rss: 0, metrics: [{ name: "", long: "", unit: "", higher: true }], verdicts: {}, blame: [],
    left_over: [], notes: [], timing: [], points: rowsOf(graph, new Map()).map((p, index) => ({ ...p, index })),
    has_reference: false,
  }; // prettier-ignore
}

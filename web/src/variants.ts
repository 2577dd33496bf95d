// Two graphs beside each other or as one: which node is which, what was added, removed, changed or fused. No screen.
import type { Graph, GraphNode, Session } from "./data";

export type Change = "same" | "changed" | "added" | "removed" | "fused" | "folded";
/** twin: the node of the other graph that makes the same value, or -1; into: the one that does its work, when it was fused. */
export interface Side {
  change: Change[];
  twin: number[];
  into: number[];
}
export interface Comparison {
  left: Side;
  right: Side;
}

/** By the values they make: under the name that the session paired, else under the same name. */
export function compareGraphs(left: Graph, right: Graph, pairs: Map<string, string>): Comparison {
  const blank = (g: Graph): Side => ({
    change: g.nodes.map(() => "removed"),
    twin: g.nodes.map(() => -1),
    into: g.nodes.map(() => -1),
  });
  const l = blank(left),
    r = blank(right);
  for (const n of left.nodes)
    for (const v of n.outputs) {
      if (v < 0 || l.twin[n.index] >= 0) continue;
      const other = right.producer.get(pairs.get(left.values[v]) ?? left.values[v]);
      if (!other || r.twin[other.index] >= 0) continue;
      l.twin[n.index] = other.index;
      r.twin[other.index] = n.index;
    }
  l.change = left.nodes.map((n) =>
    l.twin[n.index] < 0 ? "removed" : right.nodes[l.twin[n.index]].op === n.op ? "same" : "changed",
  );
  r.change = right.nodes.map((n) => (r.twin[n.index] < 0 ? "added" : l.change[r.twin[n.index]]));
  settle(left, l, right);
  settle(right, r, left);
  return { left: l, right: r };
}

/** A node without a twin, all of whose uses lead to one that is another operation on the other side, was fused into that; a value that became a weight was folded. */
function settle(g: Graph, s: Side, other: Graph): void {
  const uses = new Map<number, number[]>(),
    names = new Map(other.values.map((v, i) => [v, i] as const));
  for (const n of g.nodes)
    for (const v of n.inputs)
      if (v >= 0) {
        const u = uses.get(v);
        if (u) u.push(n.index);
        else uses.set(v, [n.index]);
      }
  const outputs = new Set(g.outputs);
  for (let i = g.nodes.length - 1; i >= 0; i--) {
    // consumers come after: their answer is there
    if (s.twin[i] >= 0) continue;
    const n = g.nodes[i];
    if (n.op === "Constant" || n.outputs.every((v) => v >= 0 && other.weights.has(names.get(g.values[v]) ?? -1))) {
      s.change[i] = n.op === "Constant" ? "same" : "folded";
      continue;
    }
    const into = new Set<number>();
    for (const v of n.outputs) {
      if (outputs.has(v)) into.add(-1);
      for (const u of uses.get(v) ?? [])
        into.add(s.twin[u] < 0 ? s.into[u] : s.change[u] === "changed" ? s.twin[u] : -1);
    }
    if (into.size === 1 && !into.has(-1)) {
      s.into[i] = [...into][0];
      s.change[i] = "fused";
    }
  }
}

/** Which value of A is which of B, where they are called differently. */
export function pairsOf(session: Session): Map<string, string> {
  const out = new Map<string, string>();
  for (const p of session.points) if (p.counterpart && p.counterpart !== p.value) out.set(p.value, p.counterpart);
  return out;
}

/** Values that a compiler renamed: from the model's name to that in the executed graph, of the operation rather than of a change of layout. */
export function renamed(executed: Graph): Map<string, string> {
  const out = new Map<string, string>();
  executed.stands_for?.forEach((name, v) => {
    if (!name || !executed.producer.has(executed.values[v])) return;
    const moves = (value: string): boolean => /^(Reorder|Transpose|Cast)/.test(executed.producer.get(value)?.op ?? "");
    const old = out.get(name);
    if (old === undefined || (moves(old) && !moves(executed.values[v]))) out.set(name, executed.values[v]);
  });
  return out;
}

/** Nodes that a compiler made have no module: they get that of their twin, else of a neighbour. */
export function placed(g: Graph, s: Side, other: Graph): Graph {
  const module = g.nodes.map((n) => n.module || (s.twin[n.index] >= 0 ? other.nodes[s.twin[n.index]].module : ""));
  const consumer = new Map<number, number>();
  for (const n of g.nodes) for (const v of n.inputs) if (v >= 0 && !consumer.has(v)) consumer.set(v, n.index);
  for (const n of g.nodes) {
    if (module[n.index]) continue;
    const after = n.outputs.map((v) => module[consumer.get(v) ?? -1]).find((m) => m),
      before = n.inputs.map((v) => (v >= 0 ? module[g.producer.get(g.values[v])?.index ?? -1] : "")).find((m) => m);
    module[n.index] = after || before || "";
  }
  return withNodes(
    g,
    g.nodes.map((n) => ({ ...n, module: module[n.index] })),
  );
}

function withNodes(g: Graph, nodes: GraphNode[]): Graph {
  const producer = new Map<string, GraphNode>();
  for (const n of nodes) for (const v of n.outputs) if (v >= 0) producer.set(g.values[v], n);
  return { ...g, nodes, producer };
}

/** One graph of both: the left one, and what only the right one has, in its place. from: node of the merged graph to those of the two. */
export function merge(
  left: Graph,
  right: Graph,
  c: Comparison,
): { graph: Graph; change: Change[]; left: number[]; right: number[] } {
  const values = [...left.values],
    types = [...left.types],
    number = new Map(values.map((v, i) => [v, i] as const));
  const at = (v: number): number => {
    // a value of the right graph: under the name of its twin's
    if (v < 0) return -1;
    const maker = right.producer.get(right.values[v]),
      twin = maker ? c.right.twin[maker.index] : -1;
    const k = maker ? maker.outputs.indexOf(v) : -1;
    if (twin >= 0 && left.nodes[twin].outputs[k] >= 0) return left.nodes[twin].outputs[k];
    const old = number.get(right.values[v]);
    if (old !== undefined) return old;
    number.set(right.values[v], values.length);
    values.push(right.values[v]);
    types.push(right.types[v]);
    return values.length - 1;
  };
  interface Entry {
    node: GraphNode;
    change: Change;
    l: number;
    r: number;
    order: number;
  }
  const all: Entry[] = left.nodes.map((n) => ({
    node: n,
    change: c.left.change[n.index],
    l: n.index,
    r: c.left.twin[n.index],
    order: n.index,
  }));
  let order = -1;
  for (const n of right.nodes) {
    const twin = c.right.twin[n.index];
    if (twin >= 0) {
      order = twin;
      const inputs = n.inputs.map(at),
        own = all[twin].node; // edges of both
      all[twin] = {
        ...all[twin],
        node: {
          ...own,
          inputs: [...own.inputs, ...inputs.filter((v) => v >= 0 && !own.inputs.includes(v) && !left.weights.has(v))],
        },
      };
    } else
      all.push({
        node: { ...n, inputs: n.inputs.map(at), outputs: n.outputs.map(at) },
        change: c.right.change[n.index],
        l: -1,
        r: n.index,
        order: order + 0.5,
      });
  }
  all.sort((x, y) => x.order - y.order);
  const nodes = all.map((x, index) => ({ ...x.node, index }));
  const graph = withNodes({ ...left, values, types, nodes }, nodes);
  return { graph, change: all.map((x) => x.change), left: all.map((x) => x.l), right: all.map((x) => x.r) };
}

/** jit's steps as a graph: what one step computes is one node. Lines end in "# Op value" (3-schedule.txt). */
export function graphOfSchedule(given: Graph, schedule: string): Graph {
  const stepOf = new Map<number, number>();
  let step = -1;
  for (const line of schedule.split("\n")) {
    const head = /^step (\d+):/.exec(line);
    if (head) {
      step = Number(head[1]);
      continue;
    }
    const made = /# \S+ (.+)$/.exec(line),
      node = made && given.producer.get(made[1]);
    if (node && !stepOf.has(node.index)) stepOf.set(node.index, step);
  }
  const members = new Map<number, GraphNode[]>();
  for (const n of given.nodes) {
    // without a step: a view, a constant, or what was folded away
    const s = stepOf.get(n.index);
    if (s === undefined) continue;
    const m = members.get(s);
    if (m) m.push(n);
    else members.set(s, [n]);
  }
  const nodes: GraphNode[] = [];
  for (const [, m] of [...members].sort((x, y) => x[0] - y[0])) {
    const inside = new Set(m.flatMap((n) => n.outputs)),
      last = m[m.length - 1];
    const inputs = [...new Set(m.flatMap((n) => n.inputs))].filter((v) => v >= 0 && !inside.has(v));
    const used = last.outputs; // the value that leaves the step; the others never reach memory
    const op =
      m.length === 1
        ? last.op
        : m
            .map((n) => n.op)
            .slice(0, 4)
            .join("+") + (m.length > 4 ? "+…" : "");
    nodes.push({
      ...last,
      index: nodes.length,
      op,
      inputs,
      outputs: used,
      attrs: m.length === 1 ? last.attrs : [["members", m.map((n) => n.name || n.op).join(", ")]],
    });
  }
  return withNodes(given, through(given, nodes));
}

/** Inputs that no step makes (views) are replaced by what they are made from. */
function through(given: Graph, nodes: GraphNode[]): GraphNode[] {
  const made = new Set(nodes.flatMap((n) => n.outputs)),
    known = new Map<number, number[]>();
  const sources = (v: number, depth: number): number[] => {
    // each once: views of views have as many paths as they like
    const old = known.get(v),
      maker = old || made.has(v) || depth > 16 ? undefined : given.producer.get(given.values[v]);
    if (!maker) return old ?? [v];
    const found = [
      ...new Set(maker.inputs.filter((x) => x >= 0 && !given.weights.has(x)).flatMap((x) => sources(x, depth + 1))),
    ];
    known.set(v, found);
    return found;
  };
  return nodes.map((n) => ({ ...n, inputs: [...new Set(n.inputs.flatMap((v) => sources(v, 0)))] }));
}

// The tab of an operation: metadata of both sides, attributes, inputs and outputs, weights.
import { type App } from "./app";
import type { Graph, GraphNode, Point, Side } from "./data";
import { clean, h, table } from "./dom";

const same = (x: unknown, y: unknown): boolean => JSON.stringify(x) === JSON.stringify(y);
type Cell = number[] | string | string[] | number | null;

function metadata(p: Point): HTMLElement | null {
  if (!p.a && !p.b) return null;
  const row = (name: string, f: (s: Side) => Cell): HTMLElement => {
    const [x, y] = [p.a && f(p.a), p.b && f(p.b)];
    const text = (v: Cell): string => (v === null ? "–" : Array.isArray(v) ? `[${v.join(",")}]` : clean(String(v)));
    const differs = p.a && p.b && !same(x, y);
    return h(
      "tr",
      { class: differs ? "differs" : "" },
      h("th", { scope: "row" }, name),
      h("td", { class: "mono" }, text(x)),
      h("td", { class: "mono" }, text(y)),
      h("td", {}, differs ? "≠" : ""),
    );
  };
  return h(
    "details",
    { open: true },
    h("summary", {}, "Metadata"),
    h(
      "table",
      { id: "metadata" },
      h("tr", {}, h("td"), h("th", { scope: "col" }, "A"), h("th", { scope: "col" }, "B"), h("td")),
      row("dtype", (s) => s.dtype),
      row("shape", (s) => s.shape),
      row("strides", (s) => s.strides),
      row("offset", (s) => s.offset),
      row("flags", (s) => s.flags),
      row("hash", (s) => s.hash?.slice(0, 12) ?? null),
    ),
    p.counterpart && p.counterpart !== p.value ? h("p", { class: "quiet" }, `B: ${clean(p.counterpart)}`) : null,
    p.metadata_reason ? h("p", { class: "warn" }, clean(p.metadata_reason)) : null,
  );
}

/** Values an operation reads or makes, each a way to go there. */
function values(app: App, title: string, id: string, numbers: number[]): HTMLElement | null {
  const g = app.graph!,
    seen = numbers.filter((v) => v >= 0);
  if (!seen.length) return null;
  const known = (name: string): boolean => app.byValue.has(name) || app.others.has(name);
  const shape = (v: number): string => {
    const s = app.byValue.get(g.values[v])?.a;
    return s ? `${s.dtype}[${s.shape.join(",")}]` : g.types[v] || "?";
  };
  return h(
    "div",
    {},
    h("h3", {}, title),
    h(
      "table",
      { id },
      ...seen.map((v) =>
        h(
          "tr",
          {},
          h(
            "th",
            { scope: "row" },
            known(g.values[v])
              ? h("button", { class: "link", onclick: () => app.selectValue(g.values[v]) }, clean(g.values[v], 120))
              : clean(g.values[v], 120),
          ),
          h("td", { class: "mono" }, `${clean(shape(v), 120)}${g.weights.has(v) ? " weight" : ""}`),
        ),
      ),
    ),
  );
}

interface Uses {
  at: Map<string, number>; // a value's number
  readers: Map<number, GraphNode[]>; // of a value
}
const usesOf = new WeakMap<Graph, Uses>();
/** Who reads what: counted once for a graph, not for each selection. */
function uses(g: Graph): Uses {
  let u = usesOf.get(g);
  if (u) return u;
  u = { at: new Map(g.values.map((name, v) => [name, v])), readers: new Map() };
  for (const n of g.nodes)
    for (const v of new Set(n.inputs)) {
      const all = u.readers.get(v);
      if (all) all.push(n);
      else u.readers.set(v, [n]);
    }
  usesOf.set(g, u);
  return u;
}

export function operationOf(app: App, p: Point): (HTMLElement | null)[] {
  const g = app.graph,
    node = g?.producer.get(p.value) ?? null,
    bare = p.index < 0 || app.session.kind === "model";
  const at = (g && uses(g).at.get(p.value)) ?? -1;
  const readers = g && at >= 0 ? (uses(g).readers.get(at) ?? []).slice(0, 50) : [];
  return [
    bare
      ? p.a
        ? h("p", { class: "mono", id: "value-type" }, `${p.a.dtype}[${g?.types[at]?.match(/\[([^\]]*)/)?.[1] ?? ""}]`)
        : null
      : metadata(p),
    node && node.attrs.length
      ? h(
          "div",
          { id: "attributes" },
          h("h3", {}, "Attributes"),
          table(node.attrs.map(([k, v]) => [clean(k, 80), clean(v, 300)])),
        )
      : null,
    node && g ? values(app, "Inputs", "op-inputs", node.inputs) : null,
    node && g ? values(app, "Outputs", "op-outputs", node.outputs) : null,
    readers.length && g
      ? values(
          app,
          "Read by",
          "op-readers",
          readers.map((n) => n.outputs[0]),
        )
      : null,
    !node && !bare ? h("p", { class: "quiet" }, "The model's graph says nothing about this value.") : null,
  ];
}

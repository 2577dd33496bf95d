// The search box: words, shapes `[1,64,*]`, attributes `axis=1`, fields `op=Conv verdict=culprit`, metrics `psnr<40`.
// Parts are joined by "and"; a leading "-" negates one; quotes allow spaces: module="my block".
import type { Graph, Metric, Point } from "./data";

export type Test = (p: Point) => boolean;
const compare: Record<string, (x: number, y: number) => boolean> = {
  "<": (x, y) => x < y,
  "<=": (x, y) => x <= y,
  ">": (x, y) => x > y,
  ">=": (x, y) => x >= y,
};
const fields: Record<string, ((p: Point) => string[]) | undefined> = {
  __proto__: null as never, // what is no field is not found, "constructor" included
  op: (p) => [p.op],
  module: (p) => [p.module],
  verdict: (p) => [p.verdict],
  class: (p) => [p.class ?? ""],
  dtype: (p) => [p.a?.dtype ?? "", p.b?.dtype ?? ""],
  value: (p) => [p.value],
  node: (p) => [p.node],
  paired: (p) => [p.paired_by],
  precision: (p) => [p.precision ?? ""],
  relation: (p) => [p.relation],
};

function words(text: string): string[] {
  return (text.match(/-?\[[^\]]*\]?|("[^"]*"?|\S)+/g) ?? []).map((w) => w.replace(/"/g, "")).filter((w) => w);
}

function shape(pattern: string): Test {
  const want = pattern.replace(/[[\]\s]/g, "").split(",");
  const fits = (dims?: number[]): boolean =>
    !!dims &&
    (want.length === 1 && want[0] === ""
      ? dims.length === 0
      : dims.length === want.length && dims.every((d, i) => want[i] === "*" || want[i] === String(d)));
  return (p) => fits(p.a?.shape) || fits(p.b?.shape);
}

function metric(name: string, op: string, limit: number, metrics: Metric[]): Test | null {
  const at = metrics.findIndex((m) => m.name === name);
  const own = ["q", "local", "propagated", "amplified", "confidence"];
  if (at < 0 && !own.includes(name)) return null;
  return (p) => {
    const x = at >= 0 ? p.metrics[at] : (p as any)[name];
    return x !== null && compare[op](x, limit);
  };
}

function attribute(name: string, value: string, graph: Graph | null): Test {
  return (p) =>
    !!graph?.producer
      .get(p.value)
      ?.attrs.some(
        ([n, text]) =>
          n.toLowerCase() === name && text.replace(/[\s"]/g, "").toLowerCase() === value.replace(/\s/g, ""),
      );
}

function one(word: string, metrics: Metric[], graph: Graph | null): Test {
  if (word.startsWith("[")) return shape(word);
  const number = /^([a-z_0-9]+)(<=|>=|<|>)(.+)$/i.exec(word);
  if (number) {
    const limit = /^-?inf$/i.test(number[3]) ? (number[3][0] === "-" ? -Infinity : Infinity) : Number(number[3]);
    const test = Number.isNaN(limit) ? null : metric(number[1].toLowerCase(), number[2], limit, metrics);
    if (test) return test;
  }
  const pair = /^([a-z_]+)=(.+)$/i.exec(word);
  if (pair) {
    const [name, value] = [pair[1].toLowerCase(), pair[2].toLowerCase()];
    const field = fields[name];
    if (field)
      return (p) =>
        field(p).some(
          (x) => x.toLowerCase() === value || (name === "module" && x.toLowerCase().startsWith(value + ".")),
        );
    return attribute(name, value, graph);
  }
  const text = word.toLowerCase();
  return (p) => [p.value, p.node, p.op, p.module, p.counterpart, p.source].some((x) => x.toLowerCase().includes(text));
}

export function parseQuery(text: string, metrics: Metric[], graph: Graph | null): Test {
  const tests = words(text).map((w): Test => {
    if (w.length > 1 && w[0] === "-") {
      const t = one(w.slice(1), metrics, graph);
      return (p) => !t(p);
    }
    return one(w, metrics, graph);
  });
  return (p) => tests.every((t) => t(p));
}

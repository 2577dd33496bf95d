// The parts of the page without a screen: search, lists, state, layout. Prints TAP.   node tests/web/test_lib.mjs
import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const { buildSync } = createRequire(join(root, "web/"))("esbuild");
const dir = mkdtempSync(join(tmpdir(), "plumb-lib-"));
async function load(name) {
  const out = join(dir, `${name}.mjs`);
  buildSync({ entryPoints: [join(root, `web/src/${name}.ts`)], bundle: true, format: "esm", outfile: out, logLevel: "error" });
  return import(pathToFileURL(out));
}
const { parseQuery } = await load("query"), { encode, decode, defaults } = await load("state");
const { layout } = await load("layout"), { outline, scene } = await load("groups"), { byDivergence, list, signOf } = await load("rows"), { compareGraphs, graphOfSchedule, merge } = await load("variants"), { readPicture, difference } = await load("data"), { paint, valueAt } = await load("heat"), { ticks } = await load("charts"), { badgeOf } = await load("summary"), { cellSize } = await load("tensors"), { number, score } = await load("dom");

let count = 0, failed = 0;
function test(name, f) {
  count++;
  try { f(); console.log(`ok ${count} - ${name}`); } catch (e) { failed++; console.log(`not ok ${count} - ${name}\n# ${e.stack.split("\n").slice(0, 4).join("\n# ")}`); }
}
function equal(a, b, what = "") { if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(`${what}: found ${JSON.stringify(a)}, expected ${JSON.stringify(b)}`); }
function ok(x, what) { if (!x) throw new Error(what); }

const metrics = [{ name: "psnr", higher: true }, { name: "mae", higher: false }];
const point = (more) => ({ index: 0, value: "v", node: "n", op: "Conv", module: "a.b", counterpart: "v", source: "", verdict: "same", class: "finite", paired_by: "name", precision: "fp32", relation: "1:1",
  a: { dtype: "float", shape: [1, 64, 7] }, b: null, metrics: [38, 0.5], q: 3, local: null, ...more });

test("query: words, shapes, metrics, fields, negation", () => {
  const fits = (q, p = point({})) => parseQuery(q, metrics, null)(p);
  equal(["conv", "[1,64,*]", "[1,64]", "[1,*]", "psnr<40", "psnr>=38", "psnr<38", "mae<=0.5", "q>4", "op=conv", "module=a", "module=a.b", "module=a.c", "-conv", "-relu", "conv psnr<40", "nothing=1", "psnr<x", "local<1", ""].map((q) => fits(q)),
    [true, true, false, false, true, true, false, true, false, true, true, true, false, false, true, true, false, false, false, true]);
  equal(["module=my block", "module=\"my block\"", "module=\"my block.x\"", "-\"nothing like it\""].map((q) => fits(q, point({ module: "my block" }))), [false, true, false, true], "quotes keep a blank");
});

test("query: any text is a query and never an exception", () => {
  for (const q of ["[", "]", "[,", "<", "psnr<", "-", "--", "=", "a=", "(((", "\\", "*", "psnr<<40", "constructor=1", "__proto__=1", "__proto__<1", "\"", "a\"b c", "x".repeat(100000)]) parseQuery(q, metrics, null)(point({}));
});

test("state: round trip through the address, also of names with commas and markup", () => {
  const s = { ...defaults, value: "a,b#<x>&=%", open: ["a.b", "x,y", "%2C"], metric: "mae", log: true, sort: "operation" };
  equal(decode(encode(s)), s);
  equal(decode(encode({ ...defaults, open: ["cut\ud83d"] })).open, ["cut\ufffd"], "half of a character");
  equal(decode("#sort=evil&theme=<&group=__proto__"), defaults, "what is not known is left out");
});

test("rows: structural, then non-finite, then the worst by the metric's direction, then exact", () => {
  const p = [point({ index: 0, class: "exact", metrics: [Infinity, 0] }), point({ index: 1, metrics: [30, 9] }), point({ index: 2, metrics: [20, 1] }), point({ index: 3, class: "nonfinite" }), point({ index: 4, class: "structural" })];
  equal(byDivergence(p, metrics, 0).map((x) => x.index), [4, 3, 2, 1, 0]);
  equal(byDivergence(p, metrics, 1).map((x) => x.index), [4, 3, 1, 2, 0]);
});

test("rows: where the reference is 0 by max_abs, without a figure last, whatever stands between", () => {
  const more = [...metrics, { name: "max_abs", higher: false }];
  const p = [[null, 1], [30, 9], [null, 1], [-Infinity, 0.5, true], [-Infinity, 2, true], [-Infinity, 7], [20, 1], [null, 1]].map(([psnr, most, zero], index) => point({ index, zero, metrics: [psnr, 0, most] }));
  equal(byDivergence(p, more, 0).map((x) => x.index), [4, 3, 5, 6, 1, 0, 2, 7]);
});

test("numbers: beside 1, and whole ones", () => {
  equal([score(1 - 3e-10), score(0.99999), score(1), score(0.9998), score(null)], ["1-3e-10", "1-0.00001", "1", "0.9998", "–"]);
  equal([number(2 ** 53 - 1, 9), number(12345678901, 9), number(12345678901), number(1e20, 9)], ["9007199254740991", "12345678901", "1.23e+10", "1.00000000e+20"]);
  equal([0.1 + 2 ** -30, 1e-5 + 2 ** -43, 1e-40].map((x) => Math.fround(Number(number(Math.fround(x), 9))) === Math.fround(x)), [true, true, true], "nine digits are a float");
});

test("layout: edges go down, boxes do not overlap, cycles end", () => {
  const boxes = Array.from({ length: 40 }, () => ({ width: 100, height: 30 })), edges = [];
  for (let i = 1; i < 40; i++) edges.push([Math.floor((i - 1) / 2), i]);
  const p = layout(boxes, edges);
  for (const [a, b] of edges) ok(p.y[b] >= p.y[a] + 30, `edge ${a} ${b}`);
  for (let i = 0; i < 40; i++) for (let k = 0; k < i; k++) ok(Math.abs(p.x[i] - p.x[k]) >= 100 || Math.abs(p.y[i] - p.y[k]) >= 30, `boxes ${i} ${k}`);
  layout(boxes.slice(0, 3), [[0, 1], [1, 2], [2, 0], [1, 1]]);
  layout([], []);
});

function network(n, mask) { // blocks of 26 with branches and residuals, as a transformer
  const edges = [];
  for (let i = 1; i < n; i++) {
    edges.push([i - 1, i]);
    if (i % 26 === 25) edges.push([i - 25, i], [i - 12, i]);
    if (mask && i % 26 === 8) edges.push([0, i]);
  }
  return edges;
}
for (const [n, mask] of [[10000, false], [10000, true], [30000, true]]) {
  test(`layout: ${n} boxes${mask ? " and a mask that feeds every block" : ""}`, () => {
    const boxes = Array.from({ length: n }, () => ({ width: 156, height: 30 })), edges = network(n, mask);
    layout(boxes, edges);
    const times = [0, 1, 2].map(() => { const start = process.cpuUsage(); layout(boxes, edges); return process.cpuUsage(start).user / 1000; }).sort((a, b) => a - b);
    console.log(`# ${times[1].toFixed(0)} ms`);
    ok(times[0] < (n > 10000 ? 600 : 200), `${times[0]} ms`);
  });
}

test("groups: what is folded is one box, a module of one operation is that operation, flat runs are cut", () => {
  const nodes = Array.from({ length: 1000 }, (_, i) => ({ index: i, op: "Relu", domain: "", name: "", module: i < 10 ? "a.b" : i === 10 ? "single" : "", file: "", line: 0, code: "", inputs: [i], outputs: [i + 1], attrs: [] }));
  const graph = { nodes, values: nodes.map((_, i) => `v${i}`), weights: new Set() };
  const o = outline(graph), closed = scene(o, new Set()), open = scene(o, new Set(["a", "a.b"]));
  ok(closed.items.length < 150, `${closed.items.length} items`);
  equal(open.items.filter((i) => i.node >= 0 && i.node < 10).length, 10);
  equal(closed.items.filter((i) => i.node === 10).length + scene(o, new Set(o.ids)).items.filter((i) => i.node === 10).length > 0, true, "single");
  equal(scene(o, new Set(o.ids)).items.filter((i) => i.node >= 0).length, 1000, "all open: every node once");
  const inside = open.items.find((i) => i.id === "a.b");
  for (const i of open.items) if (i.node >= 0 && i.node < 10) ok(i.x >= inside.x && i.x + i.width <= inside.x + inside.width && i.y + i.height <= inside.y + inside.height, "members lie inside");
});

test("groups: a module path of 100,000 parts does no harm", () => {
  const nodes = [{ index: 0, op: "Relu", domain: "", name: "", module: "a.".repeat(100000), file: "", line: 0, code: "", inputs: [], outputs: [0], attrs: [] }];
  const o = outline({ nodes, values: ["y"], weights: new Set() });
  ok(o.ids.length < 100, `${o.ids.length} groups`);
  scene(o, new Set(o.ids));
});

const graphOf = (rows, weights = []) => { // [op, name of the output, names of inputs…]
  const values = [...new Set(rows.flatMap((r) => r.slice(1)).concat(weights))], producer = new Map();
  const nodes = rows.map((r, index) => ({ index, op: r[0], domain: "", name: "", module: "", file: "", line: 0, code: "", inputs: r.slice(2).map((v) => values.indexOf(v)), outputs: [values.indexOf(r[1])], attrs: [] }));
  for (const n of nodes) producer.set(values[n.outputs[0]], n);
  return { values, types: values.map(() => ""), weights: new Set(weights.map((w) => values.indexOf(w))), inputs: [], outputs: [values.indexOf(rows[rows.length - 1][1])], nodes, producer };
};

test("variants: fused, folded, changed, added, removed; a renamed pair", () => {
  const given = graphOf([["Conv", "c", "x"], ["BatchNormalization", "b", "c"], ["Relu", "r", "b"], ["Shape", "s", "x"], ["Add", "y", "r", "s"]]);
  const runs = graphOf([["Cast", "t", "x"], ["FusedConv", "r", "t"], ["Add", "y", "r", "s"]], ["s"]);
  const c = compareGraphs(given, runs, new Map());
  equal(c.left.change, ["fused", "fused", "changed", "folded", "same"]);
  equal(c.left.into.slice(0, 2), [1, 1]);
  equal(c.right.change, ["fused", "changed", "same"], "the cast belongs to the fused one");
  const m = merge(given, runs, c);
  equal(m.graph.nodes.map((n) => n.op), ["Cast", "Conv", "BatchNormalization", "Relu", "Shape", "Add"]);
  equal(m.graph.nodes.every((n) => n.outputs.every((v) => v >= 0 && v < m.graph.values.length)), true);
  const other = graphOf([["Conv", "k", "x"], ["Relu", "r", "k"], ["Mul", "z", "r"]]);
  const two = compareGraphs(graphOf([["Conv", "c", "x"], ["Relu", "r", "c"]]), other, new Map([["c", "k"]]));
  equal([two.left.change, two.right.change], [["same", "same"], ["same", "same", "added"]]);
});

test("variants: jit's schedule as a graph, whatever it holds", () => {
  const given = graphOf([["Conv", "c", "x"], ["Relu", "r", "c"], ["Reshape", "v", "r"], ["Tanh", "y", "v"]]);
  const g = graphOfSchedule(given, "step 0: call\n  * %2 call  # Conv c\n  * %3 map  # Relu r\n    shows r\nstep 1: loop\n  * %4 map # Tanh y\n");
  equal(g.nodes.map((n) => [n.op, g.values[n.outputs[0]], n.inputs.map((v) => g.values[v])]), [["Conv+Relu", "r", ["x"]], ["Tanh", "y", ["r"]]]);
  const views = graphOf([["Conv", "v0", "x"], ...Array.from({ length: 16 }, (_, i) => ["Concat", `v${i + 1}`, ...Array(6).fill(`v${i}`)]), ["Tanh", "y", "v16"]]);
  equal(graphOfSchedule(views, "step 0: call\n # Conv v0\nstep 1: loop\n # Tanh y\n").nodes.map((n) => n.inputs.map((v) => views.values[v])), [["x"], ["v0"]], "views of views: 6 to the power of 16 paths");
  for (const text of ["", "step x\n# # #", "step 0: call\n # Conv nothing", "step 99999999999999999999: a\n # Conv c"]) graphOfSchedule(given, text);
});

test("rows: modules are a tree with roll-up; one of a single value is left out", () => {
  const session = { metrics, points: [], metric: "psnr" }, add = (module, c) => session.points.push(point({ index: session.points.length, value: `v${session.points.length}`, module, colours: c, verdict: c === "rr" ? "inherited" : "same" }));
  add("a.x.conv", "rr"); add("a.x.relu", "gg"); add("a.y", "gg"); add("", "gg");
  const l = list(session, null, { ...defaults, sort: "operation", group: "module" });
  equal(l.rows.map((r) => `${"  ".repeat(r.depth)}${r.heading ? `${r.heading.label} ${r.heading.count} ${r.heading.colours.r}` : r.point.value}`), ["a 3 1", "  x 2 1", "    v0", "    v1", "  v2", "(no module) 1 0", "  v3"]);
  equal(list(session, null, { ...defaults, sort: "operation", group: "module", closed: ["a"] }).shown.length, 1, "closed with all below it");
});

test("picture: only what is whole is read", () => {
  for (const n of [0, 4, 8, 16]) { let failed = false; try { readPicture(new ArrayBuffer(n)); } catch { failed = true; } ok(failed, `${n} bytes`); }
  const head = new TextEncoder().encode(JSON.stringify({ sides: "ab", rows: 1, cols: 2, type: "u64" }).padEnd(64)), bytes = new Uint8Array(8 + 64 + 32), view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode("PLSL"));
  view.setUint32(4, 64, true);
  bytes.set(head, 8);
  [2n ** 64n - 1n, 5n, 2n ** 64n - 2n, 7n].forEach((x, i) => view.setBigUint64(72 + 8 * i, x, true));
  const p = readPicture(bytes.buffer);
  equal([[...p.d], [...p.whole.a].map(String), [...p.whole.d].map(String)], [[1, -2], ["18446744073709551615", "5"], ["1", "-2"]], "64-bit integers");
  equal([difference(Infinity, Infinity), difference(NaN, NaN), difference(3, 1)], [0, 0, 2]);
});

test("heat: every double has a colour", () => {
  const cells = [1.7e308, -1.7e308, 0, NaN, Infinity, -Infinity], image = { data: new Uint8ClampedArray(4 * cells.length) };
  for (const kind of ["value", "difference"]) for (const log of [false, true]) paint(image, cells, kind, { lo: -1.7e308, hi: 1.7e308 }, log);
  paint(image, cells, "value", { lo: -1.7e308, hi: 1.7e308 }, false);
  equal([...image.data.slice(0, 8)], [253, 231, 37, 255, 68, 1, 84, 255], "the ends of the map");
});

test("rows: blame first, what nothing can be said about is one line; the verdict decides the colour", () => {
  const blame = [{ value: "late", members: [] }, { value: "worse", members: [] }];
  const points = [point({ index: 0, value: "red", colours: "rr", metrics: [5, 9], verdict: "inherited" }), point({ index: 1, value: "worse", colours: "gg", metrics: [200, 0], verdict: "culprit", blame: blame[1] }),
    point({ index: 2, value: "late", colours: "--", class: null, verdict: "unpaired", blame: blame[0] }), point({ index: 3, value: "c1", op: "Constant", class: null, verdict: "unpaired", colours: "--" }),
    point({ index: 4, value: "c2", class: null, verdict: "unpaired", colours: "--" }), point({ index: 5, value: "out", class: null, verdict: "unpaired", output: true, colours: "--" })];
  const session = { kind: "session", metrics, metric: "psnr", points, blame }, shown = (s) => list(session, null, { ...defaults, ...s }).rows.map((r) => r.point?.value ?? r.heading.label);
  equal(shown({}), ["late", "worse", "red", "out", "1 unpaired, 1 constant"], "culprits as the session ranks them, an output is never put away");
  equal(shown({ rest: true }).slice(-2), ["c1", "c2"], "the line opens");
  equal(shown({ sort: "operation" }).length, 6, "no folding in other orders");
  equal([signOf(points[1], 0), signOf(points[0], 0), signOf(point({ verdict: "same", colours: "rr" }), 0), signOf(point({ verdict: "within", colours: "gg", nonfinite: [1, 0] }), 0)], ["r", "r", "g", "r"]);
  const coverage = { outputs: 1, outputs_compared: 1 }, side = { failure: "" };
  const look = (verdict, of, c = coverage) => badgeOf({ ...session, a: side, b: side, verdict, points: of, coverage: c }, 0).look;
  equal([look("agree", [points[0]]), look("agree", []), look("agree", [], { outputs: 2, outputs_compared: 1 }), look("diverged", [])], ["wary", "sure", "wary", "wrong"], "never green over red, nor over an output that was not compared");
});

test("groups: an edge into an open group ends at the operation itself; \"*\" unfolds all but what has a \"!\"", () => {
  const node = (index, module, inputs) => ({ index, op: "Relu", domain: "", name: "", module, file: "", line: 0, code: "", inputs, outputs: [index + 1], attrs: [] });
  const o = outline({ nodes: [node(0, "", [0]), node(1, "m", [1]), node(2, "m", [2, 1]), node(3, "", [3])], values: ["x", "a", "b", "c", "d"], weights: new Set() });
  const ends = (s) => s.edges.map((e) => [s.items[e.from].id, s.items[e.to].id].join(">")).sort();
  equal(ends(scene(o, new Set(["m"]))), ["n0>n1", "n0>n2", "n1>n2", "n2>n3"], "the residual edge reaches its Add");
  equal(ends(scene(o, new Set())), ["m>n3", "n0>m"]);
  equal([ends(scene(o, new Set(["*"]))).length, ends(scene(o, new Set(["*", "!m"]))).length], [4, 2]);
});

test("pictures: the colour bar says what paint does; cells are square; ticks are round", () => {
  for (const log of [false, true]) for (const kind of ["value", "difference"]) {
    const range = kind === "value" && !log ? { lo: -1, hi: 3 } : { lo: -3, hi: 3 }, a = { data: new Uint8ClampedArray(4) }, b = { data: new Uint8ClampedArray(4) };
    equal([valueAt(0, kind, range, log), valueAt(1, kind, range, log)].map((x) => Number(x.toPrecision(6))), [range.lo, range.hi], `${kind} ${log}`);
    paint(a, [valueAt(0.3, kind, range, log)], kind, range, log);
    paint(b, [valueAt(0.301, kind, range, log)], kind, range, log);
    ok([0, 1, 2].every((k) => Math.abs(a.data[k] - b.data[k]) < 4), "neighbours on the bar have neighbouring colours");
  }
  for (const [rows, cols, width] of [[40, 24, 300], [24, 40, 300], [300, 300, 400], [56, 56, 900]]) { const [hgt, wid] = cellSize(rows, cols, width, 3); equal(hgt, wid, `${rows}x${cols}`); ok(cols * wid <= width, "fits"); }
  equal(ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  equal(ticks(-3, 4, 4), [-2, 0, 2, 4]);
  equal(ticks(5, 5, 4), [5]);
});

console.log(`1..${count}`);
rmSync(dir, { recursive: true, force: true });
process.exit(failed ? 1 : 0);

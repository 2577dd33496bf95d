#!/usr/bin/python3
"""Reducing: plumb minify against what two older ways need for the same graphs and the same check (oracle.c): two sweeps, as Polygraphy's
debug reduce, and powers of two, as PyTorch's fx minifier (baselines.py, in the same run); see README.md.
  bench/minify/run.py [--plumb build/plumb] [--out FILE.md] [-k TEXT] [--planted]     --planted: the second table, faults planted in real models"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import baselines

ROOT = Path(__file__).resolve().parent.parent.parent


class Graph:
    """A chain-like graph of element-wise operators in ONNX text."""

    def __init__(self):
        self.lines, self.n = [], 0

    def op(self, kind, *inputs):
        self.n += 1
        out = f"{kind.lower()}_{self.n}"
        self.lines.append(f"  {out} = {kind}({', '.join(inputs)})")
        return out

    def chain(self, kind, count, at):
        for _ in range(count):
            at = self.op(kind, at)
        return at

    def write(self, path, out):
        text = '<ir_version: 8, opset_import: ["" : 17]>\ng (float[4] x) => (float[4] %s) {\n%s\n}\n'
        Path(path).write_text(text % (out, "\n".join(self.lines)))


def chain(path, n):
    g = Graph()
    g.write(path, g.chain("Cos", n, g.op("Relu", g.chain("Sin", n, "x"))))


def pair(path, n, distance=10):
    g = Graph()
    at = g.op("Relu", g.chain("Sin", n, "x"))
    g.write(path, g.chain("Cos", n, g.op("Tanh", g.chain("Sin", distance - 1, at))))


def branches(path, head=200, length=100, tail=200):
    """Two branches, a site in the middle of each, joined."""
    g = Graph()
    at = g.chain("Sin", head, "x")
    ends = [g.chain("Sin", length - length // 2 - 1, g.op(site, g.chain("Sin", length // 2, at)))
            for site in ("Relu", "Tanh")]
    g.write(path, g.chain("Cos", tail, g.op("Add", *ends)))


def eight(path):
    """Eight parallel branches of 50, the site in one of them."""
    g = Graph()
    at = g.chain("Sin", 100, "x")
    ends = []
    for i in range(8):
        end = g.chain("Sin", 25, at)
        ends.append(g.chain("Sin", 24, g.op("Relu" if i == 5 else "Sin", end)))
    while len(ends) > 1:
        ends = [g.op("Add", ends[i], ends[i + 1]) for i in range(0, len(ends), 2)]
    g.write(path, g.chain("Cos", 100, ends[0]))


def transformer(path, layers=12, width=32, heads=4, length=12):
    """An encoder of that many layers, pre-norm, GELU by Erf, seeded weights."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
    random = np.random.default_rng(7)
    nodes, weights = [], []

    def weight(*shape, values=None):
        value = random.normal(0, shape[0] ** -0.5, shape).astype("float32") if values is None else np.array(values)
        weights.append(numpy_helper.from_array(value, f"w{len(weights)}"))
        return weights[-1].name

    def op(kind, *inputs, **attributes):
        nodes.append(helper.make_node(kind, inputs, [f"{kind.lower()}_{len(nodes)}"], f"{kind}_{len(nodes)}", **attributes))
        return nodes[-1].output[0]

    def linear(x, n_in, n_out):
        return op("Add", op("MatMul", x, weight(n_in, n_out)), weight(n_out))

    def norm(x):
        return op("LayerNormalization", x, weight(width, values=np.ones(width, "float32")), weight(width), axis=-1)

    def split(x, perm):
        return op("Transpose", op("Reshape", x, weight(values=np.int64([length, heads, width // heads]))), perm=perm)

    at = "x"
    for _ in range(layers):
        h = norm(at)
        q, k, v = (split(linear(h, width, width), perm) for perm in ([1, 0, 2], [1, 2, 0], [1, 0, 2]))
        scores = op("Mul", op("MatMul", q, k), weight(values=np.float32((width // heads) ** -0.5)))
        mixed = op("Transpose", op("MatMul", op("Softmax", scores, axis=-1), v), perm=[1, 0, 2])
        merged = op("Reshape", mixed, weight(values=np.int64([length, width])))
        at = op("Add", at, linear(merged, width, width))
        h = linear(norm(at), width, 4 * width)
        erf = op("Add", op("Erf", op("Mul", h, weight(values=np.float32(0.5 ** 0.5)))), weight(values=np.float32(1)))
        gelu = op("Mul", op("Mul", h, erf), weight(values=np.float32(0.5)))
        at = op("Add", at, linear(gelu, 4 * width, width))
    shape = [length, width]
    graph = helper.make_graph(nodes, "transformer", [helper.make_tensor_value_info("x", 1, shape)],
                              [helper.make_tensor_value_info(at, 1, shape)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


# Faults in the middle of real models: (name, model, faults of element-wise operators, faults of others)
PLANTED = (
    ("resnet18", "torch/resnet18.onnx", ("accuracy@Relu:5", "offset@Add:3"), ("scale@Conv:10",)),
    ("transformer, 12 layers", None, ("offset@Add:50", "sign@Mul:20", "accuracy@Erf:7"), ("scale@Softmax:6", "scale@MatMul:40")),
    ("ViT-B/16, 12 layers", "torch/vit_b_16.onnx", ("offset@Add:40", "accuracy@Erf:6"), ("scale@Softmax:9",)),
    ("LSTM and GRU", "torch/recurrent.onnx", ("scale@Add:1",), ("accuracy@LSTM:1", "scale@GRU:1")),
    ("YOLOX (ddddocr_det)", "ddddocr_det.onnx", ("accuracy@Sigmoid:3", "scale@Mul:30"), ("offset@Conv:40", "zero@MaxPool:2")),
)


def planted_path(model, tmp):
    """The model's file; None when it has not been fetched or exported."""
    if model is None:
        path = Path(tmp) / "transformer12.onnx"
        if not path.exists():
            transformer(path)
        return path
    path = ROOT / ".cache/models" / model
    return path if path.exists() else None


def planted_row(plumb, tmp, model, fault):
    """(result of minify, largest tensor of the repro in elements, does the reference pass it)"""
    out = Path(tmp) / "planted"
    subprocess.run(["rm", "-rf", out])
    done = subprocess.run([plumb, "minify", str(model), "--inject", fault, "--json", "-q", "-o", out], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{model} {fault}: {done.stderr}")
    import onnx
    sizes = [math.prod(t.dims) for t in onnx.load(str(out / "model.onnx")).graph.initializer]
    for file in (out / "test_data_set_0").glob("*.pb"):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(file.read_bytes())
        sizes.append(math.prod(tensor.dims))
    passes = subprocess.run([plumb, "minify", "--query", out, "--backend", "eager"], capture_output=True).returncode == 0
    return json.loads(done.stdout), max(sizes), passes


def planted(args):
    lines = ["| model | nodes | fault | left | largest tensor | queries | s | fails in a new process, passes on eager |", "|---|---|---|---|---|---|---|---|"]
    bad = 0
    for name, model, elementwise, others in PLANTED:
        path = planted_path(model, args.tmp)
        if path is None:
            lines.append(f"| {name} | | not here | | | | | |")
        for fault in (*elementwise, *others) if path is not None and args.k in name else ():
            r, largest, passes = planted_row(args.plumb, args.tmp, path, fault)
            ok = r["nodes_after"] <= 3 and (fault in others or largest <= 64) and r["seconds"] < 60 and r["verified"] and passes
            bad += not ok
            lines.append(f"| {name} | {r['nodes_before']} | {fault} | {r['nodes_after']}{'' if ok else ' MISSED'} | {largest} | {r['queries']} "
                         f"| {r['seconds']:.1f} | {'yes' if r['verified'] and passes else 'no'} |")
            print(lines[-1], flush=True)
    return lines, bad


def nodes_of(model):
    """Names and operators of a model's nodes."""
    import onnx
    return [(n.name, n.op_type) for n in onnx.load(model, load_external_data=False).graph.node]


def read_text(path):
    """Nodes of a graph that Graph wrote, for baselines.py."""
    found = re.findall(r"^  (\w+) = (\w+)\((.*)\)$", Path(path).read_text(), re.M)
    return [(name, op, inputs.split(", ")) for name, op, inputs in found]


def read_onnx(model):
    """The same of an ONNX file; a node is asked for by its name, which stands for the operator. Weights are no inputs."""
    import onnx
    graph = onnx.load(model, load_external_data=False).graph
    weights, first = {w.name for w in graph.initializer}, {}
    for n in graph.node:
        first.update({o: n.output[0] for o in n.output})
    return [(n.output[0], n.name, [first.get(i, i) for i in n.input if i and i not in weights]) for n in graph.node]


def peers(nodes, *wanted):
    return "%d / %d" % baselines.two_sweep(nodes, baselines.has(*wanted)), "%d / %d" % baselines.power_of_two(nodes, baselines.has(*wanted))


def minify(args, model, words, extra=()):
    check = f"{args.oracle} {{model}} {' '.join(words)}"
    subprocess.run(["rm", "-rf", f"{args.tmp}/repro"])
    begin = time.time()
    done = subprocess.run([args.plumb, "minify", model, "--check", check, "--json", "-q", "--jobs", "1", "-o", f"{args.tmp}/repro", *extra],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{model}: {done.stderr}")
    result = json.loads(done.stdout)
    result["wall"] = time.time() - begin
    return result


def synthetic(args, tmp):
    """(name, model, words, limit of queries, nodes that may be left)"""
    rows = []
    for n in (20, 100, 500, 2500):
        chain(f"{tmp}/chain{n}.onnxtxt", n)
        rows.append((f"chain {n}", f"{tmp}/chain{n}.onnxtxt", ["op=Relu"], 2 * math.log2(2 * n + 1) + 8, 1))
    for n in (20, 100, 500, 2500):
        pair(f"{tmp}/pair{n}.onnxtxt", n)
        rows.append((f"pair {n}, 10 apart", f"{tmp}/pair{n}.onnxtxt", ["op=Relu", "op=Tanh"], 60, 2))
    pair(f"{tmp}/far.onnxtxt", 400, 200)
    rows.append(("pair, 200 apart", f"{tmp}/far.onnxtxt", ["op=Relu", "op=Tanh"], 60, 2))
    rows.append(("pair, 200 apart, connected", f"{tmp}/far.onnxtxt", ["-j", "op=Relu", "op=Tanh"], 60, 2))
    branches(f"{tmp}/branches.onnxtxt")
    rows.append(("two branches, a site in each", f"{tmp}/branches.onnxtxt", ["op=Relu", "op=Tanh"], 80, 3))
    rows.append(("two branches, connected", f"{tmp}/branches.onnxtxt", ["-j", "op=Relu", "op=Tanh"], 80, 3))
    eight(f"{tmp}/eight.onnxtxt")
    rows.append(("8 branches, one site", f"{tmp}/eight.onnxtxt", ["op=Relu"], 2 * math.log2(601) + 8, 1))
    return rows


def sweep(args, model, count, limit):
    """Evenly spaced nodes of a real model, by name; convolutions where they have names only by operator."""
    nodes = [n for n in nodes_of(model) if n[0]]
    picked = [nodes[(2 * i + 1) * len(nodes) // (2 * count)][0] for i in range(count)]
    return [(name, minify(args, model, [f"name={name}"])) for name in picked], limit(len(nodes_of(model)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plumb", default=str(ROOT / "build/plumb"))
    parser.add_argument("--out")
    parser.add_argument("-k", default="")
    parser.add_argument("--planted", action="store_true")
    args = parser.parse_args()
    lines = ["| graph | nodes | queries | limit | left | CPU ms of plumb per query | two sweeps: checks / left | powers of two: queries / left |",
             "|---|---|---|---|---|---|---|---|"]
    bad = 0
    with tempfile.TemporaryDirectory() as tmp:
        args.tmp, args.oracle = tmp, f"{tmp}/oracle"
        if args.planted:
            lines, bad = planted(args)
            if args.out:
                Path(args.out).write_text("\n".join(lines) + "\n")
            return 1 if bad else 0
        subprocess.run(["cc", "-O2", "-o", args.oracle, str(Path(__file__).parent / "oracle.c")], check=True)
        for name, model, words, limit, left in synthetic(args, tmp):
            if args.k not in name:
                continue
            whole = model.replace(".onnxtxt", ".onnx")
            if not os.path.exists(whole):
                subprocess.run([args.plumb, "convert", model, whole], check=True, capture_output=True)
            r = minify(args, whole, words)
            overhead = 1000 * r["overhead_seconds"] / r["runs"]
            ok = r["queries"] <= limit and r["nodes_after"] <= left and r["one_minimal"]
            bad += not ok
            lines.append(f"| {name} | {r['nodes_before']} | {r['queries']} | {int(limit)} | {r['nodes_after']}{'' if ok else ' MISSED'} "
                         f"| {overhead:.2f} | {' | '.join(peers(read_text(model), *(w[3:] for w in words if w != '-j')))} |")
            print(lines[-1], flush=True)
        for name, model, count in (("resnet18", ROOT / ".cache/models/torch/resnet18.onnx", 16),
                                   ("QDQ mobilenet", ROOT / ".cache/conformance/mobilenet-qdq/model.onnx", 24)):
            if not model.exists() or args.k not in name:
                continue
            results, limit = sweep(args, str(model), count, lambda n: 2 * math.log2(n) + 8)
            queries = [r["queries"] for _, r in results]
            ones = sum(r["nodes_after"] == 1 for _, r in results)
            overhead = 1000 * sum(r["overhead_seconds"] for _, r in results) / sum(r["runs"] for _, r in results)
            bad += ones != count or max(queries) > limit
            nodes, cells = read_onnx(str(model)), []
            for reduce in (baselines.two_sweep, baselines.power_of_two):
                found = [reduce(nodes, baselines.has(node)) for node, _ in results]
                cells.append(f"{sum(q for q, _ in found) / count:.1f} / {sum(n for _, n in found) / count:.3g} (one node: {sum(n == 1 for _, n in found)} of {count})")
            lines.append(f"| {name}, {count} nodes | {results[0][1]['nodes_before']} | {sum(queries) / count:.1f} ({min(queries)}-{max(queries)}) | {int(limit)} "
                         f"| 1 ({ones} of {count}) | {overhead:.2f} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    if args.out:
        Path(args.out).write_text("\n".join(lines) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

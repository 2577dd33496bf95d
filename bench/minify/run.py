#!/usr/bin/python3
"""Reducing: plumb minify against what peers need for the same graphs and the same check (oracle.c).
Peers' figures were measured once with Polygraphy 0.49.27 (bisect) and a model of the fx minifier; see README.md.
  bench/minify/run.py [--plumb build/plumb] [--out FILE.md] [-k TEXT]"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def nodes_of(model):
    """Names and operators of a model's nodes."""
    import onnx
    return [(n.name, n.op_type) for n in onnx.load(model, load_external_data=False).graph.node]


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
    """(name, model, words, limit of queries, nodes that may be left, peers)"""
    rows = []
    for n, polygraphy, fx in ((20, "10 / 1", "35 / 1"), (100, "14 / 1", "37 / 1"), (500, "18 / 1", "63 / 1"),
                              (2500, "24 / 1", "68 / 1")):
        chain(f"{tmp}/chain{n}.onnxtxt", n)
        rows.append((f"chain {n}", f"{tmp}/chain{n}.onnxtxt", ["op=Relu"], 2 * math.log2(2 * n + 1) + 8, 1, polygraphy, fx))
    for n, polygraphy, fx in ((20, "11 / 11", "80 / 11"), (100, "15 / 11", "125 / 11"), (500, "19 / 11", "99 / 11"),
                              (2500, "24 / 11", "115 / 11")):
        pair(f"{tmp}/pair{n}.onnxtxt", n)
        rows.append((f"pair {n}, 10 apart", f"{tmp}/pair{n}.onnxtxt", ["op=Relu", "op=Tanh"], 60, 2, polygraphy, fx))
    pair(f"{tmp}/far.onnxtxt", 400, 200)
    rows.append(("pair, 200 apart", f"{tmp}/far.onnxtxt", ["op=Relu", "op=Tanh"], 60, 2, "19 / 201", "922 / 201"))
    rows.append(("pair, 200 apart, connected", f"{tmp}/far.onnxtxt", ["-j", "op=Relu", "op=Tanh"], 60, 2, "", ""))
    branches(f"{tmp}/branches.onnxtxt")
    rows.append(("two branches, a site in each", f"{tmp}/branches.onnxtxt", ["op=Relu", "op=Tanh"], 80, 3, "18 / 201", "984 / 101"))
    rows.append(("two branches, connected", f"{tmp}/branches.onnxtxt", ["-j", "op=Relu", "op=Tanh"], 80, 3, "", ""))
    eight(f"{tmp}/eight.onnxtxt")
    rows.append(("8 branches, one site", f"{tmp}/eight.onnxtxt", ["op=Relu"], 2 * math.log2(601) + 8, 1, "19 / 26", "33 / 1"))
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
    args = parser.parse_args()
    lines = ["| graph | nodes | queries | limit | left | CPU ms of plumb per query | Polygraphy: checks / left | fx: queries / ops left |",
             "|---|---|---|---|---|---|---|---|"]
    bad = 0
    with tempfile.TemporaryDirectory() as tmp:
        args.tmp, args.oracle = tmp, f"{tmp}/oracle"
        subprocess.run(["cc", "-O2", "-o", args.oracle, str(Path(__file__).parent / "oracle.c")], check=True)
        for name, model, words, limit, left, polygraphy, fx in synthetic(args, tmp):
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
                         f"| {overhead:.2f} | {polygraphy} | {fx} |")
            print(lines[-1], flush=True)
        for name, model, count, peer, fx in (
                ("resnet18", ROOT / ".cache/models/torch/resnet18.onnx", 16, "11.1 / 1 (15 of 16)", "33 / 1"),
                ("QDQ mobilenet", Path("/tmp/conf/mobilenet_qdq/model.onnx"), 24, "18.3 / 1 (10 of 24)", "64 / 1")):
            if not model.exists() or args.k not in name:
                continue
            results, limit = sweep(args, str(model), count, lambda n: 2 * math.log2(n) + 8)
            queries = [r["queries"] for _, r in results]
            ones = sum(r["nodes_after"] == 1 for _, r in results)
            overhead = 1000 * sum(r["overhead_seconds"] for _, r in results) / sum(r["runs"] for _, r in results)
            bad += ones != count or max(queries) > limit
            lines.append(f"| {name}, {count} nodes | {results[0][1]['nodes_before']} | {sum(queries) / count:.1f} ({min(queries)}-{max(queries)}) | {int(limit)} "
                         f"| 1 ({ones} of {count}) | {overhead:.2f} | {peer} | {fx} |")
            print(lines[-1], flush=True)
    if args.out:
        Path(args.out).write_text("\n".join(lines) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

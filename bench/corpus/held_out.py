#!/usr/bin/python3
"""Are faults grouped by their cause, where the rules have not seen them?

  bench/corpus/held_out.py WORK [JOBS [SEED]]   40 faults planted in jit (one for each operator, and more than one for six of them) x 72 graphs that are drawn at random.
                                           Goes on with what is in WORK. Exit 1: a group mixes two faults, or less than 95 % of the failures of one are in one group

The rules of grouping were written on the graphs of ort-bugs-open, ONNX's data, and the faults offset@Relu, zero@Softmax, scale@Add and accuracy@Relu: none of them is here.
A fault shows only in graphs that have its operator; --inject leaves the others alone."""

import collections
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
UNARY = ("Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Erf", "Softplus", "Elu", "Selu", "LeakyRelu", "HardSigmoid", "HardSwish", "Floor", "Sin", "Cos", "Softsign", "Atan", "Sinh")
BINARY = ("Mul", "Sub", "Div", "Max", "Min", "Pow")
OTHERS = ("MatMul", "Concat", "Transpose", "ReduceMean", "ReduceSum", "LayerNormalization", "Where", "Clip", "LogSoftmax", "Gemm")
KINDS = ("sign", "shift", "tail", "saturate", "channel", "one-element", "nan", "scale", "offset", "zero")
TWICE = (("offset", "Sigmoid"), ("nan", "Mul"), ("zero", "Tanh"), ("tail", "MatMul"), ("sign", "Concat"), ("runtime-error", "Erf"))
N_MODELS, SIDE = 72, 6


def faults():
    """Each operator with a kind that shows on it: a sign of Abs, a scale of Floor, …"""
    ops = UNARY + BINARY + OTHERS
    return [f"{KINDS[i % len(KINDS)]}@{op}" for i, op in enumerate(ops)] + [f"{kind}@{op}" for kind, op in TWICE]


class Graph:
    """Values of shape [SIDE, SIDE]; every operator takes some and makes one."""

    def __init__(self, rng):
        self.rng, self.nodes, self.constants, self.values = rng, [], [], ["x", "y"]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape):
        return self.constant(np.random.default_rng(self.rng.randrange(1 << 30)).uniform(0.5, 1.5, shape).astype(np.float32))

    def node(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n{len(self.nodes)}", **attributes))
        return name

    def add(self, op):
        a, b = (self.rng.choice(self.values[-3:]) for _ in range(2))
        if op in UNARY:
            out = self.node(op, [a])
        elif op in ("Div", "Pow"):  # a positive base, and a divisor away from 0
            out = self.node(op, [self.node("Abs", [a]) if op == "Pow" else a, self.weights(SIDE, SIDE)])
        elif op in BINARY:
            out = self.node(op, [a, b])
        elif op == "MatMul":
            out = self.node(op, [a, self.weights(SIDE, SIDE)])
        elif op == "Gemm":
            out = self.node(op, [a, self.weights(SIDE, SIDE), self.weights(SIDE)])
        elif op == "Concat":
            half = [self.node("ReduceMax", [v], keepdims=1, axes=[1]) for v in (a, b)]
            out = self.node(op, half + [self.weights(SIDE, SIDE - 2)], axis=1)
        elif op == "Transpose":
            out = self.node(op, [a], perm=[1, 0])
        elif op in ("ReduceMean", "ReduceSum"):
            out = self.node("Expand", [self.node(op, [a], keepdims=1, axes=[1]) if op == "ReduceMean" else self.node(op, [a, self.constant(np.array([1], np.int64))], keepdims=1),
                                       self.constant(np.array([SIDE, SIDE], np.int64))])
        elif op == "LayerNormalization":
            out = self.node(op, [a, self.weights(SIDE), self.weights(SIDE)])
        elif op == "Where":
            out = self.node(op, [self.constant(np.random.default_rng(self.rng.randrange(99)).integers(0, 2, (SIDE, SIDE)).astype(bool)), a, b])
        elif op == "Clip":
            out = self.node(op, [a, self.constant(np.float32(-0.7)), self.constant(np.float32(0.9))])
        else:
            out = self.node(op, [a], axis=1)
        self.values.append(out)

    def save(self, path):
        used = {n for node in self.nodes for n in node.input}
        ends = [v for v in self.values[2:] if v not in used]
        float_of = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIDE, SIDE])  # noqa: E731
        graph = helper.make_graph(self.nodes, "g", [float_of(n) for n in ("x", "y") if n in used], [float_of(n) for n in ends], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, str(path))


def make_models(folder, seed):
    """Every operator is in at least six of them, with two to five others around it."""
    rng, ops = random.Random(seed), [*UNARY, *BINARY, *OTHERS]
    decks = []
    for i in range(N_MODELS):
        graph = Graph(random.Random(f"{seed} {i}"))
        for _ in range(rng.randint(3, 6)):
            if not decks:
                decks = rng.sample(ops, len(ops))
            op = decks.pop()
            graph.add(op)
        try:
            graph.save(folder / f"m{i:02}/model.onnx")
            onnx.shape_inference.infer_shapes(onnx.load(str(folder / f"m{i:02}/model.onnx")), strict_mode=True)
        except Exception as e:  # a fault of this script
            sys.exit(f"m{i:02}: {e}")


def judge(result):
    wrong, of, groups = [], collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    for case in result["cases"]:
        if case["status"] in ("agree", "skipped"):
            continue
        fault = case["backend"].partition("inject=")[2] or "none"
        of[fault][case["group"]] += 1
        groups[case["group"]][fault] += 1
    for fault, found in sorted(of.items()):
        share = max(found.values()) / sum(found.values())
        if share < 0.95:
            wrong.append(f"{fault}: {sum(found.values())} failures in {len(found)} groups, {share:.0%} in one")
    name = {g["id"]: g["name"] for g in result["groups"]}
    wrong += [f"group {g} mixes {dict(found)}: {name.get(g)}" for g, found in groups.items() if len(found) > 1]
    print(f"{len(result['cases'])} items, {sum(sum(c.values()) for c in of.values())} failures of {len(of)} of {len(faults())} faults, {len(result['groups'])} groups")
    return wrong


def main(work, jobs="2", seed="22"):
    work = Path(work)
    if not (work / "models").exists():
        make_models(work / "models", int(seed))
    specs = [w for f in faults() for w in ("--backend", f"jit:inject={f}")]
    command = [PLUMB, "corpus", work / "models", *specs, "-o", work / "out", "--max-queries", "40", "--timeout", "120", "--jobs", jobs, *(["--resume"] if (work / "out").exists() else [])]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        sys.exit(f"plumb corpus: exit {done.returncode}")
    wrong = judge(json.loads((work / "out/corpus.json").read_text()))
    print("\n".join(wrong) or "every fault is one group, none mixes two")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

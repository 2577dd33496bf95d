#!/usr/bin/python3
"""Every change of one node that the tables below know, on every model of models_more.py: more than a thousand faults that are not drawn by lot.

  bench/blame/mutants.py [MODEL…] [--backend SPEC…] [--jobs N] [--out DIR]

Operators replaced by similar ones, attributes, swapped inputs, each weight (an element, a channel, all of it, transposed), also inside the
bodies of If, Loop and Scan; backends in turn. The original is the reference. Prints what is not right, and a line for each model:
found (named first, nobody else), invisible (fp64 runs agree), small (below what replay always finds), failed (the backend refuses the
changed model), invalid (it is no model any more), missed, wrong, innocent."""

import argparse
import concurrent.futures
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import faults
import models
import models_more
import run

SWAPS = {
    "Relu": ["LeakyRelu", "Abs", "Softplus"], "Floor": ["Round", "Ceil"], "Ceil": ["Floor"], "Round": ["Floor"], "Max": ["Min"], "Min": ["Max"],
    "LessOrEqual": ["Less"], "Less": ["LessOrEqual", "Greater"], "Greater": ["GreaterOrEqual"], "GreaterOrEqual": ["Greater"],
    "And": ["Or", "Xor"], "Or": ["And"], "Sign": ["Tanh"], "Asinh": ["Atan"], "Atan": ["Tanh"], "Sinh": ["Tan"], "Acos": ["Asin"],
    "Tanh": ["Sigmoid"], "Sigmoid": ["HardSigmoid"], "Softsign": ["Tanh"], "ReduceSumSquare": ["ReduceL2"], "ReduceProd": ["ReduceMean"],
    "ReduceLogSum": ["ReduceLogSumExp"], "ReduceL1": ["ReduceL2"], "ReduceMin": ["ReduceMax"], "ReduceMean": ["ReduceMax"], "Erf": ["Tanh"],
    "Mean": ["Sum", "Max"], "Hardmax": ["Softmax"], "Softmax": ["Hardmax", "LogSoftmax"], "LogSoftmax": ["Softmax"], "ArgMax": ["ArgMin"],
    "ArgMin": ["ArgMax"], "GlobalMaxPool": ["GlobalAveragePool"], "GlobalAveragePool": ["GlobalMaxPool"], "Add": ["Sub", "Max"], "Sub": ["Add"],
    "Mul": ["Div", "Add"], "Sin": ["Cos"], "Mish": ["Softplus"], "Elu": ["Selu"], "Neg": ["Abs"], "Abs": ["Neg"], "Exp": ["Softplus"],
    "Log": ["Sqrt"], "Pow": ["Mul"],
}
ATTRIBUTES = {  # operator: {attribute: values to try}
    "Pad": {"mode": ["edge", "constant", "reflect"]},
    "Conv": {"dilations": [[1, 1], [2, 1]], "strides": [[1, 1]], "pads": [[1, 1, 2, 0], [1, 1, 2, 2]]},
    "LRN": {"size": [5], "alpha": [0.5], "beta": [0.75], "bias": [1.0]},
    "MaxPool": {"kernel_shape": [[2, 2], [3, 3]], "pads": [[0, 0, 2, 1]], "ceil_mode": [0]},
    "ConvTranspose": {"output_padding": [[0, 0]], "pads": [[0, 1, 1, 1]], "strides": [[1, 1]]},
    "MeanVarianceNormalization": {"axes": [[2, 3], [1, 2, 3]]},
    "Resize": {"mode": ["linear", "nearest", "cubic"], "cubic_coeff_a": [-0.75], "nearest_mode": ["ceil", "round_prefer_ceil"],
               "coordinate_transformation_mode": ["half_pixel", "asymmetric", "align_corners"]},
    "AveragePool": {"count_include_pad": [0, 1], "kernel_shape": [[3, 1]]}, "DepthToSpace": {"mode": ["DCR"]}, "LpPool": {"p": [1, 3]},
    "HardSigmoid": {"alpha": [0.35], "beta": [0.5]}, "Elu": {"alpha": [1.0]}, "CumSum": {"exclusive": [0, 1], "reverse": [0, 1]},
    "LayerNormalization": {"epsilon": [1e-2, 1e-1]}, "RMSNormalization": {"epsilon": [1e-2]}, "BatchNormalization": {"epsilon": [1e-2]},
    "GroupNormalization": {"num_groups": [8, 2], "epsilon": [1e-1]}, "Gemm": {"alpha": [1.0, 0.9], "beta": [0.5], "transB": [0]},
    "Einsum": {"equation": ["bthd,bshd->bhst"]}, "Softmax": {"axis": [0, 1, 2]}, "LogSoftmax": {"axis": [0, 1]}, "Hardmax": {"axis": [0]},
    "Trilu": {"upper": [1]}, "TopK": {"largest": [0], "sorted": [0]}, "ArgMax": {"select_last_index": [1]}, "ArgMin": {"axis": [1]},
    "ScatterElements": {"reduction": ["add"]}, "ScatterND": {"reduction": ["add"]}, "Concat": {"axis": [0, 1]},
    "GRU": {"linear_before_reset": [1], "clip": [0.5], "activations": [["Sigmoid", "Relu", "Sigmoid", "Relu"]]},
    "LSTM": {"direction": ["forward"], "clip": [0.2], "input_forget": [1]}, "RNN": {"activations": [["Tanh"]], "direction": ["reverse"]},
    "Shrink": {"lambd": [0.5], "bias": [0.0]}, "Scan": {"scan_input_directions": [[0]], "scan_output_directions": [[0]]},
    "RotaryEmbedding": {"interleaved": [1]}, "Attention": {"is_causal": [0], "scale": [0.5], "softcap": [2.0]}, "Gelu": {"approximate": ["none"]},
    "QLinearConv": {"pads": [[0, 0, 2, 2]]}, "LeakyRelu": {"alpha": [0.02]},
}
SWAPPED = {"Sub": (0, 1), "Div": (0, 1), "MatMul": (0, 1), "Where": (1, 2), "Pow": (0, 1), "Less": (0, 1), "Greater": (0, 1), "Concat": (0, 1)}
WEIGHTS = ("weight-element", "weight-channel", "weight-scale", "weight-transposed")
LOW = ("masked", "residual", "modern", "rounding", "sequences")
BACKENDS = ("ort:opt=off", "ort:opt=all", "eager", "jit")


def walk(graph, path=()):
    """(path, node): indices of nodes and of the attributes whose bodies lead to the next."""
    for i, node in enumerate(graph.node):
        yield path + (i,), node
        for k, a in enumerate(node.attribute):
            if a.type == onnx.AttributeProto.GRAPH:
                yield from walk(a.g, path + (i, k))


def copy_of(model, path):
    m = onnx.ModelProto()
    m.CopyFrom(model)
    graph = m.graph
    for k in range(0, len(path) - 1, 2):
        graph = graph.node[path[k]].attribute[path[k + 1]].g
    return m, graph.node[path[-1]]


def set_attribute(node, name, value):
    for a in list(node.attribute):
        if a.name == name:
            old = helper.get_attribute_value(a)
            if old == (value.encode() if isinstance(value, str) else value):
                return False
            node.attribute.remove(a)
    node.attribute.append(helper.make_attribute(name, value))
    return True


def changed_weight(kind, x, rng):
    if x.size == 0:
        return None
    if x.dtype == bool or x.dtype == np.int64:  # indices, sizes, conditions
        y = x.reshape(-1).copy()
        at = rng.randrange(y.size)
        y[at] = not y[at] if x.dtype == bool else y[at] + 1
        return y.reshape(x.shape) if kind == "weight-element" else None
    if kind == "weight-transposed":
        return np.ascontiguousarray(np.swapaxes(x, -1, -2)) if x.ndim > 1 and x.shape[-1] == x.shape[-2] > 1 else None
    return faults.change_weight(kind, x, rng)


def mutants(model):
    """(what, changed model, names of the values of the main graph that are to blame)"""
    weights = {t.name: t for t in model.graph.initializer}
    for path, node in walk(model.graph):
        planted = {o for o in model.graph.node[path[0]].output if o}
        for other in SWAPS.get(node.op_type, ()):
            m, n = copy_of(model, path)
            if other == "Hardmax":
                set_attribute(n, "axis", next((a.i for a in n.attribute if a.name == "axis"), -1))
            n.op_type = other
            yield f"{node.op_type} -> {other}", m, planted
        for name, values in ATTRIBUTES.get(node.op_type, {}).items():
            for value in values:
                m, n = copy_of(model, path)
                if set_attribute(n, name, value):
                    yield f"{node.op_type} {name}={value}", m, planted
        if node.op_type in SWAPPED and len(node.input) > max(SWAPPED[node.op_type]):
            m, n = copy_of(model, path)
            a, b = SWAPPED[node.op_type]
            n.input[a], n.input[b] = node.input[b], node.input[a]
            yield f"{node.op_type} inputs swapped", m, planted
        for k, name in enumerate(node.input):
            if name not in weights or node.op_type in ("Loop", "Scan", "If"):
                continue
            x = numpy_helper.to_array(weights[name])
            for kind in WEIGHTS:
                y = changed_weight(kind, x, random.Random(f"{path}{k}{kind}"))
                if y is None or np.array_equal(x, y):
                    continue
                m, n = copy_of(model, path)
                m.graph.initializer.append(numpy_helper.from_array(y, f"{name}_changed"))
                n.input[k] = f"{name}_changed"
                yield f"{kind} of {node.op_type}, input {k}", m, planted


def judge(lab, name, backend, model, planted):
    """(outcome, what there is to say)"""
    entry = lab.models[name]
    with tempfile.TemporaryDirectory(dir=lab.out) as tmp:
        path = Path(tmp) / "changed.onnx"
        onnx.save(model, path)
        try:
            got = lab.analyze(path, backend, "--reference", entry.path)
        except RuntimeError as e:
            return "invalid", str(e)[:200]
        if got["verdict"] == "failed":
            return "failed", got["reason"][:200]
        named = [run.holds(b, planted) for b in got["blame"]]
        if named and named[0]:
            others = [(b["op"], b["value"]) for b, right in zip(got["blame"], named) if not right]
            return ("innocent", others) if others else ("found", got["blame"][0]["kind"])
        if named:
            return "wrong", [(b["op"], b["value"]) for b in got["blame"]]
        seen = {p["value"] for p in got["sync_points"]}
        cause = run.look_closer(lab, dict(way="b", model=name, backend=backend), path, entry, planted, seen)
        return cause["cause"], cause.get("difference")


def make_models(lab):
    lab.models = {}
    for name, build, family, quantised in models_more.MADE:
        path = lab.out / f"{name}.onnx"
        onnx.save(build(), path)
        lab.models[name] = models.Entry(name, path, family, "", quantised, [], True)
        if name in LOW:
            low = lab.out / f"{name}-fp16.onnx"
            onnx.save(models.convert(build(), onnx.TensorProto.FLOAT16), low)
            lab.models[f"{name}-fp16"] = models.Entry(f"{name}-fp16", low, family, "fp16", quantised, [], True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*")
    p.add_argument("--backend", action="append")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--out", default=str(run.ROOT / "build/mutants"))
    a = p.parse_args()
    lab = run.Lab(a.out, 1, a.jobs)
    make_models(lab)
    backends, total, bad = a.backend or BACKENDS, {}, 0
    for name in a.models or lab.models:
        jobs = [(backends[k % len(backends)], *m) for k, m in enumerate(mutants(lab.proto(name)))]
        counts = {}
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            results = pool.map(lambda j: judge(lab, name, j[0], j[2], j[3]), jobs)
            for (backend, what, _, planted), (outcome, info) in zip(jobs, results):
                counts[outcome] = counts.get(outcome, 0) + 1
                if outcome in ("missed", "wrong", "innocent", "no recording"):
                    bad += 1
                    print(f"{outcome}: {name} on {backend}: {what} at {sorted(planted)[0]}: {info}", flush=True)
        print(f"{name}: {counts}", flush=True)
        for k, n in counts.items():
            total[k] = total.get(k, 0) + n
    print(f"all: {total}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

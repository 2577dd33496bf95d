#!/usr/bin/python3
"""What the precision profile of WebGPU costs: the smallest planted fault that is found, by operator, with the profile and without.

  bench/device/smallest.py [--backend SPEC] [--seeds N] [--write]

Every operator stands alone in one model, copied once for each size of fault: on the device its result is multiplied by 1 + x, or x times its rms is added; the
reference is the model without. x is a power of two times 2^-23, the unit in the last place of 1. The fault is found if its value is a culprit; the table has
the smallest x from which on all sizes are found, the largest over the seeds. Under the profile `ieee` (a CPU's) `clean` says that the device's own rounding is
a culprit without any fault: there the profile costs nothing, it makes a verdict possible. --write: bench/device/smallest.md."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/blame"))
import run as bench  # noqa: E402

PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
SIZES = tuple(2**k for k in range(18))  # units in the last place of 1
KINDS = ("scale", "offset")
PROFILES = ("wgsl", "ieee")


def normal(*shape):
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


def between(low, high, *shape):
    return lambda rng: rng.uniform(low, high, shape).astype(np.float32)


X = normal(32, 64)
POSITIVE, UNIT, ABOVE = between(0.1, 4, 32, 64), between(-0.9, 0.9, 32, 64), between(1.2, 4, 32, 64)
IMAGE = normal(1, 8, 10, 10)
CASES = (  # operator, inputs, attributes
    ("Add", (X, X), {}), ("Sub", (X, X), {}), ("Mul", (X, X), {}), ("Div", (X, POSITIVE), {}), ("Reciprocal", (POSITIVE,), {}), ("Sqrt", (POSITIVE,), {}),
    ("LeakyRelu", (X,), {}), ("HardSwish", (X,), {}), ("HardSigmoid", (X,), {}),
    ("Exp", (X,), {}), ("Log", (POSITIVE,), {}), ("Sin", (X,), {}), ("Cos", (X,), {}), ("Tan", (UNIT,), {}), ("Asin", (UNIT,), {}), ("Acos", (UNIT,), {}),
    ("Atan", (X,), {}), ("Sinh", (X,), {}), ("Cosh", (X,), {}), ("Tanh", (X,), {}), ("Asinh", (X,), {}), ("Acosh", (ABOVE,), {}), ("Atanh", (UNIT,), {}),
    ("Pow", (POSITIVE, between(-2, 2, 32, 64)), {}), ("Sigmoid", (X,), {}), ("Elu", (X,), {}), ("Gelu", (X,), {"approximate": "tanh"}),
    ("Softmax", (X,), {}), ("LayerNormalization", (X, normal(64), normal(64)), {}), ("InstanceNormalization", (IMAGE, normal(8), normal(8)), {}),
    ("BatchNormalization", (IMAGE, normal(8), normal(8), normal(8), between(0.5, 2, 8)), {}),
    ("ReduceSum", (POSITIVE,), {}), ("ReduceMean", (POSITIVE,), {}), ("ReduceMax", (X,), {}), ("ReduceL2", (X,), {}), ("ReduceLogSum", (POSITIVE,), {}), ("ReduceSumSquare", (X,), {}),
    ("MatMul", (normal(16, 256), normal(256, 24)), {}), ("Gemm", (normal(16, 64), normal(64, 24), normal(24)), {}), ("Einsum", (normal(8, 32), normal(32, 8)), {"equation": "ij,jk->ik"}),
    ("Conv", (IMAGE, normal(8, 8, 3, 3), normal(8)), {}), ("ConvTranspose", (IMAGE, normal(8, 4, 3, 3)), {}),
    ("AveragePool", (IMAGE,), {"kernel_shape": [3, 3]}), ("GlobalAveragePool", (IMAGE,), {}), ("MaxPool", (IMAGE,), {"kernel_shape": [2, 2]}),
)


AXES = numpy_helper.from_array(np.array([1], np.int64), "axes")  # of reductions


def inputs_of(op, makers):
    return [f"{op}.in{k}" for k in range(len(makers))] + (["axes"] if op.startswith("Reduce") else [])


def sizes_of(arrays):
    """{operator: rms of its result}, by plumb's interpreter."""
    nodes = [helper.make_node(op, inputs_of(op, makers), [op], **attributes) for op, makers, attributes in CASES]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in arrays.items()]
    outputs = [helper.make_tensor_value_info(op, TensorProto.FLOAT, None) for op, _, _ in CASES]
    with tempfile.TemporaryDirectory(prefix="plumb-smallest-") as folder:
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, [AXES]), opset_imports=[helper.make_opsetid("", 20)], ir_version=9), f"{folder}/m.onnx")
        np.savez(f"{folder}/x.npz", **arrays)
        subprocess.run([PLUMB, "record", f"{folder}/m.onnx", "--inputs", f"{folder}/x.npz", "--backend", "eager", "-o", f"{folder}/r.safetensors"],
                       check=True, capture_output=True)
        got = bench.read_safetensors(f"{folder}/r.safetensors")
    return {op: float(np.sqrt(np.mean(np.square(got[op])))) for op, _, _ in CASES}


def models(rng):
    """(the model on the device, the reference, inputs). Value OP.KIND.SIZE has that fault; size 0 has none."""
    nodes = [[], []]
    outputs, constants = [], [AXES]
    feeds = {f"{op}.in{k}": m(rng) for op, makers, _ in CASES for k, m in enumerate(makers)}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feeds.items()]
    rms = sizes_of(feeds)
    for op, makers, attributes in CASES:
        names = inputs_of(op, makers)
        for kind in KINDS:
            for size in (0, *SIZES):
                y = f"{op}.{kind}.{size}"
                outputs.append(helper.make_tensor_value_info(y, TensorProto.FLOAT, None))
                nodes[1].append(helper.make_node(op, names, [y], name=y, **attributes))
                if size == 0:
                    nodes[0].append(nodes[1][-1])
                    continue
                x = size * 2.0**-23
                constants.append(numpy_helper.from_array(np.float32(1 + x if kind == "scale" else x * rms[op]), f"{y}.by"))
                nodes[0].append(helper.make_node(op, names, [f"{y}.before"], name=y, **attributes))
                nodes[0].append(helper.make_node("Mul" if kind == "scale" else "Add", [f"{y}.before", f"{y}.by"], [y], name=f"{y}.fault"))
    return [helper.make_model(helper.make_graph(n, "g", inputs, outputs, c), opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
            for n, c in zip(nodes, (constants, [AXES]))], feeds


def culprits(folder, backend, profile):
    done = subprocess.run([PLUMB, "analyze", f"{folder}/device.onnx", "--reference", f"{folder}/plain.onnx", "--inputs", f"{folder}/x.npz", "--backend", backend,
                           "--precision-profile", profile, "--json", "--save", "none", "--repro-level", "0", "--skip-search", "--skip-determinism", "--threads", "1",
                           "-o", f"{folder}/{profile}"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"exit {done.returncode}: {done.stderr[-500:]}")
    return {p["value"]: p["verdict"] == "culprit" for p in json.loads(done.stdout)["sync_points"]}


def smallest(found, op, kind):
    """The smallest size from which on all are found; 0: also without a fault; None: not even the largest."""
    last = None
    for size in (*reversed(SIZES), 0):
        if not found[f"{op}.{kind}.{size}"]:
            return last
        last = size
    return last


def measure(backend, seeds):
    """{(operator, kind, profile): size}, the largest of the seeds; None counts as infinite."""
    out = {}
    for seed in range(seeds):
        (device, plain), feeds = models(np.random.default_rng(seed))
        with tempfile.TemporaryDirectory(prefix="plumb-smallest-") as folder:
            onnx.save(device, f"{folder}/device.onnx")
            onnx.save(plain, f"{folder}/plain.onnx")
            np.savez(f"{folder}/x.npz", **feeds)
            for profile in PROFILES:
                found = culprits(folder, backend, profile)
                for op, _, _ in CASES:
                    for kind in KINDS:
                        size = smallest(found, op, kind)
                        size = float("inf") if size is None else size
                        key = (op, kind, profile)
                        # Without a profile one seed that is named without a fault says enough.
                        out[key] = size if key not in out else 0 if 0 in (size, out[key]) else max(size, out[key])
    return out


def word(size):
    return "clean" if size == 0 else "none" if size == float("inf") else f"{size:,}"


def write_page(sizes, backend, seeds):
    both = [sizes[op, k, "wgsl"] / sizes[op, k, "ieee"] for op, _, _ in CASES for k in KINDS if sizes[op, k, "ieee"] > 0 and sizes[op, k, "wgsl"] < float("inf")]
    wrong = [op for op, _, _ in CASES if any(sizes[op, k, "wgsl"] == 0 for k in KINDS)]
    text = ["# The smallest faults that are found, with the profile of WebGPU and without", "",
            f"`bench/device/smallest.py --write`: `{backend}`, {seeds} seeds, {len(SIZES)} sizes of two kinds of fault after each operator. x in units of 2^-23. `clean`: named without "
            "any fault, so that no fault could be told. `none`: not found up to 2^17 (1.6 %).", "",
            f"Of {2 * len(CASES)} rows of operator and kind, {sum(sizes[op, k, 'ieee'] == 0 for op, _, _ in CASES for k in KINDS)} have no answer under `ieee`, "
            f"{sum(sizes[op, k, 'wgsl'] == float('inf') for op, _, _ in CASES for k in KINDS)} none under `wgsl`; where both answer, the profile makes the smallest fault larger by a factor of "
            f"{np.median(both):.3g} (median; largest {max(both):.3g}). Named without a fault under `wgsl`: {', '.join(wrong) or 'nobody'}.", "",
            "| operator | result times 1 + x: `wgsl` | `ieee` | plus x times its rms: `wgsl` | `ieee` |", "|---|--:|--:|--:|--:|"]
    text += [f"| {op} | " + " | ".join(word(sizes[op, k, p]) for k in KINDS for p in PROFILES) + " |" for op, _, _ in CASES]
    (ROOT / "bench/device/smallest.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", default="ort:providers=WebGPU")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--write", action="store_true")
    o = p.parse_args()
    sizes = measure(o.backend, o.seeds)
    for op, _, _ in CASES:
        print(f"{op:22}" + "".join(f"{word(sizes[op, k, q]):>10}" for k in KINDS for q in PROFILES))
    if o.write:
        write_page(sizes, o.backend, o.seeds)
    return 1 if any(sizes[op, k, "wgsl"] == 0 for op, _, _ in CASES for k in KINDS) else 0


if __name__ == "__main__":
    sys.exit(main())

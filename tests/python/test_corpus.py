#!/usr/bin/python3
"""What 2,059 public models showed (../shared/reference/corpus.md): one small model of the same shape for each finding. TAP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from tap import Skip, main

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
LIBRARY = ROOT / ".cache/ort-1.27.0/libonnxruntime.so.1"
ORT = f"ort:lib={LIBRARY}"
F = TensorProto.FLOAT


def plumb(*args, cwd=None, exits=(0,), timeout=300):
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=timeout, cwd=cwd,
                          env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"})
    if done.returncode not in exits:
        raise AssertionError(f"plumb {' '.join(map(str, args))}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return done


def analyze(model, *args, exits=(0,)):
    done = plumb("analyze", model, "--json", "--save", "none", "-o", f"{model}.session-{len(list(model.parent.glob('*.session*')))}", *args, exits=exits)
    return json.loads(done.stdout)


def need_ort():
    if not LIBRARY.exists():
        raise Skip(f"{LIBRARY} is missing: tools/fetch-ort")


def array(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def value(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(path, nodes, inputs, outputs, init=(), opset=17, ir=8, domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(init))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, v) for d, v in domains]
    save(helper.make_model(graph, opset_imports=imports, ir_version=ir), str(path))
    return path


# ---- blocked layouts of ONNX Runtime ----

class OldExport:
    """As older exporters write: IR version 3, nodes without names, every initializer among the inputs; `light`: weights are made by
    ConstantOfShape, as in the light models of ONNX."""

    def __init__(self, light):
        self.light, self.nodes, self.init, self.rng = light, [], [], np.random.default_rng(0)

    def weight(self, name, shape, scale):
        if not self.light:
            self.init.append(array(name, (self.rng.standard_normal(shape) * scale).astype(np.float32)))
            return name
        self.init.append(array(name + "__SHAPE", np.array(shape, np.int64)))
        self.nodes.append(helper.make_node("ConstantOfShape", [name + "__SHAPE"], [name], value=helper.make_tensor("v", F, [1], [scale])))
        return name

    def op(self, op, inputs, **attrs):
        out = f"gpu_0/{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], **attrs))
        return out

    def conv(self, x, n_in, n_out, k=1):
        w = self.weight(f"w{len(self.nodes)}", [n_out, n_in, k, k], 1 / (n_in * k * k) ** 0.5)
        return self.op("Conv", [x, w], kernel_shape=[k, k], pads=[k // 2] * 4)

    def norm(self, x, n):
        base = f"bn{len(self.nodes)}"
        parts = [np.linspace(0.5, 1.5, n), np.linspace(-1, 1, n), np.linspace(-0.1, 0.1, n), np.linspace(0.5, 2, n)]
        self.init += [array(base + s, v.astype(np.float32)) for s, v in zip(("_s", "_b", "_rm", "_riv"), parts)]
        return self.op("BatchNormalization", [x] + [base + s for s in ("_s", "_b", "_rm", "_riv")])

    def save(self, path, out, shape):
        inputs = [value("data", [1, 3, 16, 16])]
        inputs += [value(t.name, list(t.dims), t.data_type) for t in self.init]
        return model_of(path, self.nodes, inputs, [value(out, shape)], self.init, opset=9, ir=3)


def residual(path, light):
    net = OldExport(light)
    x = net.op("Relu", [net.norm(net.conv("data", 3, 20, 3), 20)])
    for _ in range(3):
        y = net.op("Relu", [net.norm(net.conv(x, 20, 20, 3), 20)])
        y = net.norm(net.conv(y, 20, 20), 20)
        x = net.op("Relu", [net.op("Sum", [y, x])])
    return net.save(path, net.op("GlobalAveragePool", [x]), [1, 20, 1, 1])


def dense(path, light):
    net = OldExport(light)
    parts = [net.op("Relu", [net.conv("data", 3, 16, 3)])]
    for i in range(3):
        joined = net.op("Concat", parts, axis=1)
        n = 16 * (i + 1)
        parts.append(net.conv(net.op("Relu", [net.norm(joined, n)]), n, 16, 3))
    return net.save(path, net.op("GlobalAveragePool", [net.op("Concat", parts, axis=1)]), [1, 64, 1, 1])


def compared(session):
    return [p for p in session["sync_points"] if p["verdict"] in ("same", "within", "culprit", "inherited", "amplified")]


def test_blocked_layouts_are_mapped_back(folder):
    """Channels that fill no block, weights that are computed, BatchNormalization on its own, Concat of blocks."""
    need_ort()
    told = []
    for build in (residual, dense):
        for light in (False, True):
            model = build(folder / f"{build.__name__}-{light}.onnx", light)
            n_all = len(compared(analyze(model, "--backend", ORT)))
            n_extended = len(compared(analyze(model, "--backend", ORT + ",opt=extended")))
            told.append(f"{n_all} of {n_extended}")
            assert n_all >= n_extended - 3, (model.name, n_all, n_extended)  # Sum is part of the convolution before it
    return ", ".join(told)


if __name__ == "__main__":
    sys.exit(main(globals()))

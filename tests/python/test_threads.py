#!/usr/bin/python3
"""Large tensors, so that work is split among threads and loops have many full vectors and a tail: against NumPy or torch
in double with the usual bounds, and bit for bit the same for any number of threads."""

import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F

from plumbtest import FORMAT, PLUMB, U_COMPUTE, Bounded, Exact, Near, Suite, Tensor, c, exactly, int64, make_model, random

suite = Suite()
rng = suite.rng(77)
add = suite.add


def t(x):
    return torch.from_numpy(np.array(x, np.float64))


def linear(fn, name, *parts, k):
    y = np.asarray(fn(*[t(p.data) for p in parts]), np.float64)
    size = np.asarray(fn(*[t(np.abs(p.data)) for p in parts]), np.float64)
    own = 2 if name == "f64" else 1  # torch's error counts, too
    return Near(y, own * U_COMPUTE[name] * c(k) * size, name)


for name in FORMAT:
    suite.group = f"large {name}"
    u = U_COMPUTE[name]
    x, y = random(rng, (300, 701), name), random(rng, (701,), name)
    add("Add", [x, y], exactly(x.double() + y.double(), name))
    add("Mul", [x, Tensor(x.data[:, :1], name)], exactly(x.double() * x.double()[:, :1], name))
    add("Exp", [x], Near(np.exp(x.wide()), 4 * u * np.exp(x.wide()), name))
    add("Transpose", [x], Exact(np.ascontiguousarray(x.data.T), name), perm=[1, 0])
    for axis in (0, 1):
        add("ReduceSum", [x, int64(axis)], linear(lambda v: v.sum(axis, keepdim=True), name, x, k=x.shape[axis]))
        add("ReduceMax", [x, int64(axis)], Exact(x.data.max(axis, keepdims=True), name))
        add("ArgMin", [x], Exact(x.data.argmin(axis)), axis=axis, keepdims=0)
        add("Softmax", [x], Bounded(x.wide(), 0, u).softmax(axis).near(name), axis=axis)
    add("ReduceSum", [x], linear(lambda v: v.sum().reshape(1, 1), name, x, k=x.data.size))
    a, b = random(rng, (257, 301), name), random(rng, (301, 199), name)
    add("MatMul", [a, b], linear(torch.matmul, name, a, b, k=301))
    a, b = random(rng, (7, 33, 65), name), random(rng, (65, 130), name)
    add("MatMul", [a, b], linear(torch.matmul, name, a, b, k=65))
    a, b = random(rng, (1, 24, 40, 37), name), random(rng, (31, 24, 3, 3), name)
    add("Conv", [a, b], linear(lambda p, q: F.conv2d(p, q, None, 1, 1), name, a, b, k=216), pads=[1, 1, 1, 1])
    add("Conv", [a, Tensor(b.data[:24, :1], name)], linear(lambda p, q: F.conv2d(p, q, groups=24), name, a,
                                                           Tensor(b.data[:24, :1], name), k=9), group=24)
    add("AveragePool", [a], linear(lambda p: F.avg_pool2d(p, 3, 2), name, a, k=10), kernel_shape=[3, 3], strides=[2, 2])
    add("MaxPool", [a], exactly(F.max_pool2d(t(a.data), 3, 2).numpy(), name), kernel_shape=[3, 3], strides=[2, 2])
    values, at = torch.sort(t(x.data), stable=True, dim=1, descending=True)
    add("TopK", [x, int64(50)], [exactly(values[:, :50].numpy(), name), Exact(at[:, :50].numpy())])
    i = rng.integers(0, 300, 5000)
    add("Gather", [x, Tensor(i)], Exact(x.data[i], name))

MODEL = list(suite.cases)


def threads_agree():
    """None, or which outputs differ between thread counts."""
    with tempfile.TemporaryDirectory(dir=suite.root) as tmp:
        onnx.save(make_model(MODEL, MODEL[0].opset), f"{tmp}/model.onnx")
        outs = {}
        for n in (1, 2, 3, 8):
            done = subprocess.run([PLUMB, "run", f"{tmp}/model.onnx", "-o", f"{tmp}/{n}", "--save-as", "pb",
                                   "--threads", str(n)],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                return done.stderr.strip()
            outs[n] = {f.name: f.read_bytes() for f in Path(tmp, str(n)).iterdir()}
        bad = sorted({f for n in outs for f in outs[1] if outs[n].get(f) != outs[1][f]})
        ops = sorted({f"{MODEL[int(f[4:].split('_')[0])]}" for f in bad})
        return f"{len(bad)} of {len(outs[1])} outputs depend on the number of threads: {ops}" if bad or not outs[1] else None


suite.extra("the same bits with 1, 2, 3 and 8 threads", threads_agree)
suite.finish()

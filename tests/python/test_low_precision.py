#!/usr/bin/python3
"""float16 and bfloat16 arithmetic against the same computation in double on the same rounded inputs. The bound: one
rounding to the stored type (half an ulp of |y|), plus what a computation in float makes of it, u32 * c(K) * sum|terms|
for sums (plumbtest.c) or a running error analysis (plumbtest.Bounded). A kernel that accumulated in the low type would
miss it by far. Chains of operators round after every operator, exactly. Beyond the largest number comes infinity."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F

import rnn_reference
from plumbtest import FORMAT, LOW, TYPES, U, Bounded, Exact, Near, Suite, Tensor, c, exactly, int64, random, round_to

suite = Suite()
rng = suite.rng(16)
add = suite.add
U32 = U["f32"]


def t(x):
    return torch.from_numpy(np.ascontiguousarray(x, np.float64))


def linear(fn, parts, k, name, roundings=0):
    """Near() for a multilinear fn of tensors: the error is u32 * c(K) * fn of magnitudes."""
    wide = [p.wide() for p in parts]
    y = np.asarray(fn(*[t(w) for w in wide]))
    size = np.asarray(fn(*[t(np.abs(w)) for w in wide]))
    return Near(y, U32 * (c(k) + roundings) * size, name)


# ---- products and convolutions -------------------------------------------------------------------

def products(name):
    suite.group = f"MatMul {name}"
    for m, k, n in [(1, 1, 1), (3, 5, 7), (17, 64, 33), (5, 1000, 4), (1, 4096, 3), (64, 129, 65), (2, 0, 3)]:
        a, b = random(rng, (m, k), name), random(rng, (k, n), name)
        add("MatMul", [a, b], linear(torch.matmul, [a, b], k, name))
        a, b = random(rng, (m, k), name, 0, 1), random(rng, (2, k, n), name, 0, 1)  # same sign: the sum grows
        add("MatMul", [a, b], linear(torch.matmul, [a, b], k, name))
    suite.group = f"Gemm {name}"
    for m, k, n in [(1, 1, 1), (3, 5, 7), (17, 64, 33), (5, 1000, 4)]:
        for ta, tb, bias in itertools.product((0, 1), (0, 1), (None, (n,), (m, n), (m, 1))):
            a = random(rng, (k, m) if ta else (m, k), name)
            b = random(rng, (n, k) if tb else (k, n), name)
            parts = [a, b] + ([] if bias is None else [random(rng, bias, name)])
            side = lambda p, q, z=None: 0.75 * ((p.T if ta else p) @ (q.T if tb else q)) + (0 if z is None else 1.5 * z)
            add("Gemm", parts, linear(side, parts, k, name, 3), alpha=0.75, beta=1.5, transA=ta, transB=tb)


CONVS = [  # in, weight, groups, stride, dilation, pad
    ((1, 1, 5), (1, 1, 3), 1, 1, 1, 1), ((2, 4, 9), (6, 2, 3), 2, 2, 1, 1), ((1, 3, 8, 8), (4, 3, 3, 3), 1, 1, 1, 1),
    ((2, 6, 7, 9), (6, 1, 3, 3), 6, 1, 2, 2), ((1, 16, 6, 6), (8, 16, 1, 1), 1, 1, 1, 0),
    ((1, 64, 5, 5), (3, 64, 3, 3), 1, 2, 1, 1),
    ((1, 4, 4, 5, 6), (2, 2, 2, 3, 2), 2, 1, 1, 0), ((1, 8, 12, 12), (16, 8, 5, 5), 1, 1, 1, 2)]


def convolutions(name):
    suite.group = f"Conv {name}"
    for shape, weight, groups, stride, dilation, pad in CONVS:
        x, w = random(rng, shape, name), random(rng, weight, name)
        d = len(shape) - 2
        conv = [F.conv1d, F.conv2d, F.conv3d][d - 1]
        attrs = {"strides": [stride] * d, "dilations": [dilation] * d, "pads": [pad] * (2 * d), "group": groups}
        for bias in (None, random(rng, (weight[0],), name)):
            parts = [x, w] + ([] if bias is None else [bias])
            fn = lambda p, q, r=None: conv(p, q, r, stride, pad, dilation, groups)
            add("Conv", parts, linear(fn, parts, int(np.prod(weight[1:])) + 1, name), **attrs)
    suite.group = f"ConvTranspose {name}"
    for shape, weight, groups, stride, dilation, pad in CONVS:
        x = random(rng, shape, name)
        w = random(rng, (shape[1], weight[0] // groups) + weight[2:], name)
        d = len(shape) - 2
        conv = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][d - 1]
        attrs = {"strides": [stride] * d, "dilations": [dilation] * d, "pads": [pad] * (2 * d), "group": groups}
        for bias in (None, random(rng, (weight[0],), name)):
            parts = [x, w] + ([] if bias is None else [bias])
            fn = lambda p, q, r=None: conv(p, q, r, stride, pad, 0, groups, dilation)
            k = shape[1] // groups * int(np.prod(weight[2:])) + 1
            add("ConvTranspose", parts, linear(fn, parts, k, name), **attrs)


def poolings(name):
    suite.group = f"pooling {name}"
    for shape, k, stride, pad in [((1, 2, 9), 3, 2, 1), ((2, 3, 8, 9), 3, 2, 1), ((1, 2, 6, 6), 2, 2, 0),
                                  ((1, 1, 5, 6, 7), 2, 1, 0),
                                  ((1, 2, 20, 20), 11, 3, 5)]:
        d = len(shape) - 2
        x = random(rng, shape, name)
        attrs = {"kernel_shape": [k] * d, "strides": [stride] * d, "pads": [pad] * (2 * d)}
        mean = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][d - 1]
        for whole in (0, 1):
            fn = lambda v: mean(v, k, stride, pad, False, bool(whole))
            add("AveragePool", [x], linear(fn, [x], k**d, name, 1), count_include_pad=whole, **attrs)
        largest = [F.max_pool1d, F.max_pool2d, F.max_pool3d][d - 1]
        add("MaxPool", [x], exactly(largest(t(x.data), k, stride, pad).numpy(), name), **attrs)
        axes = tuple(range(2, len(shape)))
        add("GlobalAveragePool", [x], linear(lambda v: v.mean(axes, True), [x], int(np.prod(shape[2:])), name, 1))
        add("GlobalMaxPool", [x], Exact(x.data.max(axes, keepdims=True), name))
        total = mean(t(x.wide() ** 2), k, stride, pad, False, True).numpy() * k**d
        y = np.sqrt(total)
        add("LpPool", [x], Near(y, U32 * (c(k**d) + 4) * y, name), p=2, **attrs)


# ---- norms ---------------------------------------------------------------------------------------

def normalised(w, over, eps):
    """(x - mean) / sqrt(var + eps) and its error in float: the centre, then the variance."""
    k = int(np.prod([w.shape[a] for a in over]))
    mean = lambda v: np.mean(v, axis=over, keepdims=True)
    m = mean(w)
    var = mean((w - m) ** 2) + np.float64(np.float32(eps))
    centre = U32 * (np.abs(w) + c(k) * mean(np.abs(w)))
    rel = (U32 * c(k) * mean(w * w) + 2 * mean(np.abs(w - m) * centre)) / var
    hat = (w - m) / np.sqrt(var)
    return Bounded(hat, centre / np.sqrt(var) + np.abs(hat) * (rel / 2 + 4 * U32))


def norms(name):
    suite.group = f"norms {name}"
    for shape in [(1, 4, 3), (2, 6, 5, 7), (3, 12, 4), (1, 4, 40, 41), (2, 8, 2, 3, 4)]:
        ch, rank = shape[1], len(shape)
        for shift in (0, 40):  # a mean far from zero: one-pass variance in low precision breaks down
            x = Tensor(round_to(rng.standard_normal(shape) + shift, name), name)
            w = x.wide()
            g, b = random(rng, (ch,), name, 0.5, 2), random(rng, (ch,), name)
            per = (1, ch) + (1,) * (rank - 2)
            col = lambda v: v.wide().reshape(per)
            m, v = random(rng, (ch,), name), random(rng, (ch,), name, 0.5, 2)
            k = col(g) / np.sqrt(col(v) + np.float64(np.float32(1e-5)))
            y = (w - col(m)) * k + col(b)
            err = U32 * (5 * k * (np.abs(w) + np.abs(col(m))) + np.abs(col(b)) + np.abs(y))
            add("BatchNormalization", [x, g, b, m, v], Near(y, err, name))
            hat = normalised(w, tuple(range(2, rank)), 1e-5)
            add("InstanceNormalization", [x, g, b], (hat * col(g) + col(b)).near(name))
            for groups in [n for n in (1, 2, 4) if ch % n == 0]:
                parts = normalised(w.reshape((shape[0], groups, -1)), (2,), 1e-5)
                hat = Bounded(parts.v.reshape(shape), parts.e.reshape(shape))
                add("GroupNormalization", [x, g, b], (hat * col(g) + col(b)).near(name), num_groups=groups)
            axis = int(rng.integers(1, rank))
            over = tuple(range(axis, rank))
            g, b = random(rng, shape[axis:], name, 0.5, 2), random(rng, shape[axis:], name)
            hat = normalised(w, over, 1e-5)
            add("LayerNormalization", [x, g, b], (hat * g.wide() + b.wide()).near(name), axis=axis)
            add("LayerNormalization", [x, g], (hat * g.wide()).near(name), axis=axis)
            n = int(np.prod(shape[axis:]))
            y = w / np.sqrt(np.mean(w * w, axis=over, keepdims=True) + np.float64(np.float32(1e-5))) * g.wide()
            add("RMSNormalization", [x, g], Near(y, U32 * (c(n) + 5) * np.abs(y), name), axis=axis)
            size = np.sqrt(np.sum(w * w, axis=axis, keepdims=True))
            add("LpNormalization", [x], Near(w / size, U32 * (c(shape[axis]) + 4) * np.abs(w / size), name), axis=axis)


def softmaxes(name):
    suite.group = f"softmax {name}"
    for shape, axis in [((5,), 0), ((3, 1000), 1), ((3, 1000), 0), ((2, 3, 77), -1), ((2, 33, 4), 1)]:
        for spread in (1, 30):
            x = Tensor(round_to(rng.standard_normal(shape) * spread, name), name)
            p = Bounded(x.wide()).softmax(axis)
            add("Softmax", [x], p.near(name), axis=axis)
            w = x.wide()
            top = np.max(w, axis, keepdims=True)
            e = Bounded(w - top, U32 * np.abs(w - top)).exp().sum(axis)
            y = (w - top) - np.log(e.v)
            err = U32 * (np.abs(w - top) + 4 * np.abs(np.log(e.v)) + np.abs(y)) + e.e / e.v
            add("LogSoftmax", [x], Near(y, err, name), axis=axis)


# ---- reductions and chains -----------------------------------------------------------------------

def reductions(name):
    suite.group = f"reductions {name}"
    for shape, axes in [((4096,), (0,)), ((3, 1000), (1,)), ((1000, 3), (0,)), ((8, 9, 10), (0, 2)),
                        ((5, 6, 7, 2), (1, 2)), ((7,), (0,)), ((40, 41), (0, 1))]:
        k = int(np.prod([shape[a] for a in axes]))
        for low in (-2, 0.5):
            x = random(rng, shape, name, low, 2)
            w, at = x.wide(), int64(*axes)
            total = lambda v: np.sum(v, axis=axes, keepdims=True)
            size, square = total(np.abs(w)), total(w * w)
            add("ReduceSum", [x, at], Near(total(w), U32 * c(k) * size, name))
            add("ReduceMean", [x, at], Near(total(w) / k, U32 * (c(k) + 1) * size / k, name))
            add("ReduceL1", [x, at], Near(size, U32 * c(k) * size, name))
            add("ReduceL2", [x, at], Near(np.sqrt(square), U32 * (c(k) + 2) * np.sqrt(square), name))
            add("ReduceSumSquare", [x, at], Near(square, U32 * (c(k) + 1) * square, name))
            lse = Bounded(w).exp()
            e = total(lse.v)
            add("ReduceLogSumExp", [x, at], Near(np.log(e), U32 * (c(k) + 8 + 4 * np.abs(np.log(e))), name))
            add("ReduceMax", [x, at], Exact(x.data.max(axis=axes, keepdims=True), name))
            if low > 0:
                add("ReduceLogSum", [x, at], Near(np.log(size), U32 * (c(k) + 4 * np.abs(np.log(size))), name))
                y = np.prod(w[tuple(slice(6) for _ in shape)], axis=axes, keepdims=True)
                part = Tensor(np.ascontiguousarray(x.data[tuple(slice(6) for _ in shape)]), name)
                n = int(np.prod([part.shape[a] for a in axes]))
                add("ReduceProd", [part, at], Near(y, U32 * n * np.abs(y), name))


def chains(name):
    """Every operator of a chain rounds its result: what comes out is exactly that."""
    suite.group = f"chains round after every operator {name}"
    r = lambda v: round_to(v, name).astype(np.float64)
    for shape in [(5,), (3, 7), (200,)]:
        for _ in range(5):
            xs = [random(rng, shape, name) for _ in range(4)]
            a, b, p, q = [x.wide() for x in xs]
            s = r(a + b)
            m = r(s * p)
            d = r(m - q)
            add([("Add", ["x0", "x1"], ["y0"], {}), ("Mul", ["y0", "x2"], ["y1"], {}),
                 ("Sub", ["y1", "x3"], ["y2"], {})], xs,
                [Exact(v, name) for v in (s, m, d)])
            # fused, the product would not be rounded
            add([("Mul", ["x0", "x1"], ["m"], {}), ("Add", ["m", "x2"], ["s"], {}), ("Div", ["s", "x3"], ["y0"], {})],
                xs,
                Exact(r(r(r(a * b) + p) / np.where(q == 0, 1, q)),
                      name) if np.all(q != 0) else [Exact(r(r(a * b) + p), name)])
            root = r(np.sqrt(r(np.abs(a))))
            add([("Abs", ["x0"], ["t"], {}), ("Sqrt", ["t"], ["u"], {}), ("Mul", ["u", "u"], ["y0"], {})], xs[:1],
                Exact(r(root * root), name))
    suite.group = f"a sum of ones stops where the type ends, not before {name}"
    for n in (300, 2500, 5000):
        ones = Tensor(np.ones(n, TYPES[name][1]), name)
        add("ReduceSum", [ones, int64(0)], exactly(np.array([float(n)]), name))
        add("MatMul", [Tensor(ones.data[None], name), Tensor(ones.data[:, None], name)],
            exactly(np.array([[float(n)]]), name))


def overflow():
    suite.group = "float16 overflow is infinity, and only at the end"
    big = Tensor(np.array([60000, -60000, 30000, 4], np.float16))
    inf = np.inf
    f16 = lambda v: Exact(np.array(v, np.float16))
    add("Add", [big, big], f16([inf, -inf, 60000, 8]))
    add("Mul", [big, big], f16([inf, inf, inf, 16]))
    add("Exp", [Tensor(np.array([11, 12, -20, 11.09375], np.float16))],
        Near(np.exp([11, 12, -20, 11.09375]), 0.05, "f16"))
    add("Cast", [Tensor(np.array([65519, 65520, 1e6, -1e6], np.float32))], f16([65504, inf, inf, -inf]), to=10)
    add("ReduceSum", [big, int64(0)], exactly(np.array([30004.0]), "f16"))  # 60000 - 60000 + ..: float holds it
    many = Tensor(np.full(100, 60000, np.float16))
    add("ReduceSum", [many, int64(0)], f16([inf]))
    add("ReduceMean", [many, int64(0)], f16([60000]))
    add("ReduceL2", [Tensor(np.array([300, 400], np.float16)), int64(0)], f16([500]))  # squares are beyond f16
    add("ReduceSumSquare", [Tensor(np.array([300, 400], np.float16)), int64(0)], f16([inf]))
    a, b = Tensor(np.full((2, 8), 200, np.float16)), Tensor(np.full((8, 2), 200, np.float16))
    add("MatMul", [a, b], f16(np.full((2, 2), inf)))
    b = Tensor(np.array([[400, 1], [-400, 1]] * 4, np.float16))
    add("MatMul", [a, b], f16([[0, 1600]] * 2))  # partial sums are beyond f16
    add("Gemm", [a, b, Tensor(np.array([1, 2], np.float16))], f16([[1, 1602]] * 2))
    x, w = Tensor(np.full((1, 4, 3), 250, np.float16)), Tensor(np.full((1, 4, 1), 250, np.float16))
    add("Conv", [x, w], f16(np.full((1, 1, 3), inf)))
    x = Tensor(np.full((1, 1, 8), 60000, np.float16))
    add("AveragePool", [x], f16(np.full((1, 1, 1), 60000)), kernel_shape=[8])
    add("GlobalAveragePool", [x], f16(np.full((1, 1, 1), 60000)))
    add("Softmax", [Tensor(np.array([60000, 60000], np.float16))], f16([0.5, 0.5]))
    x = Tensor(np.array([[60000, -60000, 60000, -60000]], np.float16))
    add("LayerNormalization", [x, Tensor(np.ones(4, np.float16))], Near(np.array([[1.0, -1, 1, -1]]), 1e-6, "f16"))
    suite.group = "bfloat16 overflow is infinity"
    top = FORMAT["bf16"][2]
    big = Tensor(np.array([top, -top, 1], np.float32), "bf16")
    add("Add", [big, big], Exact(np.array([inf, -inf, 2]), "bf16"))
    add("Mul", [big, big], Exact(np.array([inf, inf, 1]), "bf16"))
    add("Cast", [Tensor(np.array([3.4e38, -3.4e38, 1], np.float32))], Exact(np.array([inf, -inf, 1]), "bf16"), to=16)


# ---- recurrent layers and attention --------------------------------------------------------------

def recurrent(name):
    for op in rnn_reference.N_GATES:
        suite.group = f"{op} {name}"
        g = rnn_reference.N_GATES[op]
        for (seq, batch, n_in, n), direction, lens in itertools.product(
                [(4, 2, 3, 5), (6, 1, 8, 16)], ("forward", "reverse", "bidirectional"), (False, True)):
            dirs = 2 if direction == "bidirectional" else 1
            make = lambda *s: random(rng, s, name, -1, 1)
            x, h = make(seq, batch, n_in), make(dirs, batch, n)
            w, r, b = make(dirs, g * n, n_in), make(dirs, g * n, n), make(dirs, 2 * g * n)
            length = Tensor(rng.integers(1, seq + 1, batch).astype(np.int32)) if lens else None
            values = rnn_reference.run(op, x.wide(), w.wide(), r.wide(), b.wide(),
                                       None if length is None else length.data, h.wide(),
                                       direction=direction)
            wants = [v.near(name) for v in values[:3 if op == "LSTM" else 2]]
            add(op, [x, w, r, b, length, h], wants, opset=22, hidden_size=n, direction=direction)


def attention(name):
    suite.group = f"Attention {name}"
    for batch, heads, q_len, k_len, size in [(1, 1, 3, 4, 8), (2, 3, 5, 7, 16), (1, 2, 17, 33, 64)]:
        q, k, v = (random(rng, (batch, heads, n, size), name) for n in (q_len, k_len, k_len))
        mask = random(rng, (q_len, k_len), name)
        for given, causal in ((False, 0), (True, 0), (False, 1)):
            root = np.float64(np.float32(size)) ** -0.25
            scores = (Bounded(q.wide()) * root) @ (Bounded(k.wide().swapaxes(-1, -2)) * root)
            if given:
                scores = scores + mask.wide()
            if causal:
                hidden = np.arange(k_len)[None, :] > np.arange(q_len)[:, None]
                # far enough below that exp() gives 0
                scores = Bounded(np.where(hidden, -1e4, scores.v), np.where(hidden, 0, scores.e))
            y = scores.softmax(-1) @ v.wide()
            add("Attention", [q, k, v] + ([mask] if given else []), y.near(name), is_causal=causal)


def gold(name):
    """--fp64 on a 16-bit model: nothing is rounded to 16 bits any more."""
    suite.group = f"{name} model with --fp64"
    u = 2 * U["f64"]  # torch's own error counts, too
    near = lambda y, size, k: Near(np.asarray(y, np.float64), u * (c(k) + 4) * np.asarray(size, np.float64), "f64")
    for m, k, n in [(3, 5, 7), (17, 64, 33), (1, 1000, 3)]:
        a, b, z = random(rng, (m, k), name), random(rng, (k, n), name), random(rng, (n,), name)
        p, q = a.wide(), b.wide()
        size = np.abs(p) @ np.abs(q)
        add("MatMul", [a, b], near(p @ q, size, k), fp64=True)
        add("Gemm", [a, b, z], near(p @ q + z.wide(), size + np.abs(z.wide()), k), fp64=True)
        add("Softmax", [a], near(torch.softmax(t(p), 1), np.ones((m, k)), k), fp64=True)
        add("ReduceMean", [a, int64(1)], near(p.mean(1, keepdims=True), np.abs(p).mean(1, keepdims=True), k), fp64=True)
        add("LayerNormalization", [a, Tensor(np.ones(k, TYPES[name][1]), name)],
            near(F.layer_norm(t(p), (k,), eps=float(np.float32(1e-5))), np.full((m, k), 8.0), k), fp64=True)
        add("Exp", [a], near(np.exp(p), np.exp(p), 1), fp64=True)
        add([("Mul", ["x0", "x0"], ["s"], {}), ("Sqrt", ["s"], ["y0"], {})], [a], near(np.abs(p), np.abs(p), 1),
            fp64=True)
    x, w = random(rng, (1, 4, 9, 9), name), random(rng, (6, 4, 3, 3), name)
    add("Conv", [x, w], near(F.conv2d(t(x.data), t(w.data)), F.conv2d(t(np.abs(x.data)), t(np.abs(w.data))), 36),
        fp64=True)


for low in LOW:
    for make in (products, convolutions, poolings, norms, softmaxes, reductions, chains, recurrent, attention, gold):
        make(low)
overflow()
suite.finish()

#!/usr/bin/python3
"""Layers against torch.nn.functional in double: convolutions, pooling, Resize, GridSample, norms, losses, activations,
in f32, in f64, and in f32 with --fp64 (then the double result is expected). Bounds as in plumbtest: u * c(K) *
sum|terms| for sums, where torch computes the magnitudes too; for f64 torch's own error counts once more."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F

from plumbtest import U, Exact, Near, Suite, Tensor, c, int64, random

suite = Suite()
rng = suite.rng(31)
MODES = ["f32", "f64", "gold"]  # gold: f32 model, run with --fp64


def t(x):
    return torch.from_numpy(np.array(x, np.float64))


class Mode:
    """Where a case runs: the type of its tensors, of its results, and the unit roundoff of both together."""

    def __init__(self, mode):
        self.mode = mode
        self.name = "f32" if mode == "gold" else mode
        self.out = "f64" if mode == "gold" else mode
        self.u = U["f32"] if mode == "f32" else 2 * U["f64"]

    def random(self, shape, low=None, high=None):
        return random(rng, shape, self.name, low, high)

    def near(self, y, err):
        return Near(np.asarray(y, np.float64), np.asarray(err, np.float64) * self.u, self.out)

    def same(self, y):
        return Exact(np.asarray(y, np.float64).astype(np.float32 if self.out == "f32" else np.float64), self.out)

    def add(self, op, inputs, wants, **attrs):
        suite.add(op, inputs, wants, fp64=self.mode == "gold", **attrs)

    def linear(self, fn, parts, k):
        """fn is linear in each part: the error is c(K) * fn of magnitudes."""
        y = fn(*[t(p.data) for p in parts])
        return self.near(y, c(k) * fn(*[t(np.abs(p.data)) for p in parts]).numpy())


def modes(title):
    for mode in MODES:
        suite.group = f"{title} {mode}"
        yield Mode(mode)


def padded(x, pads, value=0.0):
    """ONNX pads (all begins, then all ends) in torch's order (last dim first)."""
    d = len(pads) // 2
    return F.pad(x, [p for i in reversed(range(d)) for p in (pads[i], pads[d + i])], value=value)


def same_pads(size, kernel, stride, dilation, upper):
    pads = []
    for n, k, s, di in zip(size, kernel, stride, dilation):
        out = -(-n // s)
        total = max((out - 1) * s + (k - 1) * di + 1 - n, 0)
        small, large = total // 2, total - total // 2
        pads.append((small, large) if upper else (large, small))
    return [p[0] for p in pads] + [p[1] for p in pads]


# ---- convolutions --------------------------------------------------------------------------------

CONVS = [  # input, channels out, kernel, strides, dilations, pads, groups
    ((1, 1, 5), 1, (3,), (1,), (1,), (0, 0), 1), ((2, 4, 11), 6, (3,), (2,), (2,), (1, 3), 2),
    ((1, 3, 8), 3, (4,), (3,), (1,), (2, 0), 3),
    ((1, 3, 8, 9), 4, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((2, 6, 7, 9), 6, (3, 2), (1, 2), (2, 1), (2, 0, 1, 1), 6),
    ((1, 4, 6, 5), 8, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((1, 4, 6, 5), 8, (1, 1), (2, 2), (1, 1), (0, 0, 0, 0), 2),
    ((2, 3, 12, 13), 5, (5, 4), (2, 3), (1, 1), (0, 2, 3, 1), 1),
    ((1, 8, 9, 9), 16, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 4),
    ((1, 17, 10, 11), 19, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((1, 6, 9, 10), 12, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 6),
    ((1, 2, 4, 5, 6), 4, (2, 3, 2), (1, 1, 1), (1, 1, 1), (0, 0, 0, 0, 0, 0), 1),
    ((2, 4, 5, 6, 7), 4, (3, 2, 3), (2, 1, 2), (1, 2, 1), (1, 0, 1, 1, 1, 0), 2),
    ((0, 3, 6, 6), 2, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((1, 32, 20, 20), 33, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((3, 16, 14, 14), 16, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3), 16)]


def convolutions():
    for m in modes("Conv"):
        for shape, out, kernel, stride, dilation, pads, groups in CONVS:
            d = len(kernel)
            conv = [F.conv1d, F.conv2d, F.conv3d][d - 1]
            x, w, b = m.random(shape), m.random((out, shape[1] // groups) + kernel), m.random((out,))
            k = shape[1] // groups * int(np.prod(kernel)) + 1
            attrs = {"strides": stride, "dilations": dilation, "group": groups}
            for parts in ([x, w], [x, w, b]):
                fn = lambda p, q, r=None, pads=pads: conv(padded(p, pads), q, r, stride, 0, dilation, groups)
                m.add("Conv", parts, m.linear(fn, parts, k), pads=pads, **attrs)
                for upper in (True, False):
                    auto = same_pads(shape[2:], kernel, stride, dilation, upper)
                    fn = lambda p, q, r=None, pads=auto: conv(padded(p, pads), q, r, stride, 0, dilation, groups)
                    m.add("Conv", parts, m.linear(fn, parts, k), auto_pad="SAME_UPPER" if upper else "SAME_LOWER",
                          kernel_shape=kernel, **attrs)
            fn = lambda p, q: conv(p, q, None, stride, 0, dilation, groups)
            if all(n >= (k_ - 1) * di + 1 for n, k_, di in zip(shape[2:], kernel, dilation)):
                m.add("Conv", [x, w], m.linear(fn, [x, w], k), auto_pad="VALID", **attrs)


def transposed():
    for m in modes("ConvTranspose"):
        for shape, out, kernel, stride, dilation, pads, groups in CONVS:
            d = len(kernel)
            conv = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][d - 1]
            out = out // groups * groups or groups
            x, w, b = m.random(shape), m.random((shape[1], out // groups) + kernel), m.random((out,))
            k = shape[1] // groups * int(np.prod(kernel)) + 1
            attrs = {"strides": stride, "dilations": dilation, "group": groups}
            for extra in ((0,) * d, tuple(s - 1 for s in stride)):
                whole = [s * (n - 1) + (q - 1) * di + 1 + e
                         for s, n, q, di, e in zip(stride, shape[2:], kernel, dilation, extra)]
                if any(n - pads[i] - pads[d + i] < 1 for i, n in enumerate(whole)):
                    continue

                def fn(p, q, r=None):
                    # torch wants output_padding < stride or dilation; it only adds zeros (and bias) at the end
                    y = conv(p, q, None, stride, 0, 0, groups, dilation)
                    y = padded(y, [0] * d + list(extra))
                    y = y if r is None else y + r.reshape((1, -1) + (1,) * d)
                    inside = tuple(slice(pads[i], y.shape[2 + i] - pads[d + i]) for i in range(d))
                    cut = (slice(None), slice(None)) + inside
                    return y[cut]
                for parts in ([x, w], [x, w, b]):
                    m.add("ConvTranspose", parts, m.linear(fn, parts, k), pads=pads, output_padding=extra, **attrs)


# ---- pooling -------------------------------------------------------------------------------------

POOLS = [  # input, kernel, strides, pads (symmetric for torch), dilations
    ((1, 2, 9), (3,), (2,), (1,), (1,)), ((2, 3, 10), (2,), (3,), (0,), (3,)),
    ((1, 2, 8, 9), (3, 2), (2, 1), (1, 0), (1, 1)),
    ((2, 3, 7, 7), (2, 2), (2, 2), (0, 0), (1, 1)), ((1, 1, 9, 11), (3, 3), (1, 2), (1, 1), (2, 2)),
    ((1, 2, 5, 6, 7), (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 1)),
    ((1, 1, 4, 4), (4, 4), (1, 1), (0, 0), (1, 1)), ((1, 3, 16, 16), (3, 3), (2, 2), (1, 1), (1, 1))]


def pooling():
    for m in modes("pooling"):
        for shape, kernel, stride, pad, dilation in POOLS:
            d = len(kernel)
            x = m.random(shape)
            n = int(np.prod(kernel))
            largest = [F.max_pool1d, F.max_pool2d, F.max_pool3d][d - 1]
            mean = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][d - 1]
            attrs = {"kernel_shape": kernel, "strides": stride, "pads": pad + pad}
            for ceil in (0, 1):
                y, at = largest(t(x.data), kernel, stride, pad, dilation, bool(ceil), True)
                # torch counts within a channel, ONNX within the tensor
                plane = int(np.prod(shape[2:]))
                at = at.numpy() + plane * np.arange(shape[0] * shape[1]).reshape(shape[:2] + (1,) * d)
                m.add("MaxPool", [x], [m.same(y), Exact(at.astype(np.int64))], ceil_mode=ceil, dilations=dilation,
                      **attrs)
                m.add("MaxPool", [x], m.same(y), ceil_mode=ceil, dilations=dilation, **attrs)
                if all(v == 1 for v in dilation):
                    for whole in (0, 1):
                        fn = lambda v: mean(v, kernel, stride, pad, bool(ceil), bool(whole))
                        m.add("AveragePool", [x], m.linear(fn, [x], n + 1), ceil_mode=ceil, count_include_pad=whole,
                              **attrs)
            if all(v == 1 for v in dilation):
                uneven = pad + tuple(p + 1 for p in pad)
                y = largest(padded(t(x.data), uneven, -np.inf), kernel, stride)
                m.add("MaxPool", [x], m.same(y), kernel_shape=kernel, strides=stride, pads=uneven)
                fn = lambda v: mean(padded(v, uneven), kernel, stride)
                m.add("AveragePool", [x], m.linear(fn, [x], n + 1), kernel_shape=kernel, strides=stride, pads=uneven,
                      count_include_pad=1)
                part = mean(padded(torch.ones(shape).double(), uneven), kernel, stride)
                fn = lambda v: mean(padded(v, uneven), kernel, stride) / part
                m.add("AveragePool", [x], m.linear(fn, [x], n + 2), kernel_shape=kernel, strides=stride, pads=uneven)
                for upper in (True, False):
                    auto = same_pads(shape[2:], kernel, stride, dilation, upper)
                    y = largest(padded(t(x.data), auto, -np.inf), kernel, stride)
                    name = "SAME_UPPER" if upper else "SAME_LOWER"
                    m.add("MaxPool", [x], m.same(y), kernel_shape=kernel, strides=stride, auto_pad=name)
                    part = mean(padded(torch.ones(shape).double(), auto), kernel, stride)
                    fn = lambda v: mean(padded(v, auto), kernel, stride) / part
                    m.add("AveragePool", [x], m.linear(fn, [x], n + 2), kernel_shape=kernel, strides=stride,
                          auto_pad=name)
                for p in (1, 2, 3):
                    total = mean(padded(t(np.abs(x.data)) ** p, pad + pad), kernel, stride) * n
                    y = total ** (1 / p)
                    m.add("LpPool", [x], m.near(y, (c(n) + 6) * y.numpy()), p=p, **attrs)
            axes = tuple(range(2, 2 + d))
            m.add("GlobalAveragePool", [x], m.linear(lambda v: v.mean(axes, True), [x], plane + 1))
            m.add("GlobalMaxPool", [x], m.same(x.data.max(axes, keepdims=True)))


# ---- images --------------------------------------------------------------------------------------

def resizes():
    for m in modes("Resize"):
        for shape, sizes in [((1, 2, 7), (11,)), ((1, 1, 9), (4,)), ((1, 2, 5, 6), (9, 11)), ((2, 3, 8, 9), (5, 4)),
                             ((1, 1, 4, 4), (8, 8)),
                             ((1, 2, 3, 4, 5), (5, 6, 9)), ((1, 1, 6, 5), (6, 5)), ((1, 2, 5, 5), (10, 3)),
                             ((1, 1, 33, 40), (57, 71))]:
            x = m.random(shape)
            d = len(sizes)
            to = int64(*shape[:2], *sizes)
            linear = ["linear", "bilinear", "trilinear"][d - 1]
            span = float(np.ptp(x.data))
            jobs = [("linear", linear, "half_pixel", False), ("linear", linear, "align_corners", True)]
            if d == 2:
                jobs += [("cubic", "bicubic", "half_pixel", False), ("cubic", "bicubic", "align_corners", True)]
            for mode, theirs, where, corners in jobs:
                y = F.interpolate(t(x.data), size=sizes, mode=theirs, align_corners=corners)
                # 4 roundings of each weighted term, and the coordinate itself: u * longest side * slope
                err = (8 if mode == "linear" else 24) * np.abs(x.data).max() + max(max(sizes), max(shape)) * span
                attrs = {"cubic_coeff_a": -0.75} if mode == "cubic" else {}
                m.add("Resize", [x, None, None, to], m.near(y, np.full(y.shape, err)), mode=mode,
                      coordinate_transformation_mode=where, **attrs)
            y = F.interpolate(t(x.data), size=sizes, mode="nearest")
            m.add("Resize", [x, None, None, to], m.same(y), mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")
            if all(b <= a for a, b in zip(shape[2:], sizes)) and d == 2:  # torch's antialias leaves out what is outside
                for mode, theirs in (("linear", "bilinear"), ("cubic", "bicubic")):
                    y = F.interpolate(t(x.data), size=sizes, mode=theirs, antialias=True)
                    err = 40 * np.abs(x.data).max() + 8 * max(shape) * span
                    a = {"cubic_coeff_a": -0.5} if mode == "cubic" else {}
                    m.add("Resize", [x, None, None, to], m.near(y, np.full(y.shape, err)), mode=mode, antialias=1,
                          exclude_outside=1, **a)
        x = m.random((1, 2, 4, 5))
        y = F.interpolate(t(x.data), scale_factor=(2.0, 3.0), mode="nearest-exact")
        scales = Tensor(np.array([1, 1, 2, 3], np.float32))
        if m.mode != "gold":
            m.add("Resize", [x, None, scales], m.same(y), mode="nearest", nearest_mode="round_prefer_ceil")


def grid_samples():
    for m in modes("GridSample"):
        for shape, out in [((1, 2, 5, 6), (3, 4)), ((2, 1, 7, 4), (6, 5)), ((1, 2, 3, 4, 5), (2, 3, 4)),
                           ((1, 1, 1, 1), (2, 2))]:
            d = len(out)
            x, grid = m.random(shape), m.random((shape[0],) + out + (d,), -1.5, 1.5)
            span = float(np.ptp(x.data)) + float(np.abs(x.data).max())
            for mode, pad, corners in itertools.product(("bilinear", "nearest", "bicubic"),
                                                        ("zeros", "border", "reflection"), (False, True)):
                if d == 3 and mode == "bicubic":
                    continue
                if mode == "bicubic" and pad != "zeros":
                    # beyond the image ONNX moves the point, torch each neighbour: only within they agree
                    grid = m.random((shape[0],) + out + (d,), -1, 1)
                y = F.grid_sample(t(x.data), t(grid.data), mode, pad, corners)
                if mode == "nearest":
                    want = m.same(y)
                else:  # coordinates are computed with an error of u * size; their slope is at most the span per pixel
                    want = m.near(y, np.full(y.shape, (8 if mode == "bilinear" else 60) * span * (2 + max(shape[2:]))))
                name = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
                m.add("GridSample", [x, grid], want, mode=name, padding_mode=pad, align_corners=int(corners))
        for size, corners in itertools.product([(2, 3, 4, 5), (1, 1, 3, 4, 2)], (0, 1)):
            d = len(size) - 2
            theta = m.random((size[0], d, d + 1))
            y = F.affine_grid(t(theta.data), list(size), bool(corners))
            m.add("AffineGrid", [theta, int64(*size)], m.near(y, np.full(y.shape, 12.0 * (d + 1))),
                  align_corners=corners)


# ---- norms and losses ----------------------------------------------------------------------------

def norm_error(w, over, eps):
    """In units of u, of (x - mean) / sqrt(var + eps) (blame.md section 2)."""
    k = int(np.prod([w.shape[a] for a in over]))
    mean = lambda v: np.mean(v, axis=over, keepdims=True)
    var = mean((w - mean(w)) ** 2) + eps
    centre = np.abs(w) + c(k) * mean(np.abs(w))
    rel = (c(k) * mean(w * w) + 2 * mean(np.abs(w - mean(w)) * centre)) / var
    return centre / np.sqrt(var) + np.abs(w - mean(w)) / np.sqrt(var) * (rel / 2 + 4)


def norms():
    eps = float(np.float32(1e-3))
    for m in modes("norms"):
        for shape in [(2, 4, 3), (1, 6, 5, 7), (3, 4, 2, 3, 4), (2, 8, 30)]:
            ch, rank = shape[1], len(shape)
            x, g, b = m.random(shape), m.random((ch,), 0.5, 2), m.random((ch,))
            w = x.data.astype(np.float64)
            col = lambda v: np.abs(v.data.astype(np.float64)).reshape((1, ch) + (1,) * (rank - 2))
            tail = lambda y: np.abs(y.numpy()) + col(b)
            y = F.instance_norm(t(w), weight=t(g.data), bias=t(b.data), eps=eps)
            err = col(g) * norm_error(w, tuple(range(2, rank)), eps) + tail(y)
            m.add("InstanceNormalization", [x, g, b], m.near(y, err), epsilon=eps)
            mean, var = m.random((ch,)), m.random((ch,), 0.5, 2)
            y = F.batch_norm(t(w), t(mean.data), t(var.data), t(g.data), t(b.data), False, 0, eps)
            err = 5 * col(g) / np.sqrt(col(var)) * (np.abs(w) + col(mean)) + tail(y)
            m.add("BatchNormalization", [x, g, b, mean, var], m.near(y, err), epsilon=eps)
            over = (0,) + tuple(range(2, rank))
            y = F.batch_norm(t(w), None, None, t(g.data), t(b.data), True, 0, eps)
            now, spread = w.mean(over), w.var(over)
            momentum = float(np.float32(0.75))
            n = w.size // ch
            keep = lambda old, new: old.data.astype(np.float64) * momentum + new * (1 - momentum)
            wants = [m.near(y, col(g) * norm_error(w, over, eps) + tail(y)),
                     m.near(keep(mean, now), np.full(ch, c(n) * 4 + 4.0)),
                     m.near(keep(var, spread), np.full(ch, c(n) * 16 + 8.0))]
            m.add("BatchNormalization", [x, g, b, mean, var], wants, epsilon=eps, momentum=0.75, training_mode=1)
            for groups in (1, 2, ch):
                y = F.group_norm(t(w), groups, t(g.data), t(b.data), eps)
                err = norm_error(w.reshape(shape[0], groups, -1), (2,), eps).reshape(shape)
                m.add("GroupNormalization", [x, g, b], m.near(y, col(g) * err + tail(y)), num_groups=groups,
                      epsilon=eps)
            for axis in range(1, rank):
                part = shape[axis:]
                g2, b2 = m.random(part, 0.5, 2), m.random(part)
                over = tuple(range(axis, rank))
                y = F.layer_norm(t(w), part, t(g2.data), t(b2.data), eps)
                err = np.abs(g2.data) * norm_error(w, over, eps) + np.abs(y.numpy()) + np.abs(b2.data)
                m.add("LayerNormalization", [x, g2, b2], m.near(y, err), axis=axis, epsilon=eps)
                r = torch.rsqrt((t(w) ** 2).mean(over, True) + eps)
                y = t(w) * r * t(g2.data)
                m.add("RMSNormalization", [x, g2], m.near(y, (c(int(np.prod(part))) + 6) * np.abs(y.numpy())),
                      axis=axis, epsilon=eps)
            if rank > 3:
                y = F.local_response_norm(t(w), 3, alpha=1 / 64, beta=0.75, k=2.0)
                m.add("LRN", [x], m.near(y, 12 * np.abs(y.numpy())), size=3, alpha=1 / 64, beta=0.75, bias=2.0)
            m.add("LpNormalization", [x], m.near(F.normalize(t(w), 2.0, 1), (c(ch) + 4) * np.ones(shape)), axis=1, p=2)


def losses():
    for m in modes("losses"):
        for shape, reduction, weighted, skipped in itertools.product(
                [(5, 4), (2, 3, 6), (2, 5, 3, 4), (3, 200)], ("none", "mean", "sum"), (False, True), (None, 1, -1)):
            n, ch = shape[:2]
            places = (n,) + shape[2:]
            x = m.random(shape, -3, 3)
            labels = rng.integers(0, ch, places)
            if skipped is not None:
                labels = np.where(rng.random(places) < 0.3, skipped, labels)
            weight = m.random((ch,), 0.5, 2) if weighted else None
            target = Tensor(labels.astype(rng.choice([np.int32, np.int64])))
            parts = [x, target] + ([weight] if weighted else [])
            attrs = {"reduction": reduction} if skipped is None else {"reduction": reduction, "ignore_index": skipped}
            tw = t(weight.data) if weighted else None
            ignore = -100 if skipped is None else skipped
            y = F.nll_loss(t(x.data), torch.from_numpy(labels), tw, ignore_index=ignore, reduction=reduction)
            count = int(np.prod(places))
            # terms of at most 3 * 2, summed; the mean divides by the sum of weights, which has an error of its own
            size = 6.0 * (count if reduction == "sum" else 2 if reduction == "mean" else 1)
            m.add("NegativeLogLikelihoodLoss", parts, m.near(y, np.full(y.shape, (2 * c(count) + 3) * size)), **attrs)
            y = F.cross_entropy(t(x.data), torch.from_numpy(labels), tw, ignore_index=ignore, reduction=reduction)
            logp = F.log_softmax(t(x.data), 1)
            each = 2 * (float(logp.abs().max()) * 4 + 12 + 2 * c(ch))  # log-softmax: D + sum p D, |x - max| <= 6
            scale = {"sum": count, "mean": 2, "none": 1}[reduction]
            want = m.near(y, np.full(y.shape, scale * each * (1 + c(count) / 8)))
            m.add("SoftmaxCrossEntropyLoss", parts, want, **attrs)
            m.add("SoftmaxCrossEntropyLoss", parts, [want, m.near(logp, np.full(shape, each))], **attrs)


# ---- activations and embeddings ------------------------------------------------------------------

def activations():
    table = [("Relu", F.relu, {}), ("Elu", lambda v: F.elu(v, 0.5), {"alpha": 0.5}), ("Selu", F.selu, {}),
             ("Celu", lambda v: F.celu(v, 2.0), {"alpha": 2.0}),
             ("LeakyRelu", lambda v: F.leaky_relu(v, 0.125), {"alpha": 0.125}), ("Sigmoid", torch.sigmoid, {}),
             ("Tanh", torch.tanh, {}),
             ("HardSwish", F.hardswish, {}), ("HardSigmoid", F.hardsigmoid, {"alpha": 1 / 6}), ("Mish", F.mish, {}),
             ("Softplus", F.softplus, {}),
             ("Softsign", F.softsign, {}), ("Gelu", F.gelu, {}),
             ("Gelu", lambda v: F.gelu(v, approximate="tanh"), {"approximate": "tanh"}),
             ("Erf", torch.erf, {}), ("Shrink", lambda v: F.softshrink(v, 0.5), {"lambd": 0.5, "bias": 0.5}),
             ("Shrink", lambda v: F.hardshrink(v, 0.5), {"lambd": 0.5}),
             ("ThresholdedRelu", lambda v: F.threshold(v, 0.75, 0.0), {"alpha": 0.75})]
    for m in modes("activations"):
        for op, fn, attrs in table:
            if op == "HardSigmoid" and m.mode != "f32":
                continue  # 1/6 is rounded to a float in the file, not in torch
            if op == "Selu" and m.mode != "f32":
                continue  # so are its alpha and gamma
            for shape in [(), (0,), (7,), (3, 5), (1037,)]:
                x = m.random(shape, -5, 5)
                y = fn(t(x.data)).numpy()
                m.add(op, [x], m.near(y, 2 * (np.abs(y) + np.abs(x.data) + 1)), **attrs)


def embeddings():
    for m in modes("embeddings"):
        for mode in ("sum", "mean", "max"):
            table, at = m.random((11, 6)), rng.integers(0, 11, (4, 5))
            y = F.embedding_bag(torch.from_numpy(at), t(table.data), mode=mode)
            op = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}[mode]
            m.add([("Gather", ["x0", "x1"], ["rows"], {}), (op, ["rows", "x2"], ["y0"], {"keepdims": 0})],
                  [table, Tensor(at.astype(np.int64)), int64(1)], m.near(y, np.full(y.shape, 2.0 * (c(5) + 1) * 5)))
        table, at = m.random((11, 6)), rng.integers(0, 11, (2, 3, 4))
        m.add("Gather", [table, Tensor(at.astype(np.int64))], m.same(F.embedding(torch.from_numpy(at), t(table.data))))


for make in (convolutions, transposed, pooling, resizes, grid_samples, norms, losses, activations, embeddings):
    make()
suite.finish()

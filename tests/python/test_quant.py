#!/usr/bin/python3
"""Quantised arithmetic against NumPy: QuantizeLinear, DequantizeLinear (per tensor, per axis, per block), dynamic
quantisation, integer products and convolutions. Integers are exact: x / scale is one rounded division, then
round half to even, then saturation (ONNX QuantizeLinear-21)."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F

from plumbtest import Exact, Suite, Tensor, U, exactly, random, round_to

suite = Suite()
rng = suite.rng(8)
add = suite.add
RANGE = {"u8": (0, 255), "i8": (-128, 127), "u16": (0, 65535), "i16": (-32768, 32767), "u4": (0, 15), "i4": (-8, 7)}


def spread(scale, shape, axis, block):
    """The scale of each element."""
    if scale.ndim == 0:
        return scale
    if block:
        return np.repeat(scale, block, axis)[tuple(slice(n) for n in shape)]
    return scale.reshape([-1 if a == axis % len(shape) else 1 for a in range(len(shape))])


def layouts():
    """shape, axis, block, shape of the scale"""
    for shape in [(5,), (3, 4), (2, 3, 4), (0, 3), (2, 33)]:
        yield shape, 1, 0, ()
        for axis in range(-len(shape), len(shape)):
            yield shape, axis, 0, (shape[axis],)
    for shape, axis, block in [((4, 6), 1, 3), ((4, 6), 0, 2), ((2, 7, 3), 1, 3), ((8,), 0, 4)]:
        yield shape, axis, block, tuple(-(-n // block) if a == axis else n for a, n in enumerate(shape))


def quantize():
    for kind, name in itertools.product(RANGE, ("f32", "f16", "bf16")):
        suite.group = f"QuantizeLinear and DequantizeLinear {kind} {name}"
        low, high = RANGE[kind]
        width = min(high - low, 200)
        for shape, axis, block, scales in layouts():
            s = random(rng, scales, name, 0.01, 0.1)
            x = random(rng, shape, name, -width * 0.04, width * 0.04)
            z = random(rng, scales, kind, max(low, -20), min(high, 20))
            attrs = {"axis": axis, **({"block_size": block} if block else {})}
            per, zero = spread(s.data, shape, axis, block), spread(z.data.astype(np.int64), shape, axis, block)
            # QuantizeLinear-23: the division is in the type of the scale, or in that of `precision`
            for given, precision in itertools.product((True, False), (None, "f32")):
                if not given and kind != "u8":
                    continue
                p = round_to(x.data.astype(np.float64) / per.astype(np.float64), precision or name)
                q = np.clip(np.rint(p).astype(np.int64) + (zero if given else 0), low, high)
                more = {} if precision is None else {"precision": 1}
                add("QuantizeLinear", [x, s] + ([z] if given else []), Exact(q, kind), **attrs, **more)
            code = random(rng, shape, kind, low, high + 1)
            for given in (True, False):
                y = (code.data.astype(np.int64) - (zero if given else 0)) * per.astype(np.float64)
                add("DequantizeLinear", [code, s] + ([z] if given else []), exactly(y, name), **attrs)
    suite.group = "QuantizeLinear ties and saturation"
    x = Tensor(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, 254.5, 255.5, 127.5, np.inf, -np.inf], np.float32))
    one = Tensor(np.array(1, np.float32))
    for kind, (low, high) in RANGE.items():
        zero = Tensor(np.array(0), kind)
        add("QuantizeLinear", [x, one, zero], Exact(np.clip(np.rint(x.data), low, high).astype(np.int64), kind))
    suite.group = "DequantizeLinear i32"
    for shape, axis, block, scales in layouts():
        if block == 0:
            x, s = random(rng, shape, "i32", -100000, 100000), random(rng, scales, "f32", 0.01, 0.1)
            add("DequantizeLinear", [x, s], exactly(x.data * spread(s.data, shape, axis, 0).astype(np.float64), "f32"),
                axis=axis)


def dynamic():
    suite.group = "DynamicQuantizeLinear"
    for shape in [(1,), (5,), (3, 4), (2, 3, 40)]:
        for low, high in [(-2, 2), (1, 3), (-3, -1), (0, 1)]:
            x = random(rng, shape, "f32", low, high)
            top, bottom = np.float32(max(0, x.data.max())), np.float32(min(0, x.data.min()))
            scale = np.float32((top - bottom) / np.float32(255))
            zero = np.uint8(np.clip(np.rint(np.float32(0 - bottom) / scale), 0, 255))
            q = np.clip(np.rint(x.data / scale) + zero, 0, 255).astype(np.uint8)
            add("DynamicQuantizeLinear", [x], [Exact(q), Exact(np.array(scale)), Exact(np.array(zero))])


def integer_products():
    for a_kind, b_kind in itertools.product(("u8", "i8"), ("u8", "i8")):
        suite.group = f"integer products {a_kind} {b_kind}"
        full = lambda kind: {"low": RANGE[kind][0], "high": RANGE[kind][1] + 1}
        for a_shape, b_shape in [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((1, 4), (4, 1)), ((2, 3, 4), (2, 4, 5)),
                                 ((7, 130), (130, 9)), ((0, 3), (3, 2))]:
            a, b = random(rng, a_shape, a_kind, **full(a_kind)), random(rng, b_shape, b_kind, **full(b_kind))
            za, zb = random(rng, (), a_kind, **full(a_kind)), random(rng, (), b_kind, **full(b_kind))
            wide = lambda t: t.data.astype(np.int64)
            add("MatMulInteger", [a, b], Exact((wide(a) @ wide(b)).astype(np.int32)))
            add("MatMulInteger", [a, b, za, zb], Exact(((wide(a) - wide(za)) @ (wide(b) - wide(zb))).astype(np.int32)))
            columns = random(rng, b_shape[-1:], b_kind, **full(b_kind))
            if len(b_shape) == 2:
                add("MatMulInteger", [a, b, za, columns],
                    Exact(((wide(a) - wide(za)) @ (wide(b) - wide(columns))).astype(np.int32)))
            sa, sb, sy = (random(rng, (), "f32", 0.01, 0.1) for _ in range(3))
            zy = random(rng, (), a_kind, RANGE[a_kind][0] // 2, RANGE[a_kind][1] // 2)
            exact = ((wide(a) - wide(za)) @ (wide(b) - wide(zb))) * (sa.wide() * sb.wide() / sy.wide())
            suite.add("QLinearMatMul", [a, sa, za, b, sb, zb, sy, zy], Code(exact, zy, a_kind))
        for shape, weight, stride, pad, groups in [((1, 2, 6, 7), (3, 2, 3, 3), 1, 1, 1),
                                                   ((2, 4, 9), (4, 2, 3), 2, 0, 2),
                                                   ((1, 3, 5, 5), (3, 1, 2, 2), 1, 0, 3)]:
            d = len(shape) - 2
            x, w = random(rng, shape, a_kind, **full(a_kind)), random(rng, weight, b_kind, **full(b_kind))
            zx, zw = random(rng, (), a_kind, **full(a_kind)), random(rng, (), b_kind, **full(b_kind))
            centred = [torch.from_numpy(v.data.astype(np.float64) - z.data) for v, z in ((x, zx), (w, zw))]
            y = [F.conv1d, F.conv2d][d - 1](*centred, None, stride, pad, 1, groups).numpy()
            attrs = {"strides": [stride] * d, "pads": [pad] * (2 * d), "group": groups}
            add("ConvInteger", [x, w, zx, zw], Exact(y.astype(np.int32)), **attrs)
            sx, sw = random(rng, (), "f32", 0.01, 0.1), random(rng, weight[:1], "f32", 0.01, 0.1)
            sy = random(rng, (), "f32", 0.1, 0.3)
            bias = random(rng, weight[:1], "i32", -5000, 5000)
            zy = random(rng, (), a_kind, RANGE[a_kind][0] // 2, RANGE[a_kind][1] // 2)
            column = lambda v: v.reshape((1, -1) + (1,) * d)
            exact = (y + column(bias.wide())) * column(sx.wide() * sw.wide() / sy.wide())
            zws = Tensor(np.full(weight[0], zw.data), b_kind)
            add("QLinearConv", [x, sx, zx, w, sw, zws, sy, zy, bias], Code(exact, zy, a_kind), **attrs)


class Code:
    """A requantised integer: the scales are multiplied and divided in float (4 roundings), so only codes
    that lie within that of the exact value may come out; away from ties that is a single one."""

    def __init__(self, exact, zero, kind):
        self.name = kind
        slack = 4 * U["f32"] * np.abs(exact)
        low, high = RANGE[kind]
        to = lambda v: np.clip(np.rint(v) + zero.data.astype(np.int64), low, high)
        self.low, self.high = to(exact - slack), to(exact + slack)

    def check(self, got):
        if got.name != self.name or got.shape != self.low.shape:
            return f"got {got.name}{list(got.shape)}, expected {self.name}{list(self.low.shape)}"
        bad = (got.data < self.low) | (got.data > self.high)
        return None if not np.any(bad) else f"{int(bad.sum())} of {bad.size} codes, e.g. {got.data[bad][0]} for {self.low[bad][0]}"


for make in (quantize, dynamic, integer_products):
    make()
suite.finish()

#!/usr/bin/python3
"""Operators of com.microsoft against ONNX Runtime's own CPU kernels: one small model per case, run by the oracle
(tests/models/ort_run.c, ORT 1.27 in .cache) and by `plumb run`. Prints TAP.

The rule: names, types and shapes are equal; floats differ by at most 1e-4 of the largest reference value; integers by
at most `steps` (0 unless the case says so). On x86 without VNNI ONNX Runtime clips pairs of u8 x s8 products: plumb computes so, too, when told
(kernels=saturate), and no case may differ from that there, nor from the exact products elsewhere. To cover another operator, add cases to a function below or write a new
one: `@family` registers it. Every operator of com.microsoft that `plumb ops` lists must have a case or stand in UNTESTED."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/models"))
sys.dont_write_bytecode = True
import runners  # noqa: E402  (needs the path above)

PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
LIMIT = 1e-4
OURS = "eager:kernels=saturate" if runners.clips_products() else "eager"
# Operators without a kernel in ORT's CPU build, which therefore cannot be compared, and why.
UNTESTED = {
    "BiasAdd": "CUDA only", "GemmFastGelu": "CUDA and ROCm only", "BiasSplitGelu": "CUDA only", "GroupNorm": "CUDA only", "SkipGroupNorm": "CUDA only",
    "BiasSoftmax": "CUDA only", "QLinearReduceMean": "no kernel",
    "BeamSearch": "test_search.py", "GreedySearch": "test_search.py",
    "LayerNormalization": "ORT has it in ai.onnx", "SimplifiedLayerNormalization": "ORT has it in ai.onnx",
}

CASES = []
rng = np.random.default_rng(11)


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def i32(values):
    return np.array(values, dtype=np.int32)


def family(fn):
    """Runs a function that calls case() many times."""
    fn()
    return fn


def case(op, label, inputs, outputs=1, steps=0, opset=17, expected=None, **attrs):
    """inputs: arrays, None for one that is left out; outputs: how many, or a list of bool (wanted or left out); expected: outputs by
    numpy, after ContribOperators.md, where ORT has no CPU kernel."""
    wanted = [True] * outputs if isinstance(outputs, int) else outputs
    if "opset_" in attrs:  # an attribute of that name
        attrs["opset"] = attrs.pop("opset_")
    CASES.append((op, f"{op} {label}", inputs, wanted, steps, opset, expected, attrs))


# ---- attention ----

@family
def rotary_embedding():
    cos, sin = f32(12, 4), f32(12, 4)
    case("RotaryEmbedding", "3-D, offset", [f32(2, 3, 16), np.array([2], np.int64), cos, sin])
    case("RotaryEmbedding", "3-D, scalar-like offset, interleaved", [f32(2, 3, 16), np.array([0], np.int64), cos, sin],
         interleaved=1)
    case("RotaryEmbedding", "4-D, positions", [f32(2, 2, 3, 8), np.array([[0, 1, 2], [5, 6, 11]], np.int64), cos, sin])
    case("RotaryEmbedding", "num_heads", [f32(2, 3, 16), np.array([1], np.int64), cos, sin], num_heads=2)
    part = [f32(12, 2), f32(12, 2)]
    case("RotaryEmbedding", "4-D, part of the head", [f32(2, 2, 3, 8), np.array([1], np.int64), *part], num_heads=2,
         rotary_embedding_dim=4)
    for interleaved in (0, 1):
        case("RotaryEmbedding", f"part of the head, interleaved {interleaved}",
             [f32(2, 3, 16), np.array([[3, 1, 2], [5, 6, 11]], np.int64), *part], num_heads=2, rotary_embedding_dim=4,
             interleaved=interleaved)


@family
def attention():
    b, s, d, n = 2, 4, 8, 2
    x, w, bias = f32(b, s, d), f32(d, 3 * d, scale=0.5), f32(3 * d)
    past = f32(2, b, n, 3, d // n)

    def add(label, mask=None, past=None, extra=None, outputs=1, **attrs):
        case("Attention", label, [x, w, bias, mask, past, extra], outputs, num_heads=n, **attrs)

    add("plain")
    add("scale", scale=0.3)
    add("unidirectional", unidirectional=1)
    add("lengths", i32([3, 4]))
    add("ends and starts", i32([4, 3, 1, 0]))
    add("raw mask", i32([[1, 1, 0, 1], [0, 1, 1, 0]]))
    add("raw mask, unidirectional", i32([[1, 1, 0, 1], [1, 0, 1, 1]]), unidirectional=1)
    add("3-D mask", i32(rng.integers(0, 2, (b, s, s)) | np.eye(s, dtype=np.int64)))
    add("3-D mask, unidirectional", i32(rng.integers(0, 2, (b, s, s)) | np.eye(s, dtype=np.int64)), unidirectional=1)
    add("mask of one column", i32([[1], [0]]))
    add("nothing to see", i32([0, 4]))
    add("nothing to see, unidirectional", i32([0, 4]), unidirectional=1)
    add("lengths in the long form", i32([3, 4, 0, 4, 8, 0, 4, 8]))
    add("filter value", i32([[1, 1, 0, 1], [0, 1, 1, 0]]), mask_filter_value=-2.0)
    add("past and present", None, past, outputs=2)
    add("past, unidirectional", None, past, outputs=2, unidirectional=1)
    add("past and raw mask", i32(np.tril(np.ones((2, 7)), 5)), past, outputs=2)
    add("present only", outputs=2)
    add("attention bias", extra=f32(b, n, s, s))
    add("attention bias and lengths", i32([3, 4]), extra=f32(b, n, s, s))
    add("attention bias of one batch", extra=f32(1, n, s, s))
    add("attention bias of one head", i32([3, 4]), extra=f32(b, 1, s, s), unidirectional=1)
    case("Attention", "other value size", [x, f32(d, 28), f32(28)], num_heads=n, qkv_hidden_sizes=[8, 8, 12])
    case("Attention", "pruned input", [f32(b, s, 10), f32(10, 24), f32(24)], num_heads=n)
    case("Attention", "longer than a block", [f32(1, 150, 8), w, bias], num_heads=n, unidirectional=1)


@family
def multi_head_attention():
    b, s, l, n, h = 2, 3, 5, 2, 4
    q, k, v = f32(b, s, n * h), f32(b, l, n * h), f32(b, l, n * h)
    pk, pv = f32(b, n, 6, h), f32(b, n, 6, h)

    def add(label, inputs, outputs=1, **attrs):
        case("MultiHeadAttention", label, inputs, outputs, num_heads=n, **attrs)

    add("plain", [q, k, v])
    add("scale", [q, k, v], scale=0.2)
    add("bias", [q, k, v, f32(3 * n * h)])
    add("other value size", [q, k, f32(b, l, 6)])
    add("other value size, bias", [q, k, f32(b, l, 6), f32(2 * n * h + 6)])
    add("lengths", [q, k, v, None, i32([2, 5])])
    add("padding mask", [q, k, v, None, i32([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]])])
    add("3-D mask", [q, k, v, None, i32(np.maximum(rng.integers(0, 2, (b, s, l)), np.eye(s, l)))])
    add("attention bias", [q, k, v, None, None, f32(b, n, s, l)])
    add("attention bias of one batch", [q, k, v, None, None, f32(1, n, s, l)])
    add("attention bias of one head, mask", [q, k, v, None, i32([2, 5]), f32(b, 1, s, l)])
    add("unidirectional", [q, q, q], unidirectional=1)
    add("past and present", [q, f32(b, s, n * h), f32(b, s, n * h), None, None, None, pk, pv], 3)
    add("past, unidirectional", [q, f32(b, s, n * h), f32(b, s, n * h), None, None, None, pk, pv], 3, unidirectional=1)
    add("past and mask", [q, q, q, None, i32(np.tril(np.ones((b, 9)), 7)), None, pk, pv], 3)
    add("present only", [q, k, v], 3)
    add("keys with heads", [q, f32(b, n, l, h), f32(b, n, l, h)])
    add("qk", [q, k, v, None, None, f32(b, n, s, l)], [True, False, False, True])
    add("qk, unidirectional", [q, q, q], [True, False, False, True], unidirectional=1)
    add("query bias", [q, f32(b, n, l, h), f32(b, n, l, h), f32(3 * n * h)])
    add("keys with heads, present", [q, f32(b, n, l, h), f32(b, n, l, h)], 3)
    case("MultiHeadAttention", "one query", [f32(b, 1, 8), k, v], num_heads=n, unidirectional=1)


@family
def decoder_masked_attention():
    b, n, h, room = 2, 2, 4, 8
    q, k, v = (f32(b, 1, n * h) for _ in range(3))
    cache = [f32(b, n, room, h), f32(b, n, room, h)]

    def add(label, inputs, outputs=3, **attrs):
        case("DecoderMaskedMultiHeadAttention", label, inputs, outputs, num_heads=n, **attrs)

    add("shared buffer", [q, k, v, None, None, *cache, i32([5])], past_present_share_buffer=1)
    add("mask", [q, k, v, i32([[1, 1, 0, 1, 1, 1], [0, 1, 1, 1, 0, 1]]), None, *cache, i32([5])], past_present_share_buffer=1)
    add("bias", [q, k, v, None, None, *cache, i32([5]), None, None, f32(3 * n * h)], past_present_share_buffer=1)
    add("cross", [q, f32(b, n, 6, h), f32(b, n, 6, h)], 1)
    add("qk", [q, k, v, None, None, *cache, i32([5])], 4, past_present_share_buffer=1, output_qk=1)


@family
def group_query_attention():
    n, g, h = 4, 2, 16
    cos, sin = f32(20, h // 2), f32(20, h // 2)

    def qkv(b, s):
        return f32(b, s, n * h), f32(b, s, g * h), f32(b, s, g * h)

    def add(label, inputs, outputs=3, **attrs):
        case("GroupQueryAttention", label, inputs, outputs, num_heads=n, kv_num_heads=g, **attrs)

    def prompt(b, s):
        return [*qkv(b, s), None, None, i32([s - 1] * b), i32([s])]

    def step(b, s, past, lengths):
        total = max(lengths) + s
        return [*qkv(b, s), f32(b, g, past, h), f32(b, g, past, h), i32([x + s - 1 for x in lengths]), i32([total])]

    add("prompt", prompt(2, 5))
    add("prompt, packed", [f32(2, 5, (n + 2 * g) * h), None, None, None, None, i32([4, 4]), i32([5])])
    add("prompt, rotary", [*prompt(2, 5), cos, sin], do_rotary=1)
    add("prompt, packed, rotary", [f32(2, 5, (n + 2 * g) * h), None, None, None, None, i32([4, 4]), i32([5]), cos, sin],
        do_rotary=1)
    add("prompt, rotary, interleaved", [*prompt(1, 5), cos, sin], do_rotary=1, rotary_interleaved=1)
    wide = [f32(1, 5, 64), f32(1, 5, 32), f32(1, 5, 32), None, None, i32([4]), i32([5])]
    case("GroupQueryAttention", "prompt, rotary of a part", [*wide, f32(20, 8), f32(20, 8)], 3, num_heads=2, kv_num_heads=1,
         do_rotary=1)
    add("scale and softcap", prompt(2, 5), scale=0.4, softcap=1.5)
    add("one token", step(2, 1, 6, [6, 6]))
    add("one token, other lengths", step(2, 1, 6, [6, 4]))
    add("one token, room left", step(2, 1, 9, [6, 4]))
    add("one token, rotary", [*step(2, 1, 6, [6, 4]), cos, sin], do_rotary=1)
    add("some tokens after a past", step(1, 3, 6, [6]))
    add("some tokens after a past, rotary", [*step(1, 3, 6, [6]), cos, sin], do_rotary=1)
    for window in (0, 1, 2, 4):
        add(f"prompt, window {window}", prompt(1, 7), local_window_size=window)
        add(f"one token, window {window}", step(2, 1, 6, [6, 4]), local_window_size=window)
    add("position ids", [*step(2, 1, 6, [6, 4]), cos, sin, np.array([[9], [2]], np.int64)], do_rotary=1)
    add("position ids of a prompt", [*prompt(1, 4), cos, sin, np.array([[3, 4, 5, 6]], np.int64)], do_rotary=1)
    add("attention bias", [*prompt(2, 5), None, None, None, f32(2, n, 5, 5)])
    add("attention bias, broadcast, softcap", [*prompt(2, 5), None, None, None, f32(1, 1, 5, 5)], softcap=1.0)
    add("attention bias, one token", [*step(2, 1, 6, [6, 6]), None, None, None, f32(1, n, 1, 7)])
    add("smooth softmax", prompt(2, 5), smooth_softmax=1)
    add("head sink", [*prompt(2, 5), None, None, None, None, f32(n)])
    add("head sink, window", [*prompt(1, 7), None, None, None, None, f32(n)], local_window_size=3)
    add("probabilities", prompt(2, 5), 4, qk_output=2)
    add("scores", prompt(2, 5), 4, qk_output=1)
    add("probabilities, room left", step(2, 1, 9, [6, 4]), 4, qk_output=2)
    add("prompt into a buffer", [*qkv(2, 5), f32(2, g, 9, h), f32(2, g, 9, h), i32([4, 4]), i32([5])])
    add("head sink and smooth softmax", [*prompt(2, 5), None, None, None, None, f32(n)], smooth_softmax=1)
    half = [x if x is None or x.dtype != np.float32 else x.astype(np.float16) for x in prompt(2, 5)]
    add("float16", half)
    add("scores of one token", step(2, 1, 6, [6, 6]), 4, qk_output=1)


@family
def q_attention():
    b, s, d, n = 2, 4, 8, 2
    x = rng.integers(0, 255, (b, s, d)).astype(np.uint8)
    for name, low, high, dtype in (("int8", -90, 90, np.int8), ("uint8", 0, 200, np.uint8)):
        w = rng.integers(low, high, (d, 3 * d)).astype(dtype)
        bias = f32(3 * d)
        one = np.array(0.02, np.float32)
        scale = np.array(0.011, np.float32)
        zero = np.array(120, np.uint8)
        w_zero = np.array(3, dtype)
        case("QAttention", f"{name}, lengths", [x, w, bias, one, scale, i32([3, 4]), zero, w_zero], num_heads=n)
        case("QAttention", f"{name}, unidirectional", [x, w, bias, one, scale, None, zero, w_zero], num_heads=n, unidirectional=1)
        case("QAttention", f"{name}, scales by column",
             [x, w, bias, one, np.abs(f32(3 * d)) * 0.01, None, zero, rng.integers(0, 5, 3 * d).astype(dtype)], num_heads=n)
        case("QAttention", f"{name}, past",
             [x, w, bias, one, scale, None, zero, w_zero, f32(2, b, n, 3, d // n)], 2, num_heads=n)


# ---- fused and others ----

@family
def activations():
    x = f32(3, 5, 8, scale=3)
    case("Gelu", "", [x])
    case("QuickGelu", "", [x])
    case("QuickGelu", "alpha", [x], alpha=0.7)
    case("FastGelu", "", [x])
    case("FastGelu", "bias", [x, f32(8)])
    case("BiasGelu", "", [x, f32(8)])


@family
def norms():
    x, skip, gamma, beta, bias = f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)
    case("SkipLayerNormalization", "", [x, skip, gamma, beta])
    case("SkipLayerNormalization", "bias, all outputs", [x, skip, gamma, beta, bias], [True, False, False, True], epsilon=1e-5)
    case("SkipLayerNormalization", "no beta", [x, skip, gamma])
    case("SkipSimplifiedLayerNormalization", "", [x, skip, gamma])
    case("SkipSimplifiedLayerNormalization", "bias, sum", [x, skip, gamma, bias], [True, False, False, True])
    ids = i32(rng.integers(0, 9, (2, 4)))
    segments = i32(rng.integers(0, 2, (2, 4)))
    words, places, kinds = f32(9, 8), f32(6, 8), f32(2, 8)
    case("EmbedLayerNormalization", "", [ids, segments, words, places, kinds, gamma, beta], 2)
    case("EmbedLayerNormalization", "mask", [ids, segments, words, places, kinds, gamma, beta, i32([[1, 1, 1, 0], [1, 1, 0, 0]])], 2)
    case("EmbedLayerNormalization", "no segments, sum", [ids, None, words, places, None, gamma, beta], 3)


@family
def products():
    a, b = f32(3, 4), f32(4, 5)
    case("FusedMatMul", "", [a, b], alpha=0.5)
    case("FusedMatMul", "transposed", [f32(2, 4, 3), f32(5, 4)], transA=1, transB=1, alpha=2.0)
    case("FusedMatMul", "batch moved", [f32(3, 2, 4), f32(4, 2, 5)], transBatchA=1, transBatchB=1)
    case("TransposeMatMul", "", [f32(4, 3), b], transA=1)
    case("FusedGemm", "relu", [a, b, f32(5)], activation="Relu", alpha=0.7, beta=0.3)
    case("FusedGemm", "leaky", [a, f32(5, 4), f32(3, 5)], activation="LeakyRelu", activation_alpha=0.2, transB=1)
    x, w = f32(1, 3, 6, 6), f32(4, 3, 3, 3)
    case("FusedConv", "relu", [x, w, f32(4)], activation="Relu", pads=[1, 1, 1, 1])
    case("FusedConv", "clip", [x, w], activation="Clip", activation_params=[-0.5, 0.5])
    case("FusedConv", "sum", [x, w, f32(4), f32(1, 4, 4, 4)], activation="Relu")


@family
def causal_convolution():
    case("CausalConvWithState", "", [f32(2, 3, 5), f32(3, 1, 3), f32(3), f32(2, 3, 2)], 2, activation="silu", ndim=1)
    case("CausalConvWithState", "no state", [f32(2, 3, 5), f32(3, 1, 3)], 2, activation="none", ndim=1)


@family
def recurrent():
    t, b, i, h = 4, 2, 3, 5
    w = rng.integers(-90, 90, (1, i, 4 * h)).astype(np.int8)
    r = rng.integers(-90, 90, (1, h, 4 * h)).astype(np.int8)
    scales = [np.array([0.01], np.float32), np.array([0], np.int8)] * 2
    case("DynamicQuantizeLSTM", "", [f32(t, b, i), w, r, f32(1, 8 * h), None, None, None, None, *scales], 3, hidden_size=h)


@family
def quantised():
    """Answers are integers: a value on the edge between two may fall either way."""
    def u8(*shape):
        return rng.integers(0, 256, shape).astype(np.uint8)

    def i8(*shape):
        return rng.integers(-128, 128, shape).astype(np.int8)

    def s(x):
        return np.array(x, np.float32)

    def z(x, dtype=np.uint8):
        return np.array(x, dtype)

    case("QuantizeLinear", "", [f32(3, 4), s(0.02), z(128)], steps=1)
    case("QuantizeLinear", "axis", [f32(3, 4), s([0.02, 0.03, 0.01]), z([128, 120, 9])], steps=1, axis=0)
    case("DequantizeLinear", "", [u8(3, 4), s(0.02), z(128)])
    case("DequantizeLinear", "int8", [i8(3, 4), s(0.02), z(-3, np.int8)])
    for name, b, zero in (("int8", i8(4, 5), z(3, np.int8)), ("uint8", u8(4, 5), z(120))):
        case("DynamicQuantizeMatMul", name, [f32(3, 4), b, s(0.02), zero])
        case("DynamicQuantizeMatMul", f"{name}, bias", [f32(3, 4), b, s(0.02), zero, f32(5)])
        case("MatMulIntegerToFloat", name, [u8(3, 4), b, s(0.1), s(0.02), z(100), zero])
        case("MatMulIntegerToFloat", f"{name}, columns, bias",
             [u8(3, 4), b, s(0.1), np.abs(f32(5)), z(100), np.full(5, zero), f32(5)])
    case("DynamicQuantizeMatMul", "columns", [f32(2, 3, 4), i8(4, 5), np.abs(f32(5)), i8(5)])
    for bits, block in ((4, 16), (4, 32), (8, 16)):
        k, n = 40, 6
        blocks = -(-k // block)
        weights = u8(n, blocks, block * bits // 8)
        scales = np.abs(f32(n * blocks)) * np.float32(0.1)
        zeros = u8(n * -(-blocks * bits // 8))
        attrs = dict(K=k, N=n, bits=bits, block_size=block)
        case("MatMulNBits", f"{bits} bits, block {block}", [f32(3, k), weights, scales], **attrs)
        case("MatMulNBits", f"{bits} bits, block {block}, zero points", [f32(2, 3, k), weights, scales, zeros], **attrs)
        case("MatMulNBits", f"{bits} bits, block {block}, bias", [f32(1, k), weights, scales, None, None, f32(n)], **attrs)
    case("NhwcMaxPool", "", [u8(1, 6, 6, 3)], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case("QGemm", "", [u8(3, 4), s(0.1), z(100), i8(4, 5), s(0.02), z(3, np.int8), None, s(0.1), z(110)], steps=1)
    case("QGemm", "to float, bias", [u8(4, 3), s(0.1), z(100), i8(5, 4), s(0.02), z(0, np.int8), i32(rng.integers(-99, 99, 5))],
         transA=1, transB=1, alpha=0.5)
    for op in ("QLinearAdd", "QLinearMul"):
        case(op, "", [u8(3, 4), s(0.02), z(128), u8(3, 4), s(0.03), z(100), s(0.05), z(120)], steps=1)
        case(op, "broadcast, int8", [i8(2, 3, 4), s(0.02), z(1, np.int8), i8(4), s(0.03), z(2, np.int8), s(0.05), z(-5, np.int8)],
             steps=1)
    case("QLinearAveragePool", "", [u8(1, 3, 6, 6), s(0.02), z(128), s(0.03), z(100)], steps=1, kernel_shape=[3, 3],
         pads=[1, 1, 1, 1])
    case("QLinearAveragePool", "padding counts", [u8(1, 3, 6, 6), s(0.02), z(128), s(0.03), z(100)], steps=1,
         kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    case("QLinearGlobalAveragePool", "", [u8(2, 3, 5, 5), s(0.02), z(128), s(0.03), z(100)], steps=1)
    case("QLinearGlobalAveragePool", "channels last", [u8(2, 5, 5, 3), s(0.02), z(128), s(0.03), z(100)], steps=1, channels_last=1)
    case("QLinearConcat", "", [s(0.03), z(120), u8(2, 3), s(0.02), z(128), u8(2, 2), s(0.04), z(99)], steps=1, axis=1)
    case("QLinearLeakyRelu", "", [u8(3, 40), s(0.02), z(128), s(0.03), z(100)], steps=1, alpha=0.1)
    case("QLinearSigmoid", "", [u8(3, 40), s(0.05), z(128), s(1 / 256), z(0)], steps=1)
    case("QLinearSoftmax", "", [u8(3, 10), s(0.05), z(128), s(1 / 256), z(0)], steps=1, axis=-1, opset_=13)
    case("QLinearWhere", "", [rng.integers(0, 2, (3, 4)).astype(bool), u8(3, 4), s(0.02), z(128), u8(3, 4), s(0.03), z(100),
                              s(0.03), z(110)], steps=1)


@family
def gather_block_quantized():
    """Random tables: codes of 4 and 8 bits packed into bytes, one or two axes of rows, half scales."""
    for number in range(12):
        bits, block = ((4, 16), (4, 32), (8, 16), (8, 32))[number % 4]
        rows, length = int(rng.integers(2, 9)), int(rng.integers(1, 5)) * 24
        length += -length % (8 // bits)
        blocks = -(-length // block)
        data = rng.integers(0, 256, (rows, length * bits // 8)).astype(np.uint8)
        scales = (np.abs(f32(rows, blocks)) * np.float32(.1) + np.float32(.01)).astype((np.float32, np.float16)[number % 3 == 2])
        zeros = rng.integers(0, 256, (rows, -(-blocks * bits // 8))).astype(np.uint8)
        indices = rng.integers(-rows, rows, ((3,), (2, 3), (1, 1, 4))[number % 3]).astype((np.int64, np.int32)[number % 2])
        case("GatherBlockQuantized", f"{number}: {bits} bits, block {block}, {rows} rows of {length}",
             [data, indices, scales] + ([zeros] if number % 2 else []), bits=bits, block_size=block)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def paged(q, k, v, caches, starts, past, table, heads, tables=None, slots=None, sink=None, norms=None, window=-1, softcap=0.0, scale=None,
          interleaved=False, causal=True):
    """What ContribOperators.md says of PagedAttention, token by token in numpy: q, k, v are (tokens, heads, size)."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    keys, values = (c.astype(np.float64).reshape(-1, *c.shape[2:]) for c in caches)
    block, size, share = caches[0].shape[1], q.shape[2], heads // k.shape[1]

    def row(b, position):
        return table[b][position // block] * block + position % block

    def turn(x, position):
        cos, sin = (t[position].astype(np.float64) for t in tables)
        n = len(cos)
        y, first, second = x.copy(), np.arange(n) * (2 if interleaved else 1), np.arange(n) * (2 if interleaved else 1) + (1 if interleaved else n)
        y[:, first] = x[:, first] * cos - x[:, second] * sin
        y[:, second] = x[:, first] * sin + x[:, second] * cos
        return y

    for b in range(len(past)):
        for t in range(starts[b], starts[b + 1]):
            position = past[b] + t - starts[b]
            if norms is not None:
                q[t], k[t] = (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w for x, w in zip((q[t], k[t]), norms))
            if tables is not None:
                q[t], k[t] = turn(q[t], position), turn(k[t], position)
            slot = row(b, position) if slots is None else slots[t]
            if slot >= 0:
                keys[slot], values[slot] = k[t], v[t]
    y = np.zeros((len(q), heads, size))
    for b in range(len(past)):
        for t in range(starts[b], starts[b + 1]):
            position = past[b] + t - starts[b]
            end = position + 1 if causal else past[b] + starts[b + 1] - starts[b]
            seen = [row(b, p) for p in range(max(0, position + 1 - window) if window > 0 else 0, end)]
            for h in range(heads):
                x = keys[seen, h // share] @ q[t, h] * (size ** -0.5 if scale is None else scale)
                x = softcap * np.tanh(x / softcap) if softcap else x
                x = np.exp(np.append(x, -np.inf if sink is None else sink[h]) - max(x.max(), -1e9 if sink is None else sink[h]))
                y[t, h] = x[:-1] @ values[seen, h // share] / x.sum()
    return [y.reshape(len(q), -1).astype(np.float32)] + [c.reshape(o.shape).astype(np.float32) for c, o in zip((keys, values), caches)]


@family
def paged_attention():
    """Four sequences, one without new tokens, over blocks in disorder. ONNX Runtime's CPU build has no kernel."""
    heads, kv, size, block = 4, 2, 16, 4
    starts, past, table = [0, 3, 3, 4, 9], [5, 2, 0, 0], [[7, 2], [1, 0], [3, 0], [4, 6]]
    tokens = starts[-1]
    q, k, v = f32(tokens, heads, size), f32(tokens, kv, size), f32(tokens, kv, size)
    caches, sink = (f32(10, block, kv, size), f32(10, block, kv, size)), f32(heads)
    tables, part, norms = (f32(12, size // 2), f32(12, size // 2)), (f32(12, 3), f32(12, 3)), (f32(size), f32(size))

    def add(label, packed=False, starts=starts, past=past, table=table, slots=None, use=None, sinks=None, weights=None, **attrs):
        rows = [x.reshape(tokens, -1) for x in (q, k, v)]
        rows = [np.concatenate(rows, 1), None, None] if packed else rows
        attrs = dict(num_heads=heads, kv_num_heads=kv, **({"do_rotary": 1} if use is not None else {}), **attrs)
        expected = paged(q, k, v, caches, starts, past, table, heads, tables=use, slots=slots, norms=weights, window=attrs.get("local_window_size", -1),
                         sink=np.zeros(heads) if attrs.get("smooth_softmax") else sinks, softcap=attrs.get("softcap", 0.0),
                         scale=attrs.get("scale"), interleaved=bool(attrs.get("rotary_interleaved")), causal=attrs.get("is_causal", 1) == 1)
        case("PagedAttention", label, rows + [*caches, i32(starts), i32(past), i32(table), *(use or (None, None)), None if slots is None else i32(slots),
                                              sinks, *(weights or (None, None))], 3, expected=expected, **attrs)

    add("several sequences")
    add("packed, rotary", packed=True, use=tables)
    add("rotary of a part, interleaved", use=part, rotary_interleaved=1)
    add("window, softcap, scale", local_window_size=3, softcap=2.0, scale=0.4)
    add("window: blocks before it may be unmapped", table=[[7, 2], [1, 0], [3, -1], [4, 6]], local_window_size=2)
    add("first block shared", past=[5, 2, 0, 4], table=[[7, 2, 0], [1, 0, 0], [3, 0, 0], [7, 6, 8]])
    add("slot_mapping, some kept out", slots=[21, -1, 23, 12, 16, 17, -1, 19, 24])
    add("sinks", sinks=sink)
    add("smooth softmax", smooth_softmax=1)
    add("normalised q and k, rotary, packed", packed=True, use=tables, weights=norms)
    add("not causal", is_causal=0)


def experts(x, router, fc1, fc2, activate, k, normalise):
    """What ContribOperators.md says of MoE, in numpy: fc1, fc2 are functions of (expert, rows)."""
    flat, p = x.reshape(-1, x.shape[-1]).astype(np.float64), softmax(router.astype(np.float64))
    y = np.zeros_like(flat)
    for t, row in enumerate(p):
        chosen = np.argsort(-row)[:k]
        w = row[chosen] / (row[chosen].sum() if normalise else 1)
        for e, weight in zip(chosen, w):
            y[t] += weight * fc2(e, activate(e, fc1(e, flat[t])))
    return [y.reshape(x.shape).astype(x.dtype)]


@family
def mixture_of_experts():
    n, hidden, inter, tokens = 5, 32, 48, 7
    x, r = f32(tokens, hidden), f32(tokens, n)
    a, b = f32(n, inter, hidden, scale=0.3), f32(n, hidden, inter, scale=0.3)
    a2, b1, c1, c2 = f32(n, 2 * inter, hidden, scale=0.3), f32(n, hidden), f32(n, inter), f32(n, 2 * inter)
    for act in ("relu", "gelu", "silu", "identity"):
        case("MoE", act, [x, r, a, None, b], k=2, activation_type=act)
    case("MoE", "best expert, biases", [x, r, a, c1, b, b1])
    case("MoE", "normalised, rank 3", [f32(2, 3, hidden), f32(6, n), a, c1, b, b1], k=3, normalize_routing_weights=1, activation_type="silu")
    case("MoE", "all experts", [x, r, a, None, b], k=n)
    case("MoE", "equal experts: the last ones", [x, np.zeros_like(r), a, None, b], k=2)
    case("MoE", "swiglu", [x, r, a2, None, b], k=2, activation_type="swiglu", swiglu_fusion=1)
    case("MoE", "swiglu as gpt-oss has it", [3 * x, r, a2, c2, b, b1], k=2, activation_type="swiglu", swiglu_fusion=1, swiglu_limit=1.5,
         activation_alpha=1.702, activation_beta=1.0, normalize_routing_weights=1)
    g = f32(n, inter, hidden, scale=0.3)  # ONNX Runtime's CPU kernel refuses these two
    case("MoE", "fc3", [x, r, a, None, b, None, g], k=2, activation_type="relu", expected=experts(
        x, r, lambda e, v: (a[e] @ v, g[e] @ v), lambda e, h: b[e] @ h, lambda e, h: np.maximum(h[0], 0) * h[1], 2, False))
    case("MoE", "swiglu in halves", [x, r, a2, None, b], k=2, activation_type="swiglu", swiglu_fusion=2, expected=experts(
        x, r, lambda e, v: a2[e] @ v, lambda e, h: b[e] @ h,
        lambda e, h: h[:inter] / (1 + np.exp(-h[:inter])) * h[inter:], 2, False))


@family
def quantised_experts():
    n, hidden, inter, tokens = 5, 64, 32, 7
    x, r = f32(tokens, hidden), f32(tokens, n)

    def codes(bits, rows, columns):
        return rng.integers(0, 256, (n, rows, columns * bits // 8)).astype(np.uint8)

    def scales(*shape):
        return (rng.random(shape) * 0.02 + 0.005).astype(np.float32)

    for bits in (4, 8):
        w1, w2 = codes(bits, inter, hidden), codes(bits, hidden, inter)
        plain = [x, r, w1, scales(n, inter), None, w2, scales(n, hidden), None]
        case("QMoE", f"{bits} bits", plain, k=2, expert_weight_bits=bits)
        case("QMoE", f"{bits} bits, biases, silu", plain[:4] + [f32(n, inter)] + plain[5:7] + [f32(n, hidden)], k=2, expert_weight_bits=bits,
             activation_type="silu", normalize_routing_weights=1)
        zeros = [codes(bits, 1, inter)[:, 0], codes(bits, 1, hidden)[:, 0]]
        case("QMoE", f"{bits} bits, zero points of rows", plain + [None] * 3 + zeros, k=3, expert_weight_bits=bits)
        case("QMoE", f"{bits} bits, weights of the experts", plain + [None] * 6 + [np.abs(f32(tokens, n))], k=2, expert_weight_bits=bits)
        case("QMoE", f"{bits} bits, weights of the experts, normalised", plain + [None] * 6 + [np.abs(f32(tokens, n))], k=2,
             expert_weight_bits=bits, normalize_routing_weights=1)
        case("QMoE", f"{bits} bits, swiglu", [x, r, codes(bits, 2 * inter, hidden), scales(n, 2 * inter), f32(n, 2 * inter)] + plain[5:7] + [f32(n, hidden)],
             k=2, expert_weight_bits=bits, activation_type="swiglu", swiglu_fusion=1, swiglu_limit=2.0, activation_alpha=1.702, activation_beta=1.0)
        for block in (16, 32):
            w = [x, r, w1, scales(n, inter, hidden // block), None, w2, scales(n, hidden, inter // block), None]
            case("QMoE", f"{bits} bits, block {block}", w, k=2, expert_weight_bits=bits, block_size=block)
        blocks = [x, r, w1, scales(n, inter, 4), None, w2, scales(n, hidden, 2), None]
        zeros = [codes(bits, inter, 4), codes(bits, hidden, 2)]
        case("QMoE", f"{bits} bits, block 16, zero points", blocks + [None] * 3 + zeros, k=2, expert_weight_bits=bits, block_size=16)


@family
def dropouts():
    """What is not random: outside training, and a ratio of 0."""
    x, bias, residual, ones = f32(2, 3, 4), f32(4), f32(2, 3, 4), np.ones((2, 3, 4), bool)
    case("BiasDropout", "", [x, bias], expected=[x + bias])
    case("BiasDropout", "residual, mask", [x, bias, residual], 2, expected=[x + bias + residual, ones])
    case("BiasDropout", "whole bias, training off", [x, residual, None, np.float32(0.5), np.bool_(False)], 2,
         expected=[x + residual, ones])
    case("BiasDropout", "training, ratio 0", [x, bias, residual, np.float32(0), np.bool_(True)], 2,
         expected=[x + bias + residual, ones])
    bits = np.full(1, 0xFFFFFFFF, np.uint32)
    case("BitmaskDropout", "", [x], 2, expected=[x, bits])
    case("BitmaskDropout", "more than one word", [f32(5, 7)], [False, True], expected=[np.full(2, 0xFFFFFFFF, np.uint32)])
    case("BitmaskDropout", "training, ratio 0", [x, np.float32(0), np.bool_(True)], 2, expected=[x, bits >> np.uint32(8)])
    case("BitmaskBiasDropout", "", [x, bias, residual], 2, expected=[x + bias + residual, bits])


@family
def padding():
    """Rows without those after the count, and back with zeros."""
    x, counts = f32(3, 4, 2), i32([1, 4, 2])
    flat, keep = x.reshape(12, 2), np.concatenate([4 * b + np.arange(n) for b, n in enumerate(counts)])
    offsets = np.concatenate([keep, np.setdiff1d(np.arange(12), keep)]).astype(np.int32).reshape(3, 4)
    case("RemovePadding", "", [x, counts], 4, expected=[flat[keep], offsets, i32([0, 1, 5, 7]), i32([4])])
    back = np.zeros_like(flat)
    back[keep] = flat[keep]
    case("RestorePadding", "", [flat[keep], offsets], expected=[back.reshape(3, 4, 2)])


@family
def concat_training():
    a, b = f32(2, 3, 2), f32(2, 1, 2)
    case("ConcatTraining", "", [a, b], 2, axis=1, expected=[np.concatenate([a, b], 1), np.array([3, 1], np.int64)])
    case("ConcatTraining", "negative axis", [a, a, a], axis=-1, expected=[np.concatenate([a, a, a], -1)])


@family
def sparse_to_dense():
    """A is a sparse initializer; ORT makes those dense and then refuses them here, so that its kernel takes only sparse inputs."""
    a = np.where(rng.random((5, 4)) < 0.3, f32(5, 4), 0).astype(np.float32)
    b, c, d = f32(4, 3), f32(3, 5), rng.standard_normal((4, 3))
    case("SparseToDenseMatMul", "", [a, b], expected=[a @ b])
    case("SparseToDenseMatMul", "alpha", [a, b], alpha=0.5, expected=[0.5 * (a @ b)])
    case("SparseToDenseMatMul", "transposed", [a, c], transA=1, transB=1, expected=[a.T @ c.T])
    case("SparseToDenseMatMul", "double", [a.astype(np.float64), d], expected=[a.astype(np.float64) @ d])


@family
def nhwc_conv():
    """Against numpy: sums over windows of the channels-last image; weights are (M, C / group, kH, kW)."""
    def conv(x, w, bias, strides, pads, group):
        x = np.pad(x.astype(np.float64), [(0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0)])
        m, c, kh, kw = w.shape
        rows, columns = (x.shape[1] - kh) // strides[0] + 1, (x.shape[2] - kw) // strides[1] + 1
        y = np.zeros((x.shape[0], rows, columns, m))
        for i, j, k in np.ndindex(rows, columns, m):
            g = k // (m // group)
            window = x[:, i * strides[0]:i * strides[0] + kh, j * strides[1]:j * strides[1] + kw, g * c:(g + 1) * c]
            y[:, i, j, k] = (window * w[k].transpose(1, 2, 0)).sum((1, 2, 3))
        return (y + (0 if bias is None else bias)).astype(np.float32)

    for label, bias, strides, pads, group in (("", False, [1, 1], [0, 0, 0, 0], 1), ("bias, pads", True, [2, 1], [1, 0, 2, 1], 1),
                                              ("groups", True, [1, 2], [1, 1, 1, 1], 2)):
        x, w, b = f32(2, 6, 7, 4), f32(6, 4 // group, 3, 2), f32(6) if bias else None
        case("NhwcConv", label, [x, w] + ([b] if bias else []), strides=strides, pads=pads, group=group,
             expected=[conv(x, w, b, strides, pads, group)])


# ---- running ----

def tensor_type(array):
    return onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype] if hasattr(onnx, "mapping") \
        else helper.np_dtype_to_tensor_dtype(array.dtype)


def make_model(op, inputs, wanted, opset, attrs):
    """Weights-like inputs are fed too: what counts is the kernel, and ORT must not fold it away."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    outputs = [f"y{i}" if w else "" for i, w in enumerate(wanted)]
    info = [helper.make_tensor_value_info(n, tensor_type(x), x.shape) for n, x in zip(names, inputs) if x is not None]
    types = OUTPUT_TYPES.get(op, {})
    out_info = [helper.make_tensor_value_info(n, types[i], None) if i in types else onnx.ValueInfoProto(name=n)
                for i, n in enumerate(outputs) if n]
    node = helper.make_node(op, names, outputs, domain="com.microsoft", **attrs)
    constants = INITIALIZERS.get(op, ())
    kept = [numpy_helper.from_array(inputs[i], names[i]) for i in constants if i < len(inputs) and inputs[i] is not None]
    fixed = {t.name for t in kept}
    graph = helper.make_graph([node], "g", [i for i in info if i.name not in fixed], out_info,
                              [] if op in SPARSE else kept, sparse_initializer=[sparse(t) for t in kept] if op in SPARSE else None)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    return model, {n: x for n, x in zip(names, inputs) if x is not None and n not in fixed}


# Types that ORT cannot tell from the inputs.
OUTPUT_TYPES = {"MultiHeadAttention": {3: TensorProto.FLOAT}, "DecoderMaskedMultiHeadAttention": {3: TensorProto.FLOAT}}
# ORT's kernel takes these only as constants.
INITIALIZERS = {"DynamicQuantizeLSTM": (1, 2, 8, 9, 10, 11), "FusedConv": (1, 2), "MatMulNBits": (1, 2, 3),
                "QLinearLeakyRelu": (1, 2, 3, 4), "QLinearSigmoid": (1, 2, 3, 4), "QLinearSoftmax": (1, 2, 3, 4),
                "QGemm": (1, 2, 3, 4, 5, 6, 7, 8), "SparseToDenseMatMul": (0,), "QLinearConcat": (0, 1, 3, 4, 6, 7)}


SPARSE = ("SparseToDenseMatMul",)  # their constants are sparse


def sparse(tensor):
    array = numpy_helper.to_array(tensor)
    at = np.flatnonzero(array)
    return helper.make_sparse_tensor(numpy_helper.from_array(array.ravel()[at], tensor.name), numpy_helper.from_array(at), array.shape)


def difference(name, ref, got, steps):
    if got.dtype != ref.dtype or got.shape != ref.shape:
        return f"{name}: {got.dtype}{list(got.shape)}, expected {ref.dtype}{list(ref.shape)}"
    if ref.dtype.kind != "f":
        worst = np.abs(ref.astype(np.int64) - got.astype(np.int64)).max(initial=0)
        return f"{name}: differs by {worst}" if worst > steps else None
    if not np.array_equal(np.isfinite(ref), np.isfinite(got)):
        return f"{name}: NaN or infinity in other places"
    finite = np.isfinite(ref)
    a, b = ref[finite].astype(np.float64), got[finite].astype(np.float64)
    worst, scale = np.abs(a - b).max(initial=0.0), np.abs(a).max(initial=0.0)
    return f"{name}: {worst:.3g} off where the largest value is {scale:.3g}" if worst > LIMIT * scale else None


def run_case(folder, entry):
    op, _, inputs, wanted, steps, opset, expected, attrs = entry
    model, feeds = make_model(op, inputs, wanted, opset, attrs)
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as f:
        f.write(model.SerializeToString())
    files = runners.save_inputs(folder, feeds)
    outs = {}
    if expected is not None:
        outs["ort"] = dict(zip([f"y{i}" for i, w in enumerate(wanted) if w], expected))
    for who in ("ort", "plumb") if expected is None else ("plumb",):
        to = os.path.join(folder, who)
        os.makedirs(to)
        report = runners.ort(path, files, to) if who == "ort" else runners.plumb(PLUMB, path, files, to, backend=OURS)
        outs[who] = runners.load_outputs(report, to)
    if sorted(outs["ort"]) != sorted(outs["plumb"]):
        return f"outputs {sorted(outs['plumb'])}, expected {sorted(outs['ort'])}"
    wrong = [difference(n, outs["ort"][n], outs["plumb"][n], steps) for n in sorted(outs["ort"])]
    return "; ".join(w for w in wrong if w)


def uncovered():
    """Operators in the table of `plumb ops` that no case runs."""
    text = subprocess.run([PLUMB, "ops"], capture_output=True, text=True, check=True).stdout
    known = {w.split(".")[-1] for line in text.splitlines() for w in line.split()[:1] if w.startswith("com.microsoft.")}
    return sorted(known - {c[0] for c in CASES} - set(UNTESTED)), len(known)


def main():
    only = [a for a in sys.argv[1:] if not a.startswith("-")]
    cases = [c for c in CASES if not only or any(o in c[1] for o in only)]
    print(f"1..{len(cases) + 1}")
    missing = ""
    try:
        runners.ort_prepare()
    except runners.Failed as e:
        missing = str(e)
    failed = 0
    for i, entry in enumerate(cases, 1):
        if missing and entry[6] is None:
            print(f"ok {i} - {entry[1]} # SKIP {missing}")
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                wrong = run_case(folder, entry)
        except runners.Failed as e:
            wrong = str(e)
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {i} - {entry[1].strip()}" + (f"\n# {wrong}" if wrong else ""), flush=True)
    rest, known = uncovered()
    failed += bool(rest) or known == 0
    print(f"{'not ok' if rest or not known else 'ok'} {len(cases) + 1} - every operator of com.microsoft has a case")
    if rest:
        print(f"# no case: {', '.join(rest)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Situations of test_green_audit.py by a third hand: models that carry state, detectors, recurrent and recursive ones, texts and trees,
weights in other files that change behind a session, dumps with names of another tool, parts of tensor, options that widen what is allowed."""

import os
import shutil
import subprocess
import warnings
import zipfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

from green_models import write_npy, write_npz, write_safetensors
from green_odd import N, Odd, by_backend, by_engine, by_test, change, engine, info, rng, sequence, write_case
from green_situation import Situation
from plumbtest import Tensor

RED, CLEAN, CASES = [], [], []
FOUND = ("session/as-model",)
f32 = np.float32


def is_found(name):
    """Were these wrong once? They always run."""
    return any(name.startswith(found) for found in FOUND)


def red(name, make, **more):
    RED.append(Situation(f"stranger/{name}", make, generated=not is_found(name), **more))


def clean(name, make, **more):
    CLEAN.append(Situation(f"stranger/{name}", make, red=False, generated=not is_found(name), **more))


def case(*args, **more):
    CASES.append(Odd(*args, **more))
    return CASES[-1]


def softmax(v, axis=-1):
    e = np.exp(v - v.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


# ---- models that carry state ----

def decoders():
    """One step of attention with a cache: what it hands to the next step is as much of an answer as its scores."""
    t, d = 5, 4
    q, k1, v1 = (rng(60 + i).standard_normal((1, d)).astype(f32) for i in range(3))
    pk, pv = (rng(70 + i).standard_normal((t, d)).astype(f32) for i in range(2))
    k, v = np.concatenate([pk, k1]), np.concatenate([pv, v1])
    p = softmax(q.astype(np.float64) @ k.T * 0.5)
    y = (p @ v).astype(f32)
    odd = case("step", [N("Concat", ["pk", "k1"], ["k"], axis=0), N("Concat", ["pv", "v1"], ["v"], axis=0), N("Transpose", ["k"], ["kt"]), N("MatMul", ["q", "kt"], ["s"]),
                        N("Mul", ["s", "half"], ["s2"]), N("Softmax", ["s2"], ["p"]), N("MatMul", ["p", "v"], ["y"])],
               {"q": q, "k1": k1, "v1": v1, "pk": pk, "pv": pv}, [("y", "f32", [1, d]), ("k", "f32", [t + 1, d]), ("v", "f32", [t + 1, d])],
               {"y": y, "k": k, "v": v}, {"half": f32(0.5)}, backends=("ort", "jit"))
    odd.bad("cache-first", k=np.concatenate([k1, pk])).bad("cache-stale", k=np.concatenate([pk, pk[-1:]])).bad("caches-swapped", k=v, v=k)
    odd.bad("cache-short", v=pv).bad("unscaled", y=(softmax(q.astype(np.float64) @ k.T) @ v).astype(f32)).bad("newest-unseen", y=(softmax(q.astype(np.float64) @ pk.T * 0.5) @ pv).astype(f32))
    odd.bad("one-row", v=np.concatenate([v[:2], v[3:4], v[3:]])).bad("cache-half", k=k.astype(np.float16))

    x, h0 = rng(80).standard_normal((3, 1, 2)).astype(f32), rng(81).standard_normal((1, 1, 2)).astype(f32)
    w, r, b = (rng(82 + i).standard_normal(s).astype(f32) for i, s in enumerate([(1, 8, 2), (1, 8, 2), (1, 16)]))
    c0 = rng(86).standard_normal((1, 1, 2)).astype(f32)

    def lstm(order=(0, 1, 2, 3), steps=range(3), c=c0, first=h0):
        h, c, all_h = first[0].astype(np.float64), c[0].astype(np.float64), []
        bias = b[0, :8].astype(np.float64) + b[0, 8:]
        for s in steps:
            g = x[s].astype(np.float64) @ w[0].T + h @ r[0].T + bias
            i, o, f, z = (g[:, 2 * j:2 * j + 2] for j in order)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(z)
            h = sigmoid(o) * np.tanh(c)
            all_h.append(h)
        return {"Y": np.stack(all_h)[:, None].astype(f32), "Yh": h[None].astype(f32), "Yc": c[None].astype(f32)}
    right = lstm()
    odd = case("lstm", [N("LSTM", ["x", "w", "r", "b", "", "h0", "c0"], ["Y", "Yh", "Yc"], hidden_size=2)], {"x": x, "h0": h0, "c0": c0},
               [("Y", "f32", [3, 1, 1, 2]), ("Yh", "f32", [1, 1, 2]), ("Yc", "f32", [1, 1, 2])], right, {"w": w, "r": r, "b": b}, backends=("ort",))
    odd.bad("gates-of-torch", **lstm((0, 3, 1, 2))).bad("state-ignored", **lstm(first=h0 * 0)).bad("cell-ignored", **lstm(c=c0 * 0)).bad("cell-is-hidden", Yc=right["Yh"])
    odd.bad("hidden-is-first", Yh=right["Y"][0]).bad("steps-reversed", Y=right["Y"][::-1].copy()).bad("cell-nan", Yc=right["Yc"] * f32(np.nan))

    x = rng(90).standard_normal((2, 1, 3)).astype(f32)
    w, r, b = (rng(91 + i).standard_normal(s).astype(f32) for i, s in enumerate([(1, 6, 3), (1, 6, 2), (1, 12)]))

    def gru(linear):
        h, out = np.zeros((1, 2)), []
        for s in range(2):
            a, u = x[s].astype(np.float64) @ w[0].T + b[0, :6], h @ r[0].T + b[0, 6:]
            z, rr = sigmoid(a[:, :2] + u[:, :2]), sigmoid(a[:, 2:4] + u[:, 2:4])
            n = np.tanh(a[:, 4:] + (rr * u[:, 4:] if linear else (rr * h) @ r[0, 4:].T + b[0, 10:]))
            h = (1 - z) * n + z * h
            out.append(h)
        return {"Y": np.stack(out)[:, None].astype(f32), "Yh": h[None].astype(f32)}
    for linear in (0, 1):
        odd = case(f"gru-{linear}", [N("GRU", ["x", "w", "r", "b"], ["Y", "Yh"], hidden_size=2, linear_before_reset=linear)], {"x": x},
                   [("Y", "f32", [2, 1, 1, 2]), ("Yh", "f32", [1, 1, 2])], gru(linear), {"w": w, "r": r, "b": b}, backends=("ort",))
        odd.bad("other-reset", **gru(1 - linear)).bad("last-only", Y=np.repeat(gru(linear)["Y"][1:], 2, 0)).bad("hidden", Yh=gru(linear)["Y"][0])


def recursion():
    """Bodies that keep sequences, scans that go backwards."""
    x = np.array([3, 1, 4, 1, 5], f32)
    i = lambda n, k, s: info(n, k, s)
    body = helper.make_graph([N("Gather", ["x", "i"], ["e"]), N("Mul", ["e", "two"], ["t"]), N("SequenceInsert", ["q", "t"], ["q2"]), N("Identity", ["c"], ["c2"])], "body",
                             [i("i", "i64", []), i("c", "bool", []), helper.make_tensor_sequence_value_info("q", 1, [])],
                             [i("c2", "bool", []), helper.make_tensor_sequence_value_info("q2", 1, [])])
    odd = case("collects", [N("SequenceEmpty", [], ["q0"]), N("Loop", ["n", "t0", "q0"], ["q1"], body=body), N("ConcatFromSequence", ["q1"], ["y"], axis=0, new_axis=1),
                            N("SequenceLength", ["q1"], ["len"])], {"x": x}, [("y", "f32", [5]), ("len", "i64", [])], {"y": x * 2, "len": np.int64(5)},
               {"n": np.int64(5), "t0": np.bool_(True), "two": f32(2)}, backends=("ort",))
    odd.bad("reversed", y=(x * 2)[::-1].copy()).bad("stale", y=np.full(5, 10, f32)).bad("length", len=np.int64(4)).bad("short", y=(x * 2)[:4], len=np.int64(4))
    scan = helper.make_graph([N("Add", ["s", "v"], ["s2"]), N("Identity", ["s2"], ["o"])], "body", [i("s", "f32", []), i("v", "f32", [])], [i("s2", "f32", []), i("o", "f32", [])])
    y = np.cumsum(x[::-1])[::-1].astype(f32).copy()
    odd = case("scan-back", [N("Scan", ["zero", "x"], ["s", "y"], body=scan, num_scan_inputs=1, scan_input_directions=[1], scan_output_directions=[1])], {"x": x},
               [("s", "f32", []), ("y", "f32", [5])], {"s": f32(14), "y": y}, {"zero": f32(0)}, backends=("ort",))
    odd.bad("forward", y=np.cumsum(x, dtype=f32)).bad("not-turned", y=y[::-1].copy()).bad("last", s=f32(13))
    items = [np.array([[1, 2]], f32), np.array([[3, 4], [5, 6]], f32), np.zeros((0, 2), f32)]
    kind = helper.make_tensor_sequence_value_info("y", 1, None)
    odd = case("sequence-of-sizes", [N("SequenceConstruct", ["a", "b", "c"], ["q"]), N("SequenceErase", ["q", "at"], ["y"])], dict(zip("abc", items)), [kind],
               {"y": sequence("y", items[1:])}, {"at": np.int64(0)}, backends=("ort",))
    odd.bad("other-erased", y=sequence("y", items[:2])).bad("none-erased", y=sequence("y", items)).bad("joined", y=sequence("y", [np.concatenate(items[1:])]))
    odd.bad("value", y=sequence("y", [items[1] + f32(0.5), items[2]]))


# ---- pictures, signals, sums ----

def pictures():
    x = rng(100).standard_normal((1, 4, 2, 3)).astype(f32)
    dcr = x.reshape(1, 2, 2, 1, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 4, 6)
    crd = x.reshape(1, 1, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 4, 6)
    odd = case("depth-crd", [N("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD")], {"x": x}, [("y", "f32", [1, 1, 4, 6])], {"y": crd})
    odd.bad("two-channels", y=x.reshape(1, 1, 4, 6)).bad("turned", y=crd[:, :, ::-1].copy()).bad("one", y=change(crd, 23, 8))
    x2 = rng(101).standard_normal((1, 8, 1, 2)).astype(f32)
    dcr = x2.reshape(1, 2, 2, 2, 1, 2).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 2, 4)
    crd = x2.reshape(1, 2, 2, 2, 1, 2).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 2, 4)
    odd = case("depth-dcr", [N("DepthToSpace", ["x"], ["y"], blocksize=2, mode="DCR")], {"x": x2}, [("y", "f32", [1, 2, 2, 4])], {"y": dcr})
    odd.bad("crd", y=crd)
    x = np.array([[[[1, 2], [3, 5]]]], f32)
    near = np.array([[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 5, 5], [3, 3, 5, 5]], f32)[None, None]
    r = np.array([0, .25, .75, 1])
    half = np.outer(1 - r, 1 - r) * 1 + np.outer(1 - r, r) * 2 + np.outer(r, 1 - r) * 3 + np.outer(r, r) * 5
    r = np.arange(4) / 3
    corners = np.outer(1 - r, 1 - r) * 1 + np.outer(1 - r, r) * 2 + np.outer(r, 1 - r) * 3 + np.outer(r, r) * 5
    half, corners = half.astype(f32)[None, None], corners.astype(f32)[None, None]
    for word, attrs, y, others in (("half-pixel", {"mode": "linear"}, half, {"corners": corners, "nearest": near}),
                                   ("corners", {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, corners, {"half-pixel": half, "nearest": near}),
                                   ("nearest", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, near, {"linear": half, "corners": corners})):
        odd = case(f"resize-{word}", [N("Resize", ["x", "", "k"], ["y"], **attrs)], {"x": x}, [("y", "f32", [1, 1, 4, 4])], {"y": y}, {"k": np.array([1, 1, 2, 2], f32)}, backends=("ort",))
        for other, z in others.items():
            odd.bad(other, y=z)
        odd.bad("transposed", y=y.transpose(0, 1, 3, 2).copy())
    x = np.arange(1, 6, dtype=f32)[None]
    for mode, y in (("reflect", [3, 2, 1, 2, 3, 4, 5, 4]), ("edge", [1, 1, 1, 2, 3, 4, 5, 5]), ("wrap", [4, 5, 1, 2, 3, 4, 5, 1]), ("constant", [7, 7, 1, 2, 3, 4, 5, 7])):
        odd = case(f"pad-{mode}", [N("Pad", ["x", "p", "v"], ["y"], mode=mode)], {"x": x}, [("y", "f32", [1, 8])], {"y": np.array([y], f32)},
                   {"p": np.array([0, 2, 0, 1]), "v": f32(7)}, opset=19, ir=9, backends=("ort",))
        for other, z in (("zeros", [0, 0, 1, 2, 3, 4, 5, 0]), ("symmetric", [2, 1, 1, 2, 3, 4, 5, 5]), ("before-after", [1, 2, 3, 4, 5, 4, 3, 2])):
            odd.bad(other, y=np.array([z], f32))
    x = rng(103).standard_normal((1, 1, 4, 4)).astype(f32)
    for word, more, y in (("counts-pads", {"count_include_pad": 1}, True), ("ignores-pads", {}, False)):
        padded, ones = np.pad(x[0, 0].astype(np.float64), 1), np.pad(np.ones((4, 4)), 1)
        both = {w: np.array([[padded[a:a + 3, b:b + 3].sum() / (9 if w else ones[a:a + 3, b:b + 3].sum()) for b in range(4)] for a in range(4)]).astype(f32)[None, None] for w in (True, False)}
        odd = case(f"pool-{word}", [N("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1] * 4, **more)], {"x": x}, [("y", "f32", [1, 1, 4, 4])], {"y": both[y]})
        odd.bad("other", y=both[not y]).bad("corner", y=change(both[y], 0, both[y].ravel()[0] + f32(.01))).bad("shifted", y=np.roll(both[y], 1, 3))
    w = rng(104).standard_normal((4, 1, 1, 1)).astype(f32)
    x = rng(105).standard_normal((1, 2, 2, 2)).astype(f32)
    y = np.concatenate([x[:, k // 2:k // 2 + 1] * w[k, 0, 0, 0] for k in range(4)], 1)
    odd = case("groups", [N("Conv", ["x", "w"], ["y"], group=2)], {"x": x}, [("y", "f32", [1, 4, 2, 2])], {"y": y}, {"w": w})
    odd.bad("interleaved", y=np.concatenate([x[:, k % 2:k % 2 + 1] * w[k, 0, 0, 0] for k in range(4)], 1)).bad("one-group", y=np.concatenate([x[:, :1] * w[k, 0, 0, 0] for k in range(4)], 1))
    odd.bad("last-channel", y=np.concatenate([y[:, :3], y[:, 2:3]], 1))


def sums():
    x = np.array([[1, 2, 3], [4, 5, 6]], f32)
    for word, attrs, y in (("plain", {}, [[1, 3, 6], [4, 9, 15]]), ("exclusive", {"exclusive": 1}, [[0, 1, 3], [0, 4, 9]]), ("reverse", {"reverse": 1}, [[6, 5, 3], [15, 11, 6]])):
        odd = case(f"cumsum-{word}", [N("CumSum", ["x", "a"], ["y"], **attrs)], {"x": x}, [("y", "f32", [2, 3])], {"y": np.array(y, f32)}, {"a": np.int64(1)}, backends=("ort",))
        odd.bad("other-axis", y=np.array([[1, 2, 3], [5, 7, 9]], f32)).bad("input", y=x).bad("last", y=change(np.array(y, f32), 5, 14))
    a, b = rng(110).standard_normal((2, 3, 4)).astype(f32), rng(111).standard_normal((2, 4, 3)).astype(f32)
    y = np.einsum("bij,bjk->bki", a.astype(np.float64), b).astype(f32)
    odd = case("einsum", [N("Einsum", ["a", "b"], ["y"], equation="bij,bjk->bki")], {"a": a, "b": b}, [("y", "f32", [2, 3, 3])], {"y": y}, backends=("ort",))
    odd.bad("not-turned", y=y.transpose(0, 2, 1).copy()).bad("batches-swapped", y=y[::-1].copy()).bad("first-batch-twice", y=np.stack([y[0], y[0]])).bad("diagonal", y=y * np.eye(3, dtype=f32))
    x = rng(112).standard_normal((4, 4)).astype(f32)
    odd = case("triangle", [N("Trilu", ["x", "k"], ["y"], upper=0)], {"x": x}, [("y", "f32", [4, 4])], {"y": np.tril(x, -1)}, {"k": np.int64(-1)}, backends=("ort",))
    odd.bad("with-diagonal", y=np.tril(x)).bad("upper", y=np.triu(x, -1)).bad("minus-inf", y=np.where(np.tri(4, k=-1) > 0, x, f32(-np.inf)).astype(f32))
    x = np.array([[1e4, 1e4 + 1, -1e4]], f32)
    y = (x.astype(np.float64) - x.max() - np.log(np.exp(x.astype(np.float64) - x.max()).sum())).astype(f32)
    odd = case("log-softmax", [N("LogSoftmax", ["x"], ["y"], axis=-1)], {"x": x}, [("y", "f32", [1, 3])], {"y": y})
    odd.bad("overflow", y=np.array([[np.nan, np.nan, np.nan]], f32)).bad("inf", y=change(y, 2, -np.inf)).bad("softmax", y=np.exp(y)).bad("base-2", y=(y / np.log(2)).astype(f32))
    x, t = rng(113).standard_normal((4, 3)).astype(f32), np.array([0, 2, 1, 2])
    logp = np.log(softmax(x.astype(np.float64), 1))
    each = -logp[np.arange(4), t]
    keep = t != 1
    odd = case("loss", [N("SoftmaxCrossEntropyLoss", ["x", "t"], ["l", "p"], ignore_index=1)], {"x": x, "t": t}, [("l", "f32", []), ("p", "f32", [4, 3])],
               {"l": f32(each[keep].mean()), "p": logp.astype(f32)}, backends=("ort",))
    odd.bad("counts-ignored", l=f32(each.mean())).bad("sum", l=f32(each[keep].sum())).bad("over-all", l=f32(each[keep].sum() / 4)).bad("probabilities", p=np.exp(logp).astype(f32))
    odd.bad("rank", l=np.array([each[keep].mean()], f32)).bad("negative", l=f32(-each[keep].mean()))
    x = np.array([[2, 7, 7], [7, 0, 7]], f32)
    odd = case("last-of-equals", [N("ArgMax", ["x"], ["y"], axis=1, keepdims=0, select_last_index=1)], {"x": x}, [("y", "i64", [2])], {"y": np.array([2, 2])}, backends=("ort",))
    odd.bad("smaller", y=np.array([2, 1])).bad("outside", y=np.array([2, 3])).bad("axis", y=np.array([1, 0, 1]))
    z = np.zeros((3, 2), f32)
    at, up = np.array([[2], [0], [2]]), np.array([[1, 2], [3, 4], [5, -6]], f32)
    for word, y in (("add", [[3, 4], [0, 0], [6, -4]]), ("mul", [[0, 0], [0, 0], [0, 0]]), ("max", [[3, 4], [0, 0], [5, 2]]), ("min", [[0, 0], [0, 0], [0, -6]])):
        right = np.array(y, f32)
        odd = case(f"scatter-{word}", [N("ScatterND", ["z", "at", "u"], ["y"], reduction=word)], {"z": z, "u": up}, [("y", "f32", [3, 2])], {"y": right}, {"at": at}, opset=18, backends=("ort",))
        odd.bad("last-wins", y=np.array([[3, 4], [0, 0], [5, -6]], f32)).bad("first-wins", y=np.array([[3, 4], [0, 0], [1, 2]], f32))
    c = np.array([[1, 0, -1, 0], [2, 2, 2, 2]], f32)[..., None]
    y = np.fft.fft(c[..., 0].astype(np.float64))
    y = np.stack([y.real, y.imag], -1).astype(f32)
    odd = case("spectrum", [N("DFT", ["x"], ["y"], axis=1)], {"x": c}, [("y", "f32", [2, 4, 2])], {"y": y}, backends=("ort",))
    odd.bad("other-sign", y=y * np.array([-1, 1], f32)).bad("one-sided", y=y[:, :3].copy()).bad("normalised", y=(y / 4).astype(f32)).bad("swapped", y=y[..., ::-1].copy())


# ---- quantised, texts, trees ----

def quantised():
    x = rng(120).randint(0, 256, (1, 2, 3, 3)).astype(np.uint8)
    w = rng(121).randint(-128, 128, (2, 2, 1, 1)).astype(np.int8)
    bias = np.array([500, -900], np.int32)
    zx, sx, sw, sy, zy = 7, 0.02, np.array([0.01, 0.03]), 0.15, 128

    def conv(zx=zx, sw=sw, zy=zy, bias=bias, first=slice(None)):
        acc = np.einsum("oc,chw->ohw", w[:, first, 0, 0].astype(np.int64), x[0, first].astype(np.int64) - zx) + bias[:, None, None]
        return np.clip(np.rint(acc * (sx * np.broadcast_to(sw, 2) / sy)[:, None, None]) + zy, 0, 255).astype(np.uint8)[None]
    right = conv()
    odd = case("qconv", [N("QLinearConv", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"], ["y"])], {"x": x}, [("y", "u8", [1, 2, 3, 3])], {"y": right},
               {"sx": f32(sx), "zx": np.uint8(zx), "w": w, "sw": sw.astype(f32), "zw": np.zeros(2, np.int8), "sy": f32(sy), "zy": np.uint8(zy), "b": bias}, backends=("jit",))
    for word, y in {"no-bias": conv(bias=bias * 0), "input-zero": conv(zx=0), "one-scale": conv(sw=sw[:1]), "scales-swapped": conv(sw=sw[::-1]), "output-zero": conv(zy=120),
                    "first-channel": conv(first=slice(1)), "one-code": change(right, 4, right.ravel()[4] ^ 8)}.items():
        odd.bad(word, y=y)
    codes = rng(122).randint(-8, 8, (4, 6)).astype(np.int8)
    s, z = np.array([[0.5, 1], [2, 0.25], [1, 1], [0.125, 4]], f32), np.array([[0, 1], [-2, 0], [3, -3], [0, 0]], np.int8)
    wide = lambda v: np.repeat(v, 3, 1)
    y = ((codes.astype(np.int32) - wide(z)) * wide(s)).astype(f32)
    odd = case("blocks", [N("DequantizeLinear", ["c", "s", "z"], ["y"], axis=1, block_size=3)], {"c": Tensor(codes, "i4")}, [("y", "f32", [4, 6])], {"y": y},
               {"s": s, "z": Tensor(z, "i4")}, opset=21, ir=10, backends=("ort",))
    odd.bad("no-zero", y=(codes * wide(s)).astype(f32)).bad("interleaved", y=((codes.astype(np.int32) - np.tile(z, 3)) * np.tile(s, 3)).astype(f32))
    odd.bad("first-block", y=((codes.astype(np.int32) - z[:, :1]) * s[:, :1]).astype(f32)).bad("one", y=change(y, 23, y.ravel()[23] + 4))
    x = rng(123).randint(0, 256, (1, 1, 4)).astype(np.uint8)
    w = rng(124).randint(0, 256, (1, 1, 2)).astype(np.uint8)
    acc = lambda zx, zw: np.array([[[int(((x[0, 0, k:k + 2].astype(int) - zx) * (w[0, 0].astype(int) - zw)).sum()) for k in range(3)]]], np.int32)
    odd = case("conv-integer", [N("ConvInteger", ["x", "w", "zx", "zw"], ["y"])], {"x": x}, [("y", "i32", [1, 1, 3])], {"y": acc(3, 5)}, {"w": w, "zx": np.uint8(3), "zw": np.uint8(5)}, backends=("jit",))
    odd.bad("no-zero", y=acc(0, 0)).bad("weight-zero", y=acc(3, 0)).bad("as-float", y=acc(3, 5).astype(f32)).bad("flipped", y=acc(3, 5)[..., ::-1].copy())


def texts():
    words = np.array(["a b", "c", "", "d e f"], object)
    ml = [helper.make_opsetid("ai.onnx.ml", 3)]
    odd = case("labels", [N("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["c", "a b"], values_int64s=[5, 7], default_int64=-1)], {"x": words}, [("y", "i64", [4])],
               {"y": np.array([7, 5, -1, -1])}, domains=ml, backends=("ort",))
    odd.bad("position", y=np.array([1, 0, -1, -1])).bad("default", y=np.array([7, 5, 0, 0])).bad("swapped", y=np.array([5, 7, -1, -1]))
    odd = case("joined", [N("StringConcat", ["x", "p"], ["y"])], {"x": words, "p": np.array(["!"], object)}, [("y", "str", [4])], {"y": np.array([w + "!" for w in words], object)},
               opset=20, ir=9, backends=("ort",))
    odd.bad("before", y=np.array(["!" + w for w in words], object)).bad("unchanged", y=words).bad("empty-kept", y=np.array(["a b!", "c!", "", "d e f!"], object))
    x = np.array([[0.5, -1], [2, 3], [-4, 0]], f32)
    tree = dict(nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
                nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[10.0, -3.0], n_targets=1)
    odd = case("tree", [N("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **tree)], {"x": x}, [("y", "f32", [3, 1])], {"y": np.array([[10], [-3], [10]], f32)}, domains=ml, backends=("ort",))
    odd.bad("less-than", y=np.array([[-3], [-3], [10]], f32)).bad("other-feature", y=np.array([[10], [-3], [-3]], f32)).bad("turned", y=np.array([[-3], [10], [-3]], f32))
    y = ((x - np.array([1, -2], f32)) * np.array([2, 0.5], f32)).astype(f32)
    odd = case("scaler", [N("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[1.0, -2.0], scale=[2.0, 0.5])], {"x": x}, [("y", "f32", [3, 2])], {"y": y}, domains=ml, backends=("ort",))
    odd.bad("offset-after", y=(x * np.array([2, 0.5], f32) - np.array([1, -2], f32)).astype(f32)).bad("divided", y=((x - np.array([1, -2], f32)) / np.array([2, 0.5], f32)).astype(f32))
    x = np.array([1.5, np.nan, np.inf, -np.inf, 0], f32)
    odd = case("is-special", [N("IsNaN", ["x"], ["n"]), N("IsInf", ["x"], ["i"], detect_negative=0)], {"x": x}, [("n", "bool", [5]), ("i", "bool", [5])], {"n": np.isnan(x), "i": np.isposinf(x)})
    odd.bad("both-signs", i=np.isinf(x)).bad("swapped", n=np.isposinf(x), i=np.isnan(x)).bad("all-false", n=np.zeros(5, bool))
    b = rng(130).rand(3, 4) > 0.5
    odd = case("logic", [N("Xor", ["a", "b"], ["y"]), N("And", ["a", "b"], ["z"])], {"a": b, "b": ~b[::-1]}, [("y", "bool", [3, 4]), ("z", "bool", [3, 4])], {"y": b ^ ~b[::-1], "z": b & ~b[::-1]})
    odd.bad("or", y=b | ~b[::-1]).bad("equal", y=~(b ^ ~b[::-1])).bad("bit", z=change(b & ~b[::-1], 7, not (b & ~b[::-1]).ravel()[7])).bad("int", z=(b & ~b[::-1]).astype(np.int32))


for fill in (decoders, recursion, pictures, sums, quantised, texts):
    fill()

TURNS = {"json": ["run", "--accuracy", "--json"], "analyze-junit": ["analyze", "--skip-search", "--format", "junit", "-o", "s"], "torch": ["run", "--accuracy", "--profile", "torch"],
         "analyze-plain-kernels": ["analyze", "--skip-search", "--reference", "eager:kernels=plain", "-o", "s"], "analyze-save-all": ["analyze", "--save", "all", "--skip-search", "-o", "s"],
         "query-plain": ["minify", "--query"], "runs": ["run", "--accuracy", "--runs", "2"], "analyze-mae": ["analyze", "--skip-search", "--metric", "mae", "-o", "s"]}


def in_turn(one, answer, turn):
    def make(folder):
        write_case(folder, one, None)
        return [TURNS[turn][0], "case/model.onnx", "--inputs", "case/test_data_set_0", "--backend", engine(folder, one, answer), *TURNS[turn][1:]]
    return make


def of_cases():
    turns, k = sorted(TURNS), 0
    for one in CASES:
        for word, answer in one.wrong.items():
            k += 1
            for kind in ("run", "analyze-json", "query"):
                red(f"{one.name}/{word}/{kind}", by_engine(one, answer, kind))
            red(f"{one.name}/{word}/test", by_test(one, answer, "eager"))
            red(f"{one.name}/{word}/{turns[k % len(turns)]}", in_turn(one, answer, turns[k % len(turns)]))
        for word, answer in {"right": one.right, **one.right_too}.items():
            for kind in ("run", "analyze", "query"):
                clean(f"{one.name}/{word}/{kind}", by_engine(one, answer, kind))
            for spec in (None, "eager", *one.backends):
                clean(f"{one.name}/{word}/test-{spec}", by_test(one, answer, spec))
            for turn in turns[len(one.name) % 2::2]:
                clean(f"{one.name}/{word}/{turn}", in_turn(one, answer, turn))
        for backend in one.backends:
            for kind in ("run", "analyze", "query"):
                clean(f"{one.name}/{backend}/{kind}", by_backend(one, kind, backend))


of_cases()


# ---- weights in other files, sessions ----

def plumb(folder, *words, codes=(0, 1)):
    done = subprocess.run([os.path.abspath(os.environ.get("PLUMB", "build/plumb")), *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in codes, (words, done.returncode, done.stderr)
    return done


def external(folder, scale=1.0):
    """y = relu(x w) with w in weights.bin"""
    w = rng(140).standard_normal((8, 64)).astype(f32)
    t = onnx.TensorProto(name="w", data_type=1, dims=w.shape, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", str(w.nbytes))):
        t.external_data.add(key=key, value=value)
    graph = helper.make_graph([N("MatMul", ["x", "w"], ["h"]), N("Relu", ["h"], ["y"])], "g", [info("x", "f32", ["n", 8])], [info("y", "f32", ["n", 64])], [t])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (w * f32(scale)).tofile(folder / "weights.bin")
    x = rng(141).standard_normal((3, 8)).astype(f32)
    np.save(folder / "x.npy", x)
    h = (x.astype(np.float64) @ w).astype(f32)
    return {"x": x, "h": h, "y": np.maximum(h, 0)}


def swapped_weights():
    def recorded(folder, scale, *words):
        values = external(folder)
        write_safetensors(folder / "truth.safetensors", values)
        write_npz(folder / "truth.npz", values)
        external(folder, scale)
        return list(words)
    for scale, add in ((1.01, red), (-1, red), (0, red), (1.0, clean)):
        for word, words in {"run": ["run", "model.onnx", "--backend", "ort", "--accuracy", "--reference", "truth.safetensors"], "analyze": ["analyze", "model.onnx", "--backend", "jit", "--reference", "truth.safetensors", "-o", "s"],
                            "compare": ["compare", "model.onnx", "truth.npz", "--no-session"], "compare-swapped": ["compare", "truth.npz", "model.onnx", "--no-session"],
                            "github": ["compare", "truth.npz", "model.onnx", "--no-session", "--format", "github"], "junit": ["compare", "truth.npz", "model.onnx", "--no-session", "--format", "junit"]}.items():
            add(f"weights/{scale}/{word}", lambda f, s=scale, w=words: recorded(f, s, *w))

    def reused(folder, scale, *more):
        external(folder)
        plumb(folder, "analyze", "model.onnx", "--backend", "jit", "--input", "x=x.npy", "-o", "s")
        external(folder, scale)
        return ["analyze", "model.onnx", "--input", "x=x.npy", "--reuse", "s", "-o", "t", *more]
    red("weights/reuse-other", lambda f: reused(f, 1.5))
    red("weights/reuse-one-bit", lambda f: reused(f, 1 + 2.0 ** -20))
    clean("weights/reuse-same", lambda f: reused(f, 1.0))

    def short(folder, command):
        external(folder)
        (folder / "weights.bin").write_bytes((folder / "weights.bin").read_bytes()[:-4])
        return [command, "model.onnx", "--backend", "ort", *({"run": ["--accuracy"], "analyze": ["-o", "s"], "minify": ["--query"]}[command])]
    for command in ("run", "analyze", "minify"):
        red(f"weights/short/{command}", lambda f, c=command: short(f, c), codes=(2,))


def sessions_again():
    """A session has inputs of its own, which its folder does not give to another run."""
    def red_on_its_own(folder, *words):
        x = np.full((2, 3), 70000, f32)
        one = Odd("only-large", [N("Cast", ["x"], ["h"], to=10), N("Cast", ["h"], ["y"], to=1)], {"x": x}, [("y", "f32", [2, 3])], {"y": x * f32(np.inf)})
        write_case(folder, one, None)
        spec = engine(folder, one, {"y": np.full((2, 3), 65504, f32)})
        done = plumb(folder, "analyze", "case/model.onnx", "--inputs", "case/test_data_set_0", "--backend", spec, "-o", "s")
        assert done.returncode == 1, done.stdout
        return list(words)
    for word, words in {"analyze": ["analyze", "s", "--backend", "jit", "-o", "t"], "run": ["run", "s", "--backend", "jit", "--accuracy"], "query": ["minify", "s", "--backend", "jit", "--query"],
                        "record": ["record", "s", "-o", "r.safetensors"]}.items():
        red(f"session/as-model/{word}", lambda f, w=words: red_on_its_own(f, *w), codes=(2,))
    red("session/as-side", lambda f: red_on_its_own(f, "compare", "s", "s", "--no-session"), codes=(2,))
    red("session/as-reference", lambda f: red_on_its_own(f, "run", "case/model.onnx", "--backend", "jit", "--accuracy", "--reference", "s"), codes=(1, 2))
    for form in ("github", "sarif", "md", "csv", "json", "junit"):
        def check(folder, form=form):
            return red_on_its_own(folder, "report", "s", "--format", form)
        RED.append(Situation(f"stranger/session/report-{form}", check, codes=(0, 1)))

    def cut(folder):
        words = red_on_its_own(folder, "report", "s", "--format", "json")
        text = (folder / "s/session.json").read_text()
        (folder / "s/session.json").write_text(text[:len(text) // 2])
        return words
    red("session/cut", cut, codes=(2,))


# ---- dumps with other names ----

NAMES = {"layer2_relu": lambda n, i: f"layer{i}_{n}", "tensor_0003": lambda n, i: f"tensor_{i:04}", "backslash": lambda n, i: f"net\\{n}", "suffix": lambda n, i: f"{n}:0", "upper": lambda n, i: n.upper(),
         "prefix": lambda n, i: f"model/graph/{n}"}


def dumps():
    x = rng(150).standard_normal((2, 6)).astype(f32)
    w1, w2 = rng(151).standard_normal((6, 7)).astype(f32), rng(152).standard_normal((7, 5)).astype(f32)
    h = (x.astype(np.float64) @ w1).astype(f32)
    r = np.maximum(h, 0)
    y = (r.astype(np.float64) @ w2).astype(f32)
    p = softmax(y.astype(np.float64)).astype(f32)
    values = {"x": x, "h": h, "r": r, "y": y, "p": p}
    model = Odd("dumped", [N("MatMul", ["x", "w1"], ["h"]), N("Relu", ["h"], ["r"]), N("MatMul", ["r", "w2"], ["y"]), N("Softmax", ["y"], ["p"])], {"x": x}, [("p", "f32", [2, 5])], {"p": p},
                {"w1": w1, "w2": w2})

    def behind(r):
        y = (r.astype(np.float64) @ w2).astype(f32)
        return {"r": r, "y": y, "p": softmax(y.astype(np.float64)).astype(f32)}
    faults = {"none": {}, "last-column": {"y": np.concatenate([y[:, :-1], y[:, -1:] * 0], 1)}, "no-relu": behind(h), "scaled-end": {"p": p * f32(1.03)}, "rows-swapped": {"p": p[::-1].copy()},
              "nan": {"h": change(h, 3, np.nan)}, "log": {"p": np.log(p)}}

    def compared(folder, name, fault, write, more=()):
        write_case(folder, model, None)
        data = {NAMES[name](k, i) if k != "x" else "x": v for i, (k, v) in enumerate({**values, **faults[fault]}.items())}
        write(folder, data)
        return ["compare", "dump.npz" if (folder / "dump.npz").exists() else "dump", "case/model.onnx", "--no-session", *more]
    npz = lambda folder, data: write_npz(folder / "dump.npz", data)
    files = lambda folder, data: write_npy(folder / "dump", {k.replace("/", "_").replace("\\", "_"): v for k, v in data.items()})

    def raws(folder, data):
        (folder / "dump").mkdir()
        for k, v in data.items():
            v.tofile(folder / "dump" / f"{k.replace('/', '_')}.bin")
    for name in NAMES:
        for fault in faults:
            add = clean if fault == "none" else red
            add(f"dump/{name}/{fault}/npz", lambda f, n=name, x=fault: compared(f, n, x, npz))
            add(f"dump/{name}/{fault}/json", lambda f, n=name, x=fault: compared(f, n, x, npz, ("--json",)))
            if name != "backslash":
                add(f"dump/{name}/{fault}/npy", lambda f, n=name, x=fault: compared(f, n, x, files))
    for fault in faults:
        (clean if fault == "none" else red)(f"dump/raw/{fault}", lambda f, x=fault: compared(f, "prefix", x, raws))

    def lossy(folder, keep, fault=""):
        """only some values, one of them by a name of its own"""
        write_case(folder, model, None)
        write_npz(folder / "dump.npz", {k: v for k, v in {**values, **faults[fault or "none"]}.items() if k in keep})
        return ["compare", "dump.npz", "case/model.onnx", "--no-session"]
    clean("dump/some", lambda f: lossy(f, "xhp"))
    red("dump/some-wrong", lambda f: lossy(f, "xhp", "scaled-end"))
    red("dump/no-output", lambda f: lossy(f, "xhr"))
    red("dump/only-input", lambda f: lossy(f, "x"))
    red("dump/only-middle-and-input", lambda f: lossy(f, "xy"))
    red("dump/no-input", lambda f: lossy(f, "hrp"), codes=(1, 2))


# ---- options that widen what is allowed ----

def options():
    x = rng(160).standard_normal((4, 8)).astype(f32)
    y = np.tanh(x.astype(np.float64)).astype(f32)
    one = Odd("options", [N("Tanh", ["x"], ["y"])], {"x": x}, [("y", "f32", [4, 8])], {"y": y})
    off = y * f32(1.01)

    def asked(folder, answer, command, *more):
        write_case(folder, one, None)
        rest = {"run": ["--accuracy"], "analyze": ["--skip-search", "-o", "s"], "minify": ["--query", "--accuracy"]}[command]
        return [command, "case/model.onnx", "--inputs", "case/test_data_set_0", "--backend", engine(folder, one, {"y": answer}), *rest, *more]
    # In analyze, tolerances are for outputs that no operation is to blame for.
    clean("options/tol-wide", lambda f: asked(f, off, "run", "--tol", "0.05"))
    clean("options/torch-same-wide", lambda f: asked(f, off, "run", "--profile", "torch", "--same", "tol=0.1"))
    for command in ("run", "analyze"):
        red(f"options/tol-narrow/{command}", lambda f, c=command: asked(f, off, c, "--tol", "0.001"))
        red(f"options/tol-wide-nan/{command}", lambda f, c=command: asked(f, change(off, 0, np.nan), c, "--tol", "1e9"))
        red(f"options/tol-wide-shape/{command}", lambda f, c=command: asked(f, off[:3], c, "--tol", "1e9"))
        red(f"options/tol-zero/{command}", lambda f, c=command: asked(f, off, c, "--tol", "0"))
        red(f"options/torch-same-narrow/{command}", lambda f, c=command: asked(f, off, c, "--profile", "torch", "--same", "tol=1e-4"))
        red(f"options/torch-same-wide-sign/{command}", lambda f, c=command: asked(f, -y, c, "--profile", "torch", "--same", "tol=0.1"))
        red(f"options/torch-same-wide-nan/{command}", lambda f, c=command: asked(f, change(off, 5, np.nan), c, "--profile", "torch", "--same", "tol=0.1"))

    def known(folder, first, then, *more):
        """a baseline of one answer, then another answer"""
        words = asked(folder, first, "analyze")
        plumb(folder, *words, "--write-baseline", "base.json")
        for file in (folder / "answer").iterdir():
            file.write_bytes(Tensor(then).proto("y").SerializeToString())
        return [*words[:-1], "t", "--baseline", "base.json", *more]
    red("options/baseline-was-green", lambda f: known(f, y, off))
    red("options/baseline-of-a-number", lambda f: known(f, off, change(y, 3, np.nan)))
    red("options/baseline-worse", lambda f: known(f, off, y * f32(3)))
    clean("options/baseline-mended", lambda f: known(f, off, y))
    clean("options/baseline-still-green", lambda f: known(f, y, y))


def archives():
    """The same recording in a form that another program wrote."""
    values = {"x": rng(170).standard_normal((2, 3)).astype(f32)}
    values["y"] = np.exp(values["x"])
    one = Odd("archive", [N("Exp", ["x"], ["y"])], {"x": values["x"]}, [("y", "f32", [2, 3])], {"y": values["y"]})

    def made(folder, answer, how):
        write_case(folder, one, None)
        data = {"x": values["x"], "y": answer}
        if how == "compressed":
            np.savez_compressed(folder / "d.npz", **data)
        elif how == "stored":
            with zipfile.ZipFile(folder / "d.npz", "w", zipfile.ZIP_STORED) as z:
                for k, v in data.items():
                    np.save(folder / f"{k}.npy", v)
                    z.write(folder / f"{k}.npy", f"{k}.npy")
        elif how == "twice":  # two members of one name: neither is the recording
            with zipfile.ZipFile(folder / "d.npz", "w") as z, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for k, v in (("x", values["x"]), ("y", values["y"]), ("y", answer)):
                    np.save(folder / "one.npy", v)
                    z.write(folder / "one.npy", f"{k}.npy")
        elif how == "pb":
            (folder / "d").mkdir()
            (folder / "d/input_0.pb").write_bytes(numpy_helper.from_array(values["x"], "x").SerializeToString())
            (folder / "d/output_0.pb").write_bytes(numpy_helper.from_array(answer, "y").SerializeToString())
            return ["compare", "d", "case/model.onnx", "--no-session"]
        else:
            import torch
            torch.save({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in data.items()}, folder / "d.pt")
            return ["compare", "d.pt", "case/model.onnx", "--no-session"]
        return ["compare", "d.npz", "case/model.onnx", "--no-session"]
    for how in ("compressed", "stored", "pb", "pt"):
        clean(f"archive/{how}/right", lambda f, h=how: made(f, values["y"], h))
        for word, bad in {"factor": values["y"] * f32(1.5), "one": change(values["y"], 5, 0), "order": np.asfortranarray(values["y"].T).T[::-1].copy()}.items():
            red(f"archive/{how}/{word}", lambda f, h=how, b=bad: made(f, b, h))
    red("archive/twice/factor", lambda f: made(f, values["y"] * f32(1.5), "twice"))

    def folders(folder):
        made(folder, values["y"] * f32(1.5), "pb")
        shutil.copy(folder / "d/output_0.pb", folder / "d/output_1.pb")
        return ["compare", "d", "case/model.onnx", "--no-session"]
    red("archive/pb/two-outputs", folders)


for fill in (swapped_weights, sessions_again, dumps, options, archives):
    fill()

"""Situations of test_green_audit.py by somebody who had not seen the others: models whose outputs are inputs or constants, optional outputs, masks of
NaN, large tensors with one wrong element, subnormals, unknown domains, parts of a model, several samples, every report format, a fleet."""

import os
import stat
import subprocess

import numpy as np
import onnx
from onnx import helper

from green_models import F, MODELS, write_npz, write_safetensors, write_set
from green_odd import N, NOT_TEST, Odd, by_backend, by_engine, by_test, change, engine, info, rng, write_case
from green_situation import Situation, save_model
from plumbtest import Tensor, round_to

RED, CLEAN, CASES = [], [], []
FOUND = ("complex/adjoint", "session/reuse", "session/flat", "shorter", "sigmoid-tail", "samples/test-lacks", "output-is-weight/weight/analyze", "output-is-input/input/analyze", "nan-places/nan-as-inf/analyze", "foreign/wrong/analyze", "complex/right/analyze")
MLP = MODELS["mlp"]
BACKENDS = ("ort", "jit")


def case(*args, **more):
    CASES.append(Odd(*args, **more))
    return CASES[-1]


def is_found(name):
    """Were these wrong once? They always run."""
    return any(name.startswith(found) for found in FOUND)


def red(name, make, **more):
    RED.append(Situation(f"outsider/{name}", make, generated=not is_found(name), **more))


def clean(name, make, **more):
    CLEAN.append(Situation(f"outsider/{name}", make, red=False, generated=not is_found(name), **more))


# ---- models ----

def plain_outputs():
    """What is an output without being computed."""
    x, w = rng(20).standard_normal((2, 3)).astype(np.float32), np.array([3, -1, 2], np.float32)
    y = (x * w).astype(np.float32)
    odd = case("output-is-weight", [N("Mul", ["x", "w"], ["y"])], {"x": x}, [("y", "f32", [2, 3]), ("w", "f32", [3])], {"y": y, "w": w}, {"w": w}, backends=())
    odd.bad("weight", w=change(w, 1, 1)).bad("computed", y=change(y, 0, 9)).bad("order", w=w[::-1].copy())
    odd = case("output-is-input", [N("Neg", ["x"], ["y"])], {"x": x, "u": w}, [("y", "f32", [2, 3]), ("u", "f32", [3])], {"y": -x, "u": w}, backends=())
    odd.bad("input", u=w * 2).bad("computed", y=x)
    odd = case("same-twice", [N("Neg", ["x"], ["y"]), N("Identity", ["y"], ["z"])], {"x": x}, [("y", "f32", [2, 3]), ("z", "f32", [2, 3])], {"y": -x, "z": -x})
    odd.bad("first", y=x).bad("second", z=change(-x, 5, 0))
    odd = case("all-constant", [N("Constant", [], ["y"], value_floats=[1.0, 2.0, 4.0]), N("Neg", ["x"], ["z"])], {"x": x},
               [("y", "f32", [3]), ("z", "f32", [2, 3])], {"y": np.array([1, 2, 4], np.float32), "z": -x})
    odd.bad("constant", y=np.array([1, 2, 4.5], np.float32)).bad("nan", y=np.array([1, np.nan, 4], np.float32))
    odd = case("empty-rows", [N("Compress", ["x", "c"], ["y"], axis=0), N("Neg", ["x"], ["z"])], {"x": x}, [("y", "f32", ["n", 3]), ("z", "f32", [2, 3])],
               {"y": np.zeros((0, 3), np.float32), "z": -x}, {"c": np.zeros(2, bool)}, backends=("ort",))
    odd.bad("one-row", y=x[:1]).bad("other-empty", y=np.zeros((3, 0), np.float32)).bad("type", y=np.zeros((0, 3), np.int64)).bad("other", z=x)


def optional_outputs():
    x = rng(21).standard_normal((1, 1, 4, 4)).astype(np.float32)
    blocks = x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4)
    at = np.array([0, 1, 4, 5])[None] + np.array([0, 2, 8, 10])[:, None]
    y, i = blocks.max(1).reshape(1, 1, 2, 2), at[np.arange(4), blocks.argmax(1)].reshape(1, 1, 2, 2).astype(np.int64)
    odd = case("pool-indices", [N("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2])], {"x": x},
               [("y", "f32", [1, 1, 2, 2]), ("i", "i64", [1, 1, 2, 2])], {"y": y, "i": i})
    odd.bad("index", i=change(i, 3, (i.ravel()[3] + 1) % 16)).bad("value", y=change(y, 0, y.ravel()[0] + 1)).bad("column-major", i=(i % 4) * 4 + i // 4 + 1)
    x = rng(22).standard_normal((3, 5)).astype(np.float32)
    mean, var = x.mean(1, keepdims=True, dtype=np.float64), x.astype(np.float64).var(1, keepdims=True)
    inv = 1 / np.sqrt(var + 1e-5)
    y = ((x - mean) * inv).astype(np.float32)
    odd = case("norm-inner", [N("LayerNormalization", ["x", "s"], ["y", "m", "d"])], {"x": x}, [("y", "f32", [3, 5]), ("m", "f32", [3, 1]), ("d", "f32", [3, 1])],
               {"y": y, "m": mean.astype(np.float32), "d": inv.astype(np.float32)}, {"s": np.ones(5, np.float32)}, backends=())
    odd.bad("variance", d=var.astype(np.float32)).bad("mean", m=mean.astype(np.float32) * 0).bad("epsilon", y=((x - mean) / np.sqrt(var + 1e-2)).astype(np.float32))
    x = np.arange(10, dtype=np.float32)
    odd = case("split", [N("Split", ["x", "n"], ["a", "b", "c"])], {"x": x}, [("a", "f32", [4]), ("b", "f32", [2]), ("c", "f32", [4])],
               {"a": x[:4], "b": x[4:6], "c": x[6:]}, {"n": np.array([4, 2, 4])})
    odd.bad("swapped", a=x[6:], c=x[:4]).bad("shifted", b=x[5:7])


def not_numbers():
    x = np.array([[1, np.nan, 3, np.inf], [-np.inf, 2, np.nan, 0]], np.float32)
    y = x + 1
    payload = y.copy()
    payload.view(np.uint32)[np.isnan(y)] = 0xFFC12345
    odd = case("nan-places", [N("Add", ["x", "one"], ["y"])], {"x": x}, [("y", "f32", [2, 4])], {"y": y}, {"one": np.float32(1)})
    odd.also("payload", y=payload).bad("number", y=change(y, 0, 2.5)).bad("one-less", y=change(y, 1, 1)).bad("one-more", y=change(y, 7, np.nan))
    odd.bad("inf-as-max", y=change(y, 3, 3.4e38)).bad("inf-as-nan", y=change(y, 3, np.nan)).bad("nan-as-inf", y=change(y, 1, np.inf)).bad("moved", y=y[:, ::-1].copy())
    x = np.array([0.0, -0.0, 2, -3], np.float32)
    y = np.array([0, 0, 4, 9], np.float32)
    odd = case("minus-zero", [N("Mul", ["x", "x"], ["y"])], {"x": x}, [("y", "f32", [4])], {"y": y})
    odd.also("minus", y=np.array([-0.0, -0.0, 4, 9], np.float32)).bad("tiny", NOT_TEST, y=np.array([1e-6, 0, 4, 9], np.float32)).bad("root", y=np.abs(x))
    x = np.array([1e-20, 3e-20, 1e-19, 2.0], np.float32)
    y = (x.astype(np.float64) ** 2).astype(np.float32)
    odd = case("subnormal", [N("Mul", ["x", "x"], ["y"])], {"x": x}, [("y", "f32", [4])], {"y": y}, backends=())
    odd.bad("not-small", NOT_TEST, y=change(y, 0, 1e-6)).bad("nan", y=change(y, 0, np.nan)).bad("normal", y=change(y, 3, 4.1)).also("flushed", y=np.array([0, 0, 0, 4], np.float32))
    x = np.array([1e200, -1e-200, 1.0000000001, 3], np.float64)
    odd = case("double", [N("Mul", ["x", "k"], ["y"])], {"x": x}, [("y", "f64", [4])], {"y": x * 3}, {"k": np.float64(3)}, backends=("ort",))
    odd.bad("as-float-rounded", NOT_TEST, y=np.where(np.arange(4) == 2, np.float64(np.float32(x[2])) * 3, x * 3)).bad("huge", y=change(x * 3, 0, np.inf))
    odd.bad("huge-sign", y=change(x * 3, 0, -3e200)).bad("float", y=np.array([np.inf, 0, 3, 9], np.float32))


def tails():
    """An output as small as 1e-10 that a runtime clamps to 0, as ONNX Runtime does: within what Sigmoid may round, and every command says so."""
    x = np.linspace(-24, -22, 16).astype(np.float32).reshape(2, 8)
    y = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)
    for name, more, view in (("", [], y), ("-moved", [N("Reshape", ["s", "k"], ["t"]), N("Transpose", ["t"], ["y"])], y.reshape(4, 4).T.copy())):
        odd = case(f"sigmoid-tail{name}", [N("Sigmoid", ["x"], ["s" if more else "y"]), *more], {"x": x}, [("y", "f32", list(view.shape))], {"y": view},
                   {"k": np.array([4, 4])} if more else {}, backends=("ort", "jit"))
        odd.also("clamped", y=view * 0).bad("visible", NOT_TEST, y=change(view, 3, 1e-5)).bad("one", NOT_TEST, y=change(view, 0, .5))
    odd = case("sigmoid-tail-log", [N("Sigmoid", ["x"], ["s"]), N("Log", ["s"], ["y"])], {"x": x}, [("y", "f32", [2, 8])], {"y": np.log(y)}, backends=("jit",))
    odd.bad("clamped", y=np.full_like(y, -np.inf)).bad("18", y=np.full_like(y, -18))
    x = np.full((2, 4), -1e-9, np.float32)
    odd = case("elu-tail", [N("Elu", ["x"], ["y"])], {"x": x}, [("y", "f32", [2, 4])], {"y": x}, backends=("ort",))
    odd.also("clamped", y=x * 0).bad("visible", NOT_TEST, y=x * 1000)


def large():
    """One wrong element of many."""
    for kind, dtype, n in (("f32", np.float32, 300001), ("f16", np.float16, 70001)):
        x = rng(23).standard_normal((1, n)).astype(dtype)
        y = np.maximum(x, 0)
        odd = case(f"large-{kind}", [N("Relu", ["x"], ["y"])], {"x": x}, [("y", kind, [1, n])], {"y": y})
        odd.bad("last", y=change(y, n - 1, 0.25 if y.ravel()[-1] == 0 else 0)).bad("middle", y=change(y, n // 2, y.ravel()[n // 2] + dtype(0.05)))
        odd.bad("nan", y=change(y, n - 7, np.nan)).bad("tail", y=np.concatenate([y[:, :-4], y[:, :4]], 1))
    x = rng(24).randint(-9, 9, (200003,)).astype(np.int32)
    odd = case("large-int", [N("Abs", ["x"], ["y"]), N("Equal", ["y", "k"], ["e"])], {"x": x}, [("y", "i32", [200003]), ("e", "bool", [200003])],
               {"y": np.abs(x), "e": np.abs(x) == 3}, {"k": np.int32(3)})
    odd.bad("last", y=change(np.abs(x), -1, 99)).bad("bit", e=change(np.abs(x) == 3, -1, abs(int(x[-1])) != 3))
    x = rng(25).standard_normal((64, 1000)).astype(np.float32)
    e = np.exp(x.astype(np.float64))
    y = (e / e.sum(1, keepdims=True)).astype(np.float32)
    odd = case("many-rows", [N("Softmax", ["x"], ["y"], axis=1), N("ArgMax", ["y"], ["k"], axis=1, keepdims=0)], {"x": x}, [("y", "f32", [64, 1000]), ("k", "i64", [64])],
               {"y": y, "k": y.argmax(1)})
    odd.bad("row", y=np.concatenate([y[:63], y[:1]])).bad("class", k=change(y.argmax(1), 63, 0)).bad("row-scale", NOT_TEST, y=np.concatenate([y[:63], y[63:] * np.float32(1.002)]))


def small_types():
    x = np.array([0.3, -1.7, 448, 5e4, -0.0, 3.1, -2.9, 17], np.float32)
    f8 = lambda v: Tensor(np.asarray(v, np.float32), "f8e5m2")
    y = np.array([0.3125, -1.75, 448, 49152, -0.0, 3, -3, 16], np.float32)  # two bits behind the point, by hand
    right = f8(y)
    odd = case("fp8-e5m2", [N("Cast", ["x"], ["y"], to=19)], {"x": x}, [("y", "f8e5m2", [8])], {"y": right}, opset=19, ir=9, backends=("ort",))
    odd.bad("other-format", y=Tensor(x * 0, "f8e4m3fn")).bad("zero", y=f8(y * 0)).bad("sign", y=f8(-y)).bad("one", y=f8(change(y, 5, 3.5)))
    codes = np.array([0, 15, 7, 8, 1, 9], np.uint8)
    odd = case("uint4", [N("Cast", ["x"], ["y"], to=21), N("Cast", ["y"], ["z"], to=1)], {"x": codes.astype(np.float32)}, [("y", "u4", [6]), ("z", "f32", [6])],
               {"y": Tensor(codes, "u4"), "z": codes.astype(np.float32)}, opset=21, ir=10, backends=())
    odd.bad("signed", z=np.where(codes > 7, codes.astype(np.float32) - 16, codes).astype(np.float32)).bad("nibbles", y=Tensor(codes.reshape(-1, 2)[:, ::-1].ravel().copy(), "u4"))
    odd.bad("one", y=Tensor(change(codes, 5, 8), "u4")).bad("bytes", y=Tensor(codes))
    x = np.array([1e38, -3e38, 0.5, np.nan], np.float32)
    b16 = lambda v: Tensor(round_to(v, "bf16"), "bf16")
    odd = case("bf16-range", [N("Cast", ["x"], ["y"], to=16)], {"x": x}, [("y", "bf16", [4])], {"y": b16(x)}, backends=())
    odd.bad("as-half", y=Tensor(np.array([np.inf, -np.inf, .5, np.nan], np.float16))).bad("inf", y=b16(change(x, 0, np.inf))).bad("number", y=b16(change(x, 3, 1)))
    z = (np.arange(6) + 1j * np.arange(6, 0, -1)).astype(np.complex64).reshape(2, 3)
    odd = case("complex", [N("Transpose", ["x"], ["y"])], {"x": z}, [("y", "c64", [3, 2])], {"y": z.T.copy()}, backends=())
    odd.bad("adjoint", y=z.T.conj().copy()).bad("order", y=z.reshape(3, 2)).bad("nan", y=change(z.T, 0, complex(np.nan, 0)))


def flow():
    """Loops that do not run, a condition that ends one early, nested branches."""
    x = np.array([1.5, -2, 0.25], np.float32)
    body = helper.make_graph([N("Add", ["s", "x"], ["s2"]), N("ReduceMax", ["s2"], ["m"], keepdims=0), N("Less", ["m", "four"], ["c2"]), N("Neg", ["s2"], ["o"])], "body",
                             [info("i", "i64", []), info("c", "bool", []), info("s", "f32", [3])],
                             [info("c2", "bool", []), info("s2", "f32", [3]), info("o", "f32", [3])])
    steps = np.stack([x * k for k in (1, 2, 3)])
    more = {"n": np.int64(10), "t": np.bool_(True), "zero": np.zeros(3, np.float32), "four": np.float32(4)}
    outputs = [("last", "f32", [3]), ("all", "f32", ["k", 3])]
    odd = case("loop-ends-early", [N("Loop", ["n", "t", "zero"], ["last", "all"], body=body)], {"x": x}, outputs, {"last": steps[-1], "all": -steps}, more, backends=("ort",))
    odd.bad("one-more", last=x * 4, all=-np.stack([x * k for k in (1, 2, 3, 4)])).bad("to-the-end", last=x * 10, all=-np.stack([x * k for k in range(1, 11)]))
    odd.bad("sign", all=steps)
    odd = case("loop-never", [N("Loop", ["n", "t", "x0"], ["last", "all"], body=body)], {"x": x}, outputs, {"last": x * 7, "all": np.zeros((0, 3), np.float32)},
               {**more, "n": np.int64(0), "x0": x * 7}, backends=("ort",))
    odd.bad("once", last=x * 8, all=-(x * 8)[None]).bad("zero", last=x * 0).bad("a-row", all=np.zeros((1, 3), np.float32))
    deep = helper.make_graph([N("Exp", ["x"], ["t"])], "deep", [], [info("t", "f32", [3])])
    flat = helper.make_graph([N("Abs", ["x"], ["u"])], "flat", [], [info("u", "f32", [3])])
    outer = helper.make_graph([N("If", ["d"], ["v"], then_branch=deep, else_branch=flat)], "outer", [], [info("v", "f32", [3])])
    other = helper.make_graph([N("Neg", ["x"], ["w"])], "other", [], [info("w", "f32", [3])])
    odd = case("nested-branches", [N("If", ["c"], ["y"], then_branch=outer, else_branch=other)], {"x": x, "c": np.bool_(True), "d": np.bool_(True)}, [("y", "f32", [3])],
               {"y": np.exp(x)}, backends=("ort",))
    odd.bad("inner", y=np.abs(x)).bad("outer", y=-x).bad("linear", y=(1 + x).astype(np.float32))


def quantisers():
    c = rng(26).randint(0, 256, (3, 4)).astype(np.uint8)
    s, z = np.array([0.5, 0.01, 2], np.float32), np.array([128, 3, 0], np.uint8)
    y = ((c.astype(np.int32) - z[:, None]) * s[:, None]).astype(np.float32)
    odd = case("per-row", [N("DequantizeLinear", ["c", "s", "z"], ["y"], axis=0)], {"c": c}, [("y", "f32", [3, 4])], {"y": y}, {"s": s, "z": z})
    odd.bad("one-zero", y=((c.astype(np.int32) - np.int32(128)) * s[:, None]).astype(np.float32)).bad("no-zero", y=(c * s[:, None]).astype(np.float32))
    odd.bad("zero-off-by-one", y=(y - s[:, None]).astype(np.float32)).bad("small-row", NOT_TEST, y=np.concatenate([y[:1], y[1:2] * np.float32(1.05), y[2:]]))
    x = np.array([-300.0, 0.4, 0.6, 99.5, 1e9, np.inf], np.float32)
    y = np.array([0, 0 + 10, 1 + 10, 100 + 10, 255, 255], np.uint8)
    odd = case("clips", [N("QuantizeLinear", ["x", "s", "z"], ["y"])], {"x": x}, [("y", "u8", [6])], {"y": y}, {"s": np.float32(1), "z": np.uint8(10)})
    odd.bad("wraps", y=change(y, 4, 0)).bad("low", y=change(y, 0, 246)).bad("unclipped-by-one", y=change(y, 5, 254))
    a, b = rng(27).randint(0, 256, (2, 64)).astype(np.uint8), rng(28).randint(-128, 128, (64, 3)).astype(np.int8)
    y = (a.astype(np.int32) - 7) @ b.astype(np.int32)
    odd = case("integer-product", [N("MatMulInteger", ["a", "b", "za"], ["y"])], {"a": a}, [("y", "i32", [2, 3])], {"y": y}, {"b": b, "za": np.uint8(7)}, backends=("jit",))
    odd.bad("no-zero", y=a.astype(np.int32) @ b.astype(np.int32)).bad("one", y=change(y, 5, y.ravel()[5] + 1)).bad("unsigned", y=(a.astype(np.int32) - 7) @ b.view(np.uint8).astype(np.int32))


for fill in (plain_outputs, optional_outputs, not_numbers, tails, large, small_types, flow, quantisers):
    fill()

FORMATS = ("junit", "sarif", "github", "md", "csv")
WAYS = {**{f"analyze-{f}": ["analyze", "--skip-search", "--format", f, "-o", "s"] for f in FORMATS}, "run-junit": ["run", "--accuracy", "--format", "junit"],
        "analyze-no-save": ["analyze", "--skip-search", "--save", "none", "-o", "s"], "analyze-cosine": ["analyze", "--skip-search", "--metric", "cosine", "-o", "s"],
        "analyze-two": ["analyze", "--skip-search", "--backend", "eager:kernels=plain", "-o", "s"], "query-strict": ["minify", "--query", "--strict-accuracy"]}


def ask_way(one, answer, way):
    def make(folder):
        write_case(folder, one, None)
        words = WAYS[way]
        return [words[0], "case/model.onnx", "--inputs", "case/test_data_set_0", "--backend", engine(folder, one, answer), *words[1:]]
    return make


def of_cases():
    k = 0
    for one in CASES:
        for kind in ("run", "analyze", "query"):
            RED.extend(Situation(f"outsider/{one.name}/{w}/{kind}", by_engine(one, a, kind), generated=not is_found(f"{one.name}/{w}/{kind}")) for w, a in one.wrong.items()
                       if kind in (one.asked[w] or kind))
            CLEAN.extend(Situation(f"outsider/{one.name}/{w}/{kind}", by_engine(one, a, kind), red=False, generated=not is_found(f"{one.name}/{w}/{kind}")) for w, a in {"right": one.right, **one.right_too}.items())
        RED.extend(Situation(f"outsider/{one.name}/{w}/test", by_test(one, a, "eager")) for w, a in one.wrong.items() if "test" in (one.asked[w] or "test"))
        CLEAN.extend(Situation(f"outsider/{one.name}/{w}/test", by_test(one, a, "eager"), red=False) for w, a in {"right": one.right, **one.right_too}.items())
        for w, a in one.wrong.items():
            way = sorted(WAYS)[k % len(WAYS)]
            k += 1
            if not (way.startswith("run") and "run" not in (one.asked[w] or "run")):
                RED.append(Situation(f"outsider/{one.name}/{w}/{way}", ask_way(one, a, way)))
        for b in one.backends:
            CLEAN.extend(Situation(f"outsider/{one.name}/{b}/{ask}", by_backend(one, ask, b), red=False) for ask in ("run", "analyze", "query"))


of_cases()


# ---- several samples ----

ANSWERS = """#!/bin/sh
for d in "{here}"/known/*; do
    if cmp -s "$d/key" "$1/test_data_set_0/input_0.pb"; then cp "$d"/output_*.pb "$1/test_data_set_0/"; exit 0; fi
done
exit 1
"""


def sampled(folder, answers):
    """an engine that knows each sample of MLP"""
    save_model(folder, MLP)
    for k, outputs in enumerate(answers):
        data = write_set(folder / "known" / str(k), MLP, MLP.samples[k], outputs)
        (data / "key").write_bytes((data / "input_0.pb").read_bytes())
        write_set(folder / f"in{k}", MLP, MLP.samples[k], {})
    (folder / "engine").write_text(ANSWERS.format(here=folder))
    (folder / "engine").chmod((folder / "engine").stat().st_mode | stat.S_IXUSR)
    return ["--backend", f"cmd:{folder}/engine", *(w for k in range(len(answers)) for w in ("--inputs", f"in{k}"))]


def samples():
    right = [MLP.answers(k) for k in range(3)]
    wrong = {"last": (2, {"y": right[2]["y"] * np.float32(1.1)}), "middle": (1, {"y": right[1]["y"] + np.float32(.3)}), "stale": (2, right[1]),
             "last-nan": (2, {"y": change(right[2]["y"], 0, np.nan)}), "last-element": (2, {"y": change(right[2]["y"], -1, right[2]["y"].ravel()[-1] + np.float32(.01))}),
             "none": (2, {})}
    for word, (at, answer) in wrong.items():
        answers = [answer if k == at else r for k, r in enumerate(right)]
        for flags in ([], ["--save", "none"], ["--skip-determinism"], ["--json"], ["--format", "junit"], ["--skip-gold"]):
            red(f"samples/{word}/{'-'.join(flags).strip('-') or 'plain'}",
                lambda f, a=answers, g=flags: ["analyze", "model.onnx", "--skip-search", "-o", "s", *sampled(f, a), *g])
    for flags in ([], ["--save", "none"], ["--json"], ["--format", "junit"]):
        clean(f"samples/right/{'-'.join(flags).strip('-') or 'plain'}", lambda f, g=flags: ["analyze", "model.onnx", "--skip-search", "-o", "s", *sampled(f, right), *g])

    def folder_of(folder, bad):
        (folder / "case").mkdir()
        onnx.save(MLP.onnx, str(folder / "case/model.onnx"))
        for k in range(3):
            write_set(folder / f"case/test_data_set_{k}", MLP, MLP.samples[k], bad if k == 2 and bad is not None else right[k])
        return ["test", "case"]
    red("samples/test-last", lambda f: folder_of(f, wrong["last"][1]))
    red("samples/test-stale", lambda f: folder_of(f, right[0]))
    clean("samples/test-right", lambda f: folder_of(f, None))


# ---- recordings with less than the model ----

def shorter():
    """The last element is lost, and it would have been 0: that is not padding of the model's value."""
    x = np.array([.5, -1, 2, 4, -3, 0], np.float32)
    one = Odd("shorter", [N("Abs", ["x"], ["y"])], {"x": x}, [("y", "f32", [6])], {"y": np.abs(x)})

    def sides(folder, y, **more):
        write_case(folder, one, None)
        return ["compare", write_npz(folder / "a.npz", {"x": x, "y": y}), "case/model.onnx", "--no-session", *more.get("flags", ())]
    red("shorter/lost", lambda f: sides(f, np.abs(x)[:5]))
    red("shorter/lost-strict", lambda f: sides(f, np.abs(x)[:5], flags=["--strict-pairs"]))
    clean("shorter/none", lambda f: sides(f, np.abs(x)))
    clean("shorter/padded", lambda f: sides(f, np.concatenate([np.abs(x), np.zeros(2, np.float32)])))

    def zero_point(folder, add):
        v = np.array([[-1, .5, 2, .25, 1, -.75]], np.float32)
        s = np.float32(3 / 255)
        z = np.uint8(round(1 / float(s)) + add)
        y = np.clip(np.rint(v / s) + round(1 / float(s)), 0, 255).astype(np.uint8)
        case_ = Odd("zp", [N("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], {"x": v}, [("y", "u8", [1, 6]), ("s", "f32", []), ("z", "u8", [])], {"y": y, "s": s, "z": z})
        write_case(folder, case_, None)
        return ["compare", write_npz(folder / "a.npz", {"x": v, "y": y, "s": s, "z": z}), "case/model.onnx", "--no-session"]
    red("shorter/zero-point-off-by-one", lambda f: zero_point(f, 1))
    clean("shorter/zero-point", lambda f: zero_point(f, 0))

    def broadcast(folder, rows):
        empty = Odd("empty", [N("Relu", ["e"], ["y"]), N("Neg", ["k"], ["z"])], {"e": np.zeros((0, 4), np.float32), "k": x[:2]}, [("y", "f32", [0, 4]), ("z", "f32", [2])],
                    {"y": np.zeros((rows, 4), np.float32), "z": -x[:2]})
        write_case(folder, empty, None)
        return ["run", "case/model.onnx", "--inputs", "case/test_data_set_0", "--accuracy", "--profile", "torch", "--backend", engine(folder, empty, empty.right)]
    red("shorter/torch-broadcasts", lambda f: broadcast(f, 1))
    clean("shorter/torch-empty", lambda f: broadcast(f, 0))


# ---- unknown operators ----

def foreign_model(folder, fault=1.0):
    """p is an operator's that nobody knows; y is not"""
    x = helper.make_tensor_value_info("x", F, [4])
    graph = helper.make_graph([N("Mystery", ["x"], ["p"], domain="vendor.nobody"), N("Neg", ["p"], ["q"]), N("Exp", ["x"], ["y"])], "g", [x],
                              [helper.make_tensor_value_info("q", F, [4]), helper.make_tensor_value_info("y", F, [4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("vendor.nobody", 1)])
    model.ir_version = 8
    onnx.save(model, str(folder / "model.onnx"))
    data = np.array([1, -2, .5, 3], np.float32)
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    (folder / "in/input_0.pb").write_bytes(Tensor(data).proto("x").SerializeToString())
    for i, a in enumerate((-data * 2, np.exp(data) * np.float32(fault))):
        (folder / f"out/output_{i}.pb").write_bytes(Tensor(a.astype(np.float32)).proto("qy"[i]).SerializeToString())
    (folder / "engine").write_text(f'#!/bin/sh\ncp "{folder}"/out/*.pb "$1/test_data_set_0/"\n')
    (folder / "engine").chmod(0o755)
    return ["model.onnx", "--inputs", "in", "--backend", f"cmd:{folder}/engine"]


def foreign():
    for word, fault in (("right", 1.0), ("wrong", 1.5)):
        red(f"foreign/{word}/analyze", lambda f, x=fault: ["analyze", *foreign_model(f, x), "--skip-search", "-o", "s"])
        red(f"foreign/{word}/analyze-json", lambda f, x=fault: ["analyze", *foreign_model(f, x), "--skip-search", "--json", "-o", "s"])
        red(f"foreign/{word}/run", lambda f, x=fault: ["run", *foreign_model(f, x), "--accuracy"])
        red(f"foreign/{word}/query", lambda f, x=fault: ["minify", *foreign_model(f, x), "--query", "--accuracy"])
    red("foreign/only-wrong-part", lambda f: ["analyze", *foreign_model(f, 1.5), "--to", "y", "--skip-search", "-o", "s"])


# ---- parts ----

def parts():
    """--to, --from and --function take a part: a fault in it shows, and one elsewhere is not asked for."""
    def jit(folder, *words):
        save_model(folder, MLP)
        return [*words[:1], "model.onnx", *words[1:]]
    for fault, part, seen in (("scale@MatMul:0", ("--to", "h"), True), ("offset@Relu", ("--to", "r"), True), ("scale@MatMul:1", ("--from", "r"), True),
                              ("offset@Relu", ("--from", "a"), True), ("offset@Relu", ("--to", "a"), False), ("scale@MatMul:0", ("--from", "a"), False)):
        word = f"{fault.split('@')[1].replace(':', '')}-{'-'.join(part).strip('-')}"
        for command, rest in (("run", ["--accuracy"]), ("analyze", ["--skip-search", "-o", "s"]), ("minify", ["--query", "--accuracy"])):
            # the fault of an operator that the part lacks matches nothing, which is an error
            if seen:
                red(f"parts/{word}/{command}", lambda f, c=command, r=rest, x=fault, p=part: jit(f, c, "--backend", "jit", "--inject", x, *p, *r))
    for part in (("--to", "h"), ("--to", "r"), ("--from", "r"), ("--from", "a"), ("--from", "h", "--to", "r")):
        for command, rest in (("run", ["--accuracy"]), ("analyze", ["--skip-search", "-o", "s"])):
            clean(f"parts/{'-'.join(part).replace('--', '')}/{command}", lambda f, c=command, r=rest, p=part: jit(f, c, "--backend", "ort", *p, *r))
    red("parts/unknown-value", lambda f: jit(f, "run", "--backend", "ort", "--accuracy", "--to", "nowhere"), codes=(2,))
    red("parts/unknown-function", lambda f: jit(f, "analyze", "--backend", "ort", "--function", "Nope", "-o", "s"), codes=(2,))

    def function(folder, *words):
        body = helper.make_function("own", "Twice", ["p"], ["q"], [N("Exp", ["p"], ["e"]), N("Tanh", ["e"], ["q"])], [helper.make_opsetid("", 17)])
        graph = helper.make_graph([N("Twice", ["x"], ["a"], domain="own"), N("Sigmoid", ["a"], ["y"])], "g", [helper.make_tensor_value_info("x", F, [8])],
                                  [helper.make_tensor_value_info("y", F, [8])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)], functions=[body])
        model.ir_version = 8
        onnx.save(model, str(folder / "model.onnx"))
        np.save(folder / "p.npy", np.linspace(-2, 2, 8, dtype=np.float32))
        return [words[0], "model.onnx", "--input", "p=p.npy", *words[1:]]
    for command, rest in (("run", ["--accuracy"]), ("analyze", ["--skip-search", "-o", "s"])):
        red(f"parts/function-fault/{command}", lambda f, c=command, r=rest: function(f, c, "--function", "Twice", "--backend", "jit:inject=scale@Tanh", *r))
        clean(f"parts/function/{command}", lambda f, c=command, r=rest: function(f, c, "--function", "Twice", "--backend", "jit", *r))


# ---- recordings, maps, tolerances, baselines ----

def recordings():
    values = MLP.values()

    def compared(folder, a, b, *more, write=write_npz, end="npz"):
        write(folder / f"a.{end}", a)
        write(folder / f"b.{end}", b)
        return ["compare", f"a.{end}", f"b.{end}", "--no-session", *more]
    off = {**values, "y": values["y"] * np.float32(1.02)}
    shuffled = {k: values[k] for k in reversed(list(values))}
    for word, bad in {"percent": off, "one-element": {**values, "r": change(values["r"], 3, 7)}, "nan-added": {**values, "h": change(values["h"], 0, np.nan)},
                      "double-other": {**values, "y": values["y"].astype(np.float64) * 1.01}, "int": {**values, "y": values["y"].astype(np.int64)},
                      "broadcast": {**values, "y": values["y"][:1]}, "scalar": {**values, "y": np.float32(1)}, "empty": {**values, "y": values["y"][:0]},
                      "complex": {**values, "y": values["y"].astype(np.complex64) * (1 + 1j)}}.items():
        for way, more in {"plain": (), "torch": ("--profile", "torch"), "cosine": ("--metric", "cosine"), "json": ("--json",), "junit": ("--format", "junit"), "sarif": ("--format", "sarif"),
                          "loose-limit": ("--tol", "1e-6"), "strict": ("--strict-pairs",)}.items():
            red(f"recordings/{word}/{way}", lambda f, b=bad, m=more: compared(f, b, values, *m))
            if way == "plain":
                red(f"recordings/{word}/swapped", lambda f, b=bad: compared(f, values, b))
    for way, more in {"plain": (), "torch": ("--profile", "torch"), "cosine": ("--metric", "cosine"), "json": ("--json",), "junit": ("--format", "junit"), "strict": ("--strict-pairs",)}.items():
        clean(f"recordings/order/{way}", lambda f, m=more: compared(f, shuffled, values, *m))
        clean(f"recordings/rounding/{way}", lambda f, m=more: compared(f, {**values, "y": np.nextafter(values["y"], np.float32(9))}, values, *m))
    clean("recordings/nan-payload", lambda f: compared(f, {"y": np.array([1, -np.nan, 2], np.float32)}, {"y": np.array([1, np.nan, 2], np.float32)}))
    clean("recordings/tol", lambda f: compared(f, off, values, "--tol", "0.05"))
    red("recordings/tol-too-small", lambda f: compared(f, off, values, "--tol", "0.005"))
    red("recordings/disjoint-names", lambda f: compared(f, {"p": np.arange(5.0), "q": np.arange(7)}, {"u": np.arange(4.0), "v": np.arange(9)}))
    red("recordings/nothing", lambda f: compared(f, {}, {}))
    red("recordings/only-nan", lambda f: compared(f, {"y": np.full(5, np.nan, np.float32), "z": np.ones(2, np.float32)}, {"y": np.ones(5, np.float32), "z": np.ones(2, np.float32)}))
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.uint64, np.bool_):
        v = np.array([0, 1, 0, 1, 1, 0], dtype)
        w = v.copy()
        w[5] = 1
        red(f"recordings/last-{np.dtype(dtype).name}", lambda f, w=w, v=v: compared(f, {"y": w}, {"y": v}))
        clean(f"recordings/same-{np.dtype(dtype).name}", lambda f, v=v: compared(f, {"y": v}, {"y": v.copy()}))
    wide = np.array([2 ** 63 - 1, -2 ** 63, 2 ** 53 + 1], np.int64)
    red("recordings/wide", lambda f: compared(f, {"y": change(wide, 2, 2 ** 53)}, {"y": wide}, write=write_safetensors, end="safetensors"))
    red("recordings/wide-max", lambda f: compared(f, {"y": change(wide, 0, 2 ** 63 - 2)}, {"y": wide}))
    clean("recordings/wide-same", lambda f: compared(f, {"y": wide}, {"y": wide.copy()}))

    def truth(folder, change_of, *more, command="run"):
        save_model(folder, MLP)
        write_safetensors(folder / "truth.safetensors", {**values, **change_of})
        return [command, "model.onnx", "--backend", "ort", "--reference", "truth.safetensors", *(["--accuracy"] if command == "run" else ["--skip-search", "-o", "s"]), *more]
    for command in ("run", "analyze"):
        for word, bad in {"percent": {"y": off["y"]}, "half": {"y": (values["y"] * 1.05).astype(np.float16)}, "element": {"y": change(values["y"], 1, 9)},
                          "batch": {"y": values["y"][:-1]}, "nan": {"y": change(values["y"], 2, np.nan)}}.items():
            red(f"truth/{word}/{command}", lambda f, b=bad, c=command: truth(f, b, command=c))
            red(f"truth/{word}/{command}-json", lambda f, b=bad, c=command: truth(f, b, "--json", command=c))
        red(f"truth/seed-and-inputs/{command}", lambda f, c=command: truth(f, {}, "--input", "x=truth.safetensors", "--range", "x=0:1", command=c))
        clean(f"truth/right/{command}", lambda f, c=command: truth(f, {}, command=c))
        clean(f"truth/right-json/{command}", lambda f, c=command: truth(f, {}, "--json", command=c))


# ---- a fleet ----

def fleet(folder, faults):
    """A folder of models, one engine: outputs times a factor"""
    (folder / "models").mkdir()
    for k, factor in enumerate(faults):
        model = onnx.ModelProto()
        model.CopyFrom(MLP.onnx)
        model.producer_name = f"m{k}"
        onnx.save(model, str(folder / f"models/m{k}.onnx"))
    spec = "jit" if all(x == 1 for x in faults) else "jit:inject=scale@Relu"
    return ["corpus", "models", "--backend", spec, "-o", "out", "--max-queries", "0"]


def corpora():
    for form in ([], ["--json"], ["--format", "junit"], ["--format", "sarif"]):
        word = form[-1].strip("-") if form else "plain"
        red(f"fleet/fault/{word}", lambda f, g=form: fleet(f, [1, 2]) + g)
        clean(f"fleet/right/{word}", lambda f, g=form: fleet(f, [1, 1]) + g)

    def broken(folder):
        words = fleet(folder, [1, 1])
        (folder / "models/m2.onnx").write_bytes(b"\x08\x08not a model")
        return words
    # Skipped, and said so: what cannot be read is nobody's wrong answer. Where all are, there is nothing to say.
    red("fleet/all-unreadable", lambda f: broken(f) and [(f / f"models/m{k}.onnx").write_bytes(b"no") for k in range(3)] and ["corpus", "models", "--backend", "jit", "-o", "out"], codes=(2,))
    red("fleet/empty", lambda f: (f / "models").mkdir() or ["corpus", "models", "--backend", "jit", "-o", "out"], codes=(2,))


# ---- sessions and reports ----

def sessions():
    def then(folder, *words):
        """a red session; then another command"""
        save_model(folder, MLP)
        program = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
        done = subprocess.run([program, "analyze", "model.onnx", "--backend", "jit:inject=scale@Relu", "--skip-search", "-o", "s"], cwd=folder, capture_output=True, check=False)
        assert done.returncode == 1, done.stderr
        return list(words)
    red("session/reuse-other-backend", lambda f: then(f, "analyze", "model.onnx", "--backend", "ort", "--reuse", "s", "-o", "t"))
    red("session/reuse", lambda f: then(f, "analyze", "model.onnx", "--backend", "jit:inject=scale@Relu", "--reuse", "s", "-o", "t"))
    red("session/over-red", lambda f: then(f, "analyze", "model.onnx", "--backend", "jit:inject=scale@Relu", "--reuse", "s", "--seed", "4", "-o", "t"))
    for form in ("junit", "json"):
        def said(folder, form=form):
            return then(folder, "report", "s", "--format", form)
        RED.append(Situation(f"outsider/session/report-{form}", said, codes=(0, 1)))

    def stale(folder):
        words = then(folder, "analyze", "model.onnx", "--backend", "jit", "--reuse", "s", "-o", "t")
        model = onnx.load(str(folder / "model.onnx"))
        next(n for n in model.graph.node if n.op_type == "Relu").op_type = "Abs"
        onnx.save(model, str(folder / "model.onnx"))
        return words
    red("session/other-model", stale)

    def reuse(folder, *other):
        """The session was made on 4 rows that a file has."""
        x = rng(41).standard_normal((4, 6)).astype(np.float32)
        y = np.tanh(x)
        one = Odd("reuse", [N("Tanh", ["x"], ["y"])], {"x": x}, [("y", "f32", ["n", 6])], {"y": y})
        write_case(folder, one, None)
        np.save(folder / "x.npy", x)
        np.save(folder / "other.npy", x + 1)
        subprocess.run([os.environ.get("PLUMB", "build/plumb"), "analyze", "case/model.onnx", "--backend", "jit", "--input", "x=x.npy", "-o", "s"], cwd=folder, check=True, capture_output=True)
        return ["analyze", "case/model.onnx", "--reuse", "s", "-o", "t", *other]
    red("session/reuse-generated", reuse, codes=(2,))
    red("session/reuse-other-input", lambda f: reuse(f, "--input", "x=other.npy"), codes=(2,))
    red("session/reuse-other-rows", lambda f: reuse(f, "--dim", "n=4"), codes=(2,))
    clean("session/reuse-same", lambda f: reuse(f, "--input", "x=x.npy"))

    def flat(folder, scale=1):
        """Raw files of an engine; the number of rows follows from the length of the input's."""
        x = rng(42).standard_normal((4, 6)).astype(np.float32)
        write_case(folder, Odd("flat", [N("Tanh", ["x"], ["y"])], {"x": x}, [("y", "f32", ["n", 6])], {"y": np.tanh(x)}), None)
        (folder / "dump").mkdir()
        x.tofile(folder / "dump/x.bin")
        (np.tanh(x) * np.float32(scale)).tofile(folder / "dump/y.bin")
        return ["compare", "dump", "case/model.onnx", "--no-session"]
    red("session/flat-wrong", lambda f: flat(f, 1.05), codes=(1,))
    clean("session/flat", flat)


for fill in (samples, shorter, foreign, parts, recordings, corpora, sessions):
    fill()

for one_ in CASES:  # what blame has no bound for is judged by the predicate, also where no accuracy is asked for
    if one_.name == "complex":
        for word_, answer_ in one_.wrong.items():
            RED.append(Situation(f"outsider/complex/{word_}/query-plain", lambda f, o=one_, a=answer_: [w for w in by_engine(o, a, "query")(f) if w != "--accuracy"]))
        CLEAN.append(Situation("outsider/complex/right/query-plain", lambda f, o=one_: [w for w in by_engine(o, o.right, "query")(f) if w != "--accuracy"], red=False))

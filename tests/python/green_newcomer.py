"""Situations of test_green_audit.py by a fourth hand: names that differ by case or '/', folders with files of another run, tensors without
elements, dims that become 0, numbers that overflow or wrap on both sides, outputs that are absent, maps, parts that cut all outputs off,
baselines and sessions of another model, test folders that lack one output, several samples against a recording of one."""

import json
import os
import subprocess

import numpy as np
import onnx
from onnx import helper

from green_models import write_npy, write_npz, write_safetensors
from green_odd import N, Odd, by_backend, by_engine, by_test, change, info, rng, write_case
from green_situation import Situation
from plumbtest import Tensor

RED, CLEAN = [], []
f32 = np.float32
FOUND = ("empty/", "starved/", "samples/torch/", "parts/", "beyond/drowned/")  # wrong once: they always run


def add(group, name, make, red, **more):
    group.append(Situation(f"newcomer/{name}", make, red=red, generated=not name.startswith(FOUND), **more))


def red(name, make, **more):
    add(RED, name, make, True, **more)


def clean(name, make, **more):
    add(CLEAN, name, make, False, **more)


def plumb(folder, *words, codes=(0, 1)):
    done = subprocess.run([os.path.abspath(os.environ.get("PLUMB", "build/plumb")), *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in codes, (words, done.returncode, done.stderr)
    return done


def all_ways(one, commands=("run", "analyze", "analyze-json", "query")):
    """An Odd in every command, by an engine that answers as told and by real runtimes."""
    for word, answer in one.wrong.items():
        for kind in one.asked[word] or commands:
            red(f"{one.name}/{word}/{kind}", by_engine(one, answer, kind))
        for spec in (None, "eager") if one.asked[word] is None else ():
            red(f"{one.name}/{word}/test-{spec}", by_test(one, answer, spec))
    for word, answer in {"right": one.right, **one.right_too}.items():
        for kind in commands:
            clean(f"{one.name}/{word}/{kind}", by_engine(one, answer, kind))
        for spec in (None, "eager", *one.backends):
            clean(f"{one.name}/{word}/test-{spec}", by_test(one, answer, spec))
    for backend in one.backends:
        for kind in commands:
            clean(f"{one.name}/{backend}/{kind}", by_backend(one, kind, backend))


# ---- two dumps ----

def pair(folder, a, b, *more, kind="npz", write_b=None):
    writer = {"npz": lambda n, v: write_npz(folder / f"{n}.npz", v), "safetensors": lambda n, v: write_safetensors(folder / f"{n}.safetensors", v),
              "npy": lambda n, v: write_npy(folder / n, v)}[kind]
    writer("a", a)
    (write_b or writer)("b", b)
    suffix = "" if kind == "npy" else f".{kind}"
    return ["compare", f"a{suffix}", f"b{suffix}", "--no-session", *more]


def names():
    """Names that a file system or a reader might take for one."""
    p, q = rng(200).standard_normal((3, 4)).astype(f32), rng(201).standard_normal((3, 4)).astype(f32)
    for word, (one, two) in {"case": ("layer.Out", "layer.out"), "slash": ("block/out", "block_out"), "dot": ("block.out", "block_out"), "number": ("out", "out_0"), "zero": ("out_1", "out_01"),
                             "port": ("out", "out:0"), "space": ("out", "out "), "accent": ("\u00e9", "e\u0301"), "double-slash": ("a/b", "a//b"), "hash": ("out", "out#1")}.items():
        for kind in ("npz", "safetensors"):
            clean(f"names/{word}/{kind}", lambda f, n=(one, two), k=kind: pair(f, dict(zip(n, (p, q))), dict(zip(n, (p, q))), kind=k))
            red(f"names/{word}/swapped/{kind}", lambda f, n=(one, two), k=kind: pair(f, dict(zip(n, (q, p))), dict(zip(n, (p, q))), kind=k))
            red(f"names/{word}/second-wrong/{kind}", lambda f, n=(one, two), k=kind: pair(f, dict(zip(n, (p, -q))), dict(zip(n, (p, q))), kind=k))
            red(f"names/{word}/second-is-first/{kind}", lambda f, n=(one, two), k=kind: pair(f, dict(zip(n, (p, p))), dict(zip(n, (p, q))), kind=k))
            red(f"names/{word}/one-missing/{kind}", lambda f, n=(one, two), k=kind: pair(f, {n[0]: q}, dict(zip(n, (p, q))), kind=k))
            red(f"names/{word}/only-the-other/{kind}", lambda f, n=(one, two), k=kind: pair(f, {n[1]: p + f32(1)}, {n[0]: p}, kind=k))


TWO = Odd("renamed", [N("MatMul", ["x", "w"], ["h"]), N("Tanh", ["h"], ["left"]), N("Sigmoid", ["h"], ["right"])], {"x": rng(210).standard_normal((3, 4)).astype(f32)},
          [("left", "f32", [3, 5]), ("right", "f32", [3, 5])], {}, {"w": rng(211).standard_normal((4, 5)).astype(f32)})
_x, _w = TWO.inputs["x"].data, rng(211).standard_normal((4, 5)).astype(f32)
_h = (_x.astype(np.float64) @ _w)
TWO.right.update(left=np.tanh(_h).astype(f32), right=(1 / (1 + np.exp(-_h))).astype(f32))
VALUES = {"x": _x, "h": _h.astype(f32), **TWO.right}


def renamed():
    """One of two outputs has another name in the dump; it is found by its value when it is right, and never passed over when it is not."""
    def made(folder, values, *more, kind="npz", swap=False):
        write_case(folder, TWO, None)
        {"npz": lambda: write_npz(folder / "d.npz", values), "npy": lambda: write_npy(folder / "d", values)}[kind]()
        sides = ["d.npz" if kind == "npz" else "d", "case/model.onnx"]
        return ["compare", *(reversed(sides) if swap else sides), "--no-session", *more]
    wrong = {"scaled": TWO.right["right"] * f32(1.1), "other-output": TWO.right["left"], "negative": -TWO.right["right"], "zero": TWO.right["right"] * 0, "rows": TWO.right["right"][::-1].copy(),
             "one": change(TWO.right["right"], 14, 0.01)}
    base = {k: v for k, v in VALUES.items() if k != "right"}
    for kind in ("npz", "npy"):
        for name in ("rite", "out2", "Sigmoid_7"):
            clean(f"renamed/{name}/right/{kind}", lambda f, n=name, k=kind: made(f, {**base, n: TWO.right["right"]}, kind=k))
            for word, bad in wrong.items():
                for swap in (False, True):
                    red(f"renamed/{name}/{word}/{kind}/{swap}", lambda f, n=name, b=bad, k=kind, s=swap: made(f, {**base, n: b}, kind=k, swap=s))
            red(f"renamed/{name}/strict/{kind}", lambda f, n=name, k=kind: made(f, {**base, n: TWO.right["right"]}, "--strict-pairs", kind=k), codes=(0, 1, 2))
    red("renamed/exchanged/npz", lambda f: made(f, {**VALUES, "left": TWO.right["right"], "right": TWO.right["left"]}))
    red("renamed/both-of-one/npz", lambda f: made(f, {**VALUES, "right": TWO.right["left"]}))

    def truth(folder, values, command):
        write_case(folder, TWO, None)
        write_safetensors(folder / "t.safetensors", values)
        return [command, "case/model.onnx", "--backend", "ort", "--reference", "t.safetensors", *({"run": ["--accuracy"], "analyze": ["-o", "s"]}[command])]
    for command in ("run", "analyze"):
        for word, bad in wrong.items():
            red(f"renamed/truth/{word}/{command}", lambda f, b=bad, c=command: truth(f, {**base, "rite": b}, c))
            red(f"renamed/truth/kept-and-{word}/{command}", lambda f, b=bad, c=command: truth(f, {**VALUES, "right": b, "rite": TWO.right["right"]}, c))


def stale():
    """A folder of .npy files in which an earlier run of the engine left some."""
    x2 = rng(220).standard_normal((3, 4)).astype(f32)
    h2 = x2.astype(np.float64) @ _w
    before = {"x": x2, "h": h2.astype(f32), "left": np.tanh(h2).astype(f32), "right": (1 / (1 + np.exp(-h2))).astype(f32)}

    def made(folder, old, *more, model=True):
        write_npy(folder / "d", {k: before[k] if k in old else v for k, v in VALUES.items()})
        write_case(folder, TWO, None)
        if not model:
            write_npz(folder / "b.npz", VALUES)
        return ["compare", "d", "case/model.onnx" if model else "b.npz", "--no-session", *more]
    for old in (("left",), ("right",), ("h",), ("x",), ("left", "right"), ("h", "left", "right"), ("x", "h")):
        for more in ((), ("--json",), ("--profile", "torch"), ("--metric", "cosine")):
            red(f"stale/{'+'.join(old)}/{' '.join(more)}", lambda f, o=old, m=more: made(f, o, *m))
        red(f"stale/{'+'.join(old)}/two-dumps", lambda f, o=old: made(f, o, model=False))
    clean("stale/none", lambda f: made(f, ()))
    clean("stale/none/two-dumps", lambda f: made(f, (), model=False))

    def more_files(folder, wrong):
        words = made(folder, ())
        np.save(folder / "d/right_1.npy", before["right"])  # a second call that this run did not make
        if wrong:
            np.save(folder / "d/right.npy", before["right"])
        return words
    red("stale/second-call-wrong", lambda f: more_files(f, True))

    def broken(folder):
        words = made(folder, ())
        (folder / "d/right.npy").write_bytes((folder / "d/right.npy").read_bytes()[:-4])
        return words
    red("stale/cut", broken)
    red("stale/empty-file", lambda f: (made(f, ()), (f / "d/right.npy").write_bytes(b""), ["compare", "d", "case/model.onnx", "--no-session"])[2])


# ---- nothing in it ----

def empties():
    """Without elements there is nothing to agree about, unless that there is nothing is the answer."""
    nothing = np.zeros((0, 3), f32)
    one = Odd("empty", [N("Relu", ["x"], ["y"])], {"x": nothing}, [("y", "f32", ["n", 3])], {"y": nothing})
    for kind in ("run", "analyze", "analyze-json", "query", "run-torch"):
        red(f"empty/engine/{kind}", by_engine(one, one.right, kind), codes=(2,))
        for backend in ("ort", "jit"):
            red(f"empty/{backend}/{kind}", by_backend(one, kind, backend), codes=(2,))
        for word, bad in {"rows": np.zeros((0, 4), f32), "turned": np.zeros((3, 0), f32), "double": nothing.astype(np.float64), "something": np.ones((1, 3), f32)}.items():
            red(f"empty/{word}/{kind}", by_engine(one, {"y": bad}, kind))
    red("empty/two-dumps", lambda f: pair(f, {"y": nothing}, {"y": nothing}), codes=(2,))
    red("empty/two-dumps-with-input", lambda f: pair(f, {"x": nothing, "y": nothing}, {"x": nothing, "y": nothing}), codes=(2,))
    red("empty/two-dumps/other-shape", lambda f: pair(f, {"y": nothing}, {"y": nothing.T.copy()}))
    red("empty/one-of-two-wrong", lambda f: pair(f, {"y": nothing, "z": np.ones(3, f32)}, {"y": nothing, "z": np.zeros(3, f32)}))
    red("empty/one-is-not", lambda f: pair(f, {"y": nothing, "z": np.ones(3, f32)}, {"y": np.ones((2, 3), f32), "z": np.ones(3, f32)}))
    clean("empty/beside-others", lambda f: pair(f, {"y": nothing, "z": np.ones(3, f32)}, {"y": nothing, "z": np.ones(3, f32)}))

    # No box is found: that is what was asked for.
    boxes, scores = np.array([[[0, 0, 1, 1], [0, 2, 1, 3]]], f32), np.array([[[0.1, 0.2]]], f32)
    nms = Odd("no-box", [N("NonMaxSuppression", ["b", "s", "n", "iou", "least"], ["y"])], {"b": boxes, "s": scores}, [("y", "i64", ["n", 3])], {"y": np.zeros((0, 3), np.int64)},
              {"n": np.array([3]), "iou": np.array([0.5], f32), "least": np.array([0.5], f32)}, backends=("ort",))
    nms.bad("one", y=np.array([[0, 0, 1]])).bad("flat", y=np.zeros(0, np.int64)).bad("int32", y=np.zeros((0, 3), np.int32))
    all_ways(nms)
    nz = Odd("no-nonzero", [N("NonZero", ["x"], ["y"])], {"x": np.zeros((2, 2), f32)}, [("y", "i64", [2, "n"])], {"y": np.zeros((2, 0), np.int64)}, backends=("ort",))
    nz.bad("one", y=np.zeros((2, 1), np.int64)).bad("turned", y=np.zeros((0, 2), np.int64))
    all_ways(nz)

    # Two inputs, one of them a cache that is empty as yet: the answer has elements.
    x = rng(230).standard_normal((2, 3)).astype(f32)
    cache = Odd("first-step", [N("Concat", ["past", "x"], ["now"], axis=0), N("ReduceSum", ["now", "a"], ["y"], keepdims=0)], {"past": nothing, "x": x},
                [("now", "f32", ["n", 3]), ("y", "f32", [3])], {"now": x, "y": (x[0] + x[1]).astype(f32)}, {"a": np.array([0])})
    cache.bad("cache-lost", now=nothing).bad("sum", y=x[1].copy()).bad("zero", y=x[0] * 0).bad("both", now=nothing, y=x[0] * 0)
    all_ways(cache)


def starved():
    """A symbol that becomes 0."""
    def model(folder):
        onnx.save(helper.make_model(helper.make_graph([N("MatMul", ["x", "w"], ["h"]), N("Relu", ["h"], ["y"])], "g", [info("x", "f32", ["n", 4])], [info("y", "f32", ["n", 5])],
                                                      [Tensor(_w).proto("w")]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "m.onnx"))
        return "m.onnx"
    for backend in ("ort", "jit", "jit:inject=scale@Relu"):
        for command, rest in {"run": ["--accuracy"], "analyze": ["-o", "s"], "minify": ["--query"]}.items():
            red(f"starved/{backend}/{command}", lambda f, b=backend, c=command, r=rest: [c, model(f), "--dim", "n=0", "--backend", b, *r], codes=(1, 2))
            if backend == "ort":
                clean(f"starved/not/{command}", lambda f, c=command, r=rest: [c, model(f), "--dim", "n=1", "--backend", "ort", *r])

    def samples(folder, rows, spec="ort"):
        model(folder)
        words = []
        for i, n in enumerate(rows):
            write_npz(folder / f"{i}.npz", {"x": rng(240 + i).standard_normal((n, 4)).astype(f32)})
            words += ["--inputs", f"{i}.npz"]
        return ["analyze", "m.onnx", *words, "--backend", spec, "-o", "s"]
    red("starved/samples/all", lambda f: samples(f, (0, 0)), codes=(2,))
    clean("starved/samples/first", lambda f: samples(f, (0, 2)))
    clean("starved/samples/last", lambda f: samples(f, (2, 0)))
    red("starved/samples/first-and-fault", lambda f: samples(f, (0, 2), "jit:inject=scale@Relu"), codes=(1,))
    red("starved/samples/fault-and-last", lambda f: samples(f, (2, 0), "jit:inject=scale@Relu"), codes=(1,))


# ---- numbers that leave their type on both sides ----

def beyond():
    nan = np.full((3, 4), np.nan, f32)
    for kind in ("npz", "safetensors", "npy"):
        red(f"beyond/all-nan/{kind}", lambda f, k=kind: pair(f, {"y": nan}, {"y": nan}, kind=k), codes=(2,))
        red(f"beyond/all-nan-and-input/{kind}", lambda f, k=kind: pair(f, {"x": _x, "y": nan}, {"x": _x, "y": nan}, kind=k), codes=(2,))
        clean(f"beyond/one-nan/{kind}", lambda f, k=kind: pair(f, {"y": change(_x, 3, np.nan)}, {"y": change(_x, 3, np.nan)}, kind=k))
        red(f"beyond/nan-elsewhere/{kind}", lambda f, k=kind: pair(f, {"y": change(_x, 3, np.nan)}, {"y": change(_x, 4, np.nan)}, kind=k))
        clean(f"beyond/inf/{kind}", lambda f, k=kind: pair(f, {"y": change(_x, 3, np.inf)}, {"y": change(_x, 3, np.inf)}, kind=k))
        red(f"beyond/inf-sign/{kind}", lambda f, k=kind: pair(f, {"y": change(_x, 3, np.inf)}, {"y": change(_x, 3, -np.inf)}, kind=k))
    for rule in (("--tol", "1e9"), ("--profile", "torch"), ("--metric", "cosine"), ("--metric", "mae")):
        red(f"beyond/all-nan/{' '.join(rule)}", lambda f, r=rule: pair(f, {"y": nan}, {"y": nan}, *r), codes=(1, 2))

    # Inputs that are NaN: any fault inside is NaN as well.
    bad = np.full((3, 4), np.nan, f32)
    with np.errstate(invalid="ignore"):
        drowned = Odd("drowned", [N("MatMul", ["x", "w"], ["h"]), N("Tanh", ["h"], ["y"])], {"x": bad}, [("y", "f32", [3, 5])], {"y": np.full((3, 5), np.nan, f32)}, {"w": _w})
    for kind in ("run", "analyze", "analyze-json", "query"):
        for spec in ("ort", "jit", "jit:inject=scale@Tanh"):
            red(f"beyond/drowned/{spec}/{kind}", by_backend(drowned, kind, spec), codes=(2,))
        red(f"beyond/drowned/engine/{kind}", by_engine(drowned, drowned.right, kind), codes=(2,))
        for word, value in {"zero": 0, "one": 1, "inf": np.inf}.items():
            red(f"beyond/drowned/{word}/{kind}", by_engine(drowned, {"y": np.full((3, 5), value, f32)}, kind), codes=(1,))
        red(f"beyond/drowned/element/{kind}", by_engine(drowned, {"y": change(drowned.right["y"], 7, 0.5)}, kind), codes=(1,))
    row = change(_x, 5, np.nan)
    with np.errstate(invalid="ignore"):
        one_row = Odd("one-row-nan", [N("MatMul", ["x", "w"], ["h"]), N("Tanh", ["h"], ["y"])], {"x": row}, [("y", "f32", [3, 5])], {"y": np.tanh(row.astype(np.float64) @ _w).astype(f32)}, {"w": _w})
    one_row.bad("filled", y=np.nan_to_num(one_row.right["y"])).bad("other-row", y=one_row.right["y"][[1, 0, 2]]).bad("all", y=np.full((3, 5), np.nan, f32))
    all_ways(one_row)

    # Both compute in half: 300 * 300 is Inf there, 90 in a wider type.
    x = np.array([300, 2, 3], f32)
    half = Odd("half-inside", [N("Cast", ["x"], ["h"], to=10), N("Mul", ["h", "h"], ["s"]), N("Cast", ["s"], ["f"], to=1), N("Div", ["f", "k"], ["y"])], {"x": x}, [("y", "f32", [3])],
               {"y": np.array([np.inf, 0.004, 0.009], f32)}, {"k": f32(1000)}, backends=())
    for kind in ("run", "analyze", "analyze-json"):
        red(f"beyond/half-inside/{kind}", by_engine(half, half.right, kind), codes=(1,))
        red(f"beyond/half-inside/jit/{kind}", by_backend(half, kind, "jit"), codes=(1,))
        clean(f"beyond/half-inside/wide/{kind}", by_engine(half, {"y": (x.astype(np.float64) ** 2 / 1000).astype(f32)}, kind))
        red(f"beyond/half-inside/saturated/{kind}", by_engine(half, {"y": np.array([65.504, 0.004, 0.009], f32)}, kind))
        red(f"beyond/half-inside/nan/{kind}", by_engine(half, {"y": np.array([np.nan, 0.004, 0.009], f32)}, kind))

    # Integers wrap, in ONNX Runtime as in numpy.
    with np.errstate(over="ignore"):
        for word, kind in (("i64", np.int64), ("i32", np.int32)):
            top = np.iinfo(kind).max
            v = np.array([top, top // 2 + 1, -5, np.iinfo(kind).min], kind)
            y = (v + v).astype(kind)
            wrap = Odd(f"wrap-{word}", [N("Add", ["x", "x"], ["y"])], {"x": v}, [("y", word, [4])], {"y": y})
            wrap.bad("saturated", y=np.array([top, top, -10, np.iinfo(kind).min], kind)).bad("by-double", y=change(y, 0, 0)).bad("one-off", y=change(y, 2, -9)).bad("unsigned", y=y.astype(np.uint64 if word == "i64" else np.uint32))
            all_ways(wrap)
    c = np.array([-128, 127, 1], np.int8)
    neg = Odd("neg-i8", [N("Neg", ["x"], ["y"])], {"x": c}, [("y", "i8", [3])], {"y": np.array([-128, -127, -1], np.int8)}, backends=("ort",))
    neg.bad("saturated", y=np.array([127, -127, -1], np.int8)).bad("same", y=c)
    all_ways(neg)


# ---- outputs that are absent, maps ----

def containers():
    x = rng(250).standard_normal((2, 3)).astype(f32)
    top = x.argmax(1).astype(np.int64)
    maps = onnx.ValueInfoProto(name="p")
    maps.type.sequence_type.elem_type.map_type.key_type = 7
    maps.type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = 1
    one = Odd("zip-map", [N("Identity", ["x"], ["i"]), N("ZipMap", ["i"], ["p"], domain="ai.onnx.ml", classlabels_int64s=[10, 20, 30]), N("ArgMax", ["x"], ["k"], axis=1, keepdims=0)], {"x": x},
              [maps, ("k", "i64", [2])], {"k": top}, domains=[helper.make_opsetid("ai.onnx.ml", 3)], backends=("ort",))
    for kind in ("run", "analyze"):
        clean(f"zip-map/ort/{kind}", by_backend(one, kind, "ort"))
        red(f"zip-map/absent/{kind}", by_engine(one, {"p": None, "k": top}, kind))
        red(f"zip-map/tensor/{kind}", by_engine(one, {"p": Tensor(x), "k": top}, kind))
        red(f"zip-map/label/{kind}", by_engine(one, {"p": None, "k": (top + 1) % 3}, kind))
    words = np.array(["red", "", "gr\u00fcn"], object)
    text = Odd("labels", [N("Gather", ["w", "x"], ["y"]), N("Identity", ["x"], ["k"])], {"x": np.array([2, 0, 1, 0])}, [("y", "str", [4]), ("k", "i64", [4])],
               {"y": words[[2, 0, 1, 0]], "k": np.array([2, 0, 1, 0])}, {"w": words}, backends=("ort",))
    text.bad("order", y=words[[0, 2, 1, 0]]).bad("bytes", y=np.array(["gr\u00c3\u00bcn", "red", "", "red"], object)).bad("empty", y=np.array([""] * 4, object)).bad("trailing", y=np.array(["gr\u00fcn", "red ", "", "red"], object))
    text.bad("absent", ("run", "analyze", "query"), y=None).bad("short", y=words[[2, 0, 1]])
    all_ways(text)


def parts():
    """What --from and --to leave is what is compared; nothing left is nothing compared."""
    def files(folder):
        onnx.save(helper.make_model(helper.make_graph(
            [N("Relu", ["x"], ["a"]), N("Exp", ["a"], ["b"]), N("Neg", ["b"], ["y"]), N("Sqrt", ["a"], ["z"])], "g", [info("x", "f32", [3, 4])], [info("y", "f32", [3, 4]), info("z", "f32", [3, 4])]),
            opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "m.onnx"))
        return "m.onnx"
    commands = {"run": ["--accuracy"], "analyze": ["-o", "s"], "minify": ["--query"]}
    for command, rest in commands.items():
        def ask(*more, c=command, r=rest):
            return lambda f: [c, files(f), *more, *r]
        red(f"parts/to-input/{command}", ask("--to", "x", "--backend", "ort"), codes=(2,))
        red(f"parts/from-output/{command}", ask("--from", "y,z", "--backend", "ort"), codes=(2,))
        red(f"parts/from-after-to/{command}", ask("--from", "b", "--to", "a", "--backend", "ort"), codes=(2,))
        red(f"parts/unknown/{command}", ask("--to", "A", "--backend", "ort"), codes=(2,))
        red(f"parts/fault-inside/{command}", ask("--to", "b", "--backend", "jit:inject=scale@Exp"), codes=(1,))
        red(f"parts/fault-outside/{command}", ask("--to", "a", "--backend", "jit:inject=scale@Exp"), codes=(2,))
        clean(f"parts/right/{command}", ask("--from", "a", "--to", "b", "--backend", "ort"))
        clean(f"parts/to/{command}", ask("--to", "b", "--backend", "ort"))


# ---- what belongs to another model or another run ----

def others():
    def model(folder, name, op):
        onnx.save(helper.make_model(helper.make_graph([N("MatMul", ["x", "w"], ["h"]), N(op, ["h"], ["y"])], "g", [info("x", "f32", [3, 4])], [info("y", "f32", [3, 5])],
                                                      [Tensor(_w).proto("w")]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / name))
        np.save(folder / "x.npy", _x)
        return name

    def reused(folder, first, then, *more):
        model(folder, "a.onnx", first)
        model(folder, "b.onnx", then)
        plumb(folder, "analyze", "a.onnx", "--input", "x=x.npy", "--backend", "jit", "-o", "s")
        return ["analyze", "b.onnx", "--reuse", "s", "-o", "t", *more]
    red("others/reuse/model", lambda f: reused(f, "Tanh", "Relu", "--input", "x=x.npy"), codes=(2,))
    red("others/reuse/inputs", lambda f: reused(f, "Tanh", "Tanh"), codes=(2,))
    clean("others/reuse/same", lambda f: reused(f, "Tanh", "Tanh", "--input", "x=x.npy"))

    def baseline(folder, model_then, spec_then, values=None):
        model(folder, "a.onnx", "Tanh")
        model(folder, "b.onnx", model_then)
        plumb(folder, "analyze", "a.onnx", "--input", "x=x.npy", "--backend", "jit:inject=scale@Tanh", "-o", "s", "--write-baseline", "base.json")
        if values is not None:
            (folder / "base.json").write_text(json.dumps(values(json.loads((folder / "base.json").read_text()))))
        return ["analyze", "b.onnx", "--input", "x=x.npy", "--backend", spec_then, "-o", "t", "--baseline", "base.json"]
    clean("others/baseline/same-fault", lambda f: baseline(f, "Tanh", "jit:inject=scale@Tanh"))
    red("others/baseline/other-fault", lambda f: baseline(f, "Tanh", "jit:inject=scale@MatMul"))
    red("others/baseline/worse", lambda f: baseline(f, "Tanh", "jit:inject=sign@Tanh"))
    red("others/baseline/nan", lambda f: baseline(f, "Tanh", "jit:inject=nan@Tanh"))
    red("others/baseline/other-model", lambda f: baseline(f, "Relu", "jit:inject=sign@Relu"))
    red("others/baseline/crash", lambda f: baseline(f, "Tanh", "jit:inject=crash@Tanh"))
    for word, change_it in {"empty": lambda b: {**b, "accepted": []}, "other-values": lambda b: {**b, "accepted": [{**r, "value": "q"} for r in b["accepted"]]}, "list": lambda b: b["accepted"], "number": lambda b: 3}.items():
        red(f"others/baseline/{word}", lambda f, c=change_it: baseline(f, "Tanh", "jit:inject=scale@Tanh", c))

    def recorded(folder, first, then, command, seed="0"):
        """a recording by plumb of a model that was edited since"""
        model(folder, "m.onnx", first)
        plumb(folder, "record", "m.onnx", "--seed", seed, "-o", "r.safetensors")
        model(folder, "m.onnx", then)
        return {"run": ["run", "m.onnx", "--backend", "ort", "--accuracy", "--reference", "r.safetensors"], "analyze": ["analyze", "m.onnx", "--backend", "ort", "--reference", "r.safetensors", "-o", "s"],
                "compare": ["compare", "r.safetensors", "m.onnx", "--no-session"], "compare-swapped": ["compare", "m.onnx", "r.safetensors", "--no-session"]}[command]
    for command in ("run", "analyze", "compare", "compare-swapped"):
        clean(f"others/edited/not/{command}", lambda f, c=command: recorded(f, "Tanh", "Tanh", c) if c in ("run", "analyze") else recorded(f, "Tanh", "Tanh", c) + ["--backend", "ort"])
        for then in ("Sigmoid", "Relu", "Neg"):
            red(f"others/edited/{then}/{command}", lambda f, c=command, t=then: recorded(f, "Tanh", t, c, "4"))


def tests():
    """A folder of plumb test that lacks the expectation of one output; that output is not looked at, and it is said."""
    def case(folder, keep, wrong=(), spec="eager"):
        write_case(folder, TWO, TWO.right)
        data = folder / "case/test_data_set_0"
        for i, name in enumerate(TWO.outputs):
            if name in wrong:
                (data / f"output_{i}.pb").write_bytes(Tensor(-TWO.right[name]).proto(name).SerializeToString())
            if name not in keep:
                (data / f"output_{i}.pb").unlink()
        return ["test", "case", "--backend", spec]
    clean("tests/all", lambda f: case(f, ("left", "right")))
    red("tests/first-missing-second-wrong", lambda f: case(f, ("right",), ("right",)))
    red("tests/second-missing-first-wrong", lambda f: case(f, ("left",), ("left",)))
    red("tests/none", lambda f: case(f, ()))

    def told(folder, keep):
        words = case(folder, keep)
        done = plumb(folder, *words)
        missing = next(n for n in TWO.outputs if n not in keep)
        assert missing in done.stdout + done.stderr, done.stdout
        return case_again(folder, keep)

    def case_again(folder, keep):
        return ["test", "case", "--backend", "ort"]
    clean("tests/first-missing-is-told", lambda f: told(f, ("right",)))
    clean("tests/second-missing-is-told", lambda f: told(f, ("left",)))

    def shifted(folder):
        """output_0.pb is what output_1.pb should be"""
        words = case(folder, ("left", "right"))
        data = folder / "case/test_data_set_0"
        (data / "output_1.pb").replace(data / "output_0.pb")
        return words
    red("tests/shifted", shifted)

    def two_sets(folder, bad):
        words = case(folder, ("left", "right"))
        data = folder / "case/test_data_set_1"
        data.mkdir()
        for file in (folder / "case/test_data_set_0").iterdir():
            (data / file.name).write_bytes(file.read_bytes())
        if bad:
            (data / "output_1.pb").write_bytes(Tensor(TWO.right["right"] + f32(0.5)).proto("right").SerializeToString())
        return words
    clean("tests/two-sets", lambda f: two_sets(f, False))
    red("tests/second-set-wrong", lambda f: two_sets(f, True))


def samples():
    """A recording is of one sample; several are given, or the recording has more rows than the run."""
    def model(folder):
        onnx.save(helper.make_model(helper.make_graph([N("MatMul", ["x", "w"], ["h"]), N("Tanh", ["h"], ["y"])], "g", [info("x", "f32", ["n", 4])], [info("y", "f32", ["n", 5])],
                                                      [Tensor(_w).proto("w")]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "m.onnx"))
    x = rng(260).standard_normal((6, 4)).astype(f32)
    h = x.astype(np.float64) @ _w
    values = {"x": x, "h": h.astype(f32), "y": np.tanh(h).astype(f32)}
    rest = {"run": ["--accuracy"], "analyze": ["-o", "s"]}

    def ask(folder, command, recording, *given):
        model(folder)
        write_safetensors(folder / "t.safetensors", recording)
        for i, rows in enumerate((slice(0, 2), slice(2, 6), slice(0, 6))):
            write_npz(folder / f"{i}.npz", {"x": x[rows]})
        return [command, "m.onnx", "--backend", "ort", "--reference", "t.safetensors", *(w for g in given for w in ("--inputs", f"{g}.npz")), *rest[command]]
    for command in ("run", "analyze"):
        # PyTorch's rule has no fp64 run beside a recording.
        clean(f"samples/torch/right/{command}", lambda f, c=command: ask(f, c, values) + ["--profile", "torch"])
        for word, bad in {"scaled": values["y"] * f32(1.1), "one": change(values["y"], 7, 0.5), "nan": change(values["y"], 7, np.nan), "zero": values["y"] * 0}.items():
            red(f"samples/torch/{word}/{command}", lambda f, c=command, b=bad: ask(f, c, {**values, "y": b}) + ["--profile", "torch"], codes=(1,))
        clean(f"samples/recorded/{command}", lambda f, c=command: ask(f, c, values))
        clean(f"samples/given-the-same/{command}", lambda f, c=command: ask(f, c, values, 2))
        red(f"samples/fewer-rows/{command}", lambda f, c=command: ask(f, c, values, 0))
        red(f"samples/other-rows/{command}", lambda f, c=command: ask(f, c, {k: v[:2] for k, v in values.items()}, 1))
        red(f"samples/output-has-more/{command}", lambda f, c=command: ask(f, c, {**values, "x": x[:2]}))
        red(f"samples/output-has-fewer/{command}", lambda f, c=command: ask(f, c, {**values, "y": values["y"][:5]}))
        red(f"samples/output-twice/{command}", lambda f, c=command: ask(f, c, {**values, "y": np.concatenate([values["y"], values["y"]])}))
    red("samples/two-of-one/analyze", lambda f: ask(f, "analyze", {k: v[:2] for k, v in values.items()}, 0, 1))
    for more in ((), ("--json",)):
        red(f"samples/compare/fewer/{' '.join(more)}", lambda f, m=more: pair(f, {k: v[:2] for k, v in values.items()}, values, *m))
        red(f"samples/compare/more/{' '.join(more)}", lambda f, m=more: pair(f, values, {k: v[:2] for k, v in values.items()}, *m))
        red(f"samples/compare/one-more-call/{' '.join(more)}", lambda f, m=more: pair(f, values, {**values, "y#1": -values["y"], "h#1": -values["h"], "x#1": -values["x"]}, *m))


for fill in (names, renamed, stale, empties, starved, beyond, containers, parts, others, tests, samples):
    fill()

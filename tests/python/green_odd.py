"""Unusual answers for test_green_audit.py: small and wide types, loops, sequences, optionals, indices, empty and huge values.

A case is a model, its inputs, its right answer by numpy or by hand, other answers that are right as well, and wrong ones. All are
asked for by every command that looks at a runtime's answers, and as expected output of `plumb test`."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from green_situation import Situation
from plumbtest import TYPES, Tensor, round_to

N = helper.make_node
RED, CLEAN = [], []


# `plumb test` has ONNX's tolerances (1e-3 and 1e-7), `run --accuracy` 1e-5 of the output's size.
NOT_TEST = ("run", "analyze", "analyze-json", "query")
BY_BOUND = ("analyze", "analyze-json")
ORT = ("ort",)  # jit compiles nothing of the model: both sides would be eager


class Odd:
    """`answers`: output -> Tensor, or ready-made bytes (sequences, optionals)"""

    def __init__(self, name, nodes, inputs, outputs, right, weights=None, opset=17, functions=(), domains=(), backends=("ort", "jit"), ir=8):
        self.name, self.right, self.backends = name, right, backends
        self.inputs = {k: v if isinstance(v, Tensor) else Tensor(v) for k, v in inputs.items()}
        graph = helper.make_graph(
            nodes, name, [info(n, v.name, v.shape) for n, v in self.inputs.items()],
            [o if isinstance(o, onnx.ValueInfoProto) else info(*o) for o in outputs],
            [(v if isinstance(v, Tensor) else Tensor(v)).proto(n) for n, v in (weights or {}).items()])
        self.outputs = [o.name for o in graph.output]
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *domains], functions=list(functions))
        self.model.ir_version = ir
        self.right_too, self.wrong, self.asked = {}, {}, {}
        CASES.append(self)

    def also(self, word, **answer):
        self.right_too[word] = {**self.right, **answer}
        return self

    def bad(self, word, asked=None, **answer):
        """`asked`: the commands whose documented limit it exceeds; None = all"""
        self.wrong[word] = {**self.right, **answer}
        self.asked[word] = asked
        return self


CASES = []


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, TYPES[kind][0], shape)


def blob(value, name):
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, Tensor) else Tensor(value)).proto(name).SerializeToString()


def write_case(folder, case, answer):
    data = folder / "case" / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(case.model, str(folder / "case" / "model.onnx"))
    for i, (name, value) in enumerate(case.inputs.items()):
        (data / f"input_{i}.pb").write_bytes(value.proto(name).SerializeToString())
    for i, name in enumerate(case.outputs):
        if answer and answer[name] is not None:
            (data / f"output_{i}.pb").write_bytes(blob(answer[name], name))


def engine(folder, case, answer):
    (folder / "answer").mkdir()
    for i, name in enumerate(case.outputs):
        if answer[name] is not None:
            (folder / "answer" / f"output_{i}.pb").write_bytes(blob(answer[name], name))
    (folder / "engine").write_text(f'#!/bin/sh\ncp "{folder}"/answer/output_*.pb "$1/test_data_set_0/"\n')
    (folder / "engine").chmod(0o755)
    return f"cmd:{folder}/engine"


def asks(spec):
    given = ["case/model.onnx", "--inputs", "case/test_data_set_0", "--backend", spec]
    return {"run": ["run", *given, "--accuracy"], "analyze": ["analyze", *given, "--skip-search", "-o", "s"],
            "analyze-json": ["analyze", *given, "--skip-search", "--json", "--save", "none", "-o", "s"],
            "query": ["minify", *given, "--query", "--accuracy"], "run-torch": ["run", *given, "--accuracy", "--profile", "torch"]}


def by_engine(case, answer, ask):
    def make(folder):
        write_case(folder, case, None)
        return asks(engine(folder, case, answer))[ask]
    return make


def by_test(case, answer, spec):
    """plumb test: `spec` None: the engine gives the answer and the right one is expected"""
    def make(folder):
        write_case(folder, case, case.right if spec is None else answer)
        return ["test", "case", "--backend", engine(folder, case, answer) if spec is None else spec]
    return make


def by_backend(case, ask, spec):
    return lambda folder: write_case(folder, case, None) or asks(spec)[ask]


# ---- small and wide types ----

def rng(seed):
    return np.random.RandomState(seed)


def change(value, at, to):
    w = value.copy()
    w.ravel()[at] = to
    return w


def low_precision():
    x, w = round_to(rng(1).uniform(-2, 2, (4, 8)), "bf16"), round_to(rng(2).uniform(-2, 2, 8), "bf16")
    y = round_to(round_to(x.astype(np.float64) * w, "bf16").astype(np.float64) + 1, "bf16")
    b = lambda v: Tensor(v, "bf16")
    odd = Odd("bf16", [N("Mul", ["x", "w"], ["m"]), N("Add", ["m", "one"], ["y"])], {"x": b(x)}, [("y", "bf16", [4, 8])], {"y": b(y)},
              {"w": b(w), "one": b(np.float32(1))}, opset=14, backends=("jit",))
    odd.bad("element", y=b(change(y, 5, y.ravel()[5] + np.float32(0.5)))).bad("zero", y=b(y * 0)).bad("nan", y=b(change(y, 31, np.nan)))
    odd.bad("as-half", y=Tensor(y.astype(np.float16))).bad("as-float", y=Tensor(y)).bad("sign", y=b(-y))

    x = np.array([0.3, -1.7, 448, 500, -0.0, 1e-9, 3.1, -2.9, 17, 240], np.float32)
    f8 = np.array([0.3125, -1.75, 448, 448, -0.0, 0, 3.0, -3.0, 16, 240], np.float32)  # 4 bits of mantissa by hand; 17 and 2.9 are ties or nearest
    t8 = lambda v: Tensor(np.asarray(v, np.float32), "f8e4m3fn")
    odd = Odd("fp8", [N("Cast", ["x"], ["y"], to=17)], {"x": x}, [("y", "f8e4m3fn", [10])], {"y": t8(f8)}, opset=19, ir=9, backends=("ort",))
    odd.bad("code", y=t8(change(f8, 0, 0.34375))).bad("nan", y=t8(change(f8, 3, np.nan))).bad("sign", y=t8(-f8))
    odd.bad("bytes", y=Tensor(np.zeros(10, np.uint8))).bad("other-format", y=Tensor(f8 * 0, "f8e5m2"))

    codes, scale = np.array([[-8, 7, 3, -1], [0, 1, -5, 6], [2, -2, 4, -4]], np.int8), np.float32(0.5)
    x = rng(3).randint(-4, 5, (2, 3)).astype(np.float32)
    y = (x @ (codes * scale)).astype(np.float32)
    odd = Odd("int4-weights", [N("DequantizeLinear", ["c", "s"], ["w"]), N("MatMul", ["x", "w"], ["y"])], {"x": x}, [("y", "f32", [2, 4])], {"y": y},
              {"c": Tensor(codes, "i4"), "s": scale}, opset=21, ir=10, backends=("ort:opt=off", "jit"))
    swapped = codes.reshape(-1, 2)[:, ::-1].reshape(3, 4)
    odd.bad("nibbles", y=(x @ (swapped * scale)).astype(np.float32)).bad("unsigned", y=(x @ ((codes.astype(np.int32) & 15) * scale)).astype(np.float32))
    odd.bad("one", y=change(y, 7, y.ravel()[7] + 0.5))

    x = np.array([-5.2, -1.4, 0.2, 1.6, 3.4, 9.0], np.float32)
    c4 = np.array([-5, -1, 0, 2, 3, 7], np.int8)
    odd = Odd("int4-codes", [N("QuantizeLinear", ["x", "s", "z"], ["y"])], {"x": x}, [("y", "i4", [6])], {"y": Tensor(c4, "i4")},
              {"s": np.float32(1), "z": Tensor(np.int8(0), "i4")}, opset=21, ir=10, backends=("ort",))
    odd.bad("one", y=Tensor(change(c4, 2, 1), "i4")).bad("swapped", y=Tensor(c4.reshape(-1, 2)[:, ::-1].ravel().copy(), "i4"))
    odd.bad("bytes", y=Tensor(c4)).bad("unsigned", y=Tensor((c4 & 15).astype(np.uint8), "u4"))

    x = np.array([60000, -60000, 1000, 0.5, 3], np.float16)
    y = np.array([np.inf, -np.inf, 2000, 1, 6], np.float16)
    odd = Odd("half-overflow", [N("Add", ["x", "x"], ["y"])], {"x": x}, [("y", "f16", [5])], {"y": y})
    odd.bad("saturated", y=np.array([65504, -65504, 2000, 1, 6], np.float16)).bad("nan", y=change(y, 0, np.nan)).bad("one", y=change(y, 4, 7))


def wide_integers():
    x = np.array([2 ** 31, -2 ** 40, 3, -7, 2 ** 62], np.int64)
    with np.errstate(over="ignore"):
        y = x * np.int64(2 ** 22 + 1) + np.int64(1)
    odd = Odd("int64", [N("Mul", ["x", "m"], ["p"]), N("Add", ["p", "one"], ["y"])], {"x": x}, [("y", "i64", [5])], {"y": y},
              {"m": np.int64(2 ** 22 + 1), "one": np.int64(1)})
    odd.bad("plus-one", y=change(y, 1, y[1] + 1)).bad("by-double", y=change(y, 0, np.int64(np.float64(y[0]))))
    odd.bad("low-half", y=y.astype(np.int32).astype(np.int64)).bad("saturated", y=change(y, 4, np.iinfo(np.int64).max)).bad("int32", y=y.astype(np.int32))
    x = np.array([2 ** 63, 2 ** 64 - 1, 5, 2 ** 60 + 1], np.uint64)
    odd = Odd("uint64", [N("Min", ["x", "m"], ["y"])], {"x": x}, [("y", "u64", [4])], {"y": np.minimum(x, np.uint64(2 ** 64 - 2))}, {"m": np.uint64(2 ** 64 - 2)})
    y = odd.right["y"]
    odd.bad("signed", y=y.astype(np.int64)).bad("as-signed", y=change(y, 0, 5)).bad("plus-one", y=change(y, 3, 2 ** 60 + 2))
    odd.bad("last-bit", y=change(y, 1, 2 ** 64 - 1))
    x = np.arange(5000, 5012, dtype=np.int64)
    odd = Odd("large-indices", [N("Add", ["x", "one"], ["y"])], {"x": x}, [("y", "i64", [12])], {"y": x + 1}, {"one": np.int64(1)})
    odd.bad("off-by-one", y=x).bad("one-off", y=change(x + 1, 3, 5005))
    x = np.array([[-7, 7, -8, 5], [9, -9, 1, -1]], np.int32)
    d = np.array([2, -2, 3, -3], np.int32)
    odd = Odd("modulo", [N("Mod", ["x", "d"], ["y"]), N("Div", ["x", "d"], ["z"])], {"x": x}, [("y", "i32", [2, 4]), ("z", "i32", [2, 4])],
              {"y": np.mod(x, d), "z": np.trunc(x / d).astype(np.int32)}, {"d": d})
    odd.bad("c-sign", y=np.fmod(x, d)).bad("floor", z=np.floor_divide(x, d))
    x = np.array([1, 2, 128, 255], np.uint8)
    odd = Odd("bits", [N("BitShift", ["x", "n"], ["y"], direction="LEFT")], {"x": x}, [("y", "u8", [4])], {"y": (x << np.uint8(1)).astype(np.uint8)},
              {"n": np.uint8(1)})
    odd.bad("right", y=x >> 1).bad("saturated", y=np.array([2, 4, 255, 255], np.uint8))
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 3.2], np.float32)
    odd = Odd("ties", [N("Round", ["x"], ["y"])], {"x": x}, [("y", "f32", [6])], {"y": np.rint(x)})
    odd.bad("away", y=np.array([1, 2, 3, -1, -3, 3], np.float32)).also("minus-zero", y=np.array([0, 2, 2, 0, -2, 3], np.float32))
    x = np.array([30000.2, -40000.7, 65534.6, 12.4], np.float32)
    odd = Odd("codes16", [N("QuantizeLinear", ["x", "s", "z"], ["y"])], {"x": x}, [("y", "u16", [4])], {"y": np.array([62768, 0, 65535, 32780], np.uint16)},
              {"s": np.float32(1), "z": np.uint16(32768)}, opset=21, ir=10)
    odd.bad("one", y=np.array([62769, 0, 65535, 32780], np.uint16)).bad("wrapped", y=np.array([62768, 58303, 32767, 32780], np.uint16))


# ---- structure ----

def loops():
    body = helper.make_graph([N("Add", ["s", "x"], ["s2"]), N("Identity", ["s2"], ["o"]), N("Identity", ["c"], ["c2"])], "body",
                             [info("i", "i64", []), info("c", "bool", []), info("s", "f32", [3])],
                             [info("c2", "bool", []), info("s2", "f32", [3]), info("o", "f32", [3])])
    x = np.array([1.5, -2, 0.25], np.float32)
    steps = np.stack([x * k for k in range(1, 6)])
    odd = Odd("loop", [N("Loop", ["n", "t", "zero"], ["last", "all"], body=body)], {"x": x}, [("last", "f32", [3]), ("all", "f32", [5, 3])],
              {"last": steps[-1], "all": steps}, {"n": np.int64(5), "t": np.bool_(True), "zero": np.zeros(3, np.float32)}, backends=ORT)
    odd.bad("one-less", last=steps[3]).bad("rows-short", all=steps[:4]).bad("reversed", all=steps[::-1].copy()).bad("stale-row", all=change(steps, slice(6, 9), 0))
    odd.bad("both-short", last=steps[3], all=steps[:4])
    scan = helper.make_graph([N("Mul", ["s", "v"], ["s2"]), N("Identity", ["s2"], ["o"])], "body", [info("s", "f32", [2]), info("v", "f32", [2])],
                             [info("s2", "f32", [2]), info("o", "f32", [2])])
    x = np.array([[1, 2], [0.5, -1], [3, 0.25]], np.float32)
    y = np.cumprod(x, 0, dtype=np.float32)
    odd = Odd("scan", [N("Scan", ["one", "x"], ["s", "y"], body=scan, num_scan_inputs=1)], {"x": x}, [("s", "f32", [2]), ("y", "f32", [3, 2])],
              {"s": y[-1], "y": y}, {"one": np.ones(2, np.float32)}, backends=ORT)
    odd.bad("state", s=y[-2]).bad("rows", y=y[[0, 2, 1]]).bad("transposed", y=y.T.copy())
    inner = helper.make_graph([N("Neg", ["x"], ["t"])], "then", [], [info("t", "f32", [4])])
    other = helper.make_graph([N("Abs", ["x"], ["u"])], "else", [], [info("u", "f32", [4])])
    x = np.array([1, -2, 3, -4], np.float32)
    odd = Odd("branches", [N("If", ["c"], ["y"], then_branch=inner, else_branch=other)], {"x": x, "c": np.bool_(False)}, [("y", "f32", [4])], {"y": np.abs(x)}, backends=ORT)
    odd.bad("other-branch", y=-x).bad("input", y=x)
    scale = helper.make_function("own", "Affine", ["p"], ["q"], [N("Constant", [], ["k"], value_float=3.0), N("Mul", ["p", "k"], ["q"])],
                                 [helper.make_opsetid("", 17)])
    odd = Odd("function-constant", [N("Affine", ["x"], ["a"], domain="own"), N("Affine", ["a"], ["y"], domain="own")], {"x": x}, [("y", "f32", [4])], {"y": x * 9},
              functions=[scale], domains=[helper.make_opsetid("own", 1)])
    odd.bad("once", y=x * 3).bad("sign", y=-9 * x)


def sequence(name, items):
    return numpy_helper.from_list(items, name, None if items else onnx.SequenceProto.TENSOR).SerializeToString()


def optional(name, value):
    t = onnx.OptionalProto(name=name, elem_type=1 if value is not None else 0)
    if value is not None:
        t.tensor_value.CopyFrom(Tensor(value).proto())
    return t.SerializeToString()


def containers():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    kind = helper.make_tensor_sequence_value_info("y", 1, None)
    rows = [x[k:k + 1] for k in range(4)]
    odd = Odd("split", [N("SplitToSequence", ["x"], ["y"], axis=0)], {"x": x}, [kind], {"y": sequence("y", rows)}, backends=ORT)
    odd.bad("no-axis", y=sequence("y", [r[0] for r in rows])).bad("order", y=sequence("y", rows[::-1])).bad("three", y=sequence("y", rows[:3]))
    odd.bad("tensor", y=Tensor(x)).bad("element", y=sequence("y", [*rows[:3], rows[3] + np.float32(1)]))
    odd.bad("nan", y=sequence("y", [*rows[:3], rows[3] * np.float32(np.nan)]))
    opt = helper.make_value_info("y", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [4, 3])))
    odd = Odd("optional", [N("Optional", ["x"], ["y"])], {"x": x}, [opt], {"y": optional("y", x)}, backends=())
    odd.bad("none", y=optional("y", None)).bad("element", y=optional("y", change(x, 11, 7))).bad("shape", y=optional("y", x.T.copy()))
    words = np.array([["ab", "Ä"], ["", "z\u0301"]], object)
    odd = Odd("words", [N("Identity", ["x"], ["y"])], {"x": words}, [("y", "str", [2, 2])], {"y": words}, backends=("ort",))
    odd.bad("case", y=change(words, 1, "ä")).bad("composed", y=change(words, 3, "\u017a")).bad("space", y=change(words, 2, " ")).bad("transposed", y=words.T.copy())
    odd.bad("number", y=np.zeros((2, 2), np.float32))


def indices():
    x = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 4]], np.float32)
    nz = np.array(np.nonzero(x), np.int64)
    odd = Odd("nonzero", [N("NonZero", ["x"], ["y"])], {"x": x}, [("y", "i64", [2, "n"])], {"y": nz}, backends=ORT)
    odd.bad("less", y=nz[:, :-1].copy()).bad("pairs", y=nz.T.copy()).bad("order", y=nz[:, ::-1].copy()).bad("more", y=np.pad(nz, ((0, 0), (0, 1))))
    x = np.array([[3, 1, 2, 5], [0, 9, 9, 1]], np.float32)
    odd = Odd("topk", [N("TopK", ["x", "k"], ["v", "i"])], {"x": x}, [("v", "f32", [2, 2]), ("i", "i64", [2, 2])],
              {"v": np.array([[5, 3], [9, 9]], np.float32), "i": np.array([[3, 0], [1, 2]])}, {"k": np.array([2])}, backends=ORT)
    odd.bad("values", v=np.array([[5, 2], [9, 9]], np.float32)).bad("indices", i=np.array([[3, 2], [1, 2]])).bad("unsorted", v=np.array([[3, 5], [9, 9]], np.float32))
    x = np.array([2, 1, 1, 3, 4, 3], np.float32)
    u, at, inv, n = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    odd = Odd("unique", [N("Unique", ["x"], ["u", "a", "v", "n"])], {"x": x}, [("u", "f32", ["k"]), ("a", "i64", ["k"]), ("v", "i64", ["m"]), ("n", "i64", ["k"])],
              {"u": u, "a": at, "v": inv, "n": n}, backends=ORT)
    odd.bad("counts", n=change(n, 0, 1)).bad("unsorted", u=u[[1, 0, 2, 3]]).bad("inverse", v=inv[::-1].copy()).bad("first", a=change(at, 0, 2))
    x = np.zeros((3, 4), np.float32)
    at = np.array([[1, 1, 0, 2]])
    add = np.array([[1, 2, 3, 4]], np.float32)
    odd = Odd("scatter", [N("ScatterElements", ["x", "at", "u"], ["y"], axis=1, reduction="add")], {"x": x}, [("y", "f32", [3, 4])],
              {"y": np.array([[3, 3, 4, 0], [0] * 4, [0] * 4], np.float32)}, {"at": at, "u": add}, backends=ORT)
    odd.bad("last-wins", y=np.array([[3, 2, 4, 0], [0] * 4, [0] * 4], np.float32)).bad("row", y=np.array([[0] * 4, [3, 3, 4, 0], [0] * 4], np.float32))
    mask = np.array([[True, False, True], [False, False, True]])
    v = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    odd = Odd("mask", [N("Where", ["m", "x", "low"], ["y"]), N("Not", ["m"], ["k"])], {"m": mask, "x": v}, [("y", "f32", [2, 3]), ("k", "bool", [2, 3])],
              {"y": np.where(mask, v, np.float32(-np.inf)), "k": ~mask}, {"low": np.float32(-np.inf)})
    odd.bad("finite", y=np.where(mask, v, np.float32(-3.4e38))).bad("inverted", y=np.where(~mask, v, np.float32(-np.inf))).bad("bool", k=mask)
    odd.bad("one-bit", k=change(~mask, 5, True)).bad("bytes", k=(~mask).astype(np.uint8))
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 1.02], [0, 5, 1, 6]]], np.float32)
    scores = np.array([[[0.9, 0.8, 0.7]]], np.float32)
    odd = Odd("nms", [N("NonMaxSuppression", ["b", "s", "n", "iou"], ["y"])], {"b": boxes, "s": scores}, [("y", "i64", ["n", 3])], {"y": np.array([[0, 0, 0], [0, 0, 2]])},
              {"n": np.array([3]), "iou": np.array([0.5], np.float32)}, backends=ORT)
    odd.bad("kept", y=np.array([[0, 0, 0], [0, 0, 1], [0, 0, 2]])).bad("other", y=np.array([[0, 0, 1], [0, 0, 2]])).bad("none", y=np.zeros((0, 3), np.int64))


def extremes():
    x = np.zeros((0, 3), np.float32)
    odd = Odd("empty-input", [N("ReduceSum", ["x", "a"], ["s"], keepdims=0), N("ReduceMax", ["x"], ["m"], axes=[0], keepdims=0), N("MatMul", ["w", "x"], ["y"])],
              {"x": x}, [("s", "f32", [3]), ("y", "f32", [2, 3])], {"s": np.zeros(3, np.float32), "y": np.zeros((2, 3), np.float32)},
              {"a": np.array([0]), "w": np.zeros((2, 0), np.float32)}, backends=())
    del odd.model.graph.node[1]
    odd.bad("sum", s=np.full(3, 1e-3, np.float32)).bad("garbage", y=np.full((2, 3), 1e-3, np.float32)).bad("nan", y=np.full((2, 3), np.nan, np.float32))
    odd.bad("empty", s=np.zeros(0, np.float32))
    x = rng(4).standard_normal((3, 3)).astype(np.float32)
    odd = Odd("all-zero", [N("Mul", ["x", "z"], ["y"])], {"x": x}, [("y", "f32", [3, 3])], {"y": x * 0}, {"z": np.float32(0)})
    odd.bad("small", y=np.full((3, 3), 1e-3, np.float32)).bad("one", y=change(x * 0, 4, 1e-4)).also("signs", y=np.zeros((3, 3), np.float32))
    x = np.array([1e30, 1e-30, 1, 1e-10], np.float32)
    odd = Odd("range", [N("Mul", ["x", "k"], ["y"])], {"x": x}, [("y", "f32", [4])], {"y": x * np.float32(3)}, {"k": np.float32(3)})
    odd.bad("smallest", NOT_TEST, y=change(x * np.float32(3), 1, 6e-30)).bad("small", NOT_TEST, y=change(x * np.float32(3), 3, 3.1e-10)).bad("one", y=change(x * np.float32(3), 2, 3.01))
    x = (1e6 + np.arange(8)).astype(np.float32).reshape(1, 8)
    y = (x.astype(np.float64) - x.astype(np.float64).mean()).astype(np.float32)
    odd = Odd("cancel", [N("ReduceMean", ["x"], ["m"], axes=[1]), N("Sub", ["x", "m"], ["y"])], {"x": x}, [("y", "f32", [1, 8])], {"y": y})
    odd.bad("zero", y=y * 0).bad("shift", y=y + np.float32(1)).bad("scale", y=y * np.float32(1.5))
    x = np.ones((2, 3), np.float32)
    odd = Odd("constant", [N("Add", ["x", "k"], ["y"])], {"x": x}, [("y", "f32", [2, 3])], {"y": x * 2}, {"k": np.float32(1)})
    odd.bad("thousandth", NOT_TEST, y=x * np.float32(2.002)).bad("millionth", BY_BOUND, y=x * np.float32(2.00001))
    x, w = rng(5).standard_normal((2, 4096)).astype(np.float32), rng(6).standard_normal((4096, 3)).astype(np.float32)
    y = (x.astype(np.float64) @ w).astype(np.float32)
    odd = Odd("long-sum", [N("MatMul", ["x", "w"], ["y"])], {"x": x}, [("y", "f32", [2, 3])], {"y": y}, {"w": w})
    odd.bad("one", y=change(y, 5, y.ravel()[5] * np.float32(1.01))).bad("short", y=(x[:, :4095].astype(np.float64) @ w[:4095]).astype(np.float32))
    odd.also("float-sum", y=x @ w)
    x = np.array([0.0, -0.0, 1, -1], np.float32)
    odd = Odd("zero-signs", [N("Neg", ["x"], ["n"]), N("Reciprocal", ["n"], ["y"])], {"x": x}, [("n", "f32", [4]), ("y", "f32", [4])],
              {"n": -x, "y": np.array([-np.inf, np.inf, -1, 1], np.float32)})
    odd.bad("inf-sign", y=np.array([np.inf, np.inf, -1, 1], np.float32)).bad("finite", y=np.array([-3.4e38, np.inf, -1, 1], np.float32))
    x = rng(7).standard_normal((2, 5)).astype(np.float32)
    odd = Odd("pass-through", [N("Identity", ["x"], ["y"]), N("Shape", ["x"], ["s"]), N("Identity", ["w"], ["c"])], {"x": x},
              [("y", "f32", [2, 5]), ("s", "i64", [2]), ("c", "f32", [2])], {"y": x, "s": np.array([2, 5]), "c": np.array([1, 2], np.float32)},
              {"w": np.array([1, 2], np.float32)})
    odd.bad("input", y=change(x, 9, 4)).bad("shape", s=np.array([5, 2])).bad("weight", c=np.array([2, 1], np.float32)).bad("zero", y=x * 0)


def quantised():
    x, w = rng(8).randint(0, 256, (2, 8)).astype(np.uint8), rng(9).randint(-128, 128, (8, 3)).astype(np.int8)
    zx, zw, zy = 100, np.array([3, -7, 0], np.int8), 120
    sx, sw, sy = 0.02, np.array([0.01, 0.03, 0.005], np.float32), 0.11

    def codes(zx=zx, zw=zw.astype(np.int64), sw=sw.astype(np.float64), zy=zy, first=0):
        p = (x.astype(np.int64) - zx) @ (w.astype(np.int64) - zw) * (sx * sw / sy)
        return np.clip(np.rint(p) + zy, 0, 255).astype(np.uint8)
    right = codes()
    odd = Odd("qlinear", [N("QLinearMatMul", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"], ["y"])], {"x": x}, [("y", "u8", [2, 3])], {"y": right},
              {"sx": np.float32(sx), "zx": np.uint8(zx), "w": w, "sw": sw, "zw": zw, "sy": np.float32(sy), "zy": np.uint8(zy)})
    for word, y in {"zero-point": codes(zx=0), "weight-zero": codes(zw=np.zeros(3)), "per-tensor": codes(sw=np.float64(0.01)),
                    "output-zero": codes(zy=121), "axis": codes(sw=sw[::-1].astype(np.float64)), "one": change(right, 4, right.ravel()[4] + 2)}.items():
        assert not np.array_equal(y, right), word
        odd.bad(word, y=y)
    odd.bad("signed", y=(right.astype(np.int16) - 128).astype(np.int8))
    c = rng(10).randint(-128, 128, (3, 4)).astype(np.int8)
    s0, s1 = np.array([0.5, 1, 2], np.float32), np.array([1, 2, 0.5, 1], np.float32)
    odd = Odd("axis", [N("DequantizeLinear", ["c", "s"], ["y"], axis=0)], {"c": c}, [("y", "f32", [3, 4])], {"y": c * s0[:, None]}, {"s": s0})
    odd.bad("other-axis", y=c * s1).bad("first-only", y=c * s0[0]).bad("off", y=(c + np.float32(1)) * s0[:, None])
    x = np.array([[-1.0, 0.3, 2.0, 0.9]], np.float32)
    scale = np.float32(3 / 255)
    zero = np.uint8(np.rint(1 / scale))
    y = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    odd = Odd("dynamic", [N("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], {"x": x}, [("y", "u8", [1, 4]), ("s", "f32", []), ("z", "u8", [])],
              {"y": y, "s": scale, "z": zero})
    odd.bad("scale", s=np.float32(scale * 1.01)).bad("zero", z=np.uint8(zero + 1)).bad("codes", y=y - 1).bad("rank", s=np.array([scale]))


def training():
    x = np.array([1, 2, 3, 4], np.float32)
    odd = Odd("dropout", [N("Dropout", ["x", "r"], ["y", "m"])], {"x": x}, [("y", "f32", [4]), ("m", "bool", [4])], {"y": x, "m": np.ones(4, bool)}, {"r": np.float32(0.5)}, backends=ORT)
    odd.bad("doubled", y=x * 2).bad("dropped", y=change(x, 1, 0), m=change(np.ones(4, bool), 1, False))


for fill in (low_precision, wide_integers, loops, containers, indices, extremes, quantised, training):
    fill()
for one in CASES:
    for kind in ("run", "analyze", "analyze-json", "query"):
        RED += [Situation(f"odd/{one.name}/{w}/{kind}", by_engine(one, a, kind), generated=kind != "run") for w, a in one.wrong.items() if kind in (one.asked[w] or kind)]
        CLEAN += [Situation(f"odd/{one.name}/{w}/{kind}", by_engine(one, a, kind), red=False) for w, a in {"right": one.right, **one.right_too}.items()]
    RED += [Situation(f"odd/{one.name}/{w}/test-{s}", by_test(one, a, s)) for w, a in one.wrong.items() for s in (None, "eager") if "test" in (one.asked[w] or "test")]
    CLEAN += [Situation(f"odd/{one.name}/{w}/test-{s}", by_test(one, a, s), red=False) for w, a in {"right": one.right, **one.right_too}.items()
              for s in (None, "eager", *one.backends)]
    CLEAN += [Situation(f"odd/{one.name}/{b}/{k}", by_backend(one, k, b), red=False) for b in one.backends for k in ("run", "analyze", "query", "run-torch")]

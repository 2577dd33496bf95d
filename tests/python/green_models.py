"""Small models whose right answers numpy knows, and ways to write answers down. For test_green_audit.py.

    MODELS      name -> Model: an ONNX model, inputs of several samples, and every value by numpy in double precision
    mutations   ways in which the answer of a float, integer, bool or string tensor can be wrong

No value here comes from plumb or from a runtime.
"""

import json
import struct
from dataclasses import dataclass
from typing import Callable, Dict, List

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I32, I64, B, S = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
NP = {F: np.float32, I32: np.int32, I64: np.int64, B: np.bool_, S: object, TensorProto.FLOAT16: np.float16,
      TensorProto.DOUBLE: np.float64, TensorProto.UINT8: np.uint8, TensorProto.INT8: np.int8}


@dataclass
class Model:
    name: str
    onnx: onnx.ModelProto
    compute: Callable[[Dict[str, np.ndarray]], Dict[str, np.ndarray]]
    samples: List[Dict[str, np.ndarray]]
    exact: bool = False              # the answer has no rounding: any change is wrong

    @property
    def inputs(self):
        return [i.name for i in self.onnx.graph.input]

    @property
    def outputs(self):
        return [o.name for o in self.onnx.graph.output]

    def types(self):
        """dtype of every output"""
        return {o.name: NP[o.type.tensor_type.elem_type] for o in self.onnx.graph.output if o.type.HasField("tensor_type")}

    def values(self, sample=0):
        """every value of a sample, inputs too, in the types of the model"""
        x = self.samples[sample]
        return {**x, **self.compute({k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in x.items()})}

    def answers(self, sample=0):
        values = self.values(sample)
        return {o: values[o] for o in self.outputs}


MODELS: Dict[str, Model] = {}


def add(name, nodes, inputs, outputs, weights, compute, samples, exact=False, opset=17, functions=(), domains=()):
    graph = helper.make_graph(
        nodes, name, [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [o if isinstance(o, onnx.ValueInfoProto) else helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(w, n) for n, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *domains], functions=list(functions))
    model.ir_version = 8
    MODELS[name] = Model(name, model, compute, samples, exact)


def rng(seed):
    return np.random.RandomState(seed)


def normal(seed, *shape):
    return rng(seed).standard_normal(shape).astype(np.float32)


def many(name, *shape, scale=1):
    return [{name: normal(100 + k, *shape) * np.float32(scale)} for k in range(3)]


def f32(values):
    return {k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in values.items()}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


N = helper.make_node


def mlp():
    w, b, v = normal(1, 6, 8), normal(2, 8), normal(3, 8, 5)

    def compute(i):
        h = i["x"] @ w.astype(np.float64)
        a = h + b
        r = np.maximum(a, 0)
        return f32({"h": h, "a": a, "r": r, "y": r @ v.astype(np.float64)})
    add("mlp", [N("MatMul", ["x", "w"], ["h"]), N("Add", ["h", "b"], ["a"]), N("Relu", ["a"], ["r"]), N("MatMul", ["r", "v"], ["y"])],
        [("x", F, [3, 6])], [("y", F, [3, 5])], {"w": w, "b": b, "v": v}, compute, many("x", 3, 6))


def classes():
    w = normal(4, 6, 5)

    def compute(i):
        h = i["x"] @ w.astype(np.float64)
        return {**f32({"h": h, "p": softmax(h)}), "k": h.argmax(-1).astype(np.int64)}
    add("classes", [N("MatMul", ["x", "w"], ["h"]), N("Softmax", ["h"], ["p"], axis=-1), N("ArgMax", ["h"], ["k"], axis=-1, keepdims=0)],
        [("x", F, [4, 6])], [("p", F, [4, 5]), ("k", I64, [4])], {"w": w}, compute, many("x", 4, 6))


def conv():
    w = normal(5, 3, 2, 3, 3)

    def compute(i):
        x = np.pad(i["x"], ((0, 0), (0, 0), (1, 1), (1, 1)))
        c = sum(np.einsum("nchw,oc->nohw", x[:, :, a:a + 6, b:b + 6], w[:, :, a, b].astype(np.float64)) for a in range(3) for b in range(3))
        return f32({"c": c, "y": np.tanh(c)})
    add("conv", [N("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), N("Tanh", ["c"], ["y"])],
        [("x", F, [1, 2, 6, 6])], [("y", F, [1, 3, 6, 6])], {"w": w}, compute, many("x", 1, 2, 6, 6, scale=0.3))


def ints():
    m = rng(6).randint(-5, 6, (3, 4)).astype(np.int32)

    def compute(i):
        t = i["x"] * m
        return {"t": t, "y": t + i["x"]}
    add("ints", [N("Mul", ["x", "m"], ["t"]), N("Add", ["t", "x"], ["y"])], [("x", I32, [3, 4])], [("y", I32, [3, 4])], {"m": m}, compute,
        [{"x": rng(60 + k).randint(-50, 50, (3, 4)).astype(np.int32)} for k in range(3)], exact=True)


def bytes_():
    """No rounding anywhere: one code is not noise here."""
    m = rng(16).randint(0, 3, (3, 4)).astype(np.uint8)
    add("bytes", [N("Add", ["x", "m"], ["y"])], [("x", TensorProto.UINT8, [3, 4])], [("y", TensorProto.UINT8, [3, 4])], {"m": m},
        lambda i: {"y": i["x"] + m}, [{"x": rng(70 + k).randint(0, 200, (3, 4)).astype(np.uint8)} for k in range(3)], exact=True)


def bools():
    c = normal(7, 4)
    add("bools", [N("Greater", ["x", "c"], ["g"]), N("Not", ["g"], ["y"])], [("x", F, [5, 4])], [("y", B, [5, 4])], {"c": c},
        lambda i: {"g": i["x"] > c, "y": ~(i["x"] > c)}, many("x", 5, 4), exact=True)


def strings():
    words = np.array(["-a", "-b", ""], dtype=object)
    add("strings", [N("StringConcat", ["x", "s"], ["y"])], [("x", S, [3])], [("y", S, [3])], {"s": words},
        lambda i: {"y": np.array([a + b for a, b in zip(i["x"], words)], dtype=object)},
        [{"x": np.array([f"{w}{k}" for w in ("one", "two", "drei")], dtype=object)} for k in range(3)], exact=True, opset=20)


def half():
    w = normal(8, 4).astype(np.float16)

    def compute(i):
        m = (i["x"] * w.astype(np.float64)).astype(np.float16)
        return {"m": m, "y": (1 / (1 + np.exp(-m.astype(np.float64)))).astype(np.float16)}
    add("half", [N("Mul", ["x", "w"], ["m"]), N("Sigmoid", ["m"], ["y"])], [("x", TensorProto.FLOAT16, [3, 4])],
        [("y", TensorProto.FLOAT16, [3, 4])], {"w": w}, compute, [{"x": normal(80 + k, 3, 4).astype(np.float16)} for k in range(3)])


def double():
    add("double", [N("Exp", ["x"], ["e"]), N("Mul", ["e", "x"], ["y"])], [("x", TensorProto.DOUBLE, [7])], [("y", TensorProto.DOUBLE, [7])], {},
        lambda i: {"e": np.exp(i["x"]), "y": np.exp(i["x"]) * i["x"]}, [{"x": rng(90 + k).standard_normal(7)} for k in range(3)])


def quant():
    """x -> u8 -> float -> product with s8 weights -> u8. The scale keeps sums away from ties."""
    q = rng(9).randint(-100, 100, (6, 4)).astype(np.int8)
    sx, zx, sw, sy, zy = (np.float32(0.0625), np.uint8(128), np.float32(0.0078125), np.float32(0.05123), np.uint8(120))

    def compute(i):
        c = np.clip(np.rint(i["x"] / sx) + zx, 0, 255).astype(np.uint8)
        d = (c.astype(np.float64) - zx) * sx
        w = q.astype(np.float64) * sw
        p = d @ w
        o = np.clip(np.rint(p / sy) + zy, 0, 255).astype(np.uint8)
        return {"c": c, **f32({"d": d, "w": w, "p": p, "y": (o.astype(np.float64) - zy) * np.float64(sy)}), "o": o}
    add("quant", [N("QuantizeLinear", ["x", "sx", "zx"], ["c"]), N("DequantizeLinear", ["c", "sx", "zx"], ["d"]),
                  N("DequantizeLinear", ["q", "sw", "zw"], ["w"]), N("MatMul", ["d", "w"], ["p"]), N("QuantizeLinear", ["p", "sy", "zy"], ["o"]),
                  N("DequantizeLinear", ["o", "sy", "zy"], ["y"])],
        [("x", F, [3, 6])], [("y", F, [3, 4]), ("o", TensorProto.UINT8, [3, 4])],
        {"q": q, "sx": sx, "zx": zx, "sw": sw, "zw": np.int8(0), "sy": sy, "zy": zy}, compute, many("x", 3, 6))


def two():
    add("two", [N("Sub", ["a", "b"], ["s"]), N("Mul", ["s", "a"], ["m"])], [("a", F, [2, 5]), ("b", F, [2, 5])],
        [("s", F, [2, 5]), ("m", F, [2, 5])], {}, lambda i: f32({"s": i["a"] - i["b"], "m": (i["a"] - i["b"]) * i["a"]}),
        [{"a": normal(110 + k, 2, 5), "b": normal(120 + k, 2, 5)} for k in range(3)])


def nonfinite():
    """NaN, -Inf and Inf belong to the answer."""
    def compute(i):
        with np.errstate(all="ignore"):
            log = np.log(i["x"])
            return f32({"l": log, "y": 1 / i["x"], "z": log * 2})
    x = [np.array([1, -1, 0, 2, -3, 4, 0, 5], np.float32), np.array([0, 1, 2, -1, 3, -4, 1, 0], np.float32), np.array([-2, 0, 1, 0, 7, 8, -9, 1], np.float32)]
    add("nonfinite", [N("Log", ["x"], ["l"]), N("Reciprocal", ["x"], ["y"]), N("Add", ["l", "l"], ["z"])], [("x", F, [8])],
        [("y", F, [8]), ("z", F, [8])], {}, compute, [{"x": v} for v in x])


def large():
    """One wrong element of many must not be diluted."""
    w = normal(10, 64)
    add("large", [N("Mul", ["x", "w"], ["m"]), N("Sigmoid", ["m"], ["y"])], [("x", F, [64, 64])], [("y", F, [64, 64])], {"w": w},
        lambda i: f32({"m": i["x"] * w, "y": 1 / (1 + np.exp(-i["x"] * w))}), many("x", 64, 64))


def scalar():
    add("scalar", [N("ReduceSum", ["x"], ["r"], keepdims=0), N("Exp", ["r"], ["y"])], [("x", F, [3])], [("y", F, [])], {},
        lambda i: f32({"r": np.asarray(i["x"].sum()), "y": np.asarray(np.exp(i["x"].sum()))}), many("x", 3, scale=0.5))


def empty():
    """An output without elements beside one with."""
    add("empty", [N("Slice", ["x", "s", "e"], ["y"]), N("Neg", ["x"], ["z"])], [("x", F, [4, 3])], [("y", F, [0, 3]), ("z", F, [4, 3])],
        {"s": np.array([2]), "e": np.array([2])}, lambda i: f32({"y": i["x"][2:2], "z": -i["x"]}), many("x", 4, 3), exact=True)


def branch():
    """If: the answer depends on a branch."""
    then = helper.make_graph([N("Mul", ["x", "x"], ["t"])], "then", [], [helper.make_tensor_value_info("t", F, [4])])
    other = helper.make_graph([N("Neg", ["x"], ["u"])], "else", [], [helper.make_tensor_value_info("u", F, [4])])
    add("branch", [N("ReduceSum", ["x"], ["r"], keepdims=0), N("Greater", ["r", "zero"], ["g"]), N("If", ["g"], ["y"], then_branch=then, else_branch=other)],
        [("x", F, [4])], [("y", F, [4])], {"zero": np.float32(0)},
        lambda i: {**f32({"r": np.asarray(i["x"].sum()), "y": i["x"] * i["x"] if i["x"].sum() > 0 else -i["x"]}), "g": np.asarray(i["x"].sum() > 0)},
        many("x", 4))


def function():
    """A model-local function that is called twice."""
    body = helper.make_function("own", "Twice", ["p"], ["q"], [N("Add", ["p", "p"], ["s"]), N("Tanh", ["s"], ["q"])], [helper.make_opsetid("", 17)])
    call = [N("Twice", ["x"], ["m"], domain="own"), N("Twice", ["m"], ["y"], domain="own")]
    add("function", call, [("x", F, [6])], [("y", F, [6])], {}, lambda i: f32({"m": np.tanh(2 * i["x"]), "y": np.tanh(2 * np.tanh(2 * i["x"]))}),
        many("x", 6), functions=[body], domains=[helper.make_opsetid("own", 1)])


def norm():
    g, b = normal(11, 8), normal(12, 8)

    def compute(i):
        x = i["x"]
        z = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        n = z * g + b
        return f32({"n": n, "t": n.T, "y": softmax(n.T)})
    add("norm", [N("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1, epsilon=1e-5), N("Transpose", ["n"], ["t"], perm=[1, 0]), N("Softmax", ["t"], ["y"])],
        [("x", F, [4, 8])], [("y", F, [8, 4])], {"g": g, "b": b}, compute, many("x", 4, 8))


def same_square():
    """Square, so that a transposed answer has the right shape; the same values twice, so that names matter."""
    w = normal(13, 5, 5)
    add("square", [N("MatMul", ["x", "w"], ["y"]), N("Sub", ["x", "y"], ["z"])], [("x", F, [5, 5])], [("y", F, [5, 5]), ("z", F, [5, 5])], {"w": w},
        lambda i: f32({"y": i["x"] @ w.astype(np.float64), "z": i["x"] - i["x"] @ w.astype(np.float64)}), many("x", 5, 5))


for make in (mlp, classes, conv, ints, bytes_, bools, strings, half, double, quant, two, nonfinite, large, scalar, empty, branch, function, norm, same_square):
    make()


# ---- writing ----

def tensor(value, name=""):
    if value.dtype == object:
        return helper.make_tensor(name, S, value.shape, [s.encode() for s in value.ravel()])
    return numpy_helper.from_array(np.ascontiguousarray(value) if value.ndim else value, name)


SAFE = {"f4": "F32", "f8": "F64", "f2": "F16", "i4": "I32", "i8": "I64", "u1": "U8", "i1": "I8", "b1": "BOOL", "u2": "U16", "i2": "I16", "u4": "U32", "u8": "U64"}


def write_safetensors(path, values, metadata=None):
    header, body = ({"__metadata__": metadata} if metadata else {}), b""
    for k, v in values.items():
        data = np.ascontiguousarray(v).tobytes()
        header[k] = {"dtype": SAFE[v.dtype.str[1:]], "shape": list(v.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def write_npz(path, values):
    np.savez(path, **values)
    return path


def write_npy(folder, values):
    folder.mkdir()
    for k, v in values.items():
        np.save(folder / f"{k}.npy", v)
    return folder


def write_set(folder, model, inputs, outputs):
    """an ONNX test data set; an output that is None is left out"""
    folder.mkdir(parents=True)
    for i, name in enumerate(model.inputs):
        (folder / f"input_{i}.pb").write_bytes(tensor(inputs[name], name).SerializeToString())
    for i, name in enumerate(model.outputs):
        if outputs.get(name) is not None:
            (folder / f"output_{i}.pb").write_bytes(tensor(outputs[name], name).SerializeToString())
    return folder


# ---- ways to be wrong ----

def far(v, exact):
    """a change that no rounding explains"""
    return v.dtype.type(1) if exact or v.dtype.kind in "iu" else v.dtype.type(0.25 * max(1.0, float(np.abs(v[np.isfinite(v)]).max(initial=0))))


def one_element(v, exact):
    w = v.copy()
    at = np.flatnonzero(np.isfinite(w.ravel()))[-1:] if w.dtype.kind == "f" else [w.size - 1]
    w.ravel()[at] += 2 * far(v, exact) if v.dtype == np.uint8 and not exact else far(v, exact)
    return w


def scaled(v, exact):
    return (v * v.dtype.type(1.05 if v.dtype.kind == "f" else 3)).astype(v.dtype)


def offset(v, exact):
    return (v + far(v, exact) + far(v, exact)).astype(v.dtype)


def negated(v, exact):
    return -v if v.dtype.kind != "u" else v.max() - v


def zeroed(v, exact):
    return np.zeros_like(v)


def rolled(v, exact):
    return np.roll(v, 1)


def first_row_stale(v, exact):
    w = v.copy()
    w.ravel()[: max(1, w.size // 4)] = 0
    return w


def nan_born(v, exact):
    w = v.copy()
    w.ravel()[w.size // 2] = np.nan
    return w


def inf_born(v, exact):
    w = v.copy()
    w.ravel()[0] = np.inf
    return w


def nan_gone(v, exact):
    w = v.copy()
    w[np.isnan(w)] = 0
    return w


def nan_moved(v, exact):
    """as many NaN as there should be, at other places"""
    return v.ravel()[::-1].reshape(v.shape).copy()


def inf_sign(v, exact):
    w = v.copy()
    w[np.isinf(w)] *= -1
    return w


def inf_gone(v, exact):
    """a number where the answer is Inf: a runtime that clamps"""
    w = v.copy()
    w[np.isinf(w)] = 5
    return w


def inf_to_nan(v, exact):
    w = v.copy()
    w[np.isinf(w)] = np.nan
    return w


def all_nan(v, exact):
    return np.full_like(v, np.nan)


def wider(v, exact):
    return v.astype({"f": np.float64 if v.dtype != np.float64 else np.float32, "i": np.int64 if v.dtype != np.int64 else np.int32,
                     "u": np.int32, "b": np.uint8}[v.dtype.kind])


def longer(v, exact):
    return np.concatenate([v, v[:1]]) if v.ndim and v.shape[0] else np.zeros((1,) + v.shape, v.dtype)


def shorter(v, exact):
    return v[:-1]


def flat(v, exact):
    return v.reshape(-1)


def transposed_dims(v, exact):
    return np.ascontiguousarray(v.T)


def last_flipped(v, exact):
    w = v.copy()
    w.ravel()[-1] = ~w.ravel()[-1]
    return w


def all_flipped(v, exact):
    return ~v


def other_word(v, exact):
    w = v.copy()
    w.ravel()[-1] += "x"
    return w


def no_word(v, exact):
    return np.array([""] * v.size, dtype=object).reshape(v.shape)


STRUCTURAL = (wider, longer, shorter, flat, transposed_dims)
FLOATS = (one_element, scaled, offset, negated, zeroed, rolled, first_row_stale, nan_born, inf_born, nan_gone, nan_moved, inf_sign, inf_gone, inf_to_nan, all_nan)
OF_KIND = {"f": FLOATS, "i": (one_element, scaled, offset, negated, zeroed, rolled), "u": (one_element, offset, negated, zeroed, rolled),
           "b": (last_flipped, all_flipped, zeroed), "O": (other_word, no_word)}


def same(a, b):
    """the same numbers: a NaN is a NaN, whatever its bits; -0 is 0"""
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def mutations(v, exact, structural=True):
    """(name, wrong tensor) for each way that changes this one"""
    made = OF_KIND[v.dtype.kind] + (STRUCTURAL if structural and v.dtype != object else ())
    for how in made:
        if v.size == 0 and how not in (longer, wider):
            continue
        if how in (shorter, flat, transposed_dims) and v.ndim < (1 if how is shorter else 2):
            continue
        with np.errstate(all="ignore"):
            w = how(v, exact)
        if not same(v, w):
            yield how.__name__, w

"""Models of the localisation benchmark: small networks made here, those of .cache/models, and low-precision copies.

Everything follows from a seed. `make(folder)` writes what is missing and returns {name: Entry}; a model of .cache that was not
fetched is left out."""

import collections
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache/models"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

# low: float16 or bfloat16 model; quantised: 8-bit codes inside; args: of plumb, for the inputs; ort: ORT's CPU runs it
Entry = collections.namedtuple("Entry", "name path family low quantised args ort")


class Net:
    """Writes a graph node by node; every call returns the name of the first output."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.inits, self.inputs, self.outputs = [], [], [], []

    def input(self, name, shape, dtype=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def const(self, array):
        name = f"w{len(self.inits)}"
        self.inits.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape, scale=None):
        fan = max(int(np.prod(shape[1:])), 1)
        return self.const((self.rng.standard_normal(shape) * (scale or fan**-0.5)).astype(np.float32))

    def op(self, op, *inputs, n_out=1, domain="", **attrs):
        index = len(self.nodes)
        outs = [f"{op.lower()}_{index}" + (f"_{k}" if k else "") for k in range(n_out)]
        self.nodes.append(helper.make_node(op, list(inputs), outs, name=f"{op}_{index}", domain=domain, **attrs))
        return outs[0] if n_out == 1 else outs

    def output(self, name, shape=None, dtype=FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def model(self, opset=17):
        graph = helper.make_graph(self.nodes, "net", self.inputs, self.outputs, self.inits)
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        m.ir_version = 8
        return m


def i64(*x):
    return np.array(x, np.int64)


def f32(*x):
    return np.array(x, np.float32)


def batch_norm(n, x, c):
    r = n.rng
    return n.op("BatchNormalization", x, n.const(r.uniform(0.5, 1.5, c).astype(np.float32)),
                n.const(r.normal(0, 0.2, c).astype(np.float32)), n.const(r.normal(0, 0.3, c).astype(np.float32)),
                n.const(r.uniform(0.5, 2, c).astype(np.float32)))


def cnn(seed=1):
    n = Net(seed)
    x = n.input("x", [2, 3, 20, 20])
    x = n.op("Relu", batch_norm(n, n.op("Conv", x, n.weight(10, 3, 3, 3), pads=[1, 1, 1, 1]), 10))
    x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = n.op("Relu", batch_norm(n, n.op("Conv", x, n.weight(10, 10, 3, 3), pads=[1, 1, 1, 1]), 10))
    y = batch_norm(n, n.op("Conv", y, n.weight(10, 10, 3, 3), n.weight(10, scale=0.1), pads=[1, 1, 1, 1]), 10)
    x = n.op("Relu", n.op("Add", x, y))
    x = n.op("Conv", x, n.weight(10, 1, 3, 3), n.weight(10, scale=0.1), group=10, pads=[1, 1, 1, 1])
    x = n.op("Clip", x, n.const(np.float32(0)), n.const(np.float32(6)))
    x = n.op("HardSwish", n.op("Conv", x, n.weight(20, 10, 1, 1), n.weight(20, scale=0.1)))
    s = n.op("HardSigmoid", n.op("Conv", n.op("GlobalAveragePool", x), n.weight(20, 20, 1, 1)), alpha=0.2)
    x = n.op("Mul", x, s)
    x = n.op("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = n.op("ConvTranspose", x, n.weight(20, 8, 2, 2), strides=[2, 2])
    x = n.op("LeakyRelu", x, alpha=0.1)
    x = n.op("Flatten", n.op("GlobalAveragePool", x))
    x = n.op("Gemm", x, n.weight(7, 8), n.weight(7, scale=0.1), transB=1)
    n.output(n.op("Softmax", x, axis=1), [2, 7])
    return n.model()


def attention(seed=2):
    """A decoder block spelt out: no LayerNormalization node, masks, gelu by tanh."""
    n = Net(seed)
    t, d, h = 12, 32, 4
    x = n.input("x", [2, t, d])

    def norm(v):
        c = n.op("Sub", v, n.op("ReduceMean", v, axes=[2]))
        var = n.op("ReduceMean", n.op("Mul", c, c), axes=[2])
        v = n.op("Div", c, n.op("Sqrt", n.op("Add", var, n.const(np.float32(1e-5)))))
        g = n.const(n.rng.uniform(0.5, 1.5, d).astype(np.float32))
        return n.op("Add", n.op("Mul", v, g), n.weight(d, scale=0.1))

    def heads(v, perm):
        v = n.op("Add", n.op("MatMul", v, n.weight(d, d)), n.weight(d, scale=0.1))
        return n.op("Transpose", n.op("Reshape", v, n.const(i64(0, 0, h, d // h))), perm=perm)

    y = norm(x)
    q, k, v = heads(y, [0, 2, 1, 3]), heads(y, [0, 2, 3, 1]), heads(y, [0, 2, 1, 3])
    s = n.op("Div", n.op("MatMul", q, k), n.const(np.float32((d // h)**0.5)))
    mask = np.triu(np.full((t, t), -1e4, np.float32), 1)
    p = n.op("Softmax", n.op("Add", s, n.const(mask)), axis=-1)
    o = n.op("Reshape", n.op("Transpose", n.op("MatMul", p, v), perm=[0, 2, 1, 3]), n.const(i64(0, 0, d)))
    x = n.op("Add", x, n.op("Add", n.op("MatMul", o, n.weight(d, d)), n.weight(d, scale=0.1)))
    y = n.op("Add", n.op("MatMul", norm(x), n.weight(d, 2 * d)), n.weight(2 * d, scale=0.1))
    cube = n.op("Mul", n.op("Pow", y, n.const(np.float32(3))), n.const(np.float32(0.044715)))
    inner = n.op("Tanh", n.op("Mul", n.op("Add", y, cube), n.const(np.float32(0.79788456))))
    y = n.op("Mul", n.op("Mul", y, n.op("Add", inner, n.const(np.float32(1)))), n.const(np.float32(0.5)))
    x = n.op("Add", x, n.op("MatMul", y, n.weight(2 * d, d)))
    n.output(n.op("LogSoftmax", n.op("MatMul", x, n.weight(d, 19)), axis=-1), [2, t, 19])
    return n.model()


def recurrent(seed=3):
    n = Net(seed)
    t, b, i, h = 9, 2, 11, 13
    x = n.input("x", [t, b, i])
    y, yh, yc = n.op("LSTM", x, n.weight(2, 4 * h, i), n.weight(2, 4 * h, h), n.weight(2, 8 * h, scale=0.2), n_out=3,
                     hidden_size=h, direction="bidirectional")
    y = n.op("Reshape", n.op("Transpose", y, perm=[0, 2, 1, 3]), n.const(i64(0, 0, 2 * h)))
    g, gh = n.op("GRU", n.op("Tanh", y), n.weight(1, 3 * h, 2 * h), n.weight(1, 3 * h, h), n.weight(1, 6 * h, scale=0.2),
                 n_out=2, hidden_size=h, linear_before_reset=1)
    g = n.op("Squeeze", g, n.const(i64(1)))
    r, rh = n.op("RNN", g, n.weight(1, h, h), n.weight(1, h, h), n.weight(1, 2 * h, scale=0.2), n_out=2, hidden_size=h)
    r = n.op("Add", n.op("Squeeze", r, n.const(i64(1))), g)
    n.output(n.op("Sigmoid", n.op("MatMul", r, n.weight(h, 5))), [t, b, 5])
    n.output(n.op("Concat", yh, yc, axis=0), [4, b, h])
    n.output(n.op("Sub", gh, rh), [1, b, h])
    return n.model()


def mixed(seed=4):
    """One of many operators: reductions, transcendental functions, indexing, resizing, normalisation."""
    n = Net(seed)
    x = n.input("x", [2, 6, 10, 10])
    g = n.const(n.rng.uniform(0.5, 1.5, 6).astype(np.float32))
    y = n.op("InstanceNormalization", x, g, n.weight(6, scale=0.2))
    y = n.op("PRelu", y, n.const(n.rng.uniform(0.1, 0.3, (6, 1, 1)).astype(np.float32)))
    z = n.op("Resize", y, "", n.const(f32(1, 1, 2, 2)), mode="linear", coordinate_transformation_mode="half_pixel")
    z = n.op("Slice", z, n.const(i64(3, 2)), n.const(i64(15, 14)), n.const(i64(2, 3)))
    e = n.op("Exp", n.op("Neg", n.op("Abs", z)))
    l = n.op("Log", n.op("Add", n.op("Mul", z, z), n.const(np.float32(1))))
    s = n.op("Softplus", n.op("Sub", e, l))
    k = n.op("Elu", n.op("Sin", z), alpha=0.7)
    m = n.op("Max", s, k)
    c = n.op("Where", n.op("Greater", e, l), m, n.op("Cos", z))
    p = n.op("Pad", c, n.const(i64(0, 0, 0, 0, 1, 1, 0, 0)), n.const(np.float32(0.25)), mode="constant")
    r = n.op("ReduceL2", p, axes=[1])
    a = n.op("Reciprocal", n.op("Add", n.op("ReduceMax", p, axes=[1]), n.const(np.float32(3))))
    q = n.op("Div", n.op("Erf", n.op("Mul", r, a)), n.op("Sqrt", n.op("Add", r, n.const(np.float32(1)))))
    u = n.op("Unsqueeze", n.op("Squeeze", q, n.const(i64(1))), n.const(i64(1)))
    w = n.op("Concat", u, n.op("ReduceMean", p, axes=[1]), n.op("ReduceSum", p, n.const(i64(1))), axis=1)
    f = n.op("Flatten", w)
    v, at = n.op("TopK", f, n.const(i64(8)), n_out=2, axis=1)
    h = n.op("Gather", f, n.const(i64(3, 1, 30, 7, 12, 5, 9, 11)), axis=1)
    o = n.op("Selu", n.op("Softsign", n.op("Add", v, n.op("GatherElements", f, at, axis=1))))
    o = n.op("Celu", n.op("Sum", o, h), alpha=1.2)
    o = n.op("Gemm", n.op("CumSum", o, n.const(i64(1)[0])), n.weight(8, 6), n.weight(6, scale=0.1), alpha=0.5)
    n.output(n.op("LpNormalization", n.op("ThresholdedRelu", o, alpha=-2.0), axis=1), [2, 6])
    n.output(n.op("ArgMax", f, axis=1, keepdims=0), [2], INT64)
    n.output(n.op("ReduceLogSumExp", h, axes=[1], keepdims=0), [2])
    return n.model()


def dynamic(seed=5):
    """Dynamic quantisation as ONNX Runtime's tool writes it."""
    n = Net(seed)
    x = n.input("x", [3, 1, 12, 12])

    def quantised(op, v, w, bias, **attrs):
        q, s, z = n.op("DynamicQuantizeLinear", v, n_out=3)
        ws = np.float32(np.abs(w).max() / 127)
        zero, dtype = (128, np.uint8) if op == "ConvInteger" else (0, np.int8)  # older ORT: no signed ConvInteger
        codes = (np.clip(np.rint(w / ws), -127, 127) + zero).astype(dtype)
        y = n.op(op, q, n.const(codes), z, n.const(dtype(zero)), **attrs)
        y = n.op("Mul", n.op("Cast", y, to=FLOAT), n.op("Mul", s, n.const(ws)))
        return n.op("Add", y, n.const(bias))

    r = n.rng
    w = r.standard_normal((6, 1, 3, 3)).astype(np.float32) / 3
    y = n.op("Relu", quantised("ConvInteger", x, w, r.normal(0, 0.1, (1, 6, 1, 1)).astype(np.float32)))
    y = n.op("Flatten", n.op("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2]))
    for k, m in ((150, 24), (24, 24), (24, 10)):
        w = (r.standard_normal((k, m)) / k**0.5).astype(np.float32)
        y = quantised("MatMulInteger", y, w, r.normal(0, 0.1, m).astype(np.float32))
        y = n.op("Tanh", y) if m == 24 else y
    n.output(n.op("Softmax", y, axis=1), [3, 10])
    return n.model()


def qdq(seed=6):
    n = Net(seed)
    r = n.rng
    x = n.input("x", [1, 3, 16, 16])

    def pair(v, scale, zero=128, dtype=np.uint8):
        s, z = n.const(np.float32(scale)), n.const(dtype(zero))
        return n.op("DequantizeLinear", n.op("QuantizeLinear", v, s, z), s, z)

    def conv(v, cin, cout, s_in, k=3, group=1):
        w = (r.standard_normal((cout, cin // group, k, k)) / (cin // group * k * k)**0.5).astype(np.float32)
        ws = (np.abs(w).reshape(cout, -1).max(1) / 127).astype(np.float32)
        codes = np.rint(w / ws[:, None, None, None]).astype(np.int8)
        scale = n.const(ws)
        dw = n.op("DequantizeLinear", n.const(codes), scale, n.const(np.zeros(cout, np.int8)), axis=0)
        bs = n.const((ws * np.float32(s_in)).astype(np.float32))
        bias = np.rint(r.normal(0, 0.1, cout) / (ws * s_in)).astype(np.int32)
        db = n.op("DequantizeLinear", n.const(bias), bs, axis=0)
        return n.op("Conv", v, dw, db, pads=[k // 2] * 4, group=group)

    s = 0.03
    x = pair(x, s)
    x = pair(n.op("Relu", conv(x, 3, 8, s)), s, 0)
    y = pair(conv(x, 8, 8, s), s)
    x = pair(n.op("Relu", n.op("Add", x, y)), s, 0)
    x = pair(n.op("Clip", conv(x, 8, 8, s, 3, 8), n.const(np.float32(0)), n.const(np.float32(3))), s, 0)
    x = pair(n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), s, 0)
    x = pair(conv(x, 8, 12, s, 1), s)
    x = pair(n.op("GlobalAveragePool", x), s / 2)
    x = n.op("Flatten", x)
    w = np.rint(r.normal(0, 40, (12, 5))).clip(-127, 127).astype(np.int8)
    dw = n.op("DequantizeLinear", n.const(w), n.const(np.float32(0.01)), n.const(np.int8(0)))
    n.output(pair(n.op("MatMul", x, dw), 0.02), [1, 5])
    return n.model()


def control(seed=7):
    """If, Loop and Scan with work before, inside and after them."""
    n = Net(seed)
    x = n.input("x", [6, 8])
    h = n.op("Tanh", n.op("MatMul", x, n.weight(8, 8)))
    w1, w2 = n.weight(8, 8), n.weight(8, 8)
    big = n.op("Greater", n.op("ReduceSum", h), n.const(np.float32(-1e6)))
    flag = n.op("Squeeze", big)

    def branch(name, op, w):
        out = f"{name}_out"
        return helper.make_graph(
            [helper.make_node("MatMul", [h, w], [f"{name}_m"]), helper.make_node(op, [f"{name}_m"], [out])], name, [],
            [helper.make_tensor_value_info(out, FLOAT, [6, 8])])

    y = n.op("If", flag, then_branch=branch("then", "Sigmoid", w1), else_branch=branch("else", "Relu", w2))
    body = helper.make_graph(
        [helper.make_node("MatMul", ["s", w2], ["sm"]), helper.make_node("Tanh", ["sm"], ["st"]),
         helper.make_node("Add", ["st", "s"], ["so"]), helper.make_node("Identity", ["c"], ["co"]),
         helper.make_node("ReduceMean", ["so"], ["row"], axes=[0], keepdims=0)],
        "loop", [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
                 helper.make_tensor_value_info("s", FLOAT, [6, 8])],
        [helper.make_tensor_value_info("co", TensorProto.BOOL, []), helper.make_tensor_value_info("so", FLOAT, [6, 8]),
         helper.make_tensor_value_info("row", FLOAT, [8])])
    s, rows = n.op("Loop", n.const(np.int64(4)), n.const(np.bool_(True)), n.op("Mul", y, h), n_out=2, body=body)
    step = helper.make_graph(
        [helper.make_node("Add", ["acc", "row_in"], ["acc_out"]), helper.make_node("Exp", ["row_in"], ["row_out"])],
        "scan", [helper.make_tensor_value_info("acc", FLOAT, [8]), helper.make_tensor_value_info("row_in", FLOAT, [8])],
        [helper.make_tensor_value_info("acc_out", FLOAT, [8]), helper.make_tensor_value_info("row_out", FLOAT, [8])])
    acc, scanned = n.op("Scan", n.const(np.zeros(8, np.float32)), rows, n_out=2, body=step, num_scan_inputs=1)
    z = n.op("Softmax", n.op("Add", n.op("MatMul", s, n.weight(8, 8)), acc), axis=-1)
    n.output(n.op("Gemm", z, n.weight(8, 4), n.weight(4, scale=0.1)), [6, 4])
    n.output(n.op("Sqrt", scanned), [4, 8])
    return n.model()


def mlp(seed=8):
    n = Net(seed)
    x = n.input("x", [4, 24])
    for a, b, op in ((24, 32, "Relu"), (32, 32, "Tanh"), (32, 16, "Sigmoid")):
        x = n.op(op, n.op("Add", n.op("MatMul", x, n.weight(a, b)), n.weight(b, scale=0.1)))
    x = n.op("Mul", x, n.op("Sub", x, n.op("ReduceMean", x, axes=[1])))
    n.output(n.op("Softmax", n.op("MatMul", x, n.weight(16, 9)), axis=-1), [4, 9])
    return n.model(13)


# ---- low precision ----

def to_bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def convert(model, to):
    """Every float becomes `to` (weights, inputs, casts, constants), as fp16 converters do without keeping the ends."""
    m = onnx.ModelProto()
    m.CopyFrom(model)

    def tensor(t):
        if t.data_type != FLOAT:
            return
        x = numpy_helper.to_array(t)
        raw = x.astype(np.float16) if to == TensorProto.FLOAT16 else to_bf16(x)
        new = TensorProto(name=t.name, data_type=to, dims=t.dims, raw_data=raw.tobytes())
        t.CopyFrom(new)

    def info(v):
        if v.type.tensor_type.elem_type == FLOAT:
            v.type.tensor_type.elem_type = to

    def graph(g):
        for t in g.initializer:
            tensor(t)
        for v in (*g.input, *g.output, *g.value_info):
            info(v)
        for node in g.node:
            scales = node.op_type == "Resize"
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    graph(a.g)
                elif a.type == onnx.AttributeProto.TENSOR:
                    tensor(a.t)
                elif a.name == "to" and a.i == FLOAT:
                    a.i = to
            assert not scales, "the scales of Resize stay float: not written"

    graph(m.graph)
    return m


def save(model, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    if model.opset_import[0].version <= 17:  # what the checker of onnx 1.12 knows
        onnx.checker.check_model(model)
    onnx.save(model, path)


MADE = (("cnn", cnn, "cnn", False), ("attention", attention, "transformer", False), ("recurrent", recurrent, "rnn", False),
        ("mixed", mixed, "mixed", False), ("dynamic", dynamic, "dynamic int8", True), ("qdq", qdq, "qdq", True),
        ("control", control, "control flow", False), ("mlp", mlp, "mlp", False))
CACHED = (("torch-encoder", "torch/encoder.onnx", "transformer", False, []),
          ("torch-recurrent", "torch/recurrent.onnx", "rnn", False, []),
          ("torch-qdq", "torch/qdq.onnx", "qdq", True, []),
          ("torch-control", "torch/control.onnx", "control flow", False, []),
          ("oww-alexa", "oww_alexa.onnx", "mlp", False, []),
          ("oww-embedding", "oww_embedding.onnx", "cnn", False, []),
          ("ppocr-cls", "ppocr_cls.onnx", "cnn", False, ["--dim", "p2o.DynamicDimension.1=48", "--dim", "p2o.DynamicDimension.2=64"]),
          ("mobilenet", "torch/mobilenet_v3_small.onnx", "cnn", False, []))
LOW = (("cnn-fp16", "cnn", TensorProto.FLOAT16), ("attention-fp16", "attention", TensorProto.FLOAT16),
       ("torch-encoder-fp16", "torch-encoder", TensorProto.FLOAT16), ("mlp-fp16", "mlp", TensorProto.FLOAT16),
       ("oww-embedding-fp16", "oww-embedding", TensorProto.FLOAT16), ("mlp-bf16", "mlp", TensorProto.BFLOAT16),
       ("attention-bf16", "attention", TensorProto.BFLOAT16), ("cnn-bf16", "cnn", TensorProto.BFLOAT16),
       ("masked-fp16", "masked", TensorProto.FLOAT16), ("residual-fp16", "residual", TensorProto.FLOAT16),
       ("modern-fp16", "modern", TensorProto.FLOAT16), ("rounding-fp16", "rounding", TensorProto.FLOAT16),
       ("modern-bf16", "modern", TensorProto.BFLOAT16), ("indices-bf16", "indices", TensorProto.BFLOAT16))


def make(folder):
    import models_more  # it is built with what is above

    folder = Path(folder)
    out, missing = {}, []
    for name, build, family, quantised in MADE + models_more.MADE:
        path = folder / f"{name}.onnx"
        if not path.exists():
            save(build(), path)
        out[name] = Entry(name, path, family, "", quantised, [], True)
    for name, file, family, quantised, args in CACHED:
        if (CACHE / file).exists():
            out[name] = Entry(name, CACHE / file, family, "", quantised, args, True)
        else:
            missing.append(name)
    for name, source, to in LOW:
        if source not in out:
            missing.append(name)
            continue
        path, low = folder / f"{name}.onnx", "fp16" if to == TensorProto.FLOAT16 else "bf16"
        if not path.exists():
            save(convert(onnx.load(out[source].path), to), path)
        e = out[source]
        out[name] = Entry(name, path, f"{e.family} {low}", low, False, e.args, low == "fp16")
    return out, missing

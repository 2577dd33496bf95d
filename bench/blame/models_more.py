"""More models of the localisation benchmark: operators and shapes that models.py has not.

Built like those of models.py; MADE is the list."""

import numpy as np
from onnx import TensorProto, helper

from models import FLOAT, INT64, Net, batch_norm, f32, i64

BOOL = TensorProto.BOOL


def uniform(n, *shape, lo=0.5, hi=1.5):
    return n.const(n.rng.uniform(lo, hi, shape).astype(np.float32))


def vision(seed=21):
    """Resizing, padding, pooling and deconvolution in their less usual forms, LRN, MVN, depth to space."""
    n = Net(seed)
    x = n.input("x", [2, 4, 17, 15])
    x = n.op("Pad", x, n.const(i64(0, 0, 1, 2, 0, 0, 2, 1)), mode="reflect")
    y = n.op("Conv", x, n.weight(8, 2, 3, 3), n.weight(8, scale=0.2), group=2, dilations=[2, 1], strides=[2, 1], pads=[2, 1, 1, 0])
    y = n.op("LRN", y, size=3, alpha=0.3, beta=0.6, bias=1.5)
    y = n.op("MaxPool", y, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], ceil_mode=1)
    z = n.op("ConvTranspose", y, n.weight(8, 6, 3, 3), n.weight(6, scale=0.2), strides=[2, 2], output_padding=[1, 0], pads=[1, 1, 0, 1])
    z = n.op("MeanVarianceNormalization", z, axes=[0, 2, 3])
    z = n.op("Resize", z, "", "", n.const(i64(2, 6, 14, 20)), mode="cubic", cubic_coeff_a=-0.5,
             coordinate_transformation_mode="align_corners")
    z = n.op("AveragePool", z, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    d = n.op("DepthToSpace", n.op("Conv", z, n.weight(8, 6, 1, 1)), blocksize=2, mode="CRD")
    d = n.op("Resize", d, "", n.const(f32(1, 1, 0.5, 0.5)), mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric")
    s = n.op("SpaceToDepth", n.op("Pad", d, n.const(i64(0, 0, 1, 0, 0, 0, 0, 0)), mode="edge"), blocksize=2)
    g = n.op("LpPool", s, kernel_shape=[2, 2], p=2)
    m = n.op("GlobalMaxPool", g)
    a = n.op("GlobalAveragePool", g)
    y = n.op("Sub", n.op("Mul", m, uniform(n, 1, 8, 1, 1)), a)
    y = n.op("Add", g, n.op("HardSigmoid", y, alpha=0.3, beta=0.4))
    n.output(n.op("Elu", y, alpha=0.8), [2, 8, 3, 4])
    return n.model()


def masked(seed=22):
    """Attention with masks made in the graph: Trilu, comparisons, Where, Einsum; CumSum as positions."""
    n = Net(seed)
    t, d, h = 9, 24, 3
    x = n.input("x", [2, t, d])
    pos = n.op("CumSum", n.const(np.ones((t, d), np.float32)), n.const(i64(0)[0]), exclusive=1)
    x = n.op("Add", x, n.op("Sin", n.op("Mul", pos, uniform(n, d, lo=0.05, hi=1.0))))
    c = n.op("LayerNormalization", x, uniform(n, d), n.weight(d, scale=0.1), axis=-1)

    def heads(v):
        v = n.op("Gemm", n.op("Reshape", v, n.const(i64(-1, d))), n.weight(d, d), n.weight(d, scale=0.1), transB=1)
        return n.op("Reshape", v, n.const(i64(2, t, h, d // h)))

    q, k, v = heads(c), heads(c), heads(c)
    s = n.op("Einsum", q, k, equation="bthd,bshd->bhts")
    s = n.op("Mul", s, n.const(np.float32((d // h)**-0.5)))
    rows = n.const(np.arange(t, dtype=np.float32)[:, None])
    cols = n.const(np.arange(t, dtype=np.float32)[None])
    seen = n.op("LessOrEqual", cols, rows)
    near = n.op("Greater", cols, n.op("Sub", rows, n.const(np.float32(5))))
    seen = n.op("And", seen, near)
    s = n.op("Where", seen, s, n.const(np.float32(-3e4)))
    p = n.op("Softmax", s, axis=-1)
    p = n.op("Where", n.op("Not", seen), n.const(np.float32(0)), p)
    o = n.op("Einsum", p, v, equation="bhts,bshd->bthd")
    o = n.op("Reshape", o, n.const(i64(0, 0, d)))
    y = n.op("Add", x, n.op("MatMul", o, n.weight(d, d)))
    low = n.op("Trilu", n.const(n.rng.standard_normal((t, t)).astype(np.float32)), upper=0)
    y = n.op("MatMul", low, y)
    g = n.op("LayerNormalization", y, uniform(n, d), axis=2, epsilon=1e-3)
    u, w = n.op("Split", n.op("MatMul", g, n.weight(d, 4 * d)), n_out=2, axis=2)
    g = n.op("Mul", n.op("Mul", u, n.op("Sigmoid", u)), w)
    y = n.op("Add", y, n.op("MatMul", g, n.weight(2 * d, d)))
    n.output(n.op("LogSoftmax", n.op("MatMul", y, n.weight(d, 11)), axis=2), [2, t, 11])
    return n.model()


def indices(seed=23):
    """Scatter, gather, one-hot, compress, tile, expand, reverse: data that moves by numbers."""
    n = Net(seed)
    x = n.input("x", [6, 10])
    y = n.op("MatMul", x, n.weight(10, 12))
    v, at = n.op("TopK", y, n.const(i64(4)), n_out=2, axis=1, largest=1)
    w = n.op("GatherElements", n.op("Abs", y), at, axis=1)
    m = n.op("ArgMax", y, axis=1, keepdims=0, select_last_index=0)
    hot = n.op("OneHot", m, n.const(i64(12)), n.const(f32(0.25, 2.0)), axis=-1)
    y = n.op("Mul", y, hot)
    y = n.op("ScatterElements", y, at, n.op("Neg", v), axis=1)
    y = n.op("ScatterND", y, n.const(np.array([[0, 1], [3, 7], [5, 11]], np.int64)), n.weight(3, scale=1.0))
    g = n.op("GatherND", y, n.const(np.array([[0], [2], [3], [1]], np.int64)))
    r = n.op("ReverseSequence", g, n.const(i64(3, 12, 7, 1)), batch_axis=0, time_axis=1)
    c = n.op("Compress", r, n.const(np.array([1, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1], bool)), axis=1)
    t = n.op("Tile", c, n.const(i64(1, 2)))
    e = n.op("Expand", n.op("Gather", t, n.const(i64(5)), axis=1), n.const(i64(4, 4)))
    s = n.op("Slice", t, n.const(i64(17)), n.const(i64(-30)), n.const(i64(1)), n.const(i64(-2)))
    z = n.op("Concat", e, s, n.op("Slice", w, n.const(i64(1)), n.const(i64(5)), n.const(i64(0))), axis=1)
    a, b, d = n.op("Split", z, n.const(i64(6, 3, 8)), n_out=3, axis=1)
    z = n.op("Concat", n.op("Max", n.op("Slice", a, n.const(i64(0)), n.const(i64(3)), n.const(i64(1))), b), d, axis=1)
    z = n.op("Gemm", z, n.weight(11, 6), n.weight(6, scale=0.1), alpha=0.7, beta=1.3)
    i = n.op("ArgMin", z, axis=0, keepdims=1)
    n.output(n.op("Softmax", z, axis=0), [4, 6])
    n.output(i, [1, 6], INT64)
    n.output(n.op("CumSum", z, n.const(i64(1)[0]), reverse=1), [4, 6])
    return n.model()


def sequences(seed=24):
    """Bidirectional GRU with lengths, reverse LSTM with peepholes, RNN with other activations, batches in lockstep."""
    n = Net(seed)
    t, b, i, h = 7, 3, 10, 8
    x = n.input("x", [t, b, i])
    lens = n.const(np.array([7, 4, 6], np.int32))
    g, gh = n.op("GRU", x, n.weight(2, 3 * h, i), n.weight(2, 3 * h, h), n.weight(2, 6 * h, scale=0.2), lens, n.weight(2, b, h, scale=0.3),
                 n_out=2, hidden_size=h, direction="bidirectional", linear_before_reset=0)
    f = n.op("ReduceMean", g, axes=[1], keepdims=0)
    l, lh, lc = n.op("LSTM", f, n.weight(1, 4 * h, h), n.weight(1, 4 * h, h), n.weight(1, 8 * h, scale=0.2), "", "", "",
                     n.weight(1, 3 * h, scale=0.2), n_out=3, hidden_size=h, direction="reverse")
    l = n.op("Squeeze", l, n.const(i64(1)))
    r, rh = n.op("RNN", n.op("Add", l, f), n.weight(1, h, h), n.weight(1, h, h), n.weight(1, 2 * h, scale=0.2), n_out=2, hidden_size=h,
                 activations=["Relu"])
    y = n.op("Concat", n.op("Squeeze", r, n.const(i64(1))), l, axis=2)
    n.output(n.op("Tanh", n.op("MatMul", y, n.weight(2 * h, 5))), [t, b, 5])
    n.output(n.op("Add", lh, n.op("Sub", lc, rh)), [1, b, h])
    n.output(gh, [2, b, h])
    return n.model()


def rounding(seed=25):
    """Functions with jumps and the rest of the element-wise ones."""
    n = Net(seed)
    x = n.input("x", [4, 60])
    y = n.op("Mul", x, n.const(np.float32(3.3)))
    a = n.op("Floor", y)
    b = n.op("Sub", n.op("Ceil", y), n.op("Round", y))
    c = n.op("Mul", n.op("Sign", y), n.op("Mod", n.op("Abs", y), n.const(np.float32(1.7)), fmod=1))
    d = n.op("Shrink", y, lambd=0.7, bias=0.2)
    e = n.op("Asinh", d)
    f = n.op("Atan", n.op("Sinh", n.op("Clip", y, n.const(np.float32(-2)), n.const(np.float32(2)))))
    g = n.op("Acos", n.op("Tanh", c))
    k = n.op("Mean", a, b, c, n.op("Add", e, f))
    k = n.op("Min", k, g)
    u = n.op("Cast", n.op("Cast", n.op("Mul", k, n.const(np.float32(10))), to=TensorProto.INT32), to=FLOAT)
    w = n.op("Where", n.op("Or", n.op("Less", u, k), n.op("GreaterOrEqual", k, n.const(np.float32(1)))), u, n.op("Softsign", k))
    p = n.op("Pow", n.op("Abs", w), n.const(np.float32(1.5)))
    h = n.op("Hardmax", p, axis=1)
    s = n.op("ReduceSumSquare", w, axes=[1])
    t = n.op("ReduceProd", n.op("Add", n.op("Mul", w, n.const(np.float32(0.01))), n.const(np.float32(1))), axes=[1])
    v = n.op("ReduceLogSum", n.op("Exp", n.op("Neg", p)), axes=[1])
    q = n.op("ReduceL1", w, axes=[1])
    o = n.op("Concat", s, t, v, q, n.op("ReduceMin", w, axes=[1]), axis=1)
    n.output(n.op("Gemm", n.op("Log", n.op("Add", n.op("Abs", o), n.const(np.float32(1)))), n.weight(5, 5), n.weight(5)), [4, 5])
    n.output(n.op("Add", h, n.op("Erf", w)), [4, 60])
    return n.model()


def qlinear(seed=26):
    """Quantised operators: QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger with zero points."""
    n = Net(seed)
    r = n.rng
    x = n.input("x", [1, 3, 12, 12])

    def scale(s):
        return n.const(np.float32(s))

    u8, i8 = np.uint8, np.int8
    q = n.op("QuantizeLinear", x, scale(0.03), n.const(u8(120)))
    w = r.integers(-127, 127, (6, 3, 3, 3)).astype(i8)
    y = n.op("QLinearConv", q, scale(0.03), n.const(u8(120)), n.const(w), n.const(r.uniform(0.002, 0.004, 6).astype(np.float32)),
             n.const(np.zeros(6, i8)), scale(0.04), n.const(u8(128)), n.const(r.integers(-900, 900, 6).astype(np.int32)), pads=[1, 1, 1, 1],
             strides=[2, 2])
    y = n.op("MaxPool", y, kernel_shape=[2, 2], strides=[1, 1])
    f = n.op("DequantizeLinear", y, scale(0.04), n.const(u8(128)))
    f = n.op("Relu", f)
    m = n.op("Flatten", f)
    a = n.op("QuantizeLinear", m, scale(0.02), n.const(u8(0)))
    w = r.integers(-127, 127, (150, 16)).astype(i8)
    a = n.op("QLinearMatMul", a, scale(0.02), n.const(u8(0)), n.const(w), scale(0.001), n.const(i8(0)), scale(0.03), n.const(u8(131)))
    a = n.op("DequantizeLinear", a, scale(0.03), n.const(u8(131)))
    z, s, zp = n.op("DynamicQuantizeLinear", n.op("Tanh", a), n_out=3)
    w = r.integers(0, 255, (16, 8)).astype(u8)
    z = n.op("MatMulInteger", z, n.const(w), zp, n.const(u8(127)))
    z = n.op("Mul", n.op("Cast", z, to=FLOAT), n.op("Mul", s, scale(0.002)))
    n.output(n.op("Sigmoid", n.op("Add", z, n.weight(8))), [1, 8])
    return n.model()


def nested(seed=27):
    """Loop with an If in its body, Scan backwards, a Loop that stops by itself, weights of the graph around."""
    n = Net(seed)
    x = n.input("x", [5, 6])
    w, b = n.weight(6, 6), n.weight(6, scale=0.2)
    h = n.op("Gemm", x, w, b, alpha=1.1)
    limit = n.const(np.float32(2.5))

    def info(name, dtype, shape):
        return helper.make_tensor_value_info(name, dtype, shape)

    node = helper.make_node
    then = helper.make_graph([node("Mul", ["s", "half"], ["then_o"])], "then", [], [info("then_o", FLOAT, [5, 6])])
    other = helper.make_graph([node("MatMul", ["s", w], ["other_m"]), node("Add", ["other_m", b], ["other_o"])], "other", [],
                              [info("other_o", FLOAT, [5, 6])])
    body = helper.make_graph(
        [node("Constant", [], ["half"], value=helper.make_tensor("v", FLOAT, [], [0.5])), node("ReduceMax", ["s"], ["top"], keepdims=0),
         node("Greater", ["top", limit], ["big"]), node("If", ["big"], ["so"], then_branch=then, else_branch=other),
         node("ReduceL2", ["so"], ["norm"], axes=[1], keepdims=0), node("Less", ["i", n.const(np.int64(3))], ["co"])],
        "loop", [info("i", INT64, []), info("c", BOOL, []), info("s", FLOAT, [5, 6])],
        [info("co", BOOL, []), info("so", FLOAT, [5, 6]), info("norm", FLOAT, [5])])
    s, norms = n.op("Loop", n.const(np.int64(9)), n.const(np.bool_(True)), h, n_out=2, body=body)
    step = helper.make_graph(
        [node("Mul", ["acc", n.const(np.float32(0.9))], ["decayed"]), node("Add", ["decayed", "row"], ["acc_out"]),
         node("Tanh", ["acc_out"], ["row_out"])],
        "scan", [info("acc", FLOAT, [6]), info("row", FLOAT, [6])], [info("acc_out", FLOAT, [6]), info("row_out", FLOAT, [6])])
    acc, rows = n.op("Scan", n.const(np.zeros(6, np.float32)), s, n_out=2, body=step, num_scan_inputs=1, scan_input_directions=[1],
                     scan_output_directions=[1])
    n.output(n.op("Softmax", n.op("Add", rows, acc), axis=1), [5, 6])
    n.output(n.op("ReduceSum", norms, n.const(i64(0)), keepdims=0), [5])
    return n.model()


def modern(seed=28):
    """Opset 23: RMSNormalization, RotaryEmbedding, Attention with grouped heads, Gelu, GroupNormalization."""
    n = Net(seed)
    t, d, h, kv = 8, 32, 4, 2
    x = n.input("x", [2, t, d])
    c = n.op("RMSNormalization", x, uniform(n, d), axis=-1, epsilon=1e-5)
    q = n.op("MatMul", c, n.weight(d, d))
    k = n.op("MatMul", c, n.weight(d, d // 2))
    v = n.op("MatMul", c, n.weight(d, d // 2))
    angle = np.arange(t)[:, None] * (100.0**(-np.arange(4) / 4))[None]
    cos, sin = n.const(np.cos(angle).astype(np.float32)), n.const(np.sin(angle).astype(np.float32))
    ids = n.const(np.tile(np.arange(t, dtype=np.int64), (2, 1)))
    q = n.op("RotaryEmbedding", q, cos, sin, ids, num_heads=h, interleaved=0)
    k = n.op("RotaryEmbedding", k, cos, sin, ids, num_heads=kv, interleaved=0)
    o = n.op("Attention", q, k, v, q_num_heads=h, kv_num_heads=kv, is_causal=1)
    y = n.op("Add", x, n.op("MatMul", o, n.weight(d, d)))
    y = n.op("Add", y, n.op("MatMul", n.op("Gelu", n.op("MatMul", y, n.weight(d, d)), approximate="tanh"), n.weight(d, d)))
    g = n.op("GroupNormalization", n.op("Transpose", y, perm=[0, 2, 1]), uniform(n, d), n.weight(d, scale=0.1), num_groups=4, epsilon=1e-5)
    n.output(n.op("Mish", n.op("ReduceMean", g, n.const(i64(2)), keepdims=0)), [2, d])
    m = n.model(23)
    m.ir_version = 10
    return m


def residual(seed=29):
    """A CNN of the usual kind, wide enough for blocked layouts: Conv, BatchNormalization, Relu, Add, squeeze and excitation."""
    n = Net(seed)
    x = n.input("x", [1, 3, 32, 32])
    x = n.op("Relu", batch_norm(n, n.op("Conv", x, n.weight(16, 3, 3, 3), pads=[1] * 4, strides=[2, 2]), 16))
    for _ in range(2):
        y = n.op("Relu", batch_norm(n, n.op("Conv", x, n.weight(16, 16, 3, 3), pads=[1] * 4), 16))
        y = batch_norm(n, n.op("Conv", y, n.weight(16, 16, 3, 3), pads=[1] * 4), 16)
        x = n.op("Relu", n.op("Add", y, x))
    x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = n.op("Conv", x, n.weight(32, 16, 1, 1), n.weight(32, scale=0.1))
    y = n.op("Mul", y, n.op("Sigmoid", y))
    y = n.op("Conv", y, n.weight(32, 1, 5, 5), n.weight(32, scale=0.1), group=32, pads=[2] * 4)
    y = n.op("Clip", y, n.const(np.float32(0)), n.const(np.float32(6)))
    s = n.op("ReduceMean", y, axes=[2, 3], keepdims=1)
    s = n.op("Relu", n.op("Conv", s, n.weight(8, 32, 1, 1), n.weight(8, scale=0.1)))
    s = n.op("Sigmoid", n.op("Conv", s, n.weight(32, 8, 1, 1), n.weight(32, scale=0.1)))
    y = n.op("Conv", n.op("Mul", y, s), n.weight(16, 32, 1, 1), n.weight(16, scale=0.1))
    x = n.op("Add", x, y)
    x = n.op("Concat", n.op("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4),
             n.op("AveragePool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4), axis=1)
    x = n.op("Reshape", n.op("GlobalAveragePool", x), n.const(i64(1, 32)))
    n.output(n.op("Gemm", x, n.weight(10, 32), n.weight(10, scale=0.1), transB=1), [1, 10])
    return n.model()


MADE = (("vision", vision, "cnn", False), ("masked", masked, "transformer", False), ("indices", indices, "mixed", False),
        ("sequences", sequences, "rnn", False), ("rounding", rounding, "mixed", False), ("qlinear", qlinear, "quantised", True),
        ("nested", nested, "control flow", False), ("modern", modern, "transformer", False), ("residual", residual, "cnn", False))

"""The models that the cases need and that the text form cannot say; make.py writes them to files.
Broken on purpose, so nothing is checked here."""

import random

import onnx
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def value(name, shape=(2,), dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs=("x",), outputs=("y",), initializers=(), opset=17):
    graph = helper.make_graph(nodes, "g", [value(n) for n in inputs], [value(n) for n in outputs],
                              initializers)
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    m.ir_version = 8
    return m.SerializeToString()


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs, outputs, **attrs)


def relu():
    return model([node("Relu", ["x"], ["y"])])


def weights():
    w = helper.make_tensor("w", FLOAT, [2], [1.5, -2.0])
    return model([node("Mul", ["x", "w"], ["y"])], initializers=[w])


def big_weights():
    w = helper.make_tensor("w", FLOAT, [500, 2], [2.0] * 1000)
    return model([node("Mul", ["x", "w"], ["m"]), node("ReduceMax", ["m"], ["y"], axes=[0], keepdims=0)],
                 initializers=[w])


def sparse(shape, indices_shape="1"):
    """y = the sum of a sparse initializer of this shape ("2x3") with one element, 7 at its start."""
    dims, indices = ([int(n) for n in text.split("x")] for text in (shape, indices_shape))
    m = onnx.ModelProto.FromString(model([node("ReduceSum", ["w"], ["y"], keepdims=0)], inputs=()))
    w = m.graph.sparse_initializer.add(dims=dims)
    w.values.CopyFrom(helper.make_tensor("w", FLOAT, [1], [7.0]))
    w.indices.CopyFrom(helper.make_tensor("", TensorProto.INT64, indices, [0] * indices[-1]))
    m.graph.output[0].type.tensor_type.ClearField("shape")
    return m.SerializeToString()


def quantised(form, op="Conv", top=127):
    """x (uint8) times weights (int8 from -top to top), as it stands in a file: `qlinear` one integer operator, `qdq` floats between
    DequantizeLinear and QuantizeLinear. Both have the same values x and y."""
    rng, conv = random.Random(5), op == "Conv"
    draw = [rng.choice((-1, 1)) * rng.randint(int(top) // 2, int(top)) for _ in range(8 * 4 * 9)]
    w = helper.make_tensor("w", TensorProto.INT8, [8, 4, 3, 3] if conv else [36, 8], draw)
    x, y = ((1, 4, 9, 9), (1, 8, 7, 7)) if conv else ((5, 36), (5, 8))
    given = [w] + [helper.make_tensor(n, t, (), [v]) for n, t, v in
                   (("sx", FLOAT, 0.02), ("zx", TensorProto.UINT8, 3), ("sw", FLOAT, 0.01), ("zw", TensorProto.INT8, 0),
                    ("sy", FLOAT, 0.5), ("zy", TensorProto.UINT8, 128))]
    qlinear = {"Conv": "QLinearConv", "MatMul": "QLinearMatMul"}
    if form == "qlinear":
        nodes = [node(qlinear[op], ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"], ["y"])]
    else:
        nodes = [node("DequantizeLinear", ["x", "sx", "zx"], ["dx"]), node("DequantizeLinear", ["w", "sw", "zw"], ["dw"]),
                 node(op, ["dx", "dw"], ["p"]), node("Relu", ["p"], ["r"]) if form == "relu" else node("Identity", ["p"], ["r"]),
                 node("QuantizeLinear", ["r", "sy", "zy"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", x, TensorProto.UINT8)], [value("y", y, TensorProto.UINT8)], given)
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    m.ir_version = 8
    return m.SerializeToString()


def cycle():
    return model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]),
                  node("Neg", ["b"], ["y"])])


def duplicate_value():
    return model([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])])


def unknown_op():
    m = onnx.ModelProto.FromString(model(
        [helper.make_node("Frobnicate", ["x"], ["y"], name="n1", domain="com.example")]))
    m.opset_import.append(helper.make_opsetid("com.example", 3))
    return m.SerializeToString()


def unknown_op_onnx():
    return model([node("Frobnicate", ["x"], ["y"])], opset=17)


def missing_value():
    return model([node("Add", ["x", "nowhere"], ["y"])])


def too_few_inputs():
    return model([node("Add", ["x"], ["y"])])


def external(location):
    w = TensorProto(name="w", data_type=FLOAT, dims=[2])
    w.data_location = TensorProto.EXTERNAL
    w.external_data.add(key="location", value=location)
    return model([node("Mul", ["x", "w"], ["y"])], initializers=[w])


def huge_initializer():
    w = TensorProto(name="w", data_type=FLOAT, dims=[1 << 40, 1 << 40], raw_data=b"12345678")
    return model([node("Mul", ["x", "w"], ["y"])], initializers=[w])


def negative_dim():
    w = TensorProto(name="w", data_type=FLOAT, dims=[-2], raw_data=b"12345678")
    return model([node("Mul", ["x", "w"], ["y"])], initializers=[w])


def huge_shape():
    shape = helper.make_tensor("s", TensorProto.INT64, [3], [1 << 31, 1 << 31, 1 << 31])
    return model([node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])],
                 initializers=[shape])


def no_type():
    m = onnx.ModelProto.FromString(relu())
    m.graph.input[0].ClearField("type")
    return m.SerializeToString()


def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def head(number, size):
    return varint(number << 3 | 2) + varint(size)


def field(number, data):
    return head(number, len(data)) + data


def deep_nesting(depth=10000):
    """If in If in If … Python's protobuf refuses to build it, so its bytes are laid by hand."""
    rest = field(1, b"c") + field(2, b"y") + field(4, b"If")  # NodeProto: input, output, op_type
    body = field(1, field(1, b"c") + field(2, b"y") + field(4, b"Identity"))
    before, after, size = [], [], len(body)  # what surrounds it, from the inside out: copying it each time would be quadratic
    for _ in range(depth):
        attr = field(1, b"then_branch") + head(6, size)
        node = rest + head(5, len(attr) + size + 3) + attr
        before += [node, head(1, len(node) + size + 3)]
        after.append(b"\xa0\x01\x05")
        size += len(node) + 3 + len(before[-1])
    body = b"".join(before[::-1]) + body + b"".join(after)
    graph = body + field(2, b"g")
    for number, name in ((11, b"c"), (12, b"y")):
        graph += field(number, field(1, name) + field(2, field(1, b"\x08\x09" + field(2, b""))))
    return b"\x08\x08" + field(7, graph) + field(8, field(1, b"") + b"\x10\x11")


def made(kind):
    name, _, argument = kind.partition(":")
    make = globals()[name]
    return make(*argument.split(",")) if argument else make()

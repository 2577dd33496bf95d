"""Changes one node of a model: a weight element, a channel, all of a weight by 1.02, an attribute, the operator.

`mutants(model, kind)` lists (node index, what); `mutate(model, kind, index, rng)` returns a copy and the names of the values
whose nodes were changed, or None when the change does not fit there."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models import to_bf16

KINDS = ("weight-element", "weight-channel", "weight-scale", "attribute", "operator")

SWAPS = {
    "Relu": "Abs", "LeakyRelu": "Relu", "Sigmoid": "HardSigmoid", "Tanh": "Softsign", "Add": "Sub", "Sub": "Add", "Mul": "Add",
    "Div": "Mul", "Erf": "Tanh", "Exp": "Softplus", "MaxPool": "AveragePool", "GlobalAveragePool": "GlobalMaxPool",
    "ReduceMean": "ReduceMax", "ReduceL2": "ReduceL1", "ReduceMax": "ReduceMin", "Softmax": "Hardmax", "LogSoftmax": "Softmax",
    "Max": "Min", "Greater": "Less", "Sin": "Cos", "Cos": "Sin", "Sqrt": "Abs", "Floor": "Ceil", "ArgMax": "ArgMin",
    "HardSwish": "Relu", "Neg": "Identity", "Log": "Sqrt", "Softplus": "Relu", "Reciprocal": "Neg", "Elu": "LeakyRelu",
    "Abs": "Neg", "Pow": "Mul",
}
# How an attribute changes without changing a shape: old value (None = absent) to new value, or None = it does not fit.
CHANGES = {
    "LeakyRelu": ("alpha", lambda a: (0.01 if a is None else a) * 1.5), "Elu": ("alpha", lambda a: (1.0 if a is None else a) * 1.1),
    "Celu": ("alpha", lambda a: (1.0 if a is None else a) * 1.1), "Selu": ("gamma", lambda a: 1.1),
    "HardSigmoid": ("alpha", lambda a: (0.2 if a is None else a) * 1.1), "ThresholdedRelu": ("alpha", lambda a: -0.1),
    "Gemm": ("alpha", lambda a: (1.0 if a is None else a) * 1.02), "Softmax": ("axis", lambda a: 0 if a != 0 else -1),
    "LogSoftmax": ("axis", lambda a: 0 if a != 0 else -1),
    "BatchNormalization": ("epsilon", lambda a: 0.1), "InstanceNormalization": ("epsilon", lambda a: 0.1),
    "LayerNormalization": ("epsilon", lambda a: 0.1),
    "Conv": ("pads", lambda a: None if not a or a[0] < 1 else [a[0] - (i == 0) * 1 if i < 1 else v + (i == len(a) // 2)
                                                               for i, v in enumerate(a)]),
    "AveragePool": ("count_include_pad", lambda a: 0 if a else 1), "Resize": ("mode", lambda a: b"nearest"),
    "TopK": ("largest", lambda a: 0), "CumSum": ("reverse", lambda a: 1), "LpNormalization": ("p", lambda a: 1),
    "GRU": ("linear_before_reset", lambda a: 0 if a else 1), "RNN": ("activations", lambda a: [b"Relu"]),
    "LSTM": ("clip", lambda a: 0.3), "Pad": ("mode", lambda a: b"reflect"),
}
WEIGHTED = {"Conv": (1, 2), "ConvTranspose": (1,), "Gemm": (1, 2), "MatMul": (1, 0), "LSTM": (1, 2, 3), "GRU": (1, 2, 3), "RNN": (1, 2),
            "BatchNormalization": (1, 2, 3, 4), "Add": (1, 0), "Mul": (1, 0), "LayerNormalization": (1, 2), "PRelu": (1,),
            "InstanceNormalization": (1, 2), "DequantizeLinear": (0, 1), "QuantizeLinear": (1,), "MatMulInteger": (1,),
            "ConvInteger": (1,), "Gather": (0,)}
NUMERIC = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32)


def find_weight(graph, node, rng):
    """(input position, TensorProto, Constant node or None) of a weight that only this node uses."""
    inits = {t.name: t for t in graph.initializer}
    made = {n.output[0]: n for n in graph.node if n.op_type == "Constant"}
    ways = [k for k in WEIGHTED.get(node.op_type, ()) if k < len(node.input) and node.input[k]]
    rng.shuffle(ways)
    for k in ways:
        name = node.input[k]
        if name in inits:
            return k, inits[name], None
        constant = made.get(name)
        users = sum(name in n.input for n in graph.node)
        tensor = next((a.t for a in constant.attribute if a.name == "value"), None) if constant else None
        if tensor is not None and users == 1:
            return k, tensor, constant
    return None


def read(t):
    if t.data_type == TensorProto.BFLOAT16:
        raw = np.frombuffer(t.raw_data, np.uint16).astype(np.uint32) << 16
        return raw.view(np.float32).reshape(t.dims).copy()
    return numpy_helper.to_array(t).copy()


def write(x, like, name):
    if like.data_type == TensorProto.BFLOAT16:
        return TensorProto(name=name, data_type=like.data_type, dims=x.shape, raw_data=to_bf16(x).tobytes())
    return numpy_helper.from_array(x, name)


def change_weight(kind, x, rng):
    if x.size == 0:
        return None
    whole = x.astype(np.float64)
    rms = max(np.sqrt((whole**2).mean()), 1e-6)
    if kind == "weight-element":
        at = rng.randrange(x.size)
        whole.flat[at] += (2 if whole.flat[at] < 0 else -2) * rms
    elif kind == "weight-channel":
        axis = 0 if x.ndim != 2 else rng.randrange(2)
        if x.ndim == 0 or x.shape[axis] < 2:
            return None
        index = [slice(None)] * x.ndim
        index[axis] = rng.randrange(x.shape[axis])
        whole[tuple(index)] = whole[tuple(index)] * 1.5 + 0.1 * rms
    else:
        whole *= 1.02
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        whole = np.clip(np.rint(whole), info.min, info.max)
    y = whole.astype(x.dtype)
    return None if np.array_equal(x, y) else y


def attribute(node, name):
    for a in node.attribute:
        if a.name == name:
            return helper.get_attribute_value(a)
    return None


def change_node(kind, node):
    if kind == "operator":
        if node.op_type not in SWAPS or (node.op_type in ("MaxPool", "TopK") and len(node.output) > 1):
            return False
        other = SWAPS[node.op_type]
        for a in list(node.attribute):
            drop = {"MaxPool": ("dilations", "storage_order"), "LeakyRelu": ("alpha",)}.get(node.op_type, ())
            if a.name in drop:
                node.attribute.remove(a)
        if other == "Hardmax" and attribute(node, "axis") is None:
            node.attribute.append(helper.make_attribute("axis", -1))
        node.op_type = other
        return True
    if node.op_type not in CHANGES:
        return False
    name, fn = CHANGES[node.op_type]
    old = attribute(node, name)
    new = fn(old)
    if new is None or new == old:
        return False
    if node.op_type == "Resize" and old not in (b"linear", b"cubic"):
        return False
    for a in list(node.attribute):
        if a.name == name:
            node.attribute.remove(a)
    node.attribute.append(helper.make_attribute(name, new))
    return True


def candidates(model, kind):
    """Indices of nodes of the main graph where the change may fit."""
    table = SWAPS if kind == "operator" else CHANGES if kind == "attribute" else WEIGHTED
    return [i for i, n in enumerate(model.graph.node) if n.op_type in table]


def holds_codes(graph, name):
    """Whether the value comes from a quantising operator."""
    return any(name in n.output and ("QLinear" in n.op_type or "QuantizeLinear" in n.op_type) and n.op_type != "DequantizeLinear"
               for n in graph.node)


def mutate(model, kind, index, rng):
    m = onnx.ModelProto()
    m.CopyFrom(model)
    node = m.graph.node[index]
    planted = [o for o in node.output if o]
    if kind == "operator" and node.op_type == "MaxPool" and holds_codes(m.graph, node.input[0]):
        return None  # AveragePool takes no integers
    if kind in ("operator", "attribute"):
        return (m, planted) if change_node(kind, node) else None
    found = find_weight(m.graph, node, rng)
    if found is None or found[1].data_type not in NUMERIC:
        return None
    k, tensor, constant = found
    x = change_weight(kind, read(tensor), rng)
    if x is None:
        return None
    if constant is not None:
        tensor.CopyFrom(write(x, tensor, tensor.name))
        return m, planted + list(constant.output)
    name = f"{node.input[k]}_changed"
    m.graph.initializer.append(write(x, tensor, name))
    node.input[k] = name
    return m, planted

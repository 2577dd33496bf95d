#!/usr/bin/python3
"""Models for the web tests.   models.py OUT.onnx small | hostile | chain N | sourced IN.onnx | other"""

import sys

import numpy as np
from onnx import TensorProto, checker, helper, load, numpy_helper, save


def weight(name, shape, seed):
    return numpy_helper.from_array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / 3, name)


def make(nodes, inits, inputs, outputs, path):
    graph = helper.make_graph(nodes, "g", inputs, outputs, inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    save(model, path)
    return model


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def small(path):
    """Two blocks of Conv, Relu, Conv, Add with scope names as torch writes them."""
    nodes, inits, at = [], [], "x"
    for b in range(2):
        p = f"/blocks.{b}"
        for k in (1, 2):
            inits.append(weight(f"blocks.{b}.conv{k}.weight", (8, 8, 3, 3), 10 * b + k))
        conv = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        out = [f"{p}/conv1/Conv_output_0", f"{p}/act/Relu_output_0", f"{p}/conv2/Conv_output_0", f"{p}/Add_output_0"]
        nodes += [helper.make_node("Conv", [at, f"blocks.{b}.conv1.weight"], [out[0]], name=f"{p}/conv1/Conv", **conv),
                  helper.make_node("Relu", [out[0]], [out[1]], name=f"{p}/act/Relu"),
                  helper.make_node("Conv", [out[1], f"blocks.{b}.conv2.weight"], [out[2]], name=f"{p}/conv2/Conv", **conv),
                  helper.make_node("Add", [out[2], at], [out[3]], name=f"{p}/Add")]
        at = out[3]
    nodes.append(helper.make_node("Softmax", [at], ["y"], name="/head/Softmax", axis=1))
    nodes.append(helper.make_node("Tanh", ["x"], ["z"], name="/side/Tanh"))
    shape = [1, 8, 40, 24]
    checker.check_model(make(nodes, inits, [value("x", shape)], [value("y", shape), value("z", shape)], path))


HOSTILE = ["<img src=x onerror=window.pwned=1>", "</script><script>window.pwned=2</script>", "../../../etc/passwd", "\x01\x07\x1b[31m\u202eevil",
           "javascript:window.pwned=3", "' onclick='window.pwned=4", "m" * (1 << 20)]


def hostile(path):
    nodes, at = [], "x"
    for i, name in enumerate(HOSTILE):
        nodes.append(helper.make_node("Mul", [at, "w"], [name], name=f"/{name}/{i}/Mul", doc_string=f"{name}(12): <b>forward</b>\n"))
        at = name
    nodes.append(helper.make_node("Relu", [at], ["y"], name="/Relu"))
    make(nodes, [numpy_helper.from_array(np.float32([1.5]), "w")], [value("x", [2, 3])], [value("y", [2, 3])], path)


def chain(path, n):
    """n nodes in modules of ten, with a mask that feeds every block."""
    nodes, at = [helper.make_node("Relu", ["x"], ["mask"], name="/mask/Relu")], "x"
    for i in range(n - 1):
        out = f"/layers.{i // 100}/block.{i // 10 % 10}/v{i}" if i < n - 2 else "y"
        name = f"/layers.{i // 100}/block.{i // 10 % 10}/op{i}"
        nodes.append(helper.make_node("Add", [at, "mask"], [out], name=name) if i % 10 == 9 else helper.make_node("Tanh", [at], [out], name=name))
        at = out
    make(nodes, [], [value("x", [2, 4])], [value("y", [2, 4])], path)


def sourced(path, given):
    """The model as an exporter leaves it that notes the program's lines: node i comes from line i + 1 of net.py."""
    model = load(given)
    for i, node in enumerate(model.graph.node):
        node.doc_string = f"/home/somebody/project/net.py({i + 1}): step_{i}\n"
    save(model, path)


def other(path):
    """small() as somebody else wrote it: other names, Relu as Max, and a scale that small() has not."""
    small(path)
    model = load(path)
    graph = model.graph
    names = {"/blocks.1/conv1/Conv_output_0": "features"}
    for node in list(graph.node):
        node.input[:] = [names.get(x, x) for x in node.input]
        node.output[:] = [names.get(x, x) for x in node.output]
        if node.op_type == "Relu" and node.name.startswith("/blocks.0"):
            node.op_type = "Max"
            node.input.append("zero")
    graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    graph.initializer.append(numpy_helper.from_array(np.float32(1), "one"))
    at = next(i for i, n in enumerate(graph.node) if n.name == "/side/Tanh")
    graph.node[at].input[0] = "scaled"
    graph.node.insert(at, helper.make_node("Mul", ["x", "one"], ["scaled"], name="/side/Mul"))
    save(model, path)


kind = sys.argv[2]
if kind == "chain":
    chain(sys.argv[1], int(sys.argv[3]))
elif kind == "sourced":
    sourced(sys.argv[1], sys.argv[3])
else:
    {"small": small, "hostile": hostile, "other": other}[kind](sys.argv[1])

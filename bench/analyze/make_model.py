#!/usr/bin/python3
"""Writes a model whose intermediate values sum to GIGABYTES: cheap operators on large feature maps.

  bench/analyze/make_model.py OUT.onnx [GIGABYTES]

Depthwise Conv, Add with what was there two steps before, Relu and Mul in turn on [1,16,512,512]: 16 MB for each value."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 16, 512, 512)


def make(n_values, seed=1):
    rng = np.random.default_rng(seed)
    nodes, inits, last, before = [], [], "x", "x"
    gain = numpy_helper.from_array(np.float32(0.7), "gain")
    for i in range(n_values):
        name, kind = f"v{i}", i % 4
        if kind == 0:
            w = (rng.standard_normal((SHAPE[1], 1, 3, 3)) / 3).astype(np.float32)
            inits.append(numpy_helper.from_array(w, f"w{i}"))
            nodes.append(helper.make_node("Conv", [last, f"w{i}"], [name], group=SHAPE[1], pads=[1, 1, 1, 1]))
        elif kind == 1:
            nodes.append(helper.make_node("Relu", [last], [name]))
        elif kind == 2:
            nodes.append(helper.make_node("Add", [last, before], [name]))
        else:
            nodes.append(helper.make_node("Mul", [last, "gain"], [name]))
            before = name
        last = name
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"]))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "large", [info("x", TensorProto.FLOAT, SHAPE)], [info("y", TensorProto.FLOAT, [1, SHAPE[1], 1, 1])],
                              inits + [gain])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


if __name__ == "__main__":
    size = float(sys.argv[2]) if len(sys.argv) > 2 else 4
    onnx.save(make(int(size * 2**30 / (4 * np.prod(SHAPE)))), sys.argv[1])

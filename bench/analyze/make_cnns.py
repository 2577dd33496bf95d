#!/usr/bin/python3
"""Writes CNNs of the model zoo without their weights, as ONNX's `light` test data does: every weight is a ConstantOfShape.

  bench/analyze/make_cnns.py FOLDER [NAME…]

vgg19, resnet50, squeezenet: the graphs of 2017 (Conv, BatchNormalization, Sum, Dropout). ssd: ten nodes of a detector on three
pictures. The value of a weight is 1 over its fan-in, so that activations neither vanish nor overflow; biases are zero."""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    def __init__(self):
        self.nodes, self.inits, self.n = [], [], 0

    def op(self, kind, *inputs, **attrs):
        self.n += 1
        name = f"{kind.lower()}_{self.n}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attrs))
        return name

    def weight(self, *shape, value=None):
        """A tensor of one value, made by a node."""
        self.n += 1
        fan = float(np.prod(shape[1:])) if len(shape) > 1 else 1.0
        value = 1.0 / fan if value is None else value
        dims = f"shape_{self.n}"
        self.inits.append(numpy_helper.from_array(np.array(shape, np.int64), dims))
        return self.op("ConstantOfShape", dims, value=helper.make_tensor("value", TensorProto.FLOAT, [1], [value]))

    def conv(self, x, ci, co, k, stride=1, pad=None, bias=True):
        pad = k // 2 if pad is None else pad
        more = [self.weight(co, value=0.0)] if bias else []
        return self.op("Conv", x, self.weight(co, ci, k, k), *more, kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4)

    def norm(self, x, c):
        args = [self.weight(c, value=v) for v in (1.0, 0.0, 0.0, 1.0)]
        return self.op("BatchNormalization", x, *args, epsilon=1e-5)

    def flat(self, x, n):
        self.inits.append(numpy_helper.from_array(np.array([1, n], np.int64), f"flat_{self.n}"))
        return self.op("Reshape", x, f"flat_{self.n}")

    def dense(self, x, ci, co):
        return self.op("Gemm", x, self.weight(co, ci), self.weight(co, value=0.0), transB=1)

    def save(self, path, shape, outputs):
        info = helper.make_tensor_value_info
        out = [info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, path.stem, [info("data_0", TensorProto.FLOAT, shape)], out, self.inits)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)])
        model.ir_version = 8
        onnx.save(model, str(path))


def vgg19(path):
    net, x, ci = Net(), "data_0", 3
    for co, n in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(n):
            x, ci = net.op("Relu", net.conv(x, ci, co, 3)), co
        x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.flat(x, 512 * 49)
    for ci, co in ((512 * 49, 4096), (4096, 4096)):
        x = net.op("Dropout", net.op("Relu", net.dense(x, ci, co)), ratio=0.5)
    net.save(path, [1, 3, 224, 224], [net.op("Softmax", net.dense(x, 4096, 1000), axis=1)])


def resnet50(path):
    net = Net()
    x = net.op("Relu", net.norm(net.conv("data_0", 3, 64, 7, 2, bias=False), 64))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    ci = 64
    for stage, n in enumerate((3, 4, 6, 3)):
        mid = 64 << stage
        for block in range(n):
            stride = 2 if stage > 0 and block == 0 else 1
            y = net.op("Relu", net.norm(net.conv(x, ci, mid, 1, stride, bias=False), mid))
            y = net.op("Relu", net.norm(net.conv(y, mid, mid, 3, bias=False), mid))
            y = net.norm(net.conv(y, mid, 4 * mid, 1, bias=False), 4 * mid)
            if block == 0:
                x = net.norm(net.conv(x, ci, 4 * mid, 1, stride, bias=False), 4 * mid)
            x, ci = net.op("Relu", net.op("Sum", y, x)), 4 * mid
    x = net.flat(net.op("AveragePool", x, kernel_shape=[7, 7]), 2048)
    net.save(path, [1, 3, 224, 224], [net.op("Softmax", net.dense(x, 2048, 1000), axis=1)])


def squeezenet(path):
    net = Net()
    x, ci = net.op("Relu", net.conv("data_0", 3, 64, 3, 2, 0)), 64
    for kind, mid, co in ((1, 16, 64), (0, 16, 64), (1, 32, 128), (0, 32, 128), (1, 48, 192), (0, 48, 192), (0, 64, 256), (0, 64, 256)):
        if kind:
            x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])
        s = net.op("Relu", net.conv(x, ci, mid, 1))
        x = net.op("Concat", net.op("Relu", net.conv(s, mid, co, 1)), net.op("Relu", net.conv(s, mid, co, 3)), axis=1)
        ci = 2 * co
    x = net.op("Relu", net.conv(net.op("Dropout", x, ratio=0.5), ci, 1000, 1))
    net.save(path, [1, 3, 224, 224], [net.op("Softmax", net.op("GlobalAveragePool", x), axis=1)])


def ssd(path):
    """Ten nodes: three convolutions, three activations, two pools, scores and boxes."""
    net, rng = Net(), np.random.default_rng(1)

    def conv(x, ci, co, k, **attrs):
        w = (rng.standard_normal((co, ci, k, k)) / np.sqrt(ci * k * k)).astype(np.float32)
        net.inits.append(numpy_helper.from_array(w, f"w_{net.n}"))
        return net.op("Conv", x, f"w_{net.n}", kernel_shape=[k, k], pads=[k // 2] * 4, **attrs)

    x = net.op("Relu", conv("data_0", 3, 64, 3))
    x = net.op("MaxPool", net.op("Relu", conv(x, 64, 64, 3)), kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("MaxPool", net.op("Relu", conv(x, 64, 256, 3)), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    net.save(path, [3, 3, 300, 300], [conv(x, 256, 84, 1), conv(x, 256, 16, 1)])


NETS = {"vgg19": vgg19, "resnet50": resnet50, "squeezenet": squeezenet, "ssd": ssd}

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[2:] or NETS:
        NETS[name](Path(sys.argv[1]) / f"light_{name}.onnx")

#!/usr/bin/python3
"""The gradient rule of each operator against PyTorch's autograd: a model of one node, `convert --backward=joint`, `run`, with a
random gradient for the output. In fp64: 1e-9 + 1e-7 |g|. In float32: no further from PyTorch's fp64 gradient than 4 times
PyTorch's own float32, plus 2e-6 of its size. Prints TAP; `-k NAME` picks cases."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
import torchvision
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional as F

import nets

OPSET = 26
ABSOLUTE, RELATIVE = 1e-9, 1e-7
NOISE, FLOOR = 4, 2e-6
TYPES = {"f64": (TensorProto.DOUBLE, np.float64, torch.float64), "f32": (TensorProto.FLOAT, np.float32, torch.float32)}


class Const:
    """An input that takes no gradient: an initialiser."""

    def __init__(self, *values, dtype=np.int64):
        one = len(values) == 1 and (np.ndim(values[0]) > 0 or isinstance(values[0], np.generic))
        self.array = np.array(values[0] if one else list(values), dtype)


class Given(Const):
    """An input of the graph that takes no gradient: integers."""


class Weights(Const):
    """The same, in the type of the other inputs."""


RANDOM = np.random.default_rng(11)


def normal(*shape):
    return RANDOM.standard_normal(shape)


def between(lo, hi, *shape):
    return RANDOM.uniform(lo, hi, shape)


def apart(*shape):
    """Values that differ by at least 0.1, in random order: no ties, no kinks within rounding."""
    n = int(np.prod(shape))
    return (RANDOM.permutation(n) - n / 2 + 0.3).reshape(shape) * 0.1


CASES = []  # (name, op, inputs, torch function, attributes)


def case(op, inputs, fn, label="", **attributes):
    CASES.append((op + (f" {label}" if label else ""), op, inputs, fn, attributes))


def unary(op, fn, x=None, **attributes):
    case(op, [normal(3, 4) if x is None else x], fn, **attributes)


f32 = lambda v: float(np.float32(v))  # attributes of ONNX are floats  # noqa: E731

unary("Abs", torch.abs, apart(3, 4))
unary("Acos", torch.acos, between(-0.9, 0.9, 3, 4))
unary("Acosh", torch.acosh, between(1.2, 4, 3, 4))
unary("Asin", torch.asin, between(-0.9, 0.9, 3, 4))
unary("Asinh", torch.asinh)
unary("Atan", torch.atan)
unary("Atanh", torch.atanh, between(-0.9, 0.9, 3, 4))
unary("Ceil", torch.ceil)
unary("Cos", torch.cos)
unary("Cosh", torch.cosh)
unary("Elu", lambda x: F.elu(x, 0.75), apart(3, 4), alpha=0.75)
unary("Erf", torch.erf)
unary("Exp", torch.exp)
unary("Floor", torch.floor)
unary("Gelu", lambda x: F.gelu(x))
case("Gelu", [normal(3, 4)], lambda x: F.gelu(x, approximate="tanh"), "tanh", approximate="tanh")
unary("HardSigmoid", lambda x: torch.clamp(x * 0.25 + 0.5, 0, 1), apart(3, 12), alpha=0.25, beta=0.5)
unary("HardSwish", F.hardswish, apart(7, 12))
unary("Identity", lambda x: x * 1)
unary("LeakyRelu", lambda x: F.leaky_relu(x, 0.125), apart(3, 4), alpha=0.125)
unary("Log", torch.log, between(0.2, 3, 3, 4))
unary("Mish", F.mish)
unary("Neg", torch.neg)
unary("Reciprocal", torch.reciprocal, between(0.3, 3, 3, 4))
unary("Relu", torch.relu, apart(3, 4))
unary("Round", torch.round)
unary("Selu", lambda x: f32(1.05070102214813232421875) * torch.where(x > 0, x, f32(1.67326319217681884765625) * torch.expm1(x)),
      apart(3, 4))
unary("Shrink", lambda x: torch.where(x < -0.5, x + 0.25, torch.where(x > 0.5, x - 0.25, x * 0)), apart(3, 8), lambd=0.5, bias=0.25)
unary("Sigmoid", torch.sigmoid)
unary("Sign", torch.sign)
unary("Sin", torch.sin)
unary("Sinh", torch.sinh)
unary("Softplus", F.softplus)
unary("Softsign", F.softsign)
unary("Sqrt", torch.sqrt, between(0.2, 3, 3, 4))
unary("Swish", lambda x: x * torch.sigmoid(x * 1.5), alpha=1.5)
unary("Tan", torch.tan, between(-1.2, 1.2, 3, 4))
unary("Tanh", torch.tanh)
unary("ThresholdedRelu", lambda x: torch.where(x > 0.5, x, x * 0), apart(3, 8), alpha=0.5)
unary("Celu", lambda x: torch.clamp(x, min=0) + torch.clamp(0.5 * torch.expm1(x / 0.5), max=0), apart(3, 4), alpha=0.5)

case("Add", [normal(2, 3, 4), normal(3, 1)], torch.add)
case("Sub", [normal(3, 1), normal(2, 3, 4)], torch.sub)
case("Mul", [normal(2, 1, 4), normal(3, 1)], torch.mul)
case("Div", [normal(2, 3, 4), between(0.5, 2, 4)], torch.div)
case("Pow", [between(0.3, 2, 2, 3), normal(3)], torch.pow)
case("Pow", [normal(2, 3), Const(2.0, 3.0, 1.0, dtype=np.float32)], lambda x: torch.pow(x, torch.tensor([2.0, 3.0, 1.0], dtype=x.dtype)),
     "constant exponent")
case("Mod", [apart(3, 4), between(0.31, 0.39, 4)], torch.fmod, fmod=1)
case("Max", [apart(2, 3), apart(1, 3) + 0.05, apart(2, 1) + 0.02], lambda *x: torch.maximum(torch.maximum(x[0], x[1]), x[2]))
case("Min", [apart(2, 3), apart(1, 3) + 0.05], torch.minimum)
case("Mean", [normal(2, 3), normal(1, 3), normal(2, 1)], lambda a, b, c: (a + b + c) / 3)
case("Sum", [normal(2, 3), normal(3), normal(2, 1)], lambda a, b, c: a + b + c)
case("PRelu", [apart(2, 3, 4), normal(3, 1)], lambda x, s: torch.where(x > 0, x, x * s))
case("Where", [Const([[True, False, True]], dtype=np.bool_), normal(2, 3), normal(2, 1)],
     lambda a, b: torch.where(torch.tensor([[True, False, True]]), a, b))
case("Einsum", [normal(2, 3, 4), normal(4, 5, 3)], lambda a, b: torch.einsum("bij,jki->bk", a, b), equation="bij,jki->bk")
case("MatMul", [normal(2, 1, 3, 4), normal(5, 4, 2)], torch.matmul)
case("MatMul", [normal(4), normal(3, 4, 2)], torch.matmul, "vector")
case("Gemm", [normal(4, 3), normal(2, 4), normal(1, 2)], lambda a, b, c: 0.5 * (a.T @ b.T) + 0.25 * c, transA=1, transB=1, alpha=0.5,
     beta=0.25)
case("Det", [normal(2, 3, 3)], torch.linalg.det)

REDUCE = {
    "ReduceSum": lambda x, d, k: x.sum(d, keepdim=k), "ReduceMean": lambda x, d, k: x.mean(d, keepdim=k),
    "ReduceL1": lambda x, d, k: x.abs().sum(d, keepdim=k), "ReduceL2": lambda x, d, k: (x * x).sum(d, keepdim=k).sqrt(),
    "ReduceLogSum": lambda x, d, k: x.sum(d, keepdim=k).log(), "ReduceLogSumExp": lambda x, d, k: x.logsumexp(d, keepdim=k),
    "ReduceSumSquare": lambda x, d, k: (x * x).sum(d, keepdim=k), "ReduceMax": lambda x, d, k: x.amax(d, keepdim=k),
    "ReduceMin": lambda x, d, k: x.amin(d, keepdim=k),
}
for _op, _fn in REDUCE.items():
    _x = between(0.2, 2, 2, 3, 4) if _op == "ReduceLogSum" else apart(2, 3, 4)
    case(_op, [_x, Const(0, -1)], lambda x, f=_fn: f(x, (0, 2), True), keepdims=1)
    case(_op, [_x, Const([1])], lambda x, f=_fn: f(x, (1,), False), "dropped axis", keepdims=0)
case("ReduceProd", [between(0.5, 2, 2, 3, 4), Const([1])], lambda x: x.prod(1), keepdims=0)
case("ReduceProd", [np.array([[0.0, 2, 3], [0, 0, 4], [1, 2, 5]]), Const([1])], lambda x: x.prod(1), "zeros", keepdims=0)
case("CumSum", [normal(3, 4), Const(np.int64(1))], lambda x: x.cumsum(1))
case("CumProd", [between(0.5, 2, 3, 4), Const(np.int64(1))], lambda x: x.cumprod(1))

case("Softmax", [normal(2, 3, 4)], lambda x: x.softmax(1), axis=1)
case("LogSoftmax", [normal(2, 3, 4)], lambda x: x.log_softmax(-1), axis=-1)
case("LayerNormalization", [normal(2, 3, 4), normal(3, 4), normal(3, 4)], lambda x, s, b: F.layer_norm(x, (3, 4), s, b, 1e-3),
     axis=1, epsilon=f32(1e-3))
case("RMSNormalization", [normal(2, 3, 4), normal(4)], lambda x, s: x * (x.square().mean(-1, keepdim=True) + f32(1e-3)).rsqrt() * s,
     epsilon=f32(1e-3))
case("GroupNormalization", [normal(2, 4, 3, 3), normal(4), normal(4)], lambda x, s, b: F.group_norm(x, 2, s, b, f32(1e-3)),
     num_groups=2, epsilon=f32(1e-3))
case("InstanceNormalization", [normal(2, 3, 4, 4), normal(3), normal(3)], lambda x, s, b: F.instance_norm(x, weight=s, bias=b,
     eps=f32(1e-3)), epsilon=f32(1e-3))
case("BatchNormalization", [normal(2, 3, 4), normal(3), normal(3), normal(3), between(0.5, 2, 3)],
     lambda x, s, b, m, v: (x - m[:, None]) * (v[:, None] + f32(1e-3)).rsqrt() * s[:, None] + b[:, None], epsilon=f32(1e-3))
case("LpNormalization", [normal(3, 4)], lambda x: x / x.norm(2, -1, keepdim=True), axis=-1, p=2)
case("LRN", [normal(2, 6, 3, 3)], lambda x: F.local_response_norm(x, 3, f32(0.01), f32(0.75), 1.5), size=3, alpha=f32(0.01),
     beta=f32(0.75), bias=1.5)
case("MeanVarianceNormalization", [normal(2, 3, 4, 4)], lambda x: (x - x.mean((0, 2, 3), keepdim=True)) /
     (x.square().mean((0, 2, 3), keepdim=True) - x.mean((0, 2, 3), keepdim=True).square()).sqrt())

case("Conv", [normal(2, 4, 7, 6), normal(6, 2, 3, 2), normal(6)], lambda x, w, b: F.conv2d(F.pad(x, (1, 0, 2, 1)), w, b, (2, 1), 0, (1, 2), 2),
     group=2, strides=[2, 1], dilations=[1, 2], pads=[2, 1, 1, 0])
case("Conv", [normal(1, 2, 9), normal(3, 2, 3), normal(3)], lambda x, w, b: F.conv1d(x, w, b, dilation=2), "1d dilated", dilations=[2])
case("ConvTranspose", [normal(1, 4, 4, 3), normal(4, 2, 3, 3), normal(4)], lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2),
     group=2, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
case("AveragePool", [normal(1, 2, 6, 7)], lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=True), kernel_shape=[3, 3],
     strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
case("MaxPool", [apart(1, 2, 6, 7)], lambda x: F.max_pool2d(x, 3, 2, 1), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
case("LpPool", [between(0.3, 2, 1, 2, 6, 6)], lambda x: F.lp_pool2d(x, 3, 2), kernel_shape=[2, 2], strides=[2, 2], p=3)
case("GlobalAveragePool", [normal(2, 3, 4, 5)], lambda x: x.mean((2, 3), keepdim=True))
case("GlobalMaxPool", [apart(2, 3, 4, 5)], lambda x: x.amax((2, 3), keepdim=True))
case("GlobalLpPool", [normal(2, 3, 4)], lambda x: x.norm(2, 2, keepdim=True), p=2)
case("GridSample", [normal(1, 2, 5, 6), between(-1.1, 1.1, 1, 3, 4, 2)], lambda x, g: F.grid_sample(x, g, "bilinear", "zeros", False),
     mode="linear", padding_mode="zeros", align_corners=0)
case("GridSample", [normal(1, 2, 5, 6), between(-0.9, 0.9, 1, 3, 4, 2)], lambda x, g: F.grid_sample(x, g, "bilinear", "border", True),
     "border, corners", mode="linear", padding_mode="border", align_corners=1)
case("AffineGrid", [normal(2, 2, 3), Const(2, 3, 4, 5)], lambda t: F.affine_grid(t, (2, 3, 4, 5), False), align_corners=0)
case("Resize", [normal(1, 2, 4, 5), None, Const(1, 1, 2, 2, dtype=np.float32)], lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
     "nearest", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
case("Resize", [normal(1, 2, 4, 5), None, None, Const(1, 2, 7, 9)], lambda x: F.interpolate(x, size=(7, 9), mode="bilinear"), "linear",
     mode="linear")
case("Resize", [normal(1, 2, 4, 5), None, None, Const(1, 2, 7, 9)], lambda x: F.interpolate(x, size=(7, 9), mode="bicubic"), "cubic",
     mode="cubic", cubic_coeff_a=-0.75)
case("Upsample", [normal(1, 2, 3, 3), Const(1, 1, 2, 3, dtype=np.float32)], lambda x: F.interpolate(x, scale_factor=(2, 3), mode="nearest"))
case("DepthToSpace", [normal(1, 8, 2, 3)], lambda x: F.pixel_shuffle(x, 2), blocksize=2, mode="CRD")
case("SpaceToDepth", [normal(1, 2, 4, 6)], lambda x: x.reshape(1, 2, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3), blocksize=2)

case("Concat", [normal(2, 3), normal(2, 1)], lambda a, b: torch.cat([a, b], 1), axis=1)
case("Expand", [normal(3, 1), Const(2, 3, 4)], lambda x: x.expand(2, 3, 4))
case("Flatten", [normal(2, 3, 4)], lambda x: x.reshape(6, 4), axis=2)
case("Reshape", [normal(2, 3, 4), Const(4, -1)], lambda x: x.reshape(4, 6))
case("Squeeze", [normal(2, 1, 3), Const([1])], lambda x: x.squeeze(1))
case("Unsqueeze", [normal(2, 3), Const(0, 3)], lambda x: x[None, :, :, None])
case("Transpose", [normal(2, 3, 4)], lambda x: x.permute(2, 0, 1), perm=[2, 0, 1])
case("Tile", [normal(2, 3), Const(2, 3)], lambda x: x.repeat(2, 3))
case("Trilu", [normal(4, 5), Const(np.int64(-1))], lambda x: x.tril(-1), upper=0)
case("Slice", [normal(4, 6), Const(-1, 5), Const(-5, -7), Const(0, 1), Const(-1, -2)], lambda x: x.flip(0).flip(1)[:, ::2])
case("Pad", [normal(2, 3), Const(1, 0, 2, 1)], lambda x: F.pad(x, (0, 1, 1, 2)), mode="constant")
case("Pad", [normal(1, 2, 4, 5), Const(0, 0, 1, 2, 0, 0, 2, 1)], lambda x: F.pad(x, (2, 1, 1, 2), "reflect"), "reflect", mode="reflect")
case("Pad", [normal(1, 2, 4, 5), Const(0, 0, 1, 2, 0, 0, 2, 1)], lambda x: F.pad(x, (2, 1, 1, 2), "replicate"), "edge", mode="edge")
case("Pad", [normal(1, 2, 4, 5), Const(0, 0, 1, 2, 0, 0, 2, 1)], lambda x: F.pad(x, (2, 1, 1, 2), "circular"), "wrap", mode="wrap")
case("Gather", [normal(4, 3), Const([[0, 2], [-1, 2]])], lambda x: x[torch.tensor([[0, 2], [-1, 2]])], axis=0)
case("GatherElements", [normal(3, 4), Const([[0, 2, 1, 0], [2, 2, -1, 0]])],
     lambda x: torch.gather(x, 0, torch.tensor([[0, 2, 1, 0], [2, 2, 2, 0]])), axis=0)
case("GatherND", [normal(3, 4, 2), Const([[0, 1], [2, 3], [0, 1]])], lambda x: x[[0, 2, 0], [1, 3, 1]])
case("ScatterElements", [normal(3, 4), Const([[0, 2, 1, 0]]), normal(1, 4)], lambda x, u: x.scatter(0, torch.tensor([[0, 2, 1, 0]]), u), axis=0)
case("ScatterElements", [normal(3, 4), Const([[0, 0, 1], [2, 2, 3]]), normal(2, 3)],
     lambda x, u: x.scatter_add(1, torch.tensor([[0, 0, 1], [2, 2, 3]]), u), "add", axis=1, reduction="add")
case("ScatterND", [normal(4, 3), Const([[1], [3]]), normal(2, 3)], lambda x, u: x.index_copy(0, torch.tensor([1, 3]), u))
case("ScatterND", [normal(4, 3), Const([[1], [1]]), normal(2, 3)], lambda x, u: x.index_add(0, torch.tensor([1, 1]), u), "add",
     reduction="add")
case("Compress", [normal(4, 3), Const([True, False, True, True], dtype=np.bool_)], lambda x: x[[0, 2, 3]], axis=0)
case("ReverseSequence", [normal(3, 2), Const(3, 2)], lambda x: torch.stack([x[:, 0].flip(0), torch.cat([x[:2, 1].flip(0), x[2:, 1]])], 1),
     batch_axis=1, time_axis=0)
case("CenterCropPad", [normal(4, 5), Const(2, 7)], lambda x: F.pad(x[1:3], (1, 1)))
case("Col2Im", [normal(1, 8, 9), Const(4, 4), Const(2, 2)], lambda x: F.fold(x, (4, 4), 2))
case("NegativeLogLikelihoodLoss", [normal(3, 5), Const(1, 4, 0)], lambda x: F.nll_loss(x, torch.tensor([1, 4, 0])), reduction="mean")
case("SoftmaxCrossEntropyLoss", [normal(3, 5), Const(1, 4, 0)], lambda x: F.cross_entropy(x, torch.tensor([1, 4, 0]), reduction="sum"),
     reduction="sum")
case("Dropout", [normal(3, 4)], lambda x: x * 1)
case("TopK", [apart(3, 6), Const([2])], lambda x: x.topk(2, 1)[0], axis=1)
case("Attention", [normal(1, 2, 3, 4), normal(1, 2, 5, 4), normal(1, 2, 5, 4)],
     lambda q, k, v: (q @ k.transpose(-1, -2) * 0.5).softmax(-1) @ v)
case("RotaryEmbedding", [normal(1, 2, 3, 4), normal(1, 3, 2), normal(1, 3, 2)], lambda x, c, s: torch.cat(
    [x[..., :2] * c[:, None] - x[..., 2:] * s[:, None], x[..., :2] * s[:, None] + x[..., 2:] * c[:, None]], -1))
# ---- other attributes of the same operators ----
case("Conv", [normal(1, 2, 5, 6, 4), normal(4, 2, 2, 3, 2)], lambda x, w: F.conv3d(x, w, stride=(1, 2, 1), padding=(1, 0, 1)), "3d",
     strides=[1, 2, 1], pads=[1, 0, 1, 1, 0, 1])
case("Conv", [normal(1, 2, 7, 8), normal(3, 2, 3, 3)], lambda x, w: F.conv2d(F.pad(x, (0, 1, 1, 1)), w, stride=2), "SAME_UPPER",
     auto_pad="SAME_UPPER", strides=[2, 2])
case("Conv", [normal(1, 2, 7, 8), normal(3, 2, 3, 3)], lambda x, w: F.conv2d(F.pad(x, (1, 0, 1, 1)), w, stride=2), "SAME_LOWER",
     auto_pad="SAME_LOWER", strides=[2, 2])
case("ConvTranspose", [normal(1, 3, 5), normal(3, 2, 4)], lambda x, w: F.conv_transpose1d(x, w, stride=3, padding=1, output_padding=1, dilation=2),
     "1d dilated", strides=[3], pads=[1, 1], output_padding=[1], dilations=[2])
case("ConvTranspose", [normal(1, 2, 3, 3), normal(2, 2, 3, 3)], lambda x, w: F.conv_transpose2d(x, w, stride=2)[:, :, :6, :6], "output_shape",
     strides=[2, 2], output_shape=[6, 6], auto_pad="SAME_UPPER")
case("DeformConv", [normal(1, 2, 4, 4), normal(3, 2, 2, 2), between(0.2, 0.4, 1, 8, 3, 3), normal(3)],
     lambda x, w, o, b: torchvision.ops.deform_conv2d(x, o, w, b), kernel_shape=[2, 2])
case("AveragePool", [normal(1, 2, 7, 8)], lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), "ceil",
     kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
case("AveragePool", [normal(1, 2, 9)], lambda x: (x[..., 0:5] + x[..., 2:7] + x[..., 4:9]) / 3, "dilated", kernel_shape=[3], dilations=[2])
case("MaxPool", [apart(1, 2, 7, 8)], lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), "ceil", kernel_shape=[3, 3], strides=[2, 2],
     pads=[1, 1, 1, 1], ceil_mode=1)
case("MaxPool", [apart(1, 2, 4, 5, 6)], lambda x: F.max_pool3d(x, 2, 2), "3d", kernel_shape=[2, 2, 2], strides=[2, 2, 2])
case("GridSample", [normal(1, 2, 5, 6), between(-1.3, 1.3, 1, 3, 4, 2)], lambda x, g: F.grid_sample(x, g, "bilinear", "reflection", False),
     "reflection", mode="linear", padding_mode="reflection", align_corners=0)
case("GridSample", [normal(1, 2, 5, 6), between(-0.8, 0.8, 1, 3, 4, 2)], lambda x, g: F.grid_sample(x, g, "bicubic", "zeros", True),
     "cubic", mode="cubic", padding_mode="zeros", align_corners=1)
case("GridSample", [normal(1, 2, 3, 5, 6), between(-1.1, 1.1, 1, 2, 3, 4, 3)], lambda x, g: F.grid_sample(x, g, "bilinear", "zeros", False),
     "3d", mode="linear", padding_mode="zeros", align_corners=0)
case("Resize", [normal(1, 2, 7, 9), None, None, Const(1, 2, 3, 4)], lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True),
     "antialias", mode="linear", antialias=1, exclude_outside=1)
case("Resize", [normal(1, 2, 4, 5), None, None, Const(1, 2, 7, 9)],
     lambda x: F.interpolate(x, size=(7, 9), mode="bicubic", align_corners=True), "cubic corners", mode="cubic", cubic_coeff_a=-0.75,
     coordinate_transformation_mode="align_corners")
case("ScatterElements", [between(0.5, 2, 3, 4), Const([[0, 0, 1], [2, 2, 3]]), between(0.5, 2, 2, 3)],
     lambda x, u: x.scatter_reduce(1, torch.tensor([[0, 0, 1], [2, 2, 3]]), u, "prod"), "mul", axis=1, reduction="mul")
case("ScatterElements", [apart(3, 4), Const([[0, 0, 1], [2, 2, 3]]), apart(2, 3) * 2 + 0.05],
     lambda x, u: x.scatter_reduce(1, torch.tensor([[0, 0, 1], [2, 2, 3]]), u, "amax"), "max", axis=1, reduction="max")
case("ScatterND", [between(0.5, 2, 4, 3), Const([[1], [1]]), between(0.5, 2, 2, 3)],
     lambda x, u: torch.cat([x[:1], x[1:2] * u[:1] * u[1:], x[2:]]), "mul", reduction="mul")
case("ScatterND", [apart(4, 3), Const([[1], [3]]), apart(2, 3) * 2 + 0.05], lambda x, u: torch.cat(
    [x[:1], torch.minimum(x[1:2], u[:1]), x[2:3], torch.minimum(x[3:], u[1:])]), "min", reduction="min")
case("GatherND", [normal(2, 3, 4), Const([[1], [2]])], lambda x: torch.stack([x[0, 1], x[1, 2]]), "batch_dims", batch_dims=1)
case("Einsum", [normal(2, 3, 4), normal(2, 4, 5)], lambda a, b: torch.einsum("...ij,...jk->...ik", a, b), "ellipsis", equation="...ij,...jk->...ik")
case("Einsum", [normal(3, 3, 4)], lambda a: torch.einsum("iij->ji", a), "diagonal", equation="iij->ji")
case("Einsum", [normal(3, 4)], lambda a: a.sum(0), "sum", equation="ij->j")
case("CumSum", [normal(3, 4), Const(np.int64(0))], lambda x: (x.flip(0).cumsum(0) - x.flip(0)).flip(0), "reverse exclusive", reverse=1, exclusive=1)
case("LayerNormalization", [normal(2, 3, 4), normal(4)], lambda x, s: F.layer_norm(x, (4,), s, None, f32(1e-5)), "no bias")
case("BatchNormalization", [normal(4, 3, 5), normal(3), normal(3), Const(0, 0, 0, dtype=np.float32), Const(1, 1, 1, dtype=np.float32)],
     lambda x, s, b: F.batch_norm(x, None, None, s, b, True, 0.1, f32(1e-5)), "training", training_mode=1)
case("LpNormalization", [apart(3, 4)], lambda x: x / x.abs().sum(0, keepdim=True), "p=1", axis=0, p=1)
case("SoftmaxCrossEntropyLoss", [normal(3, 5, 2), Const([[1, 4], [0, 2], [3, 3]]), Weights(0.5, 1, 2, 0.25, 1, dtype=np.float32)],
     lambda x: F.cross_entropy(x, torch.tensor([[1, 4], [0, 2], [3, 3]]), torch.tensor([0.5, 1, 2, 0.25, 1], dtype=x.dtype), ignore_index=3),
     "weights, ignored", ignore_index=3)
case("NegativeLogLikelihoodLoss", [normal(3, 5), Const(1, 4, 0), Weights(0.5, 1, 2, 0.25, 1, dtype=np.float32)],
     lambda x: F.nll_loss(x, torch.tensor([1, 4, 0]), torch.tensor([0.5, 1, 2, 0.25, 1], dtype=x.dtype), reduction="none"), "weights",
     reduction="none")
case("TopK", [apart(3, 6), Const([3])], lambda x: x.topk(3, 1, largest=False)[0], "smallest", axis=1, largest=0)
case("Attention", [normal(1, 4, 3, 4), normal(1, 2, 5, 4), normal(1, 2, 5, 4), normal(3, 5)], lambda q, k, v, m: (
    q @ k.repeat_interleave(2, 1).transpose(-1, -2) * 0.5 + m).softmax(-1) @ v.repeat_interleave(2, 1), "grouped, mask")
case("Attention", [normal(1, 2, 3, 4), normal(1, 2, 3, 4), normal(1, 2, 3, 4)], lambda q, k, v: (
    torch.tanh(q @ k.transpose(-1, -2) * 0.5 / 2) * 2).masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf).softmax(-1) @ v,
    "softcap, causal", softcap=2.0, is_causal=1)
case("Gather", [normal(2, 4, 3), Const(np.int64(-1))], lambda x: x[:, -1], "scalar", axis=1)
case("Slice", [normal(3, 8), Const([1]), Const([100]), Const([1]), Const([3])], lambda x: x[:, 1::3], "beyond the end")
case("DepthToSpace", [normal(1, 8, 2, 3)], lambda x: x.reshape(1, 2, 2, 2, 2, 3).permute(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6), "DCR",
     blocksize=2, mode="DCR")
case("Gemm", [normal(3, 4), normal(4, 2), normal(3, 1)], lambda a, b, c: a @ b + c, "column bias")
case("Pow", [between(0.3, 2, 2, 3), normal(2, 1)], torch.pow, "column exponent")
case("Where", [Const([[True], [False]], dtype=np.bool_), normal(3), normal(2, 3)],
     lambda a, b: torch.where(torch.tensor([[True], [False]]), a, b), "row")
case("Max", [apart(2, 3)], lambda x: x * 1, "one input")
case("Concat", [normal(1, 3), normal(2, 3), normal(3, 3)], lambda *x: torch.cat(x, 0), "three", axis=-2)
case("GroupNormalization", [normal(2, 6, 5), normal(6), normal(6)], lambda x, s, b: F.group_norm(x, 3, s, b, f32(1e-5)), "1d", num_groups=3)
case("RMSNormalization", [normal(2, 3, 4), normal(3, 4)], lambda x, s: x * (x.square().mean((1, 2), keepdim=True) + f32(1e-5)).rsqrt() * s,
     "two axes", axis=1)
case("MaxUnpool", [normal(1, 1, 2, 2), Const([[[[5, 7], [13, 15]]]])], lambda x: F.max_unpool2d(x, torch.tensor([[[[5, 7], [13, 15]]]]), 2, 2),
     kernel_shape=[2, 2], strides=[2, 2])
case("RoiAlign", [normal(1, 2, 8, 8), Weights([[1.3, 1.1, 6.2, 5.7], [0.4, 0.2, 7.1, 7.3]], dtype=np.float32), Const(0, 0)],
     lambda x: torchvision.ops.roi_align(x, [torch.tensor([[1.3, 1.1, 6.2, 5.7], [0.4, 0.2, 7.1, 7.3]], dtype=torch.float32).to(x.dtype)],
                                         (3, 3), 1.0, 2, True), output_height=3, output_width=3, sampling_ratio=2)


def roi_align_max(x, regions, n, ratio):
    """RoiAlign's mode max of a single image: the largest of the weighted corners of all samples. torchvision has the mean only."""
    def samples(start, size, cells):
        for i in range(n):
            line = []
            for k in range(ratio):
                at = start + size * (i + (k + 0.5) / ratio) / n
                if -1 <= at <= cells:
                    low = min(int(max(at, 0)), cells - 1)
                    high, part = min(low + 1, cells - 1), 0.0 if low == cells - 1 else max(at, 0) - low
                    line += [[(low, 1 - part), (high, part)]]
                else:
                    line += [[(0, 0.0), (0, 0.0)]]
            yield line

    def one(x1, y1, x2, y2):
        rows, columns = list(samples(y1, y2 - y1, x.shape[2])), list(samples(x1, x2 - x1, x.shape[3]))
        return torch.stack([torch.stack([torch.stack([x[0, :, i, j] * (u * w) for p in row for q in column for i, u in p for j, w in q]).amax(0)
                                         for column in columns], -1) for row in rows], -2)
    return torch.stack([one(*(float(np.float32(v)) - 0.5 for v in r)) for r in regions])


case("RoiAlign", [apart(1, 2, 8, 8), Weights([[1.3, 1.1, 6.2, 5.7], [-3.4, 0.2, 7.1, 9.6]], dtype=np.float32), Const(0, 0)],
     lambda x: roi_align_max(x, [[1.3, 1.1, 6.2, 5.7], [-3.4, 0.2, 7.1, 9.6]], 3, 2), "max", mode="max", output_height=3, output_width=3,
     sampling_ratio=2)
case("MaxRoiPool", [apart(2, 2, 7, 8), Weights([[0, 1, 0, 5, 6], [1, 2, 3, 12, 5], [0, 9, 9, 12, 12]], dtype=np.float32)],
     lambda x: torchvision.ops.roi_pool(x, torch.tensor([[0, 1, 0, 5, 6], [1, 2, 3, 12, 5], [0, 9, 9, 12, 12.0]], dtype=x.dtype), (3, 2), 1.0),
     pooled_shape=[3, 2])
case("MaxRoiPool", [np.array([[[[1, 3, 3, 3], [3, 2, 3, 0.5], [0, 1, 1, 1.0]]]]), Weights([[0, 0, 0, 3, 2]], dtype=np.float32)],
     lambda x: torchvision.ops.roi_pool(x, torch.tensor([[0, 0, 0, 3, 2.0]], dtype=x.dtype), (1, 2), 1.0), "ties: the first", pooled_shape=[1, 2])


def lstm_of(lengths, hidden):
    """A bidirectional LSTM over sequences of these lengths; ONNX's gates are i, o, f, c, PyTorch's i, f, c, o."""
    def fn(x, w, r):
        net = torch.nn.LSTM(x.shape[2], hidden, bias=False, bidirectional=True).to(x.dtype)
        order = [0, 2, 3, 1]
        weights = {}
        for d, tail in enumerate(("", "_reverse")):
            for name, value in (("weight_ih_l0", w), ("weight_hh_l0", r)):
                weights[name + tail] = value[d].reshape(4, hidden, -1)[order].reshape(4 * hidden, -1)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
        net._flat_weights = [weights[n] for n in net._flat_weights_names]  # what forward reads
        out = net(packed)[0]
        y = torch.nn.utils.rnn.pad_packed_sequence(out, total_length=x.shape[0])[0]
        return y.reshape(x.shape[0], x.shape[1], 2, hidden).permute(0, 2, 1, 3)
    return fn


case("LSTM", [normal(4, 3, 2), normal(2, 12, 2), normal(2, 12, 3), None, Given(2, 4, 1, dtype=np.int32)], lstm_of([2, 4, 1], 3),
     "lengths at the run", direction="bidirectional", hidden_size=3)
case("LSTM", [normal(4, 3, 2), normal(2, 12, 2), normal(2, 12, 3), None, Const(2, 4, 1, dtype=np.int32)], lstm_of([2, 4, 1], 3),
     "lengths", direction="bidirectional", hidden_size=3)
OUTPUTS = {"TopK": 2}  # the second holds indices
OLDER = {"Upsample": 9}  # the last opset that has it
FLOAT_ONLY = {"Celu"}  # ONNX Celu-12: float


def model_of(op, inputs, attributes, kind, y_shape):
    element, dtype, _ = TYPES[kind]
    infos, constants, names = [], [], []
    for i, x in enumerate(inputs):
        names.append("" if x is None else f"x{i}")
        if x is None:
            continue
        if isinstance(x, Given):
            infos.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.array.dtype) if hasattr(
                helper, "np_dtype_to_tensor_dtype") else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[x.array.dtype], x.array.shape))
        elif isinstance(x, Const):
            constants.append(numpy_helper.from_array(x.array.astype(dtype) if isinstance(x, Weights) else x.array, f"x{i}"))
        else:
            infos.append(helper.make_tensor_value_info(f"x{i}", element, x.shape))
    outputs = ["y", "rest"][:OUTPUTS.get(op, 1)]
    node = helper.make_node(op, names, outputs, **attributes)
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", element, y_shape)], constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", OLDER.get(op, OPSET))])


def torch_gradients(inputs, fn, seed, dtype):
    xs = [torch.tensor(x, dtype=dtype, requires_grad=True) for x in inputs if isinstance(x, np.ndarray)]
    y = fn(*xs)
    incoming = seed(y.shape)
    if y.requires_grad:
        y.backward(torch.tensor(incoming, dtype=dtype))
    return [np.zeros(x.shape) if x.grad is None else x.grad.double().numpy() for x in xs], y.detach(), incoming


def plumb_gradients(folder, op, inputs, attributes, kind, y_shape, incoming):
    dtype = TYPES[kind][1]
    onnx.save(model_of(op, inputs, attributes, kind, y_shape), str(folder / "m.onnx"))
    for made in ("joint.onnx", "out.npz"):
        (folder / made).unlink(missing_ok=True)
    nets.plumb("convert", folder / "m.onnx", folder / "joint.onnx", "--backward=joint")
    np.save(folder / "dy.npy", incoming.astype(dtype))
    command = ["run", folder / "joint.onnx", "-o", folder / "out.npz", "-i", f"d_y={folder}/dy.npy"]
    for i, x in enumerate(inputs):
        if isinstance(x, (np.ndarray, Given)):
            np.save(folder / f"x{i}.npy", x.array if isinstance(x, Given) else x.astype(dtype))
            command += ["-i", f"x{i}={folder}/x{i}.npy"]
    nets.plumb(*command)
    got = np.load(folder / "out.npz")
    return [got[f"d_x{i}"].astype(np.float64) for i, x in enumerate(inputs) if isinstance(x, np.ndarray)]


def check(folder, op, inputs, fn, attributes):
    seed_of = np.random.default_rng(5)
    incoming = None

    def seed(shape):
        nonlocal incoming
        incoming = seed_of.standard_normal(tuple(shape)).astype(np.float32).astype(np.float64) if incoming is None else incoming
        return incoming

    inputs = [x.astype(np.float32).astype(np.float64) if isinstance(x, np.ndarray) else x for x in inputs]
    want, y, _ = torch_gradients(inputs, fn, seed, torch.float64)
    rough, _, _ = torch_gradients(inputs, fn, seed, torch.float32)
    worst = 0.0
    for kind in ["f32"] if op in FLOAT_ONLY else TYPES:
        got = plumb_gradients(folder, op, inputs, attributes, kind, list(y.shape), incoming)
        for i, (g, w, r) in enumerate(zip(got, want, rough)):
            size = np.sqrt(np.mean(w * w)) if w.size else 0
            limit = ABSOLUTE + RELATIVE * np.abs(w) if kind == "f64" else NOISE * np.abs(r - w).max() + FLOOR * max(size, 1e-3)
            if g.shape != w.shape or not np.all(np.abs(g - w) <= limit):
                raise RuntimeError(f"{kind}: gradient of float input {i} is off by {np.abs(g - w).max():.3g}" if g.shape == w.shape else
                                   f"{kind}: shape {g.shape}, expected {w.shape}")
            worst = max(worst, float(np.abs(g - w).max())) if kind == "f64" and g.size else worst
    return f"fp64 within {worst:.1e}"


def main():
    only = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
    tap = nets.Tap()
    with tempfile.TemporaryDirectory() as folder:
        for name, op, inputs, fn, attributes in CASES:
            if only in name:
                tap.check(name, lambda: check(Path(folder), op, inputs, fn, attributes))
    print(f"# {len({c[1] for c in CASES})} operators")
    return tap.end()


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())

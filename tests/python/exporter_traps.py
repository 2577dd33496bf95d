"""Modules that torch's TorchScript exporter is known to get wrong, or nearly: who is to blame, and which line.

    TRAPS   a list of Trap; each says whether the model exported by torch 1.13 computes what the module does
    Trap.line()   line of this file (marked TRAP) that the verdict must name when the exported model is wrong

test_exporter_traps.py checks the table against torch itself: it exports each module, runs the model on ONNX Runtime and
on plumb's interpreter, and compares with the module. Inputs are made with torch.manual_seed(1). With `trace` the module is
exported on other inputs than it is recorded with, as users do.
"""

import inspect
from dataclasses import dataclass
from typing import Any, Callable, Tuple

import torch
from torch import nn
from torch.nn import functional as F

X = (2, 3, 4)
IMAGE = (1, 2, 5, 5)


@dataclass
class Trap:
    make: Callable[[], nn.Module]
    inputs: Callable[[], Tuple[Any, ...]]
    at_fault: str                    # "model": the exported model is wrong; "runtime": ONNX Runtime is; "none"
    lost: str = ""                   # status that plumb.export must give to the marked call; "" = none
    trace: Any = None                # inputs to export with; None = `inputs`
    options: Any = None              # further options of save_intermediates
    why: str = ""

    @property
    def name(self):
        return self.make.__name__

    def line(self):
        """Number of the line marked TRAP in the module; None without one."""
        lines, start = inspect.getsourcelines(self.make)
        return next((start + i for i, text in enumerate(lines) if "# TRAP" in text), None)


def images(*shape):
    return lambda: (torch.randn(*shape),)


TRAPS = []


def trap(at_fault, inputs=images(*X), lost="", trace=None, why="", **options):
    def add(make):
        TRAPS.append(Trap(make, inputs, at_fault, lost, trace, options, why))
        return make
    return add


# ---- in place, on views ------------------------------------------------------------------------------------------

class Net(nn.Module):
    """A layer before and one after, so that the trap is neither first nor last."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(4, 4), nn.Linear(4, 4)


@trap("model", lost="dropped", why="the in-place clamp on a view is lost")
class ViewClamp(Net):
    def forward(self, x):
        y = self.before(x) * 3
        y.view(-1).clamp_(0, 1)  # TRAP
        return self.after(y)


@trap("model", lost="dropped", why="the in-place product on a slice is lost")
class SliceMul(Net):
    def forward(self, x):
        y = self.before(x) + 1
        y[:, 1].mul_(5)  # TRAP
        return self.after(y)


@trap("model", lost="dropped")
class TransposeAdd(Net):
    def forward(self, x):
        y = self.before(x) * 2
        y.transpose(1, 2).add_(1)  # TRAP
        return self.after(y)


@trap("model", lost="dropped")
class ChunkRelu(Net):
    def forward(self, x):
        y = self.before(x) - 0.1
        a, b = y.chunk(2, -1)
        a.relu_()  # TRAP
        return self.after(y)


@trap("model", lost="dropped")
class UnbindFill(Net):
    def forward(self, x):
        y = self.before(x).exp()
        first = y.unbind(1)[0]
        first.fill_(2.5)  # TRAP
        return self.after(y)


@trap("model", lost="dropped")
class FlattenSigmoid(Net):
    def forward(self, x):
        y = self.before(x) * 4
        y.flatten().sigmoid_()  # TRAP
        return self.after(y)


@trap("model", lost="dropped")
class NarrowZero(Net):
    def forward(self, x):
        y = self.before(x) + 2
        y.narrow(2, 0, 2).zero_()  # TRAP
        return self.after(y)


@trap("model", lost="dropped")
class DiagonalFill(nn.Module):
    def forward(self, x):
        y = x * 2
        y.diagonal(dim1=1, dim2=2).mul_(10)  # TRAP
        return y.softmax(-1)


@trap("model", lost="dropped", why="the alias is made before the change, and read after it")
class AliasReadLater(Net):
    def forward(self, x):
        y = self.before(x) * 2
        alias = y.view(2, 12)
        y.tanh_()  # TRAP
        return self.after(alias.view(2, 3, 4) + 1)


@trap("none", why="a slice that is assigned is exported")
class SliceAssign(Net):
    def forward(self, x):
        y = self.before(x) + 1
        y[:, 0] = 7
        return self.after(y)


@trap("none", why="in place on the tensor itself is exported")
class PlainClamp(Net):
    def forward(self, x):
        y = self.before(x) * 3
        y.clamp_(0, 1)
        return self.after(y)


@trap("none")
class PlainInPlaceChain(Net):
    def forward(self, x):
        y = self.before(x)
        y.mul_(2).add_(1).relu_()
        return self.after(y)


@trap("none", why="the view is read, nothing is changed")
class ViewOnly(Net):
    def forward(self, x):
        y = self.before(x)
        return self.after(y.view(-1).clamp(0, 1).view(2, 3, 4))


@trap("none", why="the changed view is what is read")
class ViewThenItself(Net):
    def forward(self, x):
        y = (self.before(x) * 3).view(-1)
        y.clamp_(0, 1)
        return self.after(y.view(2, 3, 4))


# ---- control flow and Python numbers ------------------------------------------------------------------------------

def positive():
    return (torch.rand(*X) + 1,)


def negative():
    return (-torch.rand(*X) - 1,)


@trap("model", positive, "frozen", negative, "the branch of the traced run is in the model")
class Branch(Net):
    def forward(self, x):
        if x.sum() > 0:  # TRAP
            return self.after(x * 2)
        return self.before(x) - 1


@trap("none", positive, "frozen", why="the same branch as in the traced run")
class BranchSameWay(Net):
    def forward(self, x):
        if x.sum() > 0:  # TRAP
            return self.after(x * 2)
        return self.before(x) - 1


@trap("model", positive, "frozen", negative, "Tensor.item() becomes a constant")
class Item(Net):
    def forward(self, x):
        scale = x.abs().max().item() + x.mean().item()  # TRAP
        return self.after(x / scale)


@trap("none", positive, "frozen")
class ItemSameInputs(Net):
    def forward(self, x):
        scale = x.abs().max().item()  # TRAP
        return self.after(x / scale)


@trap("model", lambda: (torch.randn(*X), torch.tensor(3)), "frozen", lambda: (torch.randn(*X), torch.tensor(2)),
      "the number of rounds is that of the traced run")
class LoopCount(Net):
    def forward(self, x, n):
        for _ in range(int(n)):  # TRAP
            x = x + 1
        return self.after(x)


@trap("model", positive, "frozen", negative)
class FloatOfTensor(Net):
    def forward(self, x):
        return self.after(x + float(x.mean()))  # TRAP


@trap("model", positive, "frozen", negative)
class ToList(Net):
    def forward(self, x):
        low, high = x.flatten()[:2].tolist()  # TRAP
        return self.after(x * low - high)


@trap("none", why="where() is data-dependent and exported")
class Where(Net):
    def forward(self, x):
        return self.after(torch.where(x > 0, x * 2, x - 1))


@trap("model", images(3, 3, 4), "", images(2, 3, 4), "len() gives a Python number: the batch of the traced run",
      input_names=["x"], dynamic_axes={"x": {0: "n"}})
class LenOfBatch(Net):
    def forward(self, x):
        return self.after(x) / len(x)  # TRAP


@trap("none", images(3, 3, 4), "", images(2, 3, 4), "shape is traced", input_names=["x"], dynamic_axes={"x": {0: "n"}})
class ShapeOfBatch(Net):
    def forward(self, x):
        return self.after(x) / x.shape[0]


# ---- state and training -------------------------------------------------------------------------------------------

@trap("model", why="the buffer is exported as the traced run left it, and added to again")
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.ones(4))

    def forward(self, x):
        self.seen.add_(x.mean((0, 1)))  # TRAP
        return x * self.seen


@trap("model", lost="changed", why="the module does something else while it is exported")
class OtherWhenTraced(Net):
    def forward(self, x):
        if not torch.jit.is_tracing():
            x = x * 1.5  # TRAP
        return self.after(x)


@trap("none", why="eval mode: dropout does nothing")
class DropoutInEval(Net):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.after(self.drop(self.before(x)))


@trap("none", images(4, 3, 6, 6), why="BatchNorm in eval mode uses its statistics")
class BatchNormEval(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        with torch.no_grad():
            self.bn.running_mean.uniform_(-1, 1)
            self.bn.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.bn(self.conv(x))


@trap("none", images(4, 3, 6, 6), why="statistics of the batch by its own flag, also in eval mode")
class BatchNormNoStatistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.InstanceNorm2d(3, affine=True)

    def forward(self, x):
        return self.bn(x) * 2


# ---- types and integers -------------------------------------------------------------------------------------------

def integers():
    return (torch.tensor([[-7, -3, 3, 7], [-8, -1, 1, 8]]), torch.tensor([2, 2, -2, 3]))


@trap("none", integers)
class FloorDivide(nn.Module):
    def forward(self, a, b):
        return torch.div(a, b, rounding_mode="floor") + 1


@trap("none", integers)
class TruncateDivide(nn.Module):
    def forward(self, a, b):
        return torch.div(a, b, rounding_mode="trunc") + 1


@trap("model", integers, why="a // b becomes ONNX's Div, which truncates")
class FloorDivideOperator(nn.Module):
    def forward(self, a, b):
        return (a // b) * 2  # TRAP


@trap("none", integers)
class TrueDivide(nn.Module):
    def forward(self, a, b):
        return a / b


@trap("none", integers)
class Remainder(nn.Module):
    def forward(self, a, b):
        return torch.remainder(a, b)


@trap("none", integers)
class Fmod(nn.Module):
    def forward(self, a, b):
        return torch.fmod(a, b)


@trap("none", lambda: (torch.randint(0, 5, (3, 4)),), why="an integer and a Python float make a float")
class PromoteScalar(nn.Module):
    def forward(self, x):
        return x * 1.5 + x


@trap("none", lambda: (torch.randint(0, 5, (3, 4)), torch.randn(3, 4)))
class PromoteTensors(nn.Module):
    def forward(self, a, b):
        return a + b, a.to(torch.int32) + a


@trap("none", lambda: (torch.randint(0, 255, (3, 4), dtype=torch.uint8),), why="the sum of uint8 is int64")
class SumOfBytes(nn.Module):
    def forward(self, x):
        return x.sum(-1)


@trap("none", lambda: (torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]),), why="to even, as ONNX's Round")
class RoundHalf(nn.Module):
    def forward(self, x):
        return torch.round(x) * 2


# ---- resampling, padding, scatter ----------------------------------------------------------------------------------

@trap("none", images(*IMAGE))
class Bilinear(nn.Module):
    def forward(self, x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


@trap("none", images(*IMAGE))
class BilinearCorners(nn.Module):
    def forward(self, x):
        return F.interpolate(x, size=(7, 8), mode="bilinear", align_corners=True)


@trap("none", images(*IMAGE))
class NearestOddScale(nn.Module):
    def forward(self, x):
        return F.interpolate(x, size=(7, 7), mode="nearest")


@trap("none", images(*IMAGE))
class Bicubic(nn.Module):
    def forward(self, x):
        return F.interpolate(x, size=(8, 9), mode="bicubic", align_corners=False)


@trap("none", images(*IMAGE), why="the scale is that of the sizes, on both sides")
class RecomputedScale(nn.Module):
    def forward(self, x):
        return F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=False, recompute_scale_factor=True)


def grid(mode, padding, corners):
    class Grid(nn.Module):
        def forward(self, x, g):
            return F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=corners)
    Grid.__name__ = f"Grid_{mode}_{padding}_{corners}"
    return Grid


for _mode in ("bilinear", "nearest"):
    for _padding, _corners in (("zeros", False), ("border", True), ("reflection", False)):
        trap("none", lambda: (torch.randn(*IMAGE), torch.rand(1, 4, 4, 2) * 2.6 - 1.3), opset_version=16)(
            grid(_mode, _padding, _corners))


def padded(mode):
    class Pad(nn.Module):
        def forward(self, x):
            return F.pad(x, (1, 2, 2, 1), mode=mode) * 2
    Pad.__name__ = f"Pad_{mode}"
    return Pad


for _mode in ("constant", "reflect", "replicate"):
    trap("none", images(*IMAGE))(padded(_mode))


@trap("model", images(*IMAGE), why="circular padding is made of slices, in the wrong order")
class CircularConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")

    def forward(self, x):
        return self.conv(x)  # TRAP


def scattered():
    return torch.zeros(2, 3), torch.tensor([[0, 0, 1, 1], [2, 2, 2, 0]]), torch.randn(2, 4)


@trap("model", scattered, opset_version=11, why="with duplicates only one of them arrives")
class ScatterAddDuplicates(nn.Module):
    def forward(self, x, index, source):
        return x.scatter_add(1, index, source) * 2  # TRAP


@trap("none", scattered, opset_version=16, why="ScatterElements of opset 16 adds")
class ScatterAdd16(nn.Module):
    def forward(self, x, index, source):
        return x.scatter_add(1, index, source) * 2


@trap("model", lambda: (torch.randn(4, 3), torch.tensor([0, 0, 2]), torch.randn(3, 3)), opset_version=11)
class IndexAddDuplicates(nn.Module):
    def forward(self, x, index, source):
        return x.index_add(0, index, source) * 2  # TRAP


@trap("model", lambda: (torch.randn(4, 3), torch.tensor([1, 1, 2]), torch.randn(3, 3)), opset_version=11)
class IndexPutAccumulate(nn.Module):
    def forward(self, x, index, source):
        return x.index_put((index,), source, accumulate=True) * 2  # TRAP


@trap("none", images(1, 2, 7, 7), why="the border is not counted")
class AveragePoolBorder(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False)


@trap("runtime", images(1, 2, 8, 8), why="ONNX Runtime counts what ceil_mode adds beyond the padding; torch and ONNX do not")
class AveragePoolCeil(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 3, stride=2, ceil_mode=True)


@trap("none", images(2, 6, 4))
class GroupNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(3, 6)

    def forward(self, x):
        return self.norm(x)


@trap("none", why="unbiased, as torch's default is")
class Variance(nn.Module):
    def forward(self, x):
        return x.var(-1), x.std(1, unbiased=False)


@trap("none")
class GeluTanh(Net):
    def forward(self, x):
        return self.after(F.gelu(self.before(x), approximate="tanh"))

"""Compilers with planted bugs, as functions (GraphModule, inputs) that torch.compile takes: BUGS has (backend, kind, fx node).

Each changes what one node of the graph of `net()` computes, wherever that node stands; the rest is eager.
"""

import operator
import time

import torch
import torch.fx
from torch.nn import functional as F

BUGS = []


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        y = F.relu(self.a(x))
        y = y * 2.0
        z = torch.tanh(self.b(y))
        z = z + y
        s = F.softmax(z, dim=-1)
        t = s.transpose(0, 1)
        m = t.mean(1)
        c = torch.cat([m, m.exp()])
        return c.clamp(0.1, 0.9), t


def graph(seed=0):
    torch.manual_seed(seed)
    return torch.fx.symbolic_trace(Net().eval()), [torch.randn(5, 6)]


def bug(kind, node):
    """The decorated function makes of (the eager function of the node) a wrong one."""
    def add(make):
        def backend(gm, _inputs):
            for n in gm.graph.nodes:
                if n.name == node and n.op.startswith("call_"):
                    right = eager_of(gm, n)
                    n.op, n.target = "call_function", make(right)
            gm.recompile()
            return gm.forward
        backend.__name__ = backend.__qualname__ = make.__name__
        BUGS.append((backend, kind, node))
        return backend
    return add


def eager_of(gm, n):
    if n.op == "call_module":
        return gm.get_submodule(n.target)
    if n.op == "call_method":
        return lambda x, *a, **k: getattr(x, n.target)(*a, **k)
    return n.target


@bug("accuracy", "relu")
def relu_adds_one(right):
    return lambda *a, **k: right(*a, **k) + 1


@bug("accuracy", "mul")
def wrong_constant(right):
    return lambda x, y: right(x, 2.5)


@bug("accuracy", "tanh")
def dropped_op(right):
    return lambda x: x.clone()


@bug("accuracy", "add")
def wrong_operator(right):
    return operator.sub


@bug("accuracy", "softmax")
def wrong_axis(right):
    return lambda x, dim, _stacklevel=3, dtype=None: F.softmax(x, dim=0)


@bug("accuracy", "mean")
def wrong_divisor(right):
    return lambda x, dim: x.sum(dim) / (x.shape[dim] - 1)


@bug("accuracy", "cat")
def swapped_parts(right):
    return lambda parts: torch.cat(list(parts)[::-1])


@bug("accuracy", "clamp")
def wrong_bound(right):
    return lambda x, lo, hi: x.clamp(lo, 0.5)


@bug("accuracy", "tanh")
def low_precision(right):
    return lambda x: x.to(torch.bfloat16).tanh().to(torch.float32) * 1.02


@bug("accuracy", "a")
def lost_bias(right):
    return lambda x: F.linear(x, right.weight)


@bug("accuracy", "b")
def transposed_weight(right):
    return lambda x: F.linear(x, right.weight.t(), right.bias)


@bug("accuracy", "add")
def wrong_broadcast(right):
    return lambda x, y: x + y[:1]


@bug("accuracy", "softmax")
def tail_not_written(right):
    def wrong(x, dim, _stacklevel=3, dtype=None):
        y = F.softmax(x, dim=dim)
        y[:, -3:] = 0
        return y
    return wrong


@bug("accuracy", "tanh")
def nan_in_one_place(right):
    def wrong(x):
        y = torch.tanh(x)
        y.view(-1)[7] = float("nan")
        return y
    return wrong


@bug("metadata", "transpose")
def wrong_stride(right):
    return lambda x, *a: x.transpose(0, 1).contiguous()


@bug("metadata", "mean")
def wrong_dtype(right):
    return lambda x, dim: x.mean(dim).double()


@bug("metadata", "exp")
def wrong_shape(right):
    return lambda x: x.exp()[:-1]


@bug("error", "softmax")
def raises_at_run_time(right):
    def wrong(*_a, **_k):
        raise RuntimeError("device-side assert")
    return wrong


@bug("timeout", "cat")
def hangs(right):
    def wrong(*a):
        time.sleep(30)
        return right(*a)
    return wrong


@bug("nondeterministic", "mean")
def not_deterministic(right):
    state = [0]

    def wrong(x, dim):
        state[0] += 1
        return x.mean(dim) + 1e-6 * state[0]
    return wrong


@bug("accuracy", "softmax")
def stale_buffer(right):
    kept = []

    def wrong(x, dim, _stacklevel=3, dtype=None):
        if not kept:
            kept.append(F.softmax(x, dim=dim))
        return kept[0]
    return wrong


def raises_at_compile_time(gm, _inputs):
    if any(n.name == "tanh" for n in gm.graph.nodes):
        raise ValueError("cannot lower aten::tanh")
    return gm.forward


BUGS.append((raises_at_compile_time, "error", "tanh"))


def eager(gm, _inputs):
    return gm.forward

"""Compilers with planted bugs, as functions (GraphModule, inputs) that torch.compile takes.

BUGS has (backend, kind, op, at): the kind of failure, and which call of which operation of Net is to be named. A bug is in the compiler's
way to lower an operation, or a pair of them, wherever it stands in a graph; the rest is eager. The graphs of torch.fx (1.13) and
of dynamo (2.x) differ: modules or functions, `op_of` gives both one name.
"""

import operator
import os
import signal
import time

import torch
import torch.fx
from torch.nn import functional as F

BUGS = []


class Net(torch.nn.Module):
    """Two branches: an error in one does not reach the values of the other."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        y = F.relu(self.a(x))
        y = y * 2.0
        z = torch.tanh(self.b(y))
        side = torch.sigmoid(y) - 0.25
        z = z + y
        s = F.softmax(z, dim=-1)
        t = s.transpose(0, 1)
        m = t.mean(1)
        c = torch.cat([m, m.exp()])
        return c.clamp(0.1, 0.9), t, side.sum(0)


def net(seed=0):
    torch.manual_seed(seed)
    return Net().eval(), torch.randn(5, 6)


def graph(seed=0):
    made, x = net(seed)
    return torch.fx.symbolic_trace(made), [x]


def op_of(gm, n):
    """The operation of a node: "linear", "relu", "mul" ..."""
    if n.op == "call_module":
        return type(gm.get_submodule(n.target)).__name__.lower()
    if n.op == "call_method":
        return n.target
    return n.target.__name__ if n.op == "call_function" else n.op


def find(gm, op, at):
    """The node that a bug is to be named at."""
    return [n.name for n in gm.graph.nodes if op_of(gm, n) == op][at]


def right_of(gm, n):
    """What eager does for a node, as a function of its arguments; a linear module is given its weight and bias."""
    if n.op == "call_module":
        module = gm.get_submodule(n.target)
        return lambda x: module(x)
    if n.op == "call_method":
        return lambda x, *a, **k: getattr(x, n.target)(*a, **k)
    return n.target


def bug(kind, op, at=0):
    """The decorated function makes a wrong operation of the right one."""
    def add(make):
        def backend(gm, _inputs):
            for n in list(gm.graph.nodes):
                if n.op.startswith("call_") and op_of(gm, n) == op:
                    if op == "linear" and n.op == "call_module":  # as dynamo has it
                        module = gm.get_submodule(n.target)
                        n.op, n.target = "call_function", lambda x, m=module: make(F.linear)(x, m.weight, m.bias)
                    else:
                        right = right_of(gm, n)
                        n.op, n.target = "call_function", make(right)
            gm.recompile()
            return gm.forward
        backend.__name__ = backend.__qualname__ = make.__name__
        BUGS.append((backend, kind, op, at))
        return backend
    return add


def pass_bug(kind, op, at=0):
    """The decorated function is a pass over the graph."""
    def add(change):
        def backend(gm, _inputs):
            change(gm)
            gm.graph.lint()
            gm.recompile()
            return gm.forward
        backend.__name__ = backend.__qualname__ = change.__name__
        BUGS.append((backend, kind, op, at))
        return backend
    return add


def calls(gm, op):
    return [n for n in gm.graph.nodes if n.op.startswith("call_") and op_of(gm, n) == op]


# ---- values ----------------------------------------------------------------------------------------

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
    return lambda x, lo, hi: x.clamp(lo, 0.15)


@bug("accuracy", "tanh")
def low_precision(right):
    return lambda x: x.to(torch.bfloat16).tanh().to(torch.float32) * 1.02


@bug("accuracy", "linear")
def lost_bias(right):
    return lambda x, w, b: right(x, w, torch.zeros_like(b))


@bug("accuracy", "linear", 1)
def transposed_square_weight(right):
    return lambda x, w, b: right(x, w.t() if w.shape[0] == w.shape[1] else w, b)


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


@bug("accuracy", "sigmoid")
def nan_in_one_place(right):
    def wrong(x):
        y = torch.sigmoid(x)
        y.view(-1)[7] = float("nan")
        return y
    return wrong


@bug("accuracy", "softmax")
def stale_buffer(right):
    kept = []

    def wrong(x, dim, _stacklevel=3, dtype=None):
        if not kept:
            kept.append(F.softmax(x, dim=dim))
        return kept[0].clone()
    return wrong


@bug("accuracy", "sub")
def writes_to_its_input(right):
    def wrong(x, y):
        out = x - y
        x.zero_()
        return out * 0 + x - y
    return wrong


# ---- passes: two operations are needed -------------------------------------------------------------

@pass_bug("accuracy", "tanh")
def wrong_fusion_of_linear_and_tanh(gm):
    """tanh(linear(x)) becomes a kernel that forgets to saturate."""
    for n in calls(gm, "tanh"):
        if op_of(gm, n.args[0]) == "linear":
            n.target, n.op, n.args = torch.sin, "call_function", n.args[:1]


@pass_bug("accuracy", "clamp")
def wrong_fusion_of_cat_and_clamp(gm):
    """clamp after cat is thought to do nothing."""
    for n in calls(gm, "clamp"):
        if n.args[0].op.startswith("call_") and op_of(gm, n.args[0]) == "cat":
            n.replace_all_uses_with(n.args[0])
            gm.graph.erase_node(n)


# ---- types, shapes, strides ------------------------------------------------------------------------

@bug("metadata", "transpose")
def wrong_stride(right):
    return lambda x, *a: x.transpose(0, 1).contiguous()


@bug("metadata", "mean")
def wrong_dtype(right):
    return lambda x, dim: x.mean(dim).double()


@bug("metadata", "exp")
def wrong_shape(right):
    return lambda x: x.exp()[:-1]


# ---- errors ----------------------------------------------------------------------------------------

@bug("error", "softmax")
def raises_at_run_time(right):
    def wrong(*_a, **_k):
        raise RuntimeError("device-side assert")
    return wrong


@bug("timeout", "cat")
def hangs(right):
    def wrong(*a):
        time.sleep(60)
        return right(*a)
    return wrong


@bug("crash", "mean")
def crashes(right):
    def wrong(*_a):
        os.kill(os.getpid(), signal.SIGSEGV)
    return wrong


@bug("nondeterministic", "mean")
def not_deterministic(right):
    state = [0]

    def wrong(x, dim):
        state[0] += 1
        return x.mean(dim) + 1e-6 * state[0]
    return wrong


@pass_bug("error", "tanh")
def raises_at_compile_time(gm):
    if calls(gm, "tanh"):
        raise ValueError("cannot lower aten::tanh")


def eager(gm, _inputs):
    return gm.forward

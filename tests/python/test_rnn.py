#!/usr/bin/python3
"""RNN, GRU and LSTM in all directions. Values come from torch.nn in double where torch has the variant (forward,
bidirectional, packed sequences, initial states), and from rnn_reference.py for what it has not (reverse alone, GRU with
linear_before_reset 0, peepholes, clip, other activations, coupled gates, layout 1). The reference itself is held against
torch. Bounds: running error analysis of the cell in the type's precision, then one rounding."""

import itertools

import numpy as np
import torch

import rnn_reference as ref
from plumbtest import Near, Suite, Tensor, U_COMPUTE, random

suite = Suite()
rng = suite.rng(5)
SIZES = [(1, 1, 1, 1), (4, 2, 3, 5), (7, 3, 4, 2), (2, 1, 6, 17), (3, 5, 1, 3)]  # seq, batch, in, hidden
# torch gate k is ONNX gate ORDER[k]: torch LSTM i f g o, GRU r z n; ONNX LSTM i o f c, GRU z r h
ORDER = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}


class Net:
    """Random parameters of one type; every element is a value of that type."""

    def __init__(self, op, name, size, dirs, bias=True, lens=False, states=False, peepholes=False):
        self.op, self.name, self.size, self.dirs = op, name, size, dirs
        seq, batch, n_in, n = size
        g = ref.N_GATES[op]
        make = lambda *s: random(rng, s, name, -1, 1)
        self.x, self.w, self.r = make(seq, batch, n_in), make(dirs, g * n, n_in), make(dirs, g * n, n)
        self.b = make(dirs, 2 * g * n) if bias else None
        self.lens = Tensor(np.maximum(1, rng.integers(0, seq + 1, batch)).astype(np.int32)) if lens else None
        self.h0 = make(dirs, batch, n) if states else None
        self.c0 = make(dirs, batch, n) if states and op == "LSTM" else None
        self.p = make(dirs, 3 * n) if peepholes else None

    def inputs(self, layout=0):
        turned = lambda t: Tensor(np.ascontiguousarray(np.swapaxes(t.data, 0, 1)), t.name)
        turn = lambda t: t if t is None or not layout else turned(t)
        ins = [turn(self.x), self.w, self.r, self.b, self.lens, turn(self.h0)]
        ins += [turn(self.c0), self.p] if self.op == "LSTM" else []
        while ins[-1] is None:
            ins.pop()
        return ins

    def reference(self, **options):
        wide = lambda t: None if t is None else t.data if t.name == "i32" else t.wide()
        return ref.run(self.op, wide(self.x), wide(self.w), wide(self.r), wide(self.b), wide(self.lens), wide(self.h0),
                       wide(self.c0),
                       wide(self.p), u=U_COMPUTE[self.name], **options)

    def torch(self):
        """The same net in torch.nn, in double."""
        seq, batch, n_in, n = self.size
        g = ref.N_GATES[self.op]
        net = getattr(torch.nn, self.op)(n_in, n, bias=self.b is not None, bidirectional=self.dirs == 2).double()
        gates = lambda m: torch.from_numpy(np.concatenate(
            [m[k * n:(k + 1) * n] for k in ORDER[self.op]]).astype(np.float64))
        with torch.no_grad():
            for d, suffix in enumerate(["", "_reverse"][:self.dirs]):
                getattr(net, "weight_ih_l0" + suffix).copy_(gates(self.w.data[d]))
                getattr(net, "weight_hh_l0" + suffix).copy_(gates(self.r.data[d]))
                if self.b is not None:
                    getattr(net, "bias_ih_l0" + suffix).copy_(gates(self.b.data[d][:g * n]))
                    getattr(net, "bias_hh_l0" + suffix).copy_(gates(self.b.data[d][g * n:]))
            double = lambda t: torch.from_numpy(t.data.astype(np.float64))
            states = None
            if self.h0 is not None:
                states = (double(self.h0), double(self.c0)) if self.op == "LSTM" else double(self.h0)
            x = double(self.x)
            if self.lens is not None:
                lens = torch.from_numpy(self.lens.data.astype(np.int64))
                x = torch.nn.utils.rnn.pack_padded_sequence(x, lens, enforce_sorted=False)
            y, last = net(x, states)
            if self.lens is not None:
                y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=seq)
        y = y.numpy().reshape(seq, batch, self.dirs, n).transpose(0, 2, 1, 3)
        last = [t.numpy() for t in (last if self.op == "LSTM" else (last,))]
        return [y] + last


def add(net, values, direction, layout=0, **attrs):
    """values: Bounded Y, Y_h, Y_c."""
    wants = []
    for i, v in enumerate(values[:3 if net.op == "LSTM" else 2]):
        turn = (lambda a: a.transpose(2, 0, 1, 3)) if i == 0 else (lambda a: a.swapaxes(0, 1))
        wants.append(Near(turn(v.v), turn(v.e), net.name) if layout else v.near(net.name))
    attrs = {**attrs, "layout": 1} if layout else attrs
    suite.add(net.op, net.inputs(layout), wants, opset=22, hidden_size=net.size[3], direction=direction, **attrs)


def against_torch():
    for op, name in itertools.product(ref.N_GATES, ("f32", "f64")):
        suite.group = f"{op} {name} against torch"
        for size, dirs, bias, lens, states in itertools.product(
                SIZES, (1, 2), (True, False), (False, True), (False, True)):
            net = Net(op, name, size, dirs, bias, lens, states)
            after = {"linear_before_reset": 1} if op == "GRU" else {}
            bounds = net.reference(direction="bidirectional" if dirs == 2 else "forward", **after)
            values = net.torch()
            for t, v in zip(values, bounds):
                if np.max(np.abs(t - v.v.astype(np.float64)), initial=0) > 1e-13:
                    raise SystemExit(f"rnn_reference.py and torch differ for {op} {size}")
            # torch itself is in double, so for f64 its own rounding counts once more
            extra = 2 if name == "f64" else 1
            values = [v.of(t.astype(v.v.dtype), extra * v.e) for t, v in zip(values, bounds)]
            add(net, values, "bidirectional" if dirs == 2 else "forward", **after)


def against_reference():
    for op, name in itertools.product(ref.N_GATES, ("f32", "f64")):
        suite.group = f"{op} {name} reverse, states, layout"
        for size, direction, lens, states, layout in itertools.product(
                SIZES, ("forward", "reverse", "bidirectional"), (False, True), (False, True), (0, 1)):
            net = Net(op, name, size, 2 if direction == "bidirectional" else 1, True, lens, states)
            for after in (0, 1) if op == "GRU" else (0,):
                attrs = {"linear_before_reset": after} if op == "GRU" else {}
                add(net, net.reference(direction=direction, **attrs), direction, layout, **attrs)


def reverse_by_flipping():
    """Reverse is forward on the flipped input: also a check of the reference."""
    for op, name in itertools.product(ref.N_GATES, ("f32", "f64")):
        suite.group = f"{op} {name} reverse by flipping, torch"
        for size in SIZES:
            net = Net(op, name, size, 1, True, False, True)
            after = {"linear_before_reset": 1} if op == "GRU" else {}
            flipped = net.reference(direction="reverse", **after)
            ordinary = net.x
            net.x = Tensor(np.ascontiguousarray(net.x.data[::-1]), name)
            values = net.torch()
            net.x = ordinary
            values[0] = values[0][::-1]
            add(net, [v.of(np.ascontiguousarray(t).astype(v.v.dtype), 2 * v.e) for t, v in zip(values, flipped)],
                "reverse", **after)


def variants():
    for name in ("f32", "f64"):
        suite.group = f"LSTM {name} peepholes, clip, coupled gates"
        for size, direction, lens in itertools.product(SIZES, ("forward", "reverse", "bidirectional"), (False, True)):
            net = Net("LSTM", name, size, 2 if direction == "bidirectional" else 1, True, lens, True, peepholes=True)
            add(net, net.reference(direction=direction), direction)
            add(net, net.reference(direction=direction, clip=0.5), direction, clip=0.5)
            add(net, net.reference(direction=direction, input_forget=1), direction, input_forget=1)
        suite.group = f"RNN and GRU {name} clip"
        for op, size in itertools.product(("RNN", "GRU"), SIZES):
            net = Net(op, name, size, 2)
            add(net, net.reference(direction="bidirectional", clip=0.25), "bidirectional", clip=0.25)
        suite.group = f"activations {name}"
        for op, act in itertools.product(ref.N_GATES, ref.ACTIVATIONS):
            per = len(ref.DEFAULTS[op])
            names = [act] + ref.DEFAULTS[op][1:]
            other = ref.DEFAULTS[op][:-1] + [act]
            net = Net(op, name, (3, 2, 3, 4), 1, True, False, True)
            for choice in (names, other):
                add(net, net.reference(activations=choice), "forward", activations=choice)
            net = Net(op, name, (3, 2, 3, 4), 2, True, False, True)
            both = {"activations": names + other}
            add(net, net.reference(direction="bidirectional", **both), "bidirectional", **both)
            alpha, beta = [0.25] * per, [0.125] * per
            net = Net(op, name, (3, 2, 3, 4), 1)
            if act in ("Affine", "ScaledTanh", "HardSigmoid"):
                whole = [act] * per
                values = net.reference(activations=whole, alpha=alpha, beta=beta)
                add(net, values, "forward", activations=whole, activation_alpha=alpha, activation_beta=beta)
            elif act in ("LeakyRelu", "ThresholdedRelu", "Elu"):
                whole = [act] * per
                add(net, net.reference(activations=whole, alpha=alpha), "forward", activations=whole,
                    activation_alpha=alpha)


def outputs_left_out():
    """Only Y_h, or only Y: the others are not wanted."""
    suite.group = "outputs left out"
    for op in ref.N_GATES:
        net = Net(op, "f32", SIZES[1], 2, True, True)
        y, h, cell = net.reference(direction="bidirectional")
        for wants in ([None, h.near("f32")], [y.near("f32")], [None, None, cell.near("f32")]):
            if len(wants) < 3 or op == "LSTM":
                suite.add(op, net.inputs(), wants, opset=22, hidden_size=5, direction="bidirectional")
    net = Net("LSTM", "f32", SIZES[1], 1)
    net.lens = Tensor(np.array([0, 4], np.int32))  # an empty sequence: the state stays, Y is zero
    add(net, net.reference(), "forward")
    add(net, net.reference(direction="reverse"), "reverse")


for make in (against_torch, against_reference, reverse_by_flipping, variants, outputs_left_out):
    make()
suite.finish()

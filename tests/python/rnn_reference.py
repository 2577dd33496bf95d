"""RNN, GRU and LSTM as the ONNX specification writes them (RNN-14, GRU-14, LSTM-14), step by step, on Bounded
values: the result and how far a kernel in that precision may be from it."""

import numpy as np

from plumbtest import Bounded

N_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


# name: (default alpha, default beta, function of (v, a, b), largest slope)
ACTIVATIONS = {
    "Tanh": (0, 0, lambda v, a, b: np.tanh(v), lambda a, b: 1),
    "Sigmoid": (0, 0, lambda v, a, b: sigmoid(v), lambda a, b: 1),
    "Relu": (0, 0, lambda v, a, b: np.maximum(v, 0), lambda a, b: 1),
    "Affine": (1, 0, lambda v, a, b: a * v + b, lambda a, b: abs(a) + abs(b)),
    "LeakyRelu": (0.01, 0, lambda v, a, b: np.where(v >= 0, v, a * v), lambda a, b: max(1, abs(a))),
    "ThresholdedRelu": (1, 0, lambda v, a, b: np.where(v > a, v, 0), lambda a, b: 1),
    "ScaledTanh": (1, 1, lambda v, a, b: a * np.tanh(b * v), lambda a, b: max(abs(a * b), abs(a))),
    "HardSigmoid": (0.2, 0.5, lambda v, a, b: np.clip(a * v + b, 0, 1), lambda a, b: max(abs(a), 1)),
    "Elu": (1, 0, lambda v, a, b: np.where(v >= 0, v, a * np.expm1(v)), lambda a, b: max(1, abs(a))),
    "Softsign": (0, 0, lambda v, a, b: v / (1 + np.abs(v)), lambda a, b: 1),
    "Softplus": (0, 0, lambda v, a, b: np.log1p(np.exp(v)), lambda a, b: 1),
}


def activate(x, spec):
    name, alpha, beta = spec
    default_a, default_b, fn, slope = ACTIVATIONS[name]
    a = np.float64(default_a if alpha is None else np.float32(alpha))  # an attribute is a float
    b = np.float64(default_b if beta is None else np.float32(beta))
    return x.map(lambda v: fn(v, a, b), slope(a, b), 4)


def clipped(x, limit):
    return x if limit is None else x.of(np.clip(x.v, -np.float64(np.float32(limit)), np.float64(np.float32(limit))),
                                        x.e)


def step(op, x, h, cell, w, r, b, p, acts, clip, reset_after, coupled):
    """One time step of one direction. x [batch, in], h and cell [batch, hidden]."""
    n = h.v.shape[-1]
    gate = lambda m, k: m[k * n:(k + 1) * n]
    wb, rb = b[:N_GATES[op] * n], b[N_GATES[op] * n:]
    line = lambda k: x @ gate(w, k).T + h @ gate(r, k).T + gate(wb, k) + gate(rb, k)
    act = lambda v, k: activate(clipped(v, clip), acts[k])
    if op == "RNN":
        return act(line(0), 0), None
    if op == "GRU":
        z, reset = act(line(0), 0), act(line(1), 0)
        if reset_after:
            new = x @ gate(w, 2).T + reset * (h @ gate(r, 2).T + gate(rb, 2)) + gate(wb, 2)
        else:
            new = x @ gate(w, 2).T + (reset * h) @ gate(r, 2).T + gate(rb, 2) + gate(wb, 2)
        new = act(new, 1)
        return (Bounded(np.ones_like(z.v), 0, z.u) - z) * new + z * h, None
    i = act(line(0) + gate(p, 0) * cell, 0)
    f = Bounded(np.ones_like(i.v), 0, i.u) - i if coupled else act(line(2) + gate(p, 2) * cell, 0)
    cell = f * cell + i * act(line(3), 1)
    o = act(line(1) + gate(p, 1) * cell, 0)
    return o * act(cell, 2), cell  # clip: "applied to the input of activations", so to h's, too


def run(op, x, w, r, b=None, lens=None, h0=None, c0=None, p=None, direction="forward", activations=None, alpha=None,
        beta=None,
        clip=None, linear_before_reset=0, input_forget=0, u=2.0**-24):
    """x [seq, batch, in], w [dirs, gates * hidden, in] and so on, in the wide type. Returns Bounded Y, Y_h, Y_c."""
    seq, batch, _ = x.shape
    dirs, n = w.shape[0], r.shape[-1]
    kind = x.dtype
    zeros = lambda *s: np.zeros(s, kind)
    b = zeros(dirs, 2 * N_GATES[op] * n) if b is None else b
    p = zeros(dirs, 3 * n) if p is None else p
    lens = np.full(batch, seq) if lens is None else lens
    names = (activations or DEFAULTS[op] * dirs)
    alphas, betas = list(alpha or []), list(beta or [])
    y_v, y_e = zeros(seq, dirs, batch, n), zeros(seq, dirs, batch, n)
    last = {"h": (zeros(dirs, batch, n), zeros(dirs, batch, n)), "c": (zeros(dirs, batch, n), zeros(dirs, batch, n))}
    for d in range(dirs):
        per = len(DEFAULTS[op])
        acts = [(name, alphas.pop(0) if alphas else None,
                 betas.pop(0) if betas else None) for name in names[d * per:(d + 1) * per]]
        backward = direction == "reverse" or d == 1
        bounded = lambda v: Bounded(v, 0, u)
        h = bounded(zeros(batch, n) if h0 is None else h0[d])
        cell = bounded(zeros(batch, n) if c0 is None else c0[d])
        weights = [bounded(v[d]) for v in (w, r, b, p)]
        for k in range(int(np.max(lens, initial=0))):
            on = np.flatnonzero(k < lens)  # the sequences that are still running, each at its own time
            times = lens[on] - 1 - k if backward else np.full(len(on), k)
            new, new_cell = step(op, bounded(x[times, on]), h[on], cell[on], *weights, acts, clip, linear_before_reset,
                                 input_forget)
            h = h.put(on, new)
            cell = cell if new_cell is None else cell.put(on, new_cell)
            y_v[times, d, on], y_e[times, d, on] = new.v, new.e
        for key, value in (("h", h), ("c", cell)):
            last[key][0][d], last[key][1][d] = value.v, value.e
    return Bounded(y_v, y_e, u), Bounded(*last["h"], u), Bounded(*last["c"], u)

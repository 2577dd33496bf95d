#!/usr/bin/python3
"""Operators on random tensors of every type that they allow and on odd shapes (0-d, empty, broadcast),
against NumPy. Integers, bools and correctly rounded float operations must agree exactly; every other
float result has its own bound: n ulp of the type that is computed in, or u * c(K) * sum|terms| for sums."""

import itertools
import math

import numpy as np

from plumbtest import (FLOATS, FORMAT, INTS, NUMBERS, OPSET, SIGNED, TYPES, U_COMPUTE, UNSIGNED, Bounded, Exact, Near,
                       Suite, Tensor, c, exactly, int64, random, round_to, within_ulps)

suite = Suite()
rng = suite.rng(2024)
add = suite.add

SHAPES = [(), (1,), (0,), (7,), (2, 0, 3), (3, 5), (2, 3, 4), (1, 1, 1, 1), (2, 1, 3, 2, 2), (1037,)]
PAIRS = [((), ()), ((3,), ()), ((), (2, 3)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((0, 3), (1, 3)), ((1,), (0,)),
         ((5, 1), (1, 0)), ((17,), (17,)), ((2, 3, 4, 5), (3, 1, 5)), ((4, 1, 1), (1, 3, 1)), ((33, 65), (65,)),
         ((1, 1), (5,)), ((6, 1), (6, 70))]
erf = np.vectorize(math.erf, otypes=[np.float64])


def specials(name):
    """Zeros, infinities, NaN, the smallest and largest numbers, halves."""
    bits, low, top = FORMAT[name]
    tiny = 2.0**low
    x = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, 60.0, -60.0, 1000.0, -1000.0,
         tiny, -tiny, tiny * 2.0 ** (1 - bits), top, -top]
    return Tensor(round_to(np.array(x), name), name)


def unary_inputs(name, low, high):
    yield specials(name)
    for shape in SHAPES:
        yield random(rng, shape, name, low, high)


def quiet(fn, *x):
    with np.errstate(all="ignore"):
        return fn(*x)


# ---- elementwise ---------------------------------------------------------------------------------

def unary():
    exact = {"Ceil": np.ceil, "Floor": np.floor, "Round": np.rint, "Sqrt": np.sqrt, "Reciprocal": lambda v: 1 / v,
             "Abs": np.abs, "Neg": np.negative, "Sign": np.sign,
             "Relu": lambda v: np.where(np.isnan(v), v, np.maximum(v, 0))}
    # glibc states at most 1 to 2 ulp for these in float and double; src/kernels/vmath.h 2 ulp for its own
    libm = {"Acos": (np.arccos, -1, 1), "Asin": (np.arcsin, -1, 1), "Atan": (np.arctan, -9, 9), "Cos": (np.cos, -9, 9),
            "Sin": (np.sin, -9, 9), "Tan": (np.tan, -9, 9), "Cosh": (np.cosh, -9, 9), "Sinh": (np.sinh, -9, 9),
            "Acosh": (np.arccosh, 1, 50), "Asinh": (np.arcsinh, -50, 50), "Atanh": (np.arctanh, -1, 1),
            "Exp": (np.exp, -20, 20), "Log": (np.log, 0, 99), "Tanh": (np.tanh, -9, 9),
            "Erf": (lambda v: erf(v.astype(np.float64)).astype(v.dtype), -4, 4)}
    for name in FLOATS:
        suite.group = f"unary exact {name}"
        for op, fn in exact.items():
            for x in unary_inputs(name, -9, 9):
                add(op, [x], exactly(quiet(fn, x.double()), name))
        suite.group = f"unary libm {name}"
        for op, (fn, low, high) in libm.items():
            # erf's own reference is double: one ulp more for f64
            n = 3 if op == "Erf" and name == "f64" else 2
            for x in unary_inputs(name, low, high):
                add(op, [x], within_ulps(quiet(fn, x.wide()), name, n))
        suite.group = f"unary classify {name}"
        for x in unary_inputs(name, -9, 9):
            add("IsNaN", [x], Exact(np.isnan(x.data)))
            add("IsInf", [x], Exact(np.isinf(x.data)))
            add("IsInf", [x], Exact(np.isposinf(x.data)), detect_negative=0)
            add("IsInf", [x], Exact(np.isneginf(x.data)), detect_positive=0)
    for name in INTS:
        suite.group = f"unary {name}"
        info = np.iinfo(TYPES[name][1])
        for x in [Tensor(np.array([info.min, info.max, 0, 1, info.min + 1], TYPES[name][1]))] + \
                [random(rng, s, name) for s in SHAPES]:
            add("Abs", [x], Exact(np.abs(x.data)))
            add("Sign", [x], Exact(np.sign(x.data)))
            add("BitwiseNot", [x], Exact(~x.data))
            if name in SIGNED:
                add("Neg", [x], Exact(np.negative(x.data)))
                add("Relu", [x], Exact(np.maximum(x.data, 0).astype(x.data.dtype)))
    suite.group = "unary bool"
    for s in SHAPES:
        x = random(rng, s, "bool")
        add("Not", [x], Exact(~x.data))


def activations():
    """err: from the formula as written, u = unit roundoff of the type computed in; 4u stands for exp or
    tanh (2 ulp) and 2u for each further rounding."""
    sig = lambda v: np.where(v >= 0, 1 / (1 + np.exp(-np.abs(v))), np.exp(-np.abs(v)) / (1 + np.exp(-np.abs(v))))
    softplus = lambda v: np.maximum(v, 0) + np.log1p(np.exp(-np.abs(v)))
    gelu = lambda v: v / 2 * (1 + erf((v / np.sqrt(np.longdouble(2))).astype(np.float64)))
    k = np.sqrt(2 / np.longdouble(np.pi))
    table = {
        "Sigmoid": (sig, {}, lambda x, y, u: 8 * u * y + u),
        "Softplus": (softplus, {}, lambda x, y, u: 8 * u * y),
        "Softsign": (lambda v: v / (1 + np.abs(v)), {}, lambda x, y, u: 4 * u * np.abs(y)),
        "Elu": (lambda v: np.where(v < 0, 0.75 * np.expm1(v), v), {"alpha": 0.75}, lambda x, y,
                u: 6 * u * (np.abs(y) + 1)),
        "Selu": (lambda v: np.where(v < 0, 1.25 * 1.5 * np.expm1(v), v * 1.25), {"alpha": 1.5, "gamma": 1.25},
                 lambda x, y, u: 8 * u * (np.abs(y) + 2)),
        "Celu": (lambda v: np.maximum(v, 0) + np.minimum(0, 2 * np.expm1(v / 2)), {"alpha": 2.0},
                 lambda x, y, u: 6 * u * (np.abs(y) + 2)),
        "LeakyRelu": (lambda v: np.where(v < 0, 0.125 * v, v), {"alpha": 0.125}, lambda x, y, u: 0 * y),
        "ThresholdedRelu": (lambda v: np.where(v > 0.5, v, 0), {"alpha": 0.5}, lambda x, y, u: 0 * y),
        "HardSigmoid": (lambda v: np.clip(0.25 * v + 0.5, 0, 1), {"alpha": 0.25, "beta": 0.5},
                        lambda x, y, u: 2 * u * (np.abs(x) / 4 + 1)),
        "HardSwish": (lambda v: v * np.clip(v / 6 + 0.5, 0, 1), {}, lambda x, y,
                      u: 6 * u * np.abs(x) * (np.abs(x) / 6 + 1)),
        "Mish": (lambda v: v * np.tanh(softplus(v)), {}, lambda x, y, u: 16 * u * np.abs(x)),
        "Gelu": (gelu, {}, lambda x, y, u: 8 * u * np.abs(x)),
        "Gelu tanh": (lambda v: v / 2 * (1 + np.tanh(k * (v + np.longdouble("0.044715") * v**3))),
                      {"approximate": "tanh"},
                      lambda x, y, u: 16 * u * np.abs(x)),
        "Shrink": (lambda v: np.where(v < -0.5, v + 0.25, np.where(v > 0.5, v - 0.25, 0)), {"lambd": 0.5, "bias": 0.25},
                   lambda x, y, u: 0 * y),
        "Swish": (lambda v: v * sig(v), {}, lambda x, y, u: 10 * u * np.abs(x)),
    }
    for name in FLOATS:
        suite.group = f"activations {name}"
        for op, (fn, attrs, err) in table.items():
            for s in SHAPES:
                x = random(rng, s, name, -6, 6)
                w = x.wide()
                y = quiet(fn, w)
                # the reference for Gelu goes through a double erf: as good as the type computed in
                add(op.split()[0], [x], Near(y, err(w, y, U_COMPUTE[name]), name), opset=24, **attrs)


def binary():
    exact = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
    for name in FLOATS:
        suite.group = f"binary {name}"
        s = specials(name)
        pairs = [(Tensor(s.data[:, None], name), Tensor(s.data[None, :], name))]
        pairs += [(random(rng, a, name), random(rng, b, name)) for a, b in PAIRS]
        for op, fn in exact.items():
            for a, b in pairs:
                add(op, [a, b], exactly(quiet(fn, a.double(), b.double()), name))
        for a, b in pairs:
            add("Max", [a, b], Exact(np.maximum(a.data, b.data), name))
            add("Min", [a, b], Exact(np.minimum(a.data, b.data), name))
            rest = quiet(np.fmod, a.double(), b.double())
            add("Mod", [a, b], exactly(rest, name), fmod=1)  # a remainder is exact
            extra = random(rng, (), name)
            third = [a, b, extra]
            add("Max", third, Exact(np.maximum(np.maximum(a.data, b.data), extra.data), name))
        for a, b in pairs[1:]:
            parts = [v.wide() for v in (a, b, random(rng, (), name))]
            total, size = sum(parts), sum(abs(v) for v in parts)
            third = Tensor(round_to(parts[2], name), name)
            add("Sum", [a, b, third], Near(total, 2 * U_COMPUTE[name] * size, name))
            add("Mean", [a, b, third], Near(total / 3, U_COMPUTE[name] * size, name))
            add("Sum", [a], Exact(a))
        for a, b in PAIRS:
            x, slope = random(rng, np.broadcast_shapes(a, b), name), random(rng, b, name)
            add("PRelu", [x, slope], exactly(np.where(x.double() < 0, x.double() * slope.double(), x.double()), name))
    for name in INTS:
        suite.group = f"binary {name}"
        kind, info = TYPES[name][1], np.iinfo(TYPES[name][1])
        ends = np.array([info.min, info.min + 1, 0, 1, 2, info.max - 1, info.max], kind)
        for a, b in [(Tensor(ends[:, None]), Tensor(ends[None, :]))] + \
                [(random(rng, p, name), random(rng, q, name)) for p, q in PAIRS]:
            for op, fn in {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum,
                           "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or,
                           "BitwiseXor": np.bitwise_xor}.items():
                add(op, [a, b], Exact(quiet(fn, a.data, b.data)))
            d = Tensor(np.where(b.data == 0, kind(3), b.data).astype(kind))
            grid = np.broadcast_arrays(a.data, d.data)
            q = [quotient(int(n), int(m)) for n, m in zip(grid[0].ravel(), grid[1].ravel())]
            shape = np.broadcast_shapes(a.shape, d.shape)
            add("Div", [a, d], Exact(np.array([v % (1 << (8 * kind().itemsize)) for v in q], np.uint64)
                                     .astype(kind).reshape(shape)))
            add("Mod", [a, d], Exact(quiet(np.mod, a.data, d.data)))
            add("Mod", [a, d], Exact(quiet(np.fmod, a.data, d.data)), fmod=1)
            if name in UNSIGNED:
                n = Tensor((b.data % (8 * kind().itemsize)).astype(kind))
                add("BitShift", [a, n], Exact(np.left_shift(a.data, n.data)), direction="LEFT")
                add("BitShift", [a, n], Exact(np.right_shift(a.data, n.data)), direction="RIGHT")


def quotient(n, m):
    """Towards zero, in whole numbers of any size."""
    return abs(n) // abs(m) * (1 if (n < 0) == (m < 0) else -1)


def powers():
    bases, exponents = ["f16", "bf16", "f32", "f64", "i32", "i64"], NUMBERS
    for base in bases:
        suite.group = f"Pow {base}"
        for exponent in exponents:
            for a, b in PAIRS:
                if base in FORMAT:
                    low = 0.25 if exponent in FORMAT else -3
                    x, y = random(rng, a, base, low, 3), random(rng, b, exponent, -3 if exponent[0] != "u" else 0, 4)
                    wide = np.longdouble
                    add("Pow", [x, y], within_ulps(quiet(np.power, x.data.astype(wide), y.data.astype(wide)), base, 2))
                else:  # whole exponents: what an integer base gives for others is not defined
                    x, y = random(rng, a, base, -4, 5), random(rng, b, "i64", 0, 6)
                    y = Tensor(y.data.astype(TYPES[exponent][1]), exponent)
                    add("Pow", [x, y], Exact(np.power(x.data.astype(np.int64),
                                                      y.data.astype(np.int64)).astype(TYPES[base][1])))
        if base in FORMAT:
            x = specials(base)
            for e in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -2.0, -0.5):
                y = Tensor(np.array(e, TYPES[base][1]), base)
                add("Pow", [x, y], within_ulps(quiet(np.power, x.wide(), y.wide()), base, 2))


def comparisons():
    table = {"Equal": np.equal, "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal,
             "GreaterOrEqual": np.greater_equal}
    for name in NUMBERS:
        suite.group = f"comparisons {name}"
        if name in FORMAT:
            ends = specials(name)
        else:
            info = np.iinfo(TYPES[name][1])
            ends = Tensor(np.array([info.min, 0, 1, info.max - 1, info.max], TYPES[name][1]))
        pairs = [(Tensor(ends.data[:, None], name), ends)]
        pairs += [(random(rng, a, name, -2 if name[0] != "u" else 0, 3),
                   random(rng, b, name, -2 if name[0] != "u" else 0, 3))
                  for a, b in PAIRS]
        for op, fn in table.items():
            for a, b in pairs:
                add(op, [a, b], Exact(fn(a.data, b.data)))
    suite.group = "comparisons bool and string"
    for a, b in PAIRS:
        p, q = random(rng, a, "bool"), random(rng, b, "bool")
        for op, fn in {"Equal": np.equal, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}.items():
            add(op, [p, q], Exact(fn(p.data, q.data)))
        s, t = random(rng, a, "str"), random(rng, b, "str")
        add("Equal", [s, t], Exact(np.asarray(s.data == t.data, dtype=np.bool_)))


def selections():
    for name in NUMBERS + ["bool", "str", "c64", "c128"]:
        suite.group = f"Where and Clip {name}"
        for a, b in PAIRS:
            x, y = random(rng, a, name), random(rng, b, name)
            cond = random(rng, a[-1:], "bool")
            shape = np.broadcast_shapes(a, b, cond.shape)
            want = np.where(np.broadcast_to(cond.data, shape), x.data, y.data)
            add("Where", [cond, x, y], Exact(want, name))
        if name not in NUMBERS:
            continue
        lo, hi = (-1 if name[0] != "u" else 2), 3
        low, high = (Tensor(np.array(v, TYPES[name][1]), name) for v in (lo, hi))
        for s in SHAPES:
            x = random(rng, s, name, (-6 if name[0] != "u" else 0), 7)
            add("Clip", [x, low, high], Exact(np.clip(x.data, low.data, high.data), name))
            add("Clip", [x, low], Exact(np.maximum(x.data, low.data), name))
            add("Clip", [x, None, high], Exact(np.minimum(x.data, high.data), name))
            add("Clip", [x], Exact(x))
            add("Clip", [x, high, low], Exact(np.full_like(x.data, low.data), name))  # Clip-13: min > max gives max


# ---- reductions ----------------------------------------------------------------------------------

def reduce_reference(op, x, axes, keep):
    """Value and error before the last rounding, u * c(K) * sum|terms| carried through the function."""
    w, u = x.wide(), U_COMPUTE.get(x.name, 0)
    k = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    total = lambda v: np.sum(v, axis=axes, keepdims=keep)
    size = total(np.abs(w))
    if op in ("ReduceSum", "ReduceL1"):
        return (total(w) if op == "ReduceSum" else size), u * c(k) * size
    if op == "ReduceMean":
        return total(w) / k, u * (c(k) + 1) * size / k
    if op == "ReduceSumSquare":
        return total(w * w), u * (c(k) + 1) * total(w * w)
    if op == "ReduceL2":
        y = np.sqrt(total(w * w))
        return y, u * (c(k) + 2) * y
    if op == "ReduceProd":
        y = np.prod(w, axis=axes, keepdims=keep)
        return y, u * k * np.abs(y)
    if op == "ReduceLogSum":
        y = np.log(total(w))
        return y, 4 * u * np.abs(y) + u * c(k)  # sum has relative error u c(k): terms are positive
    if op == "ReduceLogSumExp":
        y = np.log(total(np.exp(w)))
        return y, 4 * u * np.abs(y) + u * (c(k) + 6 + 2 * np.max(np.abs(w), initial=0))
    w = x.double()
    fn = np.max if op == "ReduceMax" else np.min
    return fn(w, axis=axes, keepdims=keep), 0 * size


SUMS = ["ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceLogSum",
        "ReduceLogSumExp"]


def reduce_cases():
    """(shape, axes or None, given form)"""
    for shape in [(), (5,), (3, 4), (2, 3, 4), (2, 3, 2, 3), (1, 7, 1), (2, 1, 130)]:
        rank = len(shape)
        for n in range(rank + 1):
            for axes in itertools.combinations(range(rank), n):
                yield shape, axes
    for shape in [(64, 33), (700,), (3, 40, 17)]:
        yield shape, (0,)
        yield shape, (len(shape) - 1,)
        yield shape, tuple(range(len(shape)))


def add_reduce(op, x, axes, keep):
    everything = len(axes) == 0 or len(axes) == len(x.shape)
    over = tuple(range(len(x.shape))) if len(axes) == 0 else axes
    y, err = quiet(reduce_reference, op, x, over, keep)
    if x.name in FORMAT:
        want = Near(y, err, x.name) if op not in ("ReduceMax", "ReduceMin") else exactly(y, x.name)
    else:
        want = truncated(y, x.name)
    signed = [a - len(x.shape) if rng.random() < 0.5 else a for a in axes]
    rng.shuffle(signed)
    keepdims = {} if keep and rng.random() < 0.5 else {"keepdims": int(keep)}
    old = 12 if op == "ReduceSum" else 17
    if len(axes) == 0:
        add(op, [x], want, **keepdims)
        add(op, [x, int64(shape=(0,))], want, **keepdims)
        add(op, [x, int64(shape=(0,))], Exact(x) if op in ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin")
            else each_alone(op, x), noop_with_empty_axes=1, **keepdims)
    else:
        add(op, [x, int64(*signed)], want, **keepdims)
        if everything and keep:
            add(op, [x], want)
        if x.name in ("f32", "f64", "i32", "i64"):
            add(op, [x], want, opset=old, axes=[int(a) for a in signed], **keepdims)


def truncated(y, name):
    """Integers: the real result towards zero; log(exp(1)) is 1 whatever double makes of it."""
    whole = np.rint(y)
    return Exact(np.where(np.abs(y - whole) < 1e-9, whole, np.trunc(y)).astype(TYPES[name][1]))


def each_alone(op, x):
    """noop_with_empty_axes (Reduce*-18): nothing is reduced, the rest of the formula is applied to each
    element: |x|, x * x, sqrt(x * x), log(x), log(exp(x))."""
    y, err = quiet(reduce_reference, op, Tensor(x.data[None], x.name), (0,), False)
    return Near(y, err, x.name) if x.name in FORMAT else truncated(y, x.name)


def reductions():
    for name in FLOATS + ["i32", "i64", "u32", "u64"]:
        for op in SUMS:
            suite.group = f"reduce sums {name}"
            for shape, axes in reduce_cases():
                if name in FORMAT:
                    low, high = (0.25, 2) if op == "ReduceLogSum" else (0.8, 1.25) if op == "ReduceProd" else (-2, 2)
                else:
                    low, high = (1, 4) if op in ("ReduceProd", "ReduceLogSum", "ReduceLogSumExp") else (None, None)
                    if op == "ReduceProd" and np.prod(shape) > 20:
                        high = 2
                    if op in ("ReduceLogSum", "ReduceLogSumExp") and len(shape) > 2:
                        continue
                x = random(rng, shape, name, low, high)
                for keep in (True, False):
                    add_reduce(op, x, axes, keep)
    for name in NUMBERS + ["bool"]:
        suite.group = f"reduce max and min {name}"
        for shape, axes in reduce_cases():
            x = random(rng, shape, name)
            for keep in (True, False):
                for op in ("ReduceMax", "ReduceMin"):
                    if name not in ("i16", "u16"):
                        add_reduce(op, x, axes, keep)


def empty_reductions():
    """The neutral element (ONNX Reduce*-18 and -20: sum 0, product 1, max the lowest value, min the highest)."""
    suite.group = "reduce empty"
    for name in FLOATS + ["i32", "i64", "u8", "i8"]:
        kind = TYPES[name][1]
        neutral = {"ReduceSum": 0, "ReduceProd": 1, "ReduceL1": 0, "ReduceL2": 0, "ReduceSumSquare": 0}
        if name in FORMAT:
            neutral.update({"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceLogSum": -np.inf,
                            "ReduceLogSumExp": -np.inf})
        else:
            neutral.update({"ReduceMax": np.iinfo(kind).min, "ReduceMin": np.iinfo(kind).max})
        for op, value in neutral.items():
            if name in ("u8", "i8") and op not in ("ReduceMax", "ReduceMin"):
                continue
            for shape, axes in [((0,), (0,)), ((2, 0, 3), (1,)), ((2, 0, 3), (0, 1)), ((2, 0, 3), (0,)),
                                ((2, 0), (0, 1))]:
                x = Tensor(np.zeros(shape, kind), name)
                for keep in (True, False):
                    out = [1 if a in axes else d for a, d in enumerate(shape) if keep or a not in axes]
                    add(op, [x, int64(*axes)], Exact(np.full(out, value, kind), name), keepdims=int(keep))


def arg_reductions():
    for name in NUMBERS:
        suite.group = f"ArgMax and ArgMin {name}"
        for shape in [(5,), (3, 4), (2, 3, 4), (1, 7, 1), (2, 1, 130), (33, 17)]:
            x = random(rng, shape, name, 0, 4)  # many ties
            x = Tensor(np.rint(x.data.astype(np.float64)).astype(TYPES[name][1]), name)
            for axis in range(len(shape)):
                for op, fn in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
                    for keep, last in itertools.product((0, 1), (0, 1)):
                        data = np.flip(x.data, axis) if last else x.data
                        y = fn(data, axis=axis)
                        y = shape[axis] - 1 - y if last else y
                        y = np.expand_dims(y, axis) if keep else y
                        add(op, [x], Exact(np.asarray(y, np.int64)), keepdims=keep, select_last_index=last,
                            axis=axis if rng.random() < 0.5 else axis - len(shape))
        add("ArgMax", [Tensor(np.zeros((0, 3), TYPES[name][1]), name)], Exact(np.zeros((0, 1), np.int64)), axis=1)


def running_sums():
    for name in FLOATS + ["i32", "i64", "u32", "u64"]:
        suite.group = f"CumSum {name}"
        for shape in [(5,), (3, 4), (2, 3, 4), (0, 3), (3, 0), (2, 1, 130)]:
            x = random(rng, shape, name)
            for axis, exclusive, reverse in itertools.product(range(len(shape)), (0, 1), (0, 1)):
                run = lambda v: scan(v, axis, exclusive, reverse)
                if name in FORMAT:
                    n = scan(np.ones(shape), axis, exclusive, reverse)
                    # one accumulator, in order: at most n - 1 additions
                    want = Near(run(x.wide()), U_COMPUTE[name] * np.maximum(n - 1, 0) * run(np.abs(x.wide())), name)
                else:
                    want = Exact(run(x.data).astype(x.data.dtype))
                at = np.array(axis if rng.random() < 0.5 else axis - len(shape), rng.choice([np.int32, np.int64]))
                add("CumSum", [x, Tensor(at)], want, exclusive=exclusive, reverse=reverse)


def scan(v, axis, exclusive, reverse):
    v = np.flip(v, axis) if reverse else v
    y = np.cumsum(v, axis=axis, dtype=v.dtype)
    y = y - v if exclusive and v.dtype.kind in "iu" else y
    if exclusive and v.dtype.kind == "f":  # shifted, not subtracted: no cancellation in the reference
        y = np.roll(y, 1, axis)
        if y.shape[axis] > 0:
            y[tuple(slice(None) if a != axis else 0 for a in range(y.ndim))] = 0
    return np.flip(y, axis) if reverse else y


# ---- products ------------------------------------------------------------------------------------

def product(fn, name, *tensors, k, factor=1.0, extra=0.0):
    """Expectation of a bilinear function: u * c(K) * the same function of absolute values."""
    w = [t.wide() for t in tensors]
    if name not in FORMAT:
        return Exact(fn(*[t.data.astype(np.int64) for t in tensors]).astype(TYPES[name][1]), name)
    return Near(fn(*w), U_COMPUTE[name] * c(k) * fn(*[np.abs(v) for v in w]), name)


def products():
    shapes = [((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
              ((2, 1, 2, 3), (4, 3, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((0, 3), (3, 4)), ((2, 0), (0, 4)),
              ((2, 3), (3, 0)), ((0, 2, 3), (3, 4)), ((0,), (0,)), ((1, 1), (1, 1)), ((17, 33), (33, 65)),
              ((1, 129), (129, 1)),
              ((3, 1, 7, 5), (1, 4, 5, 6)), ((65, 200), (200, 9))]
    for name in FLOATS + ["i32", "i64", "u32", "u64"]:
        suite.group = f"MatMul {name}"
        for a, b in shapes:
            x, y = random(rng, a, name), random(rng, b, name)
            add("MatMul", [x, y], product(np.matmul, name, x, y, k=a[-1]))
        suite.group = f"Gemm {name}"
        for m, n, k in [(2, 3, 4), (1, 1, 1), (0, 3, 4), (2, 0, 4), (2, 3, 0), (5, 17, 33)]:
            for ta, tb in itertools.product((0, 1), (0, 1)):
                x = random(rng, (k, m) if ta else (m, k), name)
                y = random(rng, (n, k) if tb else (k, n), name)
                for cs in [None, (), (1,), (n,), (m, 1), (1, n), (m, n)]:
                    whole = name not in FORMAT
                    alpha, beta = (2.0, 3.0) if whole else (0.5, -1.25)
                    z = None if cs is None else random(rng, cs, name)
                    parts = [x, y] + ([] if z is None else [z])
                    fn = lambda p, q, r=None, s=(alpha, beta), t=(ta, tb): gemm(p, q, r, s, t)
                    if whole:
                        want = Exact(fn(*[t.data.astype(np.int64) for t in parts]).astype(TYPES[name][1]), name)
                    else:
                        size = gemm(*[np.abs(t.wide()) for t in parts[:2]], None if z is None else np.abs(z.wide()),
                                    (alpha, abs(beta)), (ta, tb))
                        # products, then alpha, beta and one addition: three roundings more
                        want = Near(fn(*[t.wide() for t in parts]), U_COMPUTE[name] * (c(k) + 3) * size, name)
                    add("Gemm", parts, want, alpha=alpha, beta=beta, transA=ta, transB=tb)


def gemm(a, b, z, scale, transposed):
    y = scale[0] * ((a.T if transposed[0] else a) @ (b.T if transposed[1] else b))
    y = y if z is None else y + scale[1] * z
    return y.astype(a.dtype)


def einsums():
    size = {"i": 2, "j": 3, "k": 4, "l": 5, "b": 2}
    equations = ["i,i->", "i,j->ij", "ij,jk->ik", "ij,jk", "bij,bjk->bik", "ij->ji", "ij->", "ii->i", "ii", "bii->bi",
                 "ij,ij->i",
                 "ijk,ik->jk", "i,ij,j->", "...ij,...jk->...ik", "...ij->...", "ij,kl->ijkl", "bij,bkj->bik",
                 "...ii->...i",
                 "b...,b...->b...", "ij , jk -> ik", "k...,jk", "bijk,bljk->bil"]
    lead = {"...": (2, 1)}
    for name in FLOATS + ["i32", "i64"]:
        suite.group = f"Einsum {name}"
        for equation in equations:
            terms = equation.split("->")[0].replace(" ", "").split(",")
            shapes = [shape_with_dots(term, size, lead["..."]) for term in terms]
            args = [random(rng, s, name) for s in shapes]
            k = int(np.prod([size[t] for t in set("".join(terms)) - set(".")]))
            fn = lambda *v, e=equation: np.asarray(np.einsum(e, *v))
            add("Einsum", args, product(fn, name, *args, k=k * len(args)), equation=equation)
        args = [random(rng, (2, 0), name), random(rng, (0, 3), name)]
        add("Einsum", args, Exact(np.zeros((2, 3), TYPES[name][1]), name), equation="ij,jk->ik")


def shape_with_dots(term, size, lead):
    head, dots, tail = term.partition("...")
    return tuple(size[t] for t in head) + (lead if dots else ()) + tuple(size[t] for t in tail)


# ---- softmax and norms ---------------------------------------------------------------------------

def softmaxes():
    """Error: D = u (4 + |x - max| + c(K)) per exponential, E = y (D + sum y D); LogSoftmax D + sum p D + 2u|y|."""
    for name in FLOATS:
        suite.group = f"softmax {name}"
        u = U_COMPUTE[name]
        for shape in [(), (1,), (5,), (3, 4), (2, 3, 4), (2, 1, 130), (0, 3), (2, 3, 2, 2), (3, 700)]:
            x = random(rng, shape, name, -6, 6)
            w = x.wide()
            for axis in range(-len(shape), len(shape)) or [-1]:
                if len(shape) == 0:
                    continue
                for opset in (OPSET, 11):
                    if opset == 11 and (name == "bf16" or axis < 0):
                        continue
                    flat = w if opset == OPSET else w.reshape(int(np.prod(shape[:axis], dtype=np.int64)), -1) \
                        if np.prod(shape) else w
                    over = axis if opset == OPSET else -1
                    shifted = flat - np.max(flat, axis=over, keepdims=True, initial=-99)
                    p = np.exp(shifted)
                    p = p / np.sum(p, axis=over, keepdims=True)
                    d = u * (4 + np.abs(shifted) + c(flat.shape[over]))
                    mixed = np.sum(p * d, axis=over, keepdims=True)
                    add("Softmax", [x], Near(p.reshape(shape), (p * (d + mixed)).reshape(shape), name), opset=opset,
                        axis=axis)
                    y = shifted - quiet(np.log, np.sum(np.exp(shifted), axis=over, keepdims=True))
                    err = d + mixed + 2 * u * np.abs(y)
                    add("LogSoftmax", [x], Near(y.reshape(shape), err.reshape(shape), name), opset=opset, axis=axis)
                    h = np.zeros(flat.shape)
                    if flat.size:
                        np.put_along_axis(h, np.expand_dims(np.argmax(flat, over), over), 1, over)
                    add("Hardmax", [x], Exact(h.reshape(shape), name), opset=opset, axis=axis)
        low = Tensor(np.array([[-np.inf, 0, 1], [0, -np.inf, -np.inf]], TYPES[name][1]), name)
        e = np.exp(np.array([0, 1.0], np.longdouble))
        want = np.array([[0, *(e / e.sum())], [1, 0, 0]])
        add("Softmax", [low], Near(want, 8 * u, name))


def norms():
    """Formulas spelt out in NumPy; each error follows blame.md section 2 (LayerNorm, LpNorm, LRN rows)."""
    for name in FLOATS:
        suite.group = f"norms {name}"
        u = U_COMPUTE[name]
        for shape in [(2, 3), (2, 3, 4), (1, 5, 7), (3, 2, 4, 5), (2, 130)]:
            x = random(rng, shape, name)
            w = x.wide()
            for axis in range(-len(shape), len(shape)):
                k = shape[axis]
                for p in (1, 2):
                    n = np.sum(np.abs(w) ** p, axis, keepdims=True)
                    n = np.sqrt(n) if p == 2 else n
                    add("LpNormalization", [x], Near(w / n, u * (c(k) + 3) * np.abs(w / n), name), axis=axis, p=p)
                scale = random(rng, shape[axis:] if axis < 0 else shape[axis:], name, 0.5, 2)
                bias = random(rng, scale.shape, name)
                over = tuple(range(axis % len(shape), len(shape)))
                y, err = layer_norm(w, scale.wide(), bias.wide(), over, 1e-3, u)
                add("LayerNormalization", [x, scale, bias], Near(y, err, name), axis=axis, epsilon=1e-3)
                r = np.sqrt(np.mean(w * w, axis=over, keepdims=True) + np.float32(1e-3))
                k = int(np.prod([shape[a] for a in over]))
                y = w / r * scale.wide()
                add("RMSNormalization", [x, scale], Near(y, u * (c(k) + 5) * np.abs(y), name), axis=axis, epsilon=1e-3)
            axes = [0] + list(range(2, len(shape)))
            m = np.mean(w, axis=tuple(axes), keepdims=True)
            var = np.mean((w - m) ** 2, axis=tuple(axes), keepdims=True)
            k = int(np.prod([shape[a] for a in axes]))
            y = (w - m) / (np.sqrt(var) + np.float32(1e-9))  # the function body adds it to the root
            if k > 2:
                add("MeanVarianceNormalization", [x],
                    Near(y, mvn_error(w, m, var, 1e-9, u, tuple(axes), k) + 0 * y, name), axes=axes)
            if len(shape) > 2:
                size, alpha, beta, bias = 3, 1 / 64, 0.75, 2.0
                sq = np.zeros_like(w)
                for ch in range(shape[1]):
                    lo, hi = max(0, ch - 1), min(shape[1] - 1, ch + 1)
                    sq[:, ch] = np.sum(w[:, lo:hi + 1] ** 2, axis=1)
                y = w / (bias + alpha / size * sq) ** beta
                # power: 2 ulp, its base has 4 roundings scaled by beta < 1
                add("LRN", [x], Near(y, 12 * u * np.abs(y), name), size=size, alpha=alpha, beta=beta, bias=bias)


def mvn_error(w, m, var, eps, u, over, k):
    cen = u * (np.abs(w) + c(k) * np.mean(np.abs(w), axis=over, keepdims=True))
    rel = u * c(k) * np.mean(w * w, axis=over, keepdims=True) / (var + eps)
    rel = rel + 2 * np.mean(np.abs(w - m) * cen, axis=over, keepdims=True) / (var + eps)
    hat = (w - m) / np.sqrt(var + eps)
    return cen / np.sqrt(var + eps) + np.abs(hat) * (rel / 2 + 4 * u)


def layer_norm(w, g, b, over, eps, u):
    k = int(np.prod([w.shape[a] for a in over]))
    eps = np.float64(np.float32(eps))
    m = np.mean(w, axis=over, keepdims=True)
    var = np.mean((w - m) ** 2, axis=over, keepdims=True)
    y = (w - m) / np.sqrt(var + eps) * g + b
    return y, np.abs(g) * mvn_error(w, m, var, eps, u, over, k) + u * np.abs(y) + u * np.abs(b)


def attention():
    """4-D and 3-D inputs, grouped queries, float and bool masks, causal, softcap, scale; the formula of Attention-23."""
    for name in ("f32", "f64"):
        suite.group = f"Attention {name}"
        u = U_COMPUTE[name]
        for (batch, heads, kv, lq, lk, d, dv), (mask, causal, cap, scale, flat) in itertools.product(
                [(1, 1, 1, 3, 4, 8, 8), (2, 4, 2, 5, 7, 6, 3), (1, 6, 1, 9, 9, 16, 16)],
                [("", 0, 0.0, None, 0), ("float", 0, 0.0, None, 0), ("bool", 0, 0.0, None, 0), ("", 1, 0.0, None, 0),
                 ("", 0, 2.0, None, 0),
                 ("float", 0, 0.0, 0.3, 1), ("", 1, 0.0, None, 1)]):
            q, k = random(rng, (batch, heads, lq, d), name), random(rng, (batch, kv, lk, d), name)
            v = random(rng, (batch, kv, lk, dv), name)
            attrs = {}
            root = np.sqrt(np.longdouble(d) ** -0.5 if scale is None else np.longdouble(np.float32(scale)))
            share = lambda t: np.repeat(t.wide(), heads // kv, axis=1)
            keys = Bounded(share(k).swapaxes(-1, -2), 0, u) * root
            scores = (Bounded(q.wide().astype(np.longdouble), 0, u) * root) @ keys
            if mask == "float":
                m = random(rng, (lq, lk), name)
                scores = scores + m.wide()
            if mask == "bool" or causal:
                keep = rng.random((batch, 1, lq, lk)) < 0.6 if mask else np.tril(np.ones((lq, lk), bool))
                if mask:
                    keep[..., 0] = True
                    m = Tensor(keep)
            if cap:
                scores = (scores * (1 / cap)).map(np.tanh, 1, 2) * cap
            if mask == "bool" or causal:  # far below: exp() gives 0
                hidden = np.broadcast_to(~keep, scores.v.shape)
                scores = scores.of(np.where(hidden, -20000, scores.v), np.where(hidden, 0, scores.e))
            y = scores.softmax(-1) @ share(v)
            ins = [q, k, v]
            if flat:
                join = lambda a: np.ascontiguousarray(np.swapaxes(a, 1, 2)).reshape(a.shape[0], a.shape[2], -1)
                ins = [Tensor(join(t.data), name) for t in ins]
                y = y.of(join(y.v), join(y.e))
                attrs = {"q_num_heads": heads, "kv_num_heads": kv}
            attrs.update({} if scale is None else {"scale": scale}, **({"softcap": cap} if cap else {}))
            add("Attention", ins + ([m] if mask else []), y.near(name), is_causal=causal, **attrs)


for make in (unary, activations, binary, powers, comparisons, selections, reductions, empty_reductions, arg_reductions,
             running_sums, products, einsums, softmaxes, norms, attention):
    make()
suite.finish()

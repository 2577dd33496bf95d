#!/usr/bin/python3
"""Operators that pick, place, sort and convert elements, on random tensors of every type and odd shapes, against
NumPy. Everything here must agree exactly, except floats that ScatterElements/ScatterND add or multiply (bound: one
rounding of the stored type per update)."""

import math

import numpy as np

from plumbtest import (FLOATS, FORMAT, INTS, NUMBERS, OPSET, SMALL_FLOAT, TYPES, U, Exact, Near, Suite, Tensor, exactly,
                       int64, random, round_to)

suite = Suite()
rng = suite.rng(99)
add = suite.add
ANY = NUMBERS + ["bool", "str", "c64", "c128"]


def index(array):
    return Tensor(np.asarray(array, rng.choice([np.int32, np.int64])))


def any_of(shape, dim):
    """Random indices into a dim, from either end."""
    return rng.integers(-dim, dim, shape) if dim > 0 else np.zeros(shape, np.int64)


# ---- pick ----------------------------------------------------------------------------------------

def gathers():
    for name in ANY:
        suite.group = f"Gather {name}"
        for shape, axis, at in [((5,), 0, ()), ((5,), -1, (3,)), ((3, 4), 0, (2, 2)), ((3, 4), 1, (5,)),
                                ((2, 3, 4), -2, (1, 2)),
                                ((0, 3), 1, (2,)), ((3, 4), 0, (0,)), ((2, 1, 3, 2), 2, (3, 0)), ((40, 33), 0, (17,))]:
            x, i = random(rng, shape, name), any_of(at, shape[axis])
            add("Gather", [x, index(i)], Exact(np.take(x.data, i % max(shape[axis], 1), axis), name), axis=axis)
        suite.group = f"GatherElements {name}"
        for shape, axis, at in [((5,), 0, (3,)), ((3, 4), 0, (2, 4)), ((3, 4), -1, (3, 7)), ((2, 3, 4), 1, (2, 5, 4)),
                                ((2, 3), 0, (0, 3)),
                                ((3, 4), 0, (2, 2)), ((2, 3, 4), 2, (1, 2, 3))]:
            x, i = random(rng, shape, name), any_of(at, shape[axis])
            # indices may be smaller than data in the other axes
            cut = tuple(slice(None) if a == axis % len(shape) else slice(at[a]) for a in range(len(shape)))
            want = np.take_along_axis(x.data[cut], i % shape[axis], axis)
            add("GatherElements", [x, index(i)], Exact(want, name), axis=axis)
        suite.group = f"GatherND {name}"
        for shape, batch, at, depth in [((4,), 0, (3,), 1), ((3, 4), 0, (2,), 2), ((3, 4), 0, (2, 2), 1),
                                        ((2, 3, 4), 1, (2, 5), 1),
                                        ((2, 3, 4), 1, (2,), 2), ((2, 3, 4, 2), 2, (2, 3), 1), ((3, 4), 0, (0,), 1),
                                        ((3, 4), 0, (), 2)]:
            x = random(rng, shape, name)
            i = np.stack([any_of(at, shape[batch + d]) for d in range(depth)], -1)
            want = np.empty(at + shape[batch + depth:], x.data.dtype)
            for p in np.ndindex(*at):
                want[p] = x.data[p[:batch] + tuple(i[p])]
            add("GatherND", [x, Tensor(i.astype(np.int64))], Exact(want, name), batch_dims=batch)
        suite.group = f"Compress {name}"
        for shape, axis in [((5,), 0), ((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1), ((0, 3), 1), ((3, 4), None)]:
            x = random(rng, shape, name)
            n = int(np.prod(shape)) if axis is None else shape[axis]
            mask = random(rng, (max(n - 1, 0),), "bool")  # shorter than the axis is allowed
            attrs = {} if axis is None else {"axis": axis}
            add("Compress", [x, mask], Exact(np.compress(mask.data, x.data, axis), name), **attrs)


# ---- place ---------------------------------------------------------------------------------------

STEPS = {"none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": max, "min": min}


def scatter(x, places, updates, reduction):
    """Sequentially, in the wide type; also the sum of magnitudes for the bound of floats."""
    low = x.name in FORMAT
    y = x.wide() if low else x.data.copy()
    n = np.zeros(x.shape)
    size = np.abs(y) if low else None
    with np.errstate(over="ignore"):
        for place, update in zip(places, updates):
            y[place] = STEPS[reduction](y[place], update)
            n[place] += 1
            if low:
                size[place] = max(abs(y[place]), size[place] + abs(update) if reduction == "add" else 0)
    if not low or reduction in ("none", "max", "min"):
        return Exact(y.astype(TYPES[x.name][1]), x.name)
    # f16 and bf16 may round after every update: that is what "y[i] += u" in the type does
    return Near(y, 2 * U[x.name] * n * size, x.name)


def reductions_of(name):
    return ["none"] if name not in NUMBERS else list(STEPS)


def scatters():
    for name in ANY:
        suite.group = f"ScatterElements {name}"
        for reduction in reductions_of(name):
            for shape, axis, at in [((5,), 0, (3,)), ((3, 4), 0, (2, 4)), ((3, 4), -1, (3, 3)),
                                    ((2, 3, 4), 1, (2, 3, 4)),
                                    ((2, 3), 0, (0, 3)), ((3, 4), 1, (2, 2)), ((4,), 0, (9,))]:
                axis_ = axis % len(shape)
                if reduction == "none" and at[axis_] > shape[axis_]:
                    continue
                x, u = random(rng, shape, name, 0, 3), random(rng, at, name, 0, 3)
                i = any_of(at, shape[axis])
                if reduction == "none" and i.size:  # which of two updates wins is not defined
                    i = np.apply_along_axis(lambda v: rng.permutation(shape[axis])[:len(v)], axis_, i)
                places = [tuple(int(i[p]) % shape[axis] if a == axis_ else p[a] for a in range(len(shape)))
                          for p in np.ndindex(*at)]
                wide = u.wide() if name in FORMAT else u.data
                want = scatter(x, places, [wide[p] for p in np.ndindex(*at)], reduction)
                attrs = {} if reduction == "none" else {"reduction": reduction}
                add("ScatterElements", [x, index(i), u], want, axis=axis, **attrs)
                if reduction == "none":
                    add("Scatter", [x, index(i), u], want, axis=axis,
                        opset=10) if axis >= 0 and name != "bf16" else None
        suite.group = f"ScatterND {name}"
        for reduction in reductions_of(name):
            for shape, at, depth in [((6,), (3,), 1), ((3, 4), (2,), 2), ((5, 2), (2, 2), 1), ((3, 4, 2), (3,), 2),
                                     ((3, 4), (0,), 1)]:
                x = random(rng, shape, name, 0, 3)
                n = int(np.prod(at))
                flat = rng.permutation(int(np.prod(shape[:depth])))[:n] if reduction == "none" else \
                    rng.integers(0, np.prod(shape[:depth]), n)
                i = np.stack(np.unravel_index(flat, shape[:depth]), -1).reshape(at + (depth,))
                i = np.where(rng.random(i.shape) < 0.3, i - np.array(shape[:depth]), i)
                u = random(rng, at + shape[depth:], name, 0, 3)
                wide = u.wide() if name in FORMAT else u.data
                places = [tuple(int(v) for v in i[p[:len(at)]] % np.array(shape[:depth])) + p[len(at):]
                          for p in np.ndindex(*u.shape)]
                attrs = {} if reduction == "none" else {"reduction": reduction}
                add("ScatterND", [x, Tensor(i.astype(np.int64)), u],
                    scatter(x, places, [wide[p] for p in np.ndindex(*u.shape)], reduction), **attrs)


def one_hots():
    suite.group = "OneHot"
    for kind in ("i32", "i64", "f32", "u8", "f64"):
        for name in ("f32", "i64", "i8", "bool", "str", "f16"):
            for shape, axis in [((), -1), ((4,), 0), ((2, 3), -1), ((2, 3), 1), ((0, 2), 0), ((2, 3), -3)]:
                depth = 5
                i = rng.integers(-depth if kind[0] != "u" else 0, depth + 2, shape)  # out of range: all off
                hot = np.where((i < -depth) | (i >= depth), -1, i % depth)
                off, on = random(rng, (), name), random(rng, (), name)
                grid = np.moveaxis(hot[..., None] == np.arange(depth), -1, axis if axis >= 0 else axis)
                want = np.where(grid, on.data, off.data)
                values = Tensor(np.array([off.data[()], on.data[()]], TYPES[name][1]), name)
                add("OneHot", [Tensor(i.astype(TYPES[kind][1])), Tensor(np.array(depth, TYPES[kind][1])), values],
                    Exact(want, name), axis=axis)


# ---- search and sort -----------------------------------------------------------------------------

def non_zeros():
    for name in NUMBERS + ["bool"]:
        suite.group = f"NonZero {name}"
        for shape in [(1,), (5,), (0,), (3, 4), (2, 0, 3), (2, 3, 4), (200,)]:
            x = random(rng, shape, name, 0, 3)
            if name in FORMAT:
                x = Tensor(np.floor(x.data), name)
            add("NonZero", [x], Exact(np.stack(np.nonzero(x.data)).astype(np.int64)))


def top_ks():
    for name in NUMBERS:
        suite.group = f"TopK {name}"
        for shape, axis, k in [((5,), 0, 3), ((5,), -1, 5), ((3, 4), 0, 2), ((3, 4), -1, 0), ((2, 3, 4), 1, 2),
                               ((2, 300), -1, 17),
                               ((2, 1), 1, 1), ((0, 3), 1, 2), ((300,), 0, 300)]:
            for largest in (1, 0):
                x = random(rng, shape, name, 0, 9)
                if name in FORMAT:
                    x = Tensor(np.floor(x.data), name)  # ties: the lower index comes first
                key = x.data.astype(np.float64) * (-1 if largest else 1)
                order = np.argsort(key, axis=axis, kind="stable")
                order = np.take(order, range(k), axis=axis)
                y = np.take_along_axis(x.data, order, axis)
                add("TopK", [x, int64(k)], [Exact(y, name), Exact(order.astype(np.int64))], axis=axis, largest=largest)
    suite.group = "TopK extremes"
    x = Tensor(np.array([2**63 - 1, -2**63, 0, 2**63 - 2, 2**53 + 1, 2**53], np.int64))
    add("TopK", [x, int64(3)], [Exact(x.data[[0, 3, 4]]), Exact(np.array([0, 3, 4]))])
    x = Tensor(np.array([2**64 - 1, 5, 0, 2**64 - 2], np.uint64))
    add("TopK", [x, int64(2)], [Exact(x.data[[0, 3]]), Exact(np.array([0, 3]))])
    x = Tensor(np.array([-np.inf, 1, np.inf, -1], np.float32))
    add("TopK", [x, int64(4)], [Exact(x.data[[2, 1, 3, 0]]), Exact(np.array([2, 1, 3, 0]))])


def uniques():
    for name in NUMBERS + ["bool", "str"]:
        suite.group = f"Unique {name}"
        for shape, axis in [((7,), None), ((7,), 0), ((3, 4), None), ((6, 2), 0), ((2, 6), -1), ((3, 2, 2), 1),
                            ((1,), None), ((150,), None)]:
            x = random(rng, shape, name, 0, 2 if axis is not None and len(shape) > 1 else 4)
            if name in FORMAT:
                x = Tensor(np.floor(x.data), name)
            add_unique(x, axis)


def add_unique(x, axis):
    rows = x.data.ravel() if axis is None else np.moveaxis(x.data, axis, 0)
    keys = [tuple(np.atleast_1d(r).ravel().tolist()) for r in rows]
    seen = list(dict.fromkeys(keys))  # in order of first appearance
    for by_value in (1, 0):
        order = sorted(seen) if by_value else seen
        first = [keys.index(v) for v in order]
        inverse = [order.index(v) for v in keys]
        counts = [keys.count(v) for v in order]
        y = rows[first] if axis is None else np.moveaxis(rows[first], 0, axis)
        attrs = {} if axis is None else {"axis": axis}
        numbers = [Exact(np.array(v, np.int64)) for v in (first, inverse, counts)]
        add("Unique", [x], [Exact(np.ascontiguousarray(y), x.name)] + numbers, sorted=by_value, **attrs)


# ---- small and 16-bit types through operators that only move -------------------------------------

def moves():
    """bfloat16, 8-bit floats and types below a byte (odd counts, so that the last byte is half empty)."""
    for name in ["bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "u4", "i4", "f4e2m1", "u2", "i2"]:
        suite.group = f"moves {name}"
        table = SMALL_FLOAT.get(name)
        low, high = {"u4": (0, 16), "i4": (-8, 8), "u2": (0, 4), "i2": (-2, 2)}.get(name, (-9, 9))
        values = np.arange(low, high) if table is None else table[np.isfinite(table)]
        for shape in [(3, 5), (1, 7), (2, 3, 5), (5,), (0, 3), (1, 1)]:
            x = Tensor(rng.choice(values, shape), name)
            opset = 25 if name in ("u2", "i2") else OPSET
            same = lambda op, ins, y, **attrs: add(op, ins, Exact(y, name), opset=opset, **attrs)
            n = int(np.prod(shape))
            perm = [int(a) for a in rng.permutation(len(shape))]
            same("Transpose", [x], x.data.transpose(perm), perm=perm)
            same("Identity", [x], x.data)
            same("Reshape", [x, int64(n)], x.data.reshape(n), allowzero=1)
            same("Flatten", [x], x.data.reshape(-1 if n else 0, shape[-1]) if len(shape) > 1 else x.data[:, None],
                 axis=max(len(shape) - 1, 1))
            same("Unsqueeze", [x, int64(0)], x.data[None])
            same("Squeeze", [Tensor(x.data[None], name), int64(0)], x.data)
            add("Shape", [x], Exact(np.array(shape, np.int64)), opset=opset)
            if len(shape) == 2:
                zero = Tensor(values[1], name)
                want = np.pad(x.data, ((0, 1), (1, 2)), constant_values=zero.data[()])
                same("Pad", [x, int64(0, 1, 1, 2), zero], want)
    for name in ["bf16"]:
        suite.group = f"moves {name}"
        for shape in [(3, 5), (2, 3, 5), (0, 3)]:
            x, y = random(rng, shape, name), random(rng, shape, name)
            add("Concat", [x, y], Exact(np.concatenate([x.data, y.data], -1), name), axis=-1)
            add("Slice", [x, int64(-1), int64(-9), int64(-1), int64(-2)], Exact(x.data[..., ::-2], name))
            add("Split", [x, int64(1, shape[-1] - 1)], [Exact(x.data[..., :1], name), Exact(x.data[..., 1:], name)],
                axis=-1)
            add("Expand", [x, int64(2, *shape)], Exact(np.broadcast_to(x.data, (2,) + shape), name))
            add("Tile", [x, int64(*[2] * len(shape))], Exact(np.tile(x.data, [2] * len(shape)), name))
            add("Trilu", [x, int64(0, shape=())], Exact(np.triu(x.data), name))


# ---- convert -------------------------------------------------------------------------------------

def to_small_float(x, name, saturate):
    """Nearest, ties to the even code; out of range by the tables of ONNX Cast ("Float8 stored in 8 bits")."""
    table = SMALL_FLOAT[name]
    n = len(table) // 2
    grid = table[:n][np.isfinite(table[:n])]
    top, step = grid[-1], grid[-1] - grid[-2]
    has_inf = name == "f8e5m2"
    out = np.empty(np.shape(x), np.float32)
    for at in np.ndindex(*np.shape(x)):
        v = float(x[at])
        if math.isnan(v):
            out[at] = np.nan
            continue
        a = abs(v)
        i = int(np.searchsorted(grid, a))
        if a > top:
            y = top if saturate or a < top + step / 2 else np.inf if has_inf else np.nan
        elif grid[i] == a:
            y = a
        else:
            low, high = grid[i - 1], grid[i]
            y = low if a - low < high - a or (a - low == high - a and (i - 1) % 2 == 0) else high
        y = math.copysign(y, v)
        out[at] = 0.0 if y == 0 and name.endswith("uz") else y
    return out


def float8_casts():
    """Every value of each 8-bit format, halfway points between neighbours, and out of range."""
    for name in ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"):
        table = SMALL_FLOAT[name]
        codes = Tensor(table.astype(np.float32), name)
        grid = np.unique(table[np.isfinite(table)])
        middles = (grid[1:] + grid[:-1]) / 2
        top = grid[-1]
        beyond = np.array([top * 1.01, -top * 1.01, top * 2, -top * 4, 1e30, -1e30, np.nan, 0.0, -0.0])
        for other in FLOATS:
            suite.group = f"Cast {name} {other}"
            add("Cast", [codes], Exact(codes.data.astype(TYPES[other][1]), other), to=TYPES[other][0])
            x = Tensor(round_to(np.concatenate([grid, middles, middles * 1.001, beyond]), other), other)
            if other == "f16":
                x = Tensor(x.data[~np.isinf(x.data)], other)
            for saturate in (1, 0):
                add("Cast", [x], Exact(to_small_float(x.double(), name, saturate), name, signs=True), to=TYPES[name][0],
                    saturate=saturate)
        suite.group = f"Cast {name} infinity"
        x = Tensor(np.array([np.inf, -np.inf], np.float32))
        add("Cast", [x], Exact(np.array([top, -top]), name), to=TYPES[name][0])
        gone = np.inf if name == "f8e5m2" else np.nan
        add("Cast", [x], Exact(np.array([gone, -gone]), name), to=TYPES[name][0], saturate=0)


def sub_byte_casts():
    limits = {"u4": (0, 15), "i4": (-8, 7), "u2": (0, 3), "i2": (-2, 1)}
    for name, (low, high) in limits.items():
        suite.group = f"Cast {name}"
        for n in (0, 1, 2, 3, 7, 33):
            x = random(rng, (n,), name, low, high + 1)
            for other in FLOATS + INTS:
                if other[0] == "u" and low < 0:
                    continue
                y = x.data.astype(TYPES[other][1])
                add("Cast", [x], Exact(y, other), opset=25, to=TYPES[other][0])
                add("Cast", [Tensor(y, other)], Exact(x), opset=25, to=TYPES[name][0])
    suite.group = "Cast f4e2m1"
    codes = Tensor(SMALL_FLOAT["f4e2m1"].astype(np.float32), "f4e2m1")
    for other in FLOATS:
        add("Cast", [codes], Exact(codes.data.astype(TYPES[other][1]), other), to=TYPES[other][0])
        x = Tensor(np.array([0.25, 0.26, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 4.9, -0.25, -0.75, -5, 6, 9, -100, 0, -0.0],
                            TYPES[other][1]), other)
        x = Tensor(round_to(x.data, other), other)
        # nearest, ties to even, beyond 6 saturates
        add("Cast", [x], Exact(to_small_float(np.clip(x.double(), -6, 6), "f4e2m1", 1), "f4e2m1", signs=True),
            to=TYPES["f4e2m1"][0])


    suite.group = "Cast f8e8m0"
    powers = Tensor(SMALL_FLOAT["f8e8m0"].astype(np.float32), "f8e8m0")
    for other in ("f32", "f64", "bf16"):
        wide = Tensor(round_to(SMALL_FLOAT["f8e8m0"], other), other)
        add("Cast", [powers], Exact(wide), opset=24, to=TYPES[other][0])
        add("Cast", [wide], Exact(powers), opset=24, to=TYPES["f8e8m0"][0])


def bfloat_casts():
    suite.group = "Cast bf16 and others"
    wide = rng.standard_normal(200) * 10.0 ** rng.integers(-44, 39, 200)
    edge = np.array([255.5 * 2.0**120, 255.4999 * 2.0**120, 65519.9, 65520, 2.0**-25, 2.0**-24 * 1.5, 2.0**-134, 1e-45,
                     np.inf, np.nan, -0.0,
                     1.00390625, 1.01171875, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40])
    x64 = Tensor(np.concatenate([wide, edge]), "f64")
    for a in FLOATS:
        x = Tensor(round_to(x64.data, a), a)
        for b in FLOATS:
            # one rounding, also from double: through float it would be two
            add("Cast", [x], Exact(round_to(x.double(), b), b, signs=True), to=TYPES[b][0])
    for name in INTS + ["bool"]:
        x = random(rng, (3, 5), name)
        add("Cast", [x], exactly(x.data.astype(np.float64), "bf16"), to=TYPES["bf16"][0])
        y = random(rng, (3, 5), "bf16", 0, 100)
        add("Cast", [y], Exact(y.data.astype(TYPES[name][1])), to=TYPES[name][0])
        if name != "bool":
            info = np.iinfo(TYPES[name][1])
            ends = Tensor(np.array([info.max, info.min, info.max // 3], TYPES[name][1]))
            for b in ("f32", "f64"):
                add("Cast", [ends], Exact(ends.data.astype(TYPES[b][1])), to=TYPES[b][0])


for make in (gathers, scatters, one_hots, non_zeros, top_ks, uniques, moves, float8_casts, sub_byte_casts,
             bfloat_casts):
    make()
suite.finish()

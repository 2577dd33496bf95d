"""Shared by the numeric tests: tensors of every ONNX type, rounding bounds, and a suite that packs many
small cases into few `plumb run` processes and prints one TAP line per group.

A case is one node, its inputs and what it must give: Exact(value) or Near(value, bound), where value
comes from NumPy or torch in a wider type, never from plumb. On failure the smallest failing case is
saved as a model of its own, with the command that runs it."""

import argparse
import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

PLUMB = os.environ.get("PLUMB", "build/plumb")
OPSET = 23  # the first with bfloat16 nearly everywhere
CHUNK = 300  # cases per process

# ---- types ---------------------------------------------------------------------------------------

# name: (number in TensorProto, NumPy type that holds the values, bits per element)
TYPES = {
    "f32": (1, np.float32, 32), "u8": (2, np.uint8, 8), "i8": (3, np.int8, 8), "u16": (4, np.uint16, 16),
    "i16": (5, np.int16, 16), "i32": (6, np.int32, 32), "i64": (7, np.int64, 64), "str": (8, object, 0),
    "bool": (9, np.bool_, 8), "f16": (10, np.float16, 16), "f64": (11, np.float64, 64),
    "u32": (12, np.uint32, 32), "u64": (13, np.uint64, 64), "c64": (14, np.complex64, 64),
    "c128": (15, np.complex128, 128), "bf16": (16, np.float32, 16), "f8e4m3fn": (17, np.float32, 8),
    "f8e4m3fnuz": (18, np.float32, 8), "f8e5m2": (19, np.float32, 8), "f8e5m2fnuz": (20, np.float32, 8),
    "u4": (21, np.uint8, 4), "i4": (22, np.int8, 4), "f4e2m1": (23, np.float32, 4),
    "f8e8m0": (24, np.float32, 8), "u2": (25, np.uint8, 2), "i2": (26, np.int8, 2),
}
NUMBER_TO_NAME = {number: name for name, (number, _, _) in TYPES.items()}
NUMPY_TO_NAME = {np.dtype(t): n for n, (_, t, _) in TYPES.items() if n not in (
    "bf16", "u4", "i4", "u2", "i2", "f4e2m1") and not n.startswith("f8")}
FLOATS = ["f32", "f64", "f16", "bf16"]
LOW = ["f16", "bf16"]
SIGNED = ["i8", "i16", "i32", "i64"]
UNSIGNED = ["u8", "u16", "u32", "u64"]
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTS

# significant bits, exponent of the smallest normal number, largest finite value
FORMAT = {"f64": (53, -1022, np.finfo(np.float64).max), "f32": (24, -126, float(np.finfo(np.float32).max)),
          "f16": (11, -14, 65504.0), "bf16": (8, -126, 255 * 2.0**120)}
U = {name: 2.0**-bits for name, (bits, _, _) in FORMAT.items()}  # unit roundoff
U_COMPUTE = {"f64": U["f64"], "f32": U["f32"], "f16": U["f32"], "bf16": U["f32"]}


def small_float_values(name):
    """The value of each code of an 8- or 4-bit float, from the format's definition (ONNX, "Float8",
    "Float4"): exponent bits, mantissa bits, bias, and which codes are NaN or infinite."""
    if name == "f8e8m0":
        v = 2.0 ** (np.arange(256.0) - 127)
        v[255] = np.nan
        return v
    e, m, bias = {"f8e4m3fn": (4, 3, 7), "f8e4m3fnuz": (4, 3, 8), "f8e5m2": (5, 2, 15),
                  "f8e5m2fnuz": (5, 2, 16), "f4e2m1": (2, 1, 1)}[name]
    n = 1 << (e + m)
    code = np.arange(n)
    exponent, mantissa = code >> m, code & ((1 << m) - 1)
    v = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias - m),
                 (1 + mantissa / 2.0**m) * 2.0 ** (exponent - bias))
    if name == "f8e4m3fn":
        v[n - 1] = np.nan
    if name == "f8e5m2":
        v[n - 4:] = [np.inf, np.nan, np.nan, np.nan]
    both = np.concatenate([v, -v])
    if name.endswith("uz"):
        both[n] = np.nan  # what would be -0
    return both


SMALL_FLOAT = {n: small_float_values(n)
               for n in ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1", "f8e8m0")}


def round_to(x, name):
    """x (any real type) to the nearest value of a float type, ties to even, as an array of its holder."""
    x = np.asarray(x)
    with np.errstate(over="ignore", invalid="ignore"):
        if name in ("f64", "f32", "f16"):
            return x.astype(TYPES[name][1])
        step = ulp(x, "bf16")
        y = np.where(np.isfinite(x), np.rint(x.astype(np.float64) / step) * step, x)
        return np.where(np.isfinite(x) & (np.abs(y) > FORMAT["bf16"][2]), np.copysign(np.inf, x), y).astype(np.float32)


def ulp(y, name):
    """The distance between neighbouring values of the type at |y|."""
    bits, low, _ = FORMAT[name]
    y = np.abs(np.asarray(y, dtype=np.longdouble if name == "f64" else np.float64))
    e = np.frexp(np.where(np.isfinite(y) & (y > 0), y, 1))[1] - 1
    e = np.where(y == 0, low, np.maximum(e, low))
    return np.ldexp(np.ones_like(y), e - (bits - 1))


class Tensor:
    """Values in a NumPy array that can hold them, and the ONNX type they have."""

    def __init__(self, data, name=None):
        data = np.asarray(data)
        self.name = name or NUMPY_TO_NAME[data.dtype]
        self.data = data.astype(TYPES[self.name][1], copy=False)

    @property
    def shape(self):
        return self.data.shape

    def wide(self):
        """Exactly the same values in a type to compute in: long double for f64, double for the rest."""
        return self.data.astype(np.longdouble if self.name == "f64" else np.float64)

    def double(self):
        """For single operations that IEEE 754 rounds correctly: f64 in itself, without double rounding."""
        return self.data.astype(np.float64)

    def proto(self, name=""):
        t = onnx.TensorProto(dims=self.shape, data_type=TYPES[self.name][0], name=name)
        if self.name == "str":
            t.string_data.extend(str(s).encode() for s in self.data.ravel())
        else:
            t.raw_data = encode(self.data.ravel(), self.name)
        return t


def encode(x, name):
    if name == "bf16":
        bits = x.astype(np.float32).view(np.uint32)
        assert not np.any((bits & 0xffff) * ~np.isnan(x)), "not a bfloat16 value"
        return (bits >> 16).astype("<u2").tobytes()
    if name in SMALL_FLOAT:
        table = SMALL_FLOAT[name]
        codes = np.array([next(c for c in range(len(table)) if (table[c] == v or (np.isnan(v) and np.isnan(table[c])))
                               and (v != 0 or np.signbit(v) == np.signbit(table[c]))) for v in x], np.uint8)
        return codes.tobytes() if name != "f4e2m1" else pack(codes, 4)
    if TYPES[name][2] in (2, 4):
        return pack(x.astype(np.uint8), TYPES[name][2])
    return np.ascontiguousarray(x).tobytes()


def pack(codes, bits):
    """First element in the lowest bits (ONNX, "Int4", "Uint2")."""
    per = 8 // bits
    codes = np.concatenate([codes & ((1 << bits) - 1), np.zeros(-len(codes) % per, np.uint8)]).reshape(-1, per)
    return (codes << (bits * np.arange(per))).sum(axis=1).astype(np.uint8).tobytes()


def decode(path):
    t = onnx.TensorProto()
    t.ParseFromString(Path(path).read_bytes())
    name, shape = NUMBER_TO_NAME[t.data_type], tuple(t.dims)
    n = int(np.prod(shape, dtype=np.int64))
    raw = t.raw_data
    if name == "str":
        out = np.empty(n, object)
        out[:] = [s.decode() for s in t.string_data]
        return Tensor(out.reshape(shape), name)
    if len(raw) == 0 and n > 0:
        raise ValueError(f"{path}: no raw_data")
    bits = TYPES[name][2]
    if name == "bf16":
        x = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    elif bits in (2, 4):
        codes = ((np.frombuffer(raw, np.uint8)[:,
                                               None] >> (bits * np.arange(8 // bits))) & ((1 << bits) - 1)).ravel()[:n]
        if name == "f4e2m1":
            x = SMALL_FLOAT[name][codes]
        else:
            x = np.where(codes >= 1 << (bits - 1), codes.astype(np.int64) - (1 << bits),
                         codes) if name[0] == "i" else codes
    elif name in SMALL_FLOAT:
        x = SMALL_FLOAT[name][np.frombuffer(raw, np.uint8)]
    else:
        x = np.frombuffer(raw, TYPES[name][1])
    return Tensor(x.reshape(shape), name)


# ---- random tensors ------------------------------------------------------------------------------

def random(rng, shape, name, low=None, high=None):
    """Uniform in [low, high): floats -2..2 and ints -9..9 (or 0..9) unless told; every element a value
    of the type."""
    if name == "str":
        return Tensor(np.array([f"s{v}" for v in rng.integers(0, 6, int(np.prod(shape, dtype=np.int64)))],
                               object).reshape(shape), name)
    if name == "bool":
        return Tensor(rng.integers(0, 2, shape).astype(np.bool_), name)
    if name in ("c64", "c128"):
        return Tensor((rng.integers(-9, 10, shape) + 1j * rng.integers(-9, 10, shape)), name)
    if name in FORMAT:
        low, high = -2.0 if low is None else low, 2.0 if high is None else high
        return Tensor(round_to(rng.uniform(low, high, shape), name), name)
    low = (0 if name[0] == "u" else -9) if low is None else low
    return Tensor(rng.integers(low, 10 if high is None else high, shape).astype(TYPES[name][1]), name)


def int64(*values, shape=None):
    x = np.array(values, np.int64)
    return Tensor(x if shape is None else x.reshape(shape), "i64")


# ---- expectations --------------------------------------------------------------------------------

def c(k):
    """Growth of the rounding error of a sum of k terms, in units of u * sum|terms|: at most k + 1, and
    like a random walk for long ones. Over real kernels min(k + 1, 2 + sqrt(k) / 2) was exceeded by at
    most 1.91 (measured); hence twice that."""
    k = np.maximum(k, 0)
    return np.minimum(k + 1, 4 + np.sqrt(k))


class Exact:
    """Type, shape and every value, bit for bit (NaN equals NaN; -0 differs from 0 only if signs=True)."""

    def __init__(self, value, name=None, signs=False):
        self.want, self.signs = value if isinstance(value, Tensor) else Tensor(value, name), signs
        self.name = self.want.name

    def check(self, got):
        want = self.want.data
        if got.name != self.name or got.shape != want.shape:
            return f"got {got.name}{list(got.shape)}, expected {self.name}{list(want.shape)}"
        bad = got.data != want
        if self.name not in ("str", "bool"):
            bad = bad & ~((got.data != got.data) & (want != want))
            if self.signs:
                bad = bad | ((want == 0) & (np.signbit(got.data) != np.signbit(want)))
        return first_bad(bad, got.data, want, None)


class Near:
    """|got - value| <= err + half a unit in the last place of the type that the result is stored in.
    `err` bounds what happens before that last rounding. Beyond the largest number: infinity."""

    def __init__(self, value, err, name):
        self.value, self.name = np.asarray(value), name
        self.err = np.broadcast_to(np.asarray(err, dtype=self.value.dtype), self.value.shape)
        self.q = 0.0  # the largest error in units of its bound, once checked
        if not np.all(np.isfinite(self.err[np.isfinite(self.value)])):
            raise ValueError("a bound that is not finite bounds nothing")

    def check(self, got):
        want = self.value
        if got.name != self.name or got.shape != want.shape:
            return f"got {got.name}{list(got.shape)}, expected {self.name}{list(want.shape)}"
        y = got.data.astype(want.dtype)
        with np.errstate(all="ignore"):
            half = ulp(np.abs(want) + self.err, self.name) / 2
            top = FORMAT[self.name][2]
            edge = top + ulp(top, self.name) / 2
            near = np.abs(y - want) <= self.err + half
            over = np.isinf(y) & (np.sign(y) == np.sign(want)) & (np.abs(want) + self.err >= edge)
            same = (y == want) | (np.isnan(y) & np.isnan(want))
            self.q = float(np.max(np.abs(y - want) / (self.err + half), initial=0,
                                  where=np.isfinite(y) & np.isfinite(want)))
        return first_bad(~(near | over | same), got.data, want, self.err + half)


def first_bad(bad, got, want, bound):
    if not np.any(bad):
        return None
    at = tuple(int(i) for i in np.argwhere(np.atleast_1d(bad))[0]) if bad.ndim else ()
    text = f"{int(np.sum(bad))} of {bad.size} elements; at {list(at)} got {got[at]!r}, expected {want[at]!r}"
    return text if bound is None else f"{text} within {float(bound[at]):.3g}"


def exactly(y, name):
    """The correctly rounded result of a value in double: for + - * / sqrt and what involves no rounding at
    all. Rounding twice cannot be seen (double has 53 >= 2 * 24 + 2 bits, f32 24 >= 2 * 11 + 2)."""
    return Exact(round_to(y, name), name)


def within_ulps(y, name, n):
    """n ulp of the type that is computed in (f32 for f16 and bf16), then one rounding."""
    kind = "f64" if name == "f64" else "f32"
    y = np.asarray(y)
    with np.errstate(invalid="ignore"):
        err = np.where(np.isfinite(y), n * ulp(np.where(np.isfinite(y), y, 0), kind), 0)
    if name == kind:  # no second rounding: Near's half ulp is part of the n
        err = np.maximum(err - ulp(np.where(np.isfinite(y), y, 0), kind) / 2, 0)
    return Near(y, err, name)


class Bounded:
    """A value with a bound on the error that a kernel makes that computes the same in a type of unit
    roundoff u: running error analysis, one rule per operation (blame.md section 2)."""

    def __init__(self, value, err=0.0, u=U["f32"]):
        self.v = np.asarray(value)
        self.e = np.broadcast_to(np.asarray(err, self.v.dtype), self.v.shape)
        self.u = u

    def of(self, v, e):
        return Bounded(v, e, self.u)

    def _other(self, b):
        return b if isinstance(b, Bounded) else Bounded(np.asarray(b, self.v.dtype), 0.0, self.u)

    def __add__(self, b):
        b = self._other(b)
        y = self.v + b.v
        return self.of(y, self.e + b.e + self.u * np.abs(y))

    def __neg__(self):
        return self.of(-self.v, self.e)

    def __sub__(self, b):
        return self + -self._other(b)

    def __mul__(self, b):
        b = self._other(b)
        y = self.v * b.v
        return self.of(y, np.abs(self.v) * b.e + np.abs(b.v) * self.e + self.e * b.e + self.u * np.abs(y))

    def __truediv__(self, b):
        b = self._other(b)
        y = self.v / b.v
        return self.of(y, (self.e + np.abs(y) * b.e) / (np.abs(b.v) - b.e) + self.u * np.abs(y))

    def __matmul__(self, b):
        b = self._other(b)
        size = np.abs(self.v) @ np.abs(b.v)
        return self.of(self.v @ b.v, np.abs(self.v) @ b.e + self.e @ np.abs(b.v) + self.u * c(self.v.shape[-1]) * size)

    def map(self, fn, slope, n):
        """fn with |fn'| <= slope and an own error of n ulp of its largest part (values or 1)."""
        y = fn(self.v)
        return self.of(y, slope * self.e + 2 * n * self.u * np.maximum(np.abs(y), slope))

    def exp(self):
        y = np.exp(self.v)
        return self.of(y, y * (np.expm1(self.e) + 4 * self.u))

    def sum(self, axis):
        k = self.v.shape[axis]
        size = np.sum(np.abs(self.v), axis, keepdims=True)
        return self.of(np.sum(self.v, axis, keepdims=True), np.sum(self.e, axis, keepdims=True) + self.u * c(k) * size)

    def softmax(self, axis):
        """Shifted by a maximum that the kernel picks from its own values: exact, and common to all."""
        top = np.max(self.v, axis, keepdims=True)
        shifted = self.of(self.v - top, self.e + self.u * np.abs(self.v - top))
        e = shifted.exp()
        return e / e.sum(axis)

    def __getitem__(self, at):
        return self.of(self.v[at], self.e[at])

    def put(self, at, part):
        v, e = self.v.copy(), self.e.copy()
        v[at], e[at] = part.v, part.e
        return self.of(v, e)

    @property
    def T(self):
        return self.of(self.v.T, self.e.T)

    def near(self, name):
        return Near(self.v, self.e, name)


# ---- cases and suites ----------------------------------------------------------------------------

class Case:
    def __init__(self, group, op, inputs, wants, opset, domain, fp64, attrs):
        self.group, self.op, self.opset, self.domain, self.fp64 = group, op, opset, domain, fp64
        self.inputs = [x if x is None or isinstance(x, Tensor) else Tensor(x) for x in inputs]
        self.wants, self.attrs, self.error = wants, attrs, None

    def nodes(self, k, names, outs):
        """One node, or several: op is then a list of (op, inputs, outputs, attributes), where x0, x1 … are the
        inputs, y0, y1 … the outputs, and other names are values between."""
        if isinstance(self.op, str):
            return [helper.make_node(self.op, names, outs, name=f"case{k}", domain=self.domain, **self.attrs)]
        return [helper.make_node(op, [f"case{k}_{n}" if n else "" for n in ins], [f"case{k}_{n}" for n in outs],
                                 name=f"case{k}_{i}", **attrs) for i, (op, ins, outs, attrs) in enumerate(self.op)]

    def declared(self, want):
        """The type of an output in the file: --fp64 raises it only when it runs."""
        floats = [x.name for x in self.inputs if x is not None and x.name in FORMAT]
        return floats[0] if self.fp64 and want.name == "f64" and floats else want.name

    def size(self):
        return sum(x.data.size for x in self.inputs if x is not None), len(str(self))

    def __str__(self):
        ins = ", ".join("-" if x is None else f"{x.name}{list(x.shape)}" for x in self.inputs)
        attrs = {k: ("T" if hasattr(v, "raw_data") else v) for k, v in self.attrs.items()}
        op = self.op if isinstance(self.op, str) else "+".join(step[0] for step in self.op)
        return f"{op}({ins}) {attrs if attrs else ''} opset {self.opset}{' --fp64' if self.fp64 else ''}"


def make_model(cases, opset):
    """One graph of independent nodes. Inputs carry their values as defaults, so that the file runs by
    itself and nothing is a constant. Every other case declares its dims by name only."""
    nodes, inputs, inits, outputs = [], [], [], []
    for k, case in enumerate(cases):
        names = []
        for i, x in enumerate(case.inputs):
            name = "" if x is None else f"case{k}_x{i}"
            names.append(name)
            if x is not None:
                dims = x.shape if k % 2 == 0 else [f"{name}_d{d}" for d in range(len(x.shape))]
                inputs.append(helper.make_tensor_value_info(name, TYPES[x.name][0], dims))
                inits.append(x.proto(name))
        outs = ["" if w is None else f"case{k}_y{i}" for i, w in enumerate(case.wants)]
        outputs += [helper.make_tensor_value_info(n, TYPES[case.declared(w)][0], None)
                    for n, w in zip(outs, case.wants) if w is not None]
        nodes += case.nodes(k, names, outs)
    graph = helper.make_graph(nodes, "cases", inputs, outputs, inits)
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(d, 1) for d in sorted({x.domain for x in cases} - {""})]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 10
    return model


class Suite:
    """add() cases under group names, then finish()."""

    def __init__(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("-k", dest="filter", default="", help="only groups whose name holds this text")
        parser.add_argument("-v", dest="verbose", action="store_true", help="list every failing case")
        parser.add_argument("--seed", type=int, default=0, help="other random tensors")
        parser.add_argument("--full", action="store_true", help="accepted: every test runs all that it has")
        self.opts = parser.parse_args()
        fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # plumb syncs each file that it writes
        self.cases, self.group, self.root = [], "cases", Path(tempfile.mkdtemp(prefix="plumb-cases-", dir=fast))
        atexit.register(shutil.rmtree, self.root, ignore_errors=True)
        self.n_runs, self.checks = 0, []

    def rng(self, number):
        return np.random.default_rng([number, self.opts.seed])

    def add(self, op, inputs, wants, opset=OPSET, domain="", fp64=False, **attrs):
        if self.opts.filter not in self.group:
            return
        wants = wants if isinstance(wants, (list, tuple)) else [wants]
        self.cases.append(Case(self.group, op, inputs, wants, opset, domain, fp64, attrs))

    def extra(self, name, check):
        """A test of its own: check() gives None or what is wrong."""
        if self.opts.filter in name:
            self.checks.append((name, check))

    def run(self, cases):
        """Runs cases as one model; when that fails, in parts, down to the one that is to blame."""
        self.n_runs += 1
        folder = self.root / str(self.n_runs)
        folder.mkdir()
        onnx.save(make_model(cases, cases[0].opset), str(folder / "model.onnx"))
        cmd = [PLUMB, "run", str(folder / "model.onnx"), "-o", str(folder / "out"), "--save-as", "pb"]
        cmd += ["--fp64"] if cases[0].fp64 else []
        done = subprocess.run(cmd, capture_output=True, text=True, timeout=300)
        if done.returncode == 0:
            for k, case in enumerate(cases):
                case.error = self.compare(case, folder / "out", k)
        elif len(cases) == 1:
            lines = done.stderr.strip().splitlines()
            cases[0].error = f"exit {done.returncode}: {lines[-1] if lines else ''}"
        else:
            named = re.search(r"\bcase(\d+)(_|\b)", done.stderr)
            op = cases[min(int(named[1]), len(cases) - 1)].op if named else None
            same = [x for x in cases if x.op == op]
            rest = [x for x in cases if x.op != op]
            if same and " is not known" in done.stderr:
                for case in same:
                    case.error = "the operator is not known"
                same, rest = rest, []
            elif not same or not rest:
                same, rest = cases[:len(cases) // 2], cases[len(cases) // 2:]
            for part in (same, rest):
                if part:
                    self.run(part)
        shutil.rmtree(folder)

    @staticmethod
    def compare(case, out, k):
        for i, want in enumerate(case.wants):
            if want is None:
                continue
            text = want.check(decode(out / f"case{k}_y{i}.pb"))
            if text is not None:
                return f"output {i}: {text}" if len(case.wants) > 1 else text
        return None

    def explain(self, failed, i):
        case = min(failed, key=Case.size)
        keep = Path(tempfile.mkdtemp(prefix=f"plumb-{Path(sys.argv[0]).stem}-{i}-"))
        onnx.save(make_model([case], case.opset), str(keep / "model.onnx"))
        print(f"# smallest: {case}: {case.error}".replace("\n", " "))
        print(f"# run: {PLUMB} run {keep}/model.onnx{' --fp64' if case.fp64 else ''}")
        for case in failed if self.opts.verbose else []:
            print(f"#   {case}: {case.error}".replace("\n", " "))

    def finish(self):
        parts = {}
        for case in self.cases:
            parts.setdefault((case.opset, case.fp64), []).append(case)
        for cases in parts.values():
            for at in range(0, len(cases), CHUNK):
                self.run(cases[at:at + CHUNK])
        groups = {}
        for case in self.cases:
            groups.setdefault(case.group, []).append(case)
        print(f"1..{len(groups) + len(self.checks)}")
        for i, (group, cases) in enumerate(groups.items(), 1):
            failed = [x for x in cases if x.error is not None]
            if failed:
                print(f"not ok {i} - {group}: {len(failed)} of {len(cases)} cases failed")
                self.explain(failed, i)
            else:
                print(f"ok {i} - {group}: {len(cases)} cases")
                if self.opts.verbose:
                    q = max((w.q for x in cases for w in x.wants if isinstance(w, Near)), default=0)
                    print(f"# largest error {q:.2f} of its bound")
        wrong = any(x.error is not None for x in self.cases)
        for i, (name, check) in enumerate(self.checks, len(groups) + 1):
            text = check()
            print(f"ok {i} - {name}" if text is None else f"not ok {i} - {name}\n# {text}")
            wrong = wrong or text is not None
        sys.exit(1 if wrong else 0)

#!/usr/bin/python3
"""The helpers of the numeric tests themselves: rounding and types against torch and NumPy, and that wrong results are
found, by value, by type, by shape, and through a whole suite. Prints TAP."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import plumbtest as p
import tap

HERE = Path(__file__).resolve().parent


def wide_values():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(20000) * 10.0 ** rng.integers(-45, 39, 20000)
    return np.concatenate([x, [0, -0.0, np.inf, -np.inf, np.nan, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-133, 2.0**-134,
                               3e38, 3.4e38]])


def test_round__bf16_as_torch():
    x = wide_values().astype(np.float32)
    want = torch.from_numpy(x).bfloat16().float().numpy()
    np.testing.assert_array_equal(p.round_to(x, "bf16"), want)


def test_ulp__as_numpy_spacing():
    x = np.abs(wide_values())
    for name, kind in (("f32", np.float32), ("f16", np.float16)):
        with np.errstate(over="ignore"):
            y = x.astype(kind)
        y = y[np.isfinite(y)]
        np.testing.assert_array_equal(p.ulp(y, name).astype(np.float64), np.spacing(y).astype(np.float64))
    y = x[np.isfinite(x)]
    np.testing.assert_array_equal(p.ulp(y, "f64").astype(np.float64), np.spacing(y))


def test_types__survive_encoding():
    rng = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as tmp:
        for name in p.TYPES:
            if name in p.SMALL_FLOAT:
                x = p.Tensor(p.SMALL_FLOAT[name][[0, 1, 3, 5, 7]].astype(np.float32), name)
            else:
                x = p.random(rng, (5,), name, 0, 2)
            Path(tmp, "t").write_bytes(x.proto().SerializeToString())
            y = p.decode(Path(tmp, "t"))
            assert y.name == name and p.Exact(x).check(y) is None, name


def test_small_floats__known_values():
    """From the tables of ONNX "Float stored in 8 bits" and OCP Microscaling."""
    for name, top, least in (("f8e4m3fn", 448, 2.0**-9), ("f8e4m3fnuz", 240, 2.0**-10), ("f8e5m2", 57344, 2.0**-16),
                             ("f8e5m2fnuz", 57344, 2.0**-17), ("f4e2m1", 6, 0.5)):
        v = p.SMALL_FLOAT[name]
        v = v[np.isfinite(v) & (v > 0)]
        assert v.max() == top and v.min() == least, (name, v.max(), v.min())


def test_near__finds_one_ulp_in_every_type():
    for name in p.FLOATS:
        y = np.array([1.5, -3.0])
        near = p.Near(y, 0.0, name)
        good = p.Tensor(p.round_to(y, name), name)
        assert near.check(good) is None
        bad = p.Tensor(p.round_to(y + p.ulp(y, name).astype(np.float64), name), name)
        assert "2 of 2" in near.check(bad), name


def test_near__knows_infinity_and_nan():
    near = p.Near(np.array([65519.0, 65530.0, 1e6, np.nan, np.inf]), 0.0, "f16")
    good = np.array([65504, np.inf, np.inf, np.nan, np.inf], np.float16)
    assert near.check(p.Tensor(good)) is None
    for i, wrong in enumerate([np.inf, 65504, -np.inf, 0, np.nan]):
        bad = good.copy()
        bad[i] = wrong
        assert near.check(p.Tensor(bad)) is not None, i


def test_near__refuses_a_bound_that_bounds_nothing():
    for err in (np.inf, np.nan):
        try:
            p.Near(np.array([1.0]), err, "f32")
        except ValueError:
            continue
        raise AssertionError(err)


def test_exact__finds_type_shape_value_and_sign():
    e = p.Exact(np.array([0.0, 1.0], np.float32), signs=True)
    assert e.check(p.Tensor(np.array([0.0, 1.0], np.float32))) is None
    for bad in (np.array([0.0, 1.0]), np.array([[0.0, 1.0]], np.float32), np.array([0.0, 2.0], np.float32),
                np.array([-0.0, 1.0], np.float32),
                np.array([np.nan, 1.0], np.float32)):
        assert e.check(p.Tensor(bad)) is not None, bad


def test_bound__catches_sums_in_low_precision():
    """What a kernel gives that accumulates in float16 instead of float."""
    rng = np.random.default_rng(3)
    a, b = p.random(rng, (8, 256), "f16"), p.random(rng, (256, 8), "f16")
    near = p.Near(a.wide() @ b.wide(), p.U["f32"] * p.c(256) * (np.abs(a.wide()) @ np.abs(b.wide())), "f16")
    total = np.zeros((8, 8), np.float16)
    for k in range(256):
        total = (total + a.data[:, k, None] * b.data[k]).astype(np.float16)
    assert near.check(p.Tensor(total)) is not None
    assert near.check(p.Tensor((a.data.astype(np.float32) @ b.data.astype(np.float32)).astype(np.float16))) is None


def test_bounded__covers_a_float_computation():
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((5, 9)).astype(np.float32), rng.standard_normal((9, 7)).astype(np.float32)
    b = ((p.Bounded(x.astype(np.float64)) @ w.astype(np.float64)).softmax(-1) * 3.0) + 1.0
    s = x @ w
    e = np.exp(s - s.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True) * np.float32(3) + np.float32(1)
    assert np.all(np.abs(y - b.v) <= b.e) and np.max(b.e) < 1e-4


SUITE = """
import numpy as np
from plumbtest import *
s = Suite()
x = Tensor(np.array([1, 2], np.float32))
s.group = "good"
s.add("Neg", [x], Exact(-x.data))
s.group = "wrong"
s.add("Neg", [x], Exact(-x.data))
s.add("Neg", [Tensor(np.zeros((3, 4), np.float32))], Exact(np.ones((3, 4), np.float32)))
s.add("Neg", [x], Exact(x.data))
s.group = "refused"
s.add("Reshape", [x, int64(7)], Exact(x.data))
s.finish()
"""


def test_suite__names_the_smallest_failure_and_blames_no_other():
    with tempfile.TemporaryDirectory() as tmp:
        done = subprocess.run([sys.executable, "-c", SUITE], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(HERE), "TMPDIR": tmp})
        out = done.stdout
        assert done.returncode == 1, out + done.stderr
        assert "ok 1 - good: 1 cases\n" in out and "not ok 2 - wrong: 2 of 3 cases failed\n# smallest: Neg(f32[2])" in out, out
        assert "not ok 3 - refused: 1 of 1 cases failed" in out and "exit 2" in out, out
        models = [line.split()[4] for line in out.splitlines() if line.startswith("# run:")]
        assert len(models) == 2 and all(Path(m).exists() for m in models), out


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

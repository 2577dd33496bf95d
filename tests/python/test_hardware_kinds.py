#!/usr/bin/python3
"""Arithmetic that depends on the processor, made by numpy as the hardware makes it and given as a recording: products of bfloat16 and TF32,
flushed denormals, fused multiply-add. Each gets its kind and its remedy; float32 on the same model gets none. And what two machines have is told
where it explains their difference. TAP."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tap import main  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
rng = np.random.default_rng(5)


def plumb(*args, code=(0, 1)):
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=300)
    assert done.returncode in code, f"exit {done.returncode}: {done.stderr[-300:]}"
    return done.stdout


def model(nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
                              [numpy_helper.from_array(w, n) for n, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def culprits(folder, net, values):
    """{value: (kind, reason)} of a recording."""
    at = folder / f"r{len(list(folder.iterdir()))}"
    at.mkdir()
    onnx.save(net, at / "m.onnx")
    np.savez(at / "run.npz", **values)
    got = json.loads(plumb("compare", at / "run.npz", at / "m.onnx", "--tol", "1e-6", "--json", "-o", at / "s"))
    return {b["value"]: (b["kind"].split(":")[0], b["reason"]) for b in got["blame"]}


def bits(x):
    return np.asarray(x, np.float32).view(np.uint32)


def cut(x, n):
    return (bits(x) & np.uint32(2**32 - 2**n)).view(np.float32)


def nearest(x, n):
    b = bits(x).astype(np.uint64)
    return cut(((b + (1 << (n - 1)) - 1 + (b >> n & 1)) & 0xffffffff).astype(np.uint32).view(np.float32), n)


def away(x, n):
    return cut((bits(x) + np.uint32(1 << (n - 1))).view(np.float32), n)


ROUNDINGS = (("bf16 products", nearest, 16), ("bf16 products", cut, 16), ("tf32 products", nearest, 13), ("tf32 products", away, 13),
             ("tf32 products", cut, 13))


def test_products(folder):
    """MatMul of a weight, MatMul of two computed values, Conv of one tap."""
    x, w = rng.standard_normal((6, 64)).astype(np.float32), rng.standard_normal((64, 12)).astype(np.float32)
    net = model([helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])], {"x": [6, 64]}, ["z"], {"w": w})
    two = model([helper.make_node("MatMul", ["p", "q"], ["y"])], {"p": [6, 64], "q": [64, 12]}, ["y"], {})
    conv = model([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": [1, 64, 2, 3]}, ["y"], {"w": w.T.reshape(12, 64, 1, 1)})
    for kind, rounding, n in (("", lambda v, n: v, 0), *ROUNDINGS):
        y = (rounding(x, n).astype(np.float64) @ rounding(w, n).astype(np.float64)).astype(np.float32)
        image, map_ = x.T.reshape(1, 64, 2, 3), y.T.reshape(1, 12, 2, 3)
        for net_, values in ((net, {"x": x, "y": y, "z": np.maximum(y, 0)}), (two, {"p": x, "q": w, "y": y}), (conv, {"x": image, "y": map_})):
            found = culprits(folder, net_, values)
            if kind == "":
                assert not found, found
                continue
            assert list(found) == ["y"] and found["y"][0] == kind and "remedy: turn" in found["y"][1], (kind, rounding.__name__, found)


def test_flushed_denormals(folder):
    x = (rng.standard_normal(40) * 1e-39).astype(np.float32)
    net = model([helper.make_node("Mul", ["x", "c"], ["y"])], {"x": [40]}, ["y"], {"c": np.float32([1e30])})
    exact = (x.astype(np.float64) * np.float64(np.float32(1e30))).astype(np.float32)
    assert not culprits(folder, net, {"x": x, "y": exact})
    found = culprits(folder, net, {"x": x, "y": np.where(np.abs(x) < 2.0**-126, np.float32(0), exact)})
    assert found["y"][0] == "flushed denormals" and "flush-to-zero" in found["y"][1], found


def test_fused_multiply_add(folder):
    """a b - c with c near a b: once rounded there is something left, twice rounded there is not."""
    a, b = (rng.uniform(1000, 2000, 64).astype(np.float32) for _ in range(2))
    product = a * b
    once = np.float32([float(Fraction(float(p)) * Fraction(float(q)) - Fraction(float(r))) for p, q, r in zip(a, b, product)])
    net = model([helper.make_node("Mul", ["a", "b"], ["p"]), helper.make_node("Sub", ["p", "c"], ["y"])],
                {"a": [64], "b": [64], "c": [64]}, ["y"], {})
    assert once.any()
    inputs = {"a": a, "b": b, "c": product, "p": product}
    assert not culprits(folder, net, {**inputs, "y": product - product})
    found = culprits(folder, net, {**inputs, "y": once})
    assert list(found) == ["y"] and found["y"][0] == "fused multiply-add" and "-ffp-contract=off" in found["y"][1], found
    wrong = culprits(folder, net, {**inputs, "y": once * np.float32(3)})
    assert wrong["y"][0] != "fused multiply-add", wrong


def dynamic(x):
    """DynamicQuantizeLinear: codes, scale, zero point."""
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    scale = np.float32((high - low) / np.float32(255))
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return np.clip(np.rint(x / scale) + zero, 0, 255), scale, zero


def test_quantised_by_rows(folder):
    """DynamicQuantizeLinear, MatMulInteger, … with a scale for each row: KleidiAI on ARM CPUs with SME. One scale for all is right, a row off is neither."""
    x, w = rng.uniform(-1, 1, (5, 40)).astype(np.float32) * np.float32([[1], [3], [0.2], [2], [0.7]]), rng.integers(-127, 128, (40, 6)).astype(np.int8)
    s, bias = np.float32(0.01), rng.standard_normal(6).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]), helper.make_node("MatMulInteger", ["q", "w", "qz"], ["i"]),
         helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT), helper.make_node("Mul", ["qs", "s"], ["k"]),
         helper.make_node("Mul", ["f", "k"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 40])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 6])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(s, "s"), numpy_helper.from_array(bias, "b")])
    net = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    def product(rows):
        q, scale, zero = dynamic(rows)
        return ((q - zero) @ w.astype(np.float64) * (float(scale) * float(s)) + bias).astype(np.float32)

    assert not culprits(folder, net, {"x": x, "y": product(x)})
    each = np.concatenate([product(row[None]) for row in x])
    found = culprits(folder, net, {"x": x, "y": each})
    assert found["y"][0] == "quantised by rows" and "mlas.disable_kleidiai" in found["y"][1], found
    each[3] *= np.float32(1.05)
    found = culprits(folder, net, {"x": x, "y": each})
    assert found["y"][0] != "quantised by rows", found


def other_machine(path, features):
    """The recording as if a CPU with these features had made it."""
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    key = next(k for k, v in header["__metadata__"].items() if "cpu_features" in v)
    provenance = json.loads(header["__metadata__"][key])
    provenance["cpu_features"] = features
    header["__metadata__"][key] = json.dumps(provenance)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + n:])


def notes(folder, net, a, b, features, *args, of_a="x86-64 fma avx2"):
    """What compare says of the CPUs of two recordings."""
    at = folder / f"c{len(list(folder.iterdir()))}"
    at.mkdir()
    onnx.save(net, at / "m.onnx")
    for name, backend in (("a", a), ("b", b)):
        plumb("record", at / "m.onnx", "--backend", backend, "-o", at / f"{name}.safetensors", *args)
    other_machine(at / "a.safetensors", of_a)
    other_machine(at / "b.safetensors", features)
    got = json.loads(plumb("compare", at / "a.safetensors", at / "b.safetensors", "--json", "-o", at / "s"))
    return [n for n in got["notes"] if "CPUs" in n]


def test_two_machines(folder):
    """Products of codes, clipped on one: VNNI explains it. A factor of 1.05 on one: nothing that the CPUs have does."""
    net = folder / "q.onnx"
    subprocess.run(["/usr/bin/python3", ROOT / "tests/cli/make.py", "quantised:qlinear,MatMul", net], check=True)
    said = notes(folder, onnx.load(net), "eager:kernels=saturate", "eager", "x86-64 fma avx2 avx512 vnni", "--range", "x=0:255")
    assert len(said) == 1 and "which can explain the difference: vnni only on B's CPU" in said[0] and "avx512" not in said[0], said
    plain = model([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Exp", ["r"], ["y"])], {"x": [64]}, ["y"], {})
    said = notes(folder, plain, "jit:inject=scale@Exp", "eager", "x86-64 fma avx2 avx512 vnni")
    assert len(said) == 1 and "which does not explain" in said[0], said
    assert not notes(folder, plain, "jit:inject=scale@Exp", "eager", "x86-64 fma avx2")


def test_two_kinds_of_machine(folder):
    """x86-64 against ARM64: clipped products are x86's alone, last bits may differ, a factor of 1.05 has another cause."""
    net, arm, vnni = folder / "q.onnx", "arm64 fma fp16 dotprod", "x86-64 fma avx2 avx512 vnni"
    subprocess.run(["/usr/bin/python3", ROOT / "tests/cli/make.py", "quantised:qlinear,MatMul", net], check=True)
    clipped = (onnx.load(net), "eager:kernels=saturate", "eager", arm, "--range", "x=0:255")
    said = notes(folder, *clipped)
    assert len(said) == 1 and "no vnni on A's CPU" in said[0] and "can explain" in said[0], said
    said = notes(folder, *clipped, of_a=vnni)
    assert len(said) == 1 and "vnni on" not in said[0], said
    sums = model([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": [5000]}, ["y"], {})
    said = notes(folder, sums, "eager:fp64", "eager", arm)
    assert len(said) == 1 and "x86-64 and arm64 (runtimes have other kernels there" in said[0], said
    plain = model([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Exp", ["r"], ["y"])], {"x": [64]}, ["y"], {})
    said = notes(folder, plain, "jit:inject=scale@Exp", "eager", arm)
    assert len(said) == 1 and "which does not explain" in said[0], said


def test_backends_print_the_features():
    text = plumb("backends")
    line = next(row for row in text.splitlines() if row.startswith("cpu "))
    features = text.splitlines()[text.splitlines().index(line) + 1].split(";")[0].split()
    if "x86-64" in features:
        with open("/proc/cpuinfo") as f:
            flags = next(row for row in f if row.startswith("flags")).split()
        assert ("fma" in features) == ("fma" in flags) and ("vnni" in features) == bool({"avx512_vnni", "avx_vnni"} & set(flags)), (features, line)
        assert ("no vnni" in text) == ("vnni" not in features)


if __name__ == "__main__":
    sys.exit(main(globals()))

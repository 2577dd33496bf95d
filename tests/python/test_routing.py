"""Choices of experts: which are the same on both sides, and how much of the error the others make, against numpy. Prints TAP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.dont_write_bytecode = True
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
TOKENS, HIDDEN, EXPERTS, K = 40, 16, 8, 2
RNG = np.random.default_rng(5)
X = RNG.standard_normal((TOKENS, HIDDEN)).astype(np.float32)
ROUTER = RNG.standard_normal((HIDDEN, EXPERTS)).astype(np.float32)
W = (RNG.standard_normal((EXPERTS, HIDDEN, HIDDEN)) / 4).astype(np.float32)


def numbers(router, w, chosen=None):
    """(the sets, the output) in double; `chosen` are the sets to take instead."""
    scores = X.astype(np.float64) @ router.astype(np.float64)
    at = np.argsort(-scores, axis=1, kind="stable")[:, :K] if chosen is None else chosen
    s = np.take_along_axis(scores, at, 1)
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return at, np.einsum("tk,th,tkho->to", p, X.astype(np.float64), w.astype(np.float64)[at])


def off(y, ref):
    return np.sqrt(((y - ref) ** 2).sum() / (ref ** 2).sum())


def save(path, router, w, fused):
    n = helper.make_node
    weights = [("router", router)]
    if fused:
        nodes = [n("MatMul", ["x", "router"], ["scores"], name="layers.0.gate"),
                 n("MoE", ["x", "scores", "fc1", "", "fc2"], ["y"], name="layers.0.moe", domain="com.microsoft", k=K,
                   normalize_routing_weights=1, activation_type="identity")]
        weights += [("fc1", w.transpose(0, 2, 1).copy()), ("fc2", np.tile(np.eye(HIDDEN, dtype=np.float32), (EXPERTS, 1, 1)))]
    else:
        nodes = [n("MatMul", ["x", "router"], ["scores"], name="layers.0.gate"),
                 n("TopK", ["scores", "k"], ["best", "at"], name="layers.0.top"), n("Softmax", ["best"], ["p"], name="layers.0.p"),
                 n("Gather", ["w", "at"], ["chosen"], name="layers.0.chosen"), n("Unsqueeze", ["x", "one_two"], ["rows"], name="rows"),
                 n("MatMul", ["rows", "chosen"], ["each"], name="layers.0.experts"), n("Unsqueeze", ["p", "two_three"], ["q"], name="q"),
                 n("Mul", ["each", "q"], ["mixed"], name="layers.0.mix"), n("ReduceSum", ["mixed", "one_two"], ["y"], name="sum", keepdims=0)]
        weights += [("w", w), ("k", np.array([K])), ("one_two", np.array([1, 2])), ("two_three", np.array([2, 3]))]
    graph = helper.make_graph(nodes, "moe", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["t", HIDDEN])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["t", HIDDEN])],
                              [numpy_helper.from_array(a, name) for name, a in weights])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]), str(path))
    return path


def analyze(folder, model, *args):
    out = folder / f"out-{len(list(folder.iterdir()))}"
    np.save(str(folder / "x.npy"), X)
    call = [PLUMB, "analyze", str(model), "--input", f"x={folder / 'x.npy'}", "-o", str(out), *map(str, args)]
    r = subprocess.run(call + ["--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert r.returncode in (0, 1), r.stderr
    return json.loads(r.stdout), out


def test_same_choices(folder):
    for fused in (False, True):
        model = save(folder / f"m{fused}.onnx", ROUTER, W, fused)
        for backend, reference in (("ort", "eager"), ("jit", "eager")):
            r, _ = analyze(folder, model, "--backend", backend, "--reference", reference)
            routing = r["routing"]
            assert r["verdict"] == "agree" and routing["choices"] == routing["same"] == TOKENS and routing["output"] is None, routing


def test_other_choices(folder):
    """A router that is a little off sends some tokens elsewhere, and the experts are a little off, too: both parts of the error."""
    rng = np.random.default_rng(8)
    router = ROUTER + 0.1 * rng.standard_normal(ROUTER.shape).astype(np.float32)
    w = W * (1 + 0.02 * rng.standard_normal(W.shape).astype(np.float32))
    at, y = numbers(router, w)
    at_ref, ref = numbers(ROUTER, W)
    same = sum(set(a) == set(b) for a, b in zip(at, at_ref))
    assert 25 < same < TOKENS
    alone, without = off(numbers(ROUTER, W, at)[1], ref), off(numbers(router, w, at_ref)[1], ref)
    assert without < off(y, ref)
    for fused in (False, True):
        good, bad = save(folder / f"good{fused}.onnx", ROUTER, W, fused), save(folder / f"bad{fused}.onnx", router, w, fused)
        r, out = analyze(folder, bad, "--backend", "ort", "--reference", good)
        routing = r["routing"]
        assert routing["choices"] == TOKENS and routing["same"] == same, routing
        assert routing["output"] == "y" and abs(routing["error"] - off(y, ref)) < 1e-4, (routing, off(y, ref))
        assert routing["of"][0]["op"] == ("MoE" if fused else "TopK") and routing["of"][0]["same"] == same
        if fused:  # the weights of the choice go with it
            assert abs(routing["error_of_choices"] - off(numbers(router, W)[1], ref)) < 1e-4, routing
        else:
            assert abs(routing["error_of_choices"] - alone) < 1e-4, (routing, alone)
            assert abs(routing["error_with_reference_choices"] - without) < 1e-4, (routing, without)
        again = subprocess.run([PLUMB, "report", str(out), "--format", "text"], stdout=subprocess.PIPE, universal_newlines=True).stdout
        assert f"routing: {same} of {TOKENS} choices of experts are the same" in again and "first other ones at" in again, again


def test_recordings(folder):
    """The line of a comparison of recordings counts the sets, too."""
    rng = np.random.default_rng(8)
    router = ROUTER + 0.1 * rng.standard_normal(ROUTER.shape).astype(np.float32)
    same = sum(set(a) == set(b) for a, b in zip(numbers(router, W)[0], numbers(ROUTER, W)[0]))
    np.save(str(folder / "x.npy"), X)
    for name, r in (("a", router), ("b", ROUTER)):
        model = save(folder / f"{name}.onnx", r, W, False)
        subprocess.run([PLUMB, "record", str(model), "--input", f"x={folder / 'x.npy'}", "-o", str(folder / f"{name}.safetensors")], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    done = subprocess.run([PLUMB, "compare", str(folder / "a.safetensors"), str(folder / "b.safetensors"), "--json", "-o", str(folder / "s")],
                          stdout=subprocess.PIPE, universal_newlines=True)
    routing = json.loads(done.stdout)["routing"]
    assert (routing["choices"], routing["same"]) == (TOKENS, same), routing


if __name__ == "__main__":
    sys.exit(tap.main(dict(globals())))

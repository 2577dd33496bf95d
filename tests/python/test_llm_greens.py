"""Runs of decoders that once were green for the wrong reason: each is told as it is. Prints TAP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.dont_write_bytecode = True
import decoders  # noqa: E402
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))


def plumb(command, model, folder, *args):
    out = Path(folder) / f"out-{len(list(Path(folder).iterdir()))}"
    r = subprocess.run([PLUMB, command, str(model), "--json", "-o", str(out), *map(str, args)], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, universal_newlines=True, cwd=str(folder))
    return r.returncode, json.loads(r.stdout) if r.stdout else {}, r.stderr


def test_overflow_on_both_sides(folder):
    """fp16: x * 60000 overflows, the difference is NaN on both sides, and 0 in fp64."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, [4])
    nodes = [helper.make_node("Mul", ["x", "big"], ["h"], name="up"), helper.make_node("Sub", ["h", "h"], ["d"], name="sub"),
             helper.make_node("Add", ["d", "x"], ["y"], name="add")]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.float16(60000), "big")])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), str(folder / "m.onnx"))
    np.save(folder / "x.npy", np.array([2, 0.5, -3, 1], np.float16))
    code, r, err = plumb("analyze", folder / "m.onnx", folder, "--backend", "jit", "--input", f"x={folder / 'x.npy'}")
    assert code == 1 and r["verdict"] == "diverged" and "2 of 4" in r["reason"] and "overflow" in r["reason"], (code, r.get("reason"), err)
    r = subprocess.run([PLUMB, "run", str(folder / "m.onnx"), "--accuracy", "--backend", "jit", "--input", f"x={folder / 'x.npy'}"],
                       stdout=subprocess.PIPE, universal_newlines=True, cwd=str(folder))
    assert r.returncode == 1, r.stdout


def test_weights_apart(folder):
    """ONNX Runtime's optimised graph with its weights in another file, as above 2 GB, or in half precision, as above 256 MB: the same values are
    recorded, bit for bit, and a fault is found."""
    clean, bad, _ = decoders.planted("one weight", "genai", "fp16", 1, 10, 6)
    good, model = folder / "good.onnx", folder / "bad.onnx"
    onnx.save(clean, str(good))
    onnx.save(bad, str(model))
    ids = ("--prompt-ids", "5,2,7,1,3,11", "--steps", "1", "--save", "none")
    hashes = []
    for spec in ("ort", "ort:weights-apart", "ort:weights-half"):
        code, r, err = plumb("generate", good, folder, "--backend", spec, *ids)
        assert code == 0, (r.get("reason"), err)
        code, r, err = plumb("generate", model, folder, "--backend", spec, "--reference-model", good, *ids)
        assert code == 1 and r["blame"][0]["node"] == "model.layers.1.mlp.down_proj/MatMul", (r.get("reason"), err)
        session = json.loads((sorted(folder.glob("out-*"))[-1] / "step-0/session.json").read_text())
        hashes.append({p["value"]: p["metadata"]["a"]["hash"] for p in session["sync_points"]})
    # Fusions that follow the widening of weights are not in the graph with half weights: more values are seen, never others.
    assert hashes[0] == hashes[1] and hashes[0].items() <= hashes[2].items() and len(hashes[0]) > 60, [
        set(hashes[0].items()) ^ set(h.items()) for h in hashes]


def test_half_against_float(folder):
    """A cache in fp16 is fed to the fp32 model: both run, and neither is called a failure."""
    onnx.save(decoders.model("genai", "fp16", 2), str(folder / "half.onnx"))
    onnx.save(decoders.model("genai", "fp32", 2), str(folder / "float.onnx"))
    code, r, err = plumb("generate", folder / "half.onnx", folder, "--backend", "ort", "--reference-model", folder / "float.onnx",
                         "--prompt-ids", "5,2,7", "--steps", "4", "--skip-analysis")
    assert r.get("verdict") != "failed" and len(r["steps"]) == 5, (code, r, err)
    assert max(s["error"] for s in r["steps"]) < 0.02 and max(s["state_error"] for s in r["steps"]) < 0.02, r["steps"]


def test_half_judged_by_its_precision(folder):
    """analyze of an fp16 model against its fp32 source: rounding is no fault of an operation; one channel that is wrong is named."""
    half = decoders.model("genai", "fp16", 2)
    onnx.save(half, str(folder / "half.onnx"))
    onnx.save(decoders.model("genai", "fp32", 2), str(folder / "float.onnx"))
    np.save(str(folder / "ids.npy"), np.array([[5, 2, 7, 1, 3]]))
    np.save(str(folder / "mask.npy"), np.ones((1, 5), np.int64))
    feeds = ["--input", f"input_ids={folder}/ids.npy", "--input", f"attention_mask={folder}/mask.npy"]
    np.save(str(folder / "past.npy"), np.zeros((1, decoders.KV, 0, decoders.SIZE), np.float16))
    for layer in range(2):
        for x in ("key", "value"):
            feeds += ["--input", f"past_key_values.{layer}.{x}={folder}/past.npy"]
    for backend in ("ort", "eager"):
        code, r, err = plumb("analyze", folder / "half.onnx", folder, "--backend", backend, "--reference", folder / "float.onnx", *feeds)
        assert code == 0 and r["verdict"] == "agree" and not r["blame"], (backend, code, [b["op"] for b in r.get("blame", [])], err)
    decoders.change(half, "model.layers.1.mlp.up_proj.weight", lambda w: w.__setitem__((slice(None), 3), w[:, 3] * np.float16(1.25)))
    onnx.save(half, str(folder / "bad.onnx"))
    code, r, err = plumb("analyze", folder / "bad.onnx", folder, "--backend", "ort", "--reference", folder / "float.onnx", *feeds)
    assert code == 1 and r["blame"][0]["node"] == "model.layers.1.mlp.up_proj/MatMul" and len(r["blame"]) == 1, (code, r.get("blame"), err)


def test_memory_of_children(folder):
    """The peak counts the process that runs ONNX Runtime, which is larger than plumb. (What several processes share: tests/unit/base/test_peak.c.)"""
    onnx.save(decoders.model("old", "fp32", 2), str(folder / "m.onnx"))
    ids = np.array([[1, 2, 3]])
    np.savez(folder / "feed.npz", input_ids=ids, attention_mask=np.ones((1, 3), np.int64), position_ids=np.array([[0, 1, 2]]),
             **{f"past_key_values.{i}.{w}": np.zeros((1, decoders.KV, 0, decoders.SIZE), np.float32) for i in range(2) for w in ("key", "value")})
    args = [PLUMB, "analyze", str(folder / "m.onnx"), "--json", "--backend", "ort", "--inputs", str(folder / "feed.npz"), "-o", str(folder / "s")]
    child = subprocess.Popen(args, stdout=subprocess.PIPE, universal_newlines=True, cwd=str(folder))
    r = json.loads(child.stdout.read())
    alone = os.wait4(child.pid, 0)[2].ru_maxrss * 1024  # of plumb itself or of its largest child
    assert r["verdict"] == "agree" and r["peak_rss"] > 0.95 * alone, (r["peak_rss"], alone)


if __name__ == "__main__":
    sys.exit(tap.main(dict(globals())))

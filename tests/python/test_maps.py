#!/usr/bin/python3
"""ZipMap, as classifiers of scikit-learn end: rows of scores with names. Expected values by numpy; ONNX Runtime, where it is there, must
agree. Another map on the other side is never green. TAP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tap import main  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
LIBRARY = ROOT / ".cache/ort-1.27.0/libonnxruntime.so.1"
BACKENDS = ["eager", "jit"] + (["ort"] if LIBRARY.exists() else [])
WEIGHTS = np.array([[.1, -.2, .3], [.4, .5, -.6], [-.5, .1, .3]], np.float32)
INTERCEPTS = np.array([.1, .2, -.3], np.float32)
X = np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)


def model(path, labels, weights=WEIGHTS, declared=True):
    """labels: of the map, in the order of the scores."""
    text = isinstance(labels[0], str)
    zipped = {"classlabels_strings": labels} if text else {"classlabels_int64s": labels}
    nodes = [helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", coefficients=weights.ravel().tolist(),
                              intercepts=INTERCEPTS.tolist(), classlabels_ints=[0, 1, 2], multi_class=1, post_transform="SOFTMAX"),
             helper.make_node("ZipMap", ["scores"], ["prob"], domain="ai.onnx.ml", **zipped)]
    kind = onnx.TypeProto()
    if declared:
        kind.sequence_type.elem_type.map_type.key_type = T.STRING if text else T.INT64
        kind.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = T.FLOAT
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, ["N", 3])],
                              [helper.make_tensor_value_info("label", T.INT64, ["N"]), onnx.ValueInfoProto(name="prob", type=kind)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 1)])
    made.ir_version = 8
    onnx.save(made, path)


def plumb(*args):
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=120, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def run(folder, backend):
    np.save(folder / "x.npy", X)
    to = folder / f"out-{backend}"
    code, _, err = plumb("run", folder / "m.onnx", "--backend", backend, "--input", f"x={folder / 'x.npy'}", "-o", to)
    assert code == 0, (backend, err)
    rows = onnx.SequenceProto.FromString((to / "prob.pb").read_bytes()).sequence_values
    return [[numpy_helper.to_array(t) for t in row.tensor_values] for row in rows]


def scores():
    z = X.astype(np.float64) @ WEIGHTS.T.astype(np.float64) + INTERCEPTS
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def check(folder, labels):
    model(folder / "m.onnx", labels)
    last = {label: i for i, label in enumerate(labels)}  # of equal keys the last counts
    for backend in BACKENDS:
        rows = run(folder, backend)
        assert len(rows) == len(X), (backend, len(rows))
        for row, p in zip(rows, scores()):
            keys = [k.decode() if isinstance(k, bytes) else k for k in row[0].tolist()]
            assert keys == sorted(last), (backend, keys)
            assert row[1].dtype == np.float32 and np.allclose(row[1], [p[last[k]] for k in keys], rtol=1e-5), (backend, row, p)


def test_int_keys(folder):
    check(folder, [9, -3, 5])


def test_string_keys(folder):
    check(folder, ["pear", "apple", "fig"])


def test_equal_keys(folder):
    check(folder, [7, 2, 7])


def analyze(folder, *args, backend="ort"):
    number = len(list(folder.glob("s*")))
    np.save(folder / "x.npy", X)
    code, out, err = plumb("analyze", folder / "m.onnx", "--backend", backend, "--input", f"x={folder / 'x.npy'}", "--json", "-o", folder / f"s{number}", *args)
    assert out, err
    return code, json.loads(out)


def test_agrees_with_coverage(folder):
    model(folder / "m.onnx", [9, -3, 5])
    code, got = analyze(folder, backend=BACKENDS[-1])
    assert code == 0 and got["verdict"] == "agree" and len(got["outputs"]) == 2, (code, got["verdict"], got["reason"])


def test_other_values_are_not_green(folder):
    """The reference has the same scores under other names: only the map differs."""
    model(folder / "m.onnx", [9, -3, 5])
    model(folder / "other.onnx", [-3, 9, 5])
    code, got = analyze(folder, "--reference", folder / "other.onnx", backend=BACKENDS[-1])
    assert code == 1 and got["verdict"] == "diverged", (code, got["verdict"], got["reason"])


def test_other_keys_are_not_green(folder):
    model(folder / "m.onnx", ["a", "b", "c"])
    model(folder / "other.onnx", ["a", "b", "d"])
    code, got = analyze(folder, "--reference", folder / "other.onnx", backend=BACKENDS[-1])
    assert code == 1 and got["verdict"] == "diverged", (code, got["verdict"], got["reason"])


def test_wrong_count_is_refused(folder):
    model(folder / "m.onnx", [1, 2])
    np.save(folder / "x.npy", X)
    code, _, err = plumb("run", folder / "m.onnx", "--input", f"x={folder / 'x.npy'}", "-o", folder / "none")
    assert code == 2 and "3 scores, but 2 class labels" in err, (code, err)


if __name__ == "__main__":
    sys.exit(main(globals()))

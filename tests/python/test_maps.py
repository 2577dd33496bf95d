#!/usr/bin/python3
"""ZipMap, as classifiers of scikit-learn end: rows of scores with names; and DictVectorizer, as pipelines begin. Expected values by numpy; ONNX
Runtime, where it is there, must agree. Another map on the other side is never green. TAP."""

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
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=300, cwd=ROOT)
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


# ---- DictVectorizer: a map goes in ----

VECTOR = {"text": (["pear", "apple", "fig", "kiwi"], T.FLOAT, {"fig": 2.5, "apple": -1.0, "plum": 7.0}, [0, -1, 2.5, 0]),
          "ints": ([4, -1, 9], T.FLOAT, {9: 2.5, -1: -1.0, 3: 7.0}, [0, -1, 2.5]),
          "counts": (["b", "a"], T.INT64, {"a": 2 ** 60 + 1}, [0, 2 ** 60 + 1]),
          "words": ([4, -1, 9], T.STRING, {9: "x", -1: "y", 3: "z"}, ["", "y", "x"])}
TYPES = {T.FLOAT: np.float32, T.INT64: np.int64, T.STRING: object}


def vectorizer(path, vocabulary, value, shift=0):
    """y: the vector; z, of numbers: something to compute with it"""
    text = isinstance(vocabulary[0], str)
    words = {"string_vocabulary": vocabulary} if text else {"int64_vocabulary": vocabulary}
    nodes = [helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", **words)]
    outputs = [helper.make_tensor_value_info("y", value, [1, len(vocabulary)])]
    if value == T.FLOAT:
        nodes.append(helper.make_node("Add", ["y", "c"], ["z"]))
        outputs.append(helper.make_tensor_value_info("z", value, [1, len(vocabulary)]))
    kind = onnx.TypeProto()
    kind.map_type.key_type = T.STRING if text else T.INT64
    kind.map_type.value_type.tensor_type.elem_type = value
    kind.map_type.value_type.tensor_type.shape.SetInParent()
    constants = [numpy_helper.from_array(np.float32(1.5 + shift), "c")] if value == T.FLOAT else []
    graph = helper.make_graph(nodes, "g", [onnx.ValueInfoProto(name="x", type=kind)], outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 1)])
    made.ir_version = 8
    onnx.save(made, path)


def map_files(folder, value, row):
    """The same map in each form that plumb reads."""
    (folder / "row.json").write_text(json.dumps({str(k): v for k, v in row.items()}))
    keys = np.array(list(row), object if isinstance(next(iter(row)), str) else np.int64)
    values = np.array(list(row.values()), TYPES[value])
    tensors = [numpy_helper.from_array(keys), numpy_helper.from_array(values)]
    pair = onnx.SequenceProto(elem_type=onnx.SequenceProto.TENSOR, tensor_values=tensors)
    (folder / "pair.pb").write_bytes(pair.SerializeToString())
    proto = onnx.MapProto(name="x", key_type=T.STRING if keys.dtype == object else T.INT64)
    if keys.dtype == object:
        proto.string_keys.extend(k.encode() for k in keys)
    else:
        proto.keys.extend(keys.tolist())
    for v in values:
        scalar = onnx.TensorProto(data_type=value, string_data=[v.encode()]) if value == T.STRING else numpy_helper.from_array(np.asarray(v))
        proto.values.tensor_values.append(scalar)
    proto.values.elem_type = onnx.SequenceProto.TENSOR
    (folder / "map.pb").write_bytes(proto.SerializeToString())
    return "row.json", "pair.pb", "map.pb"


def test_dict_vectorizer(folder):
    for name, (vocabulary, value, row, expected) in VECTOR.items():
        vectorizer(folder / "m.onnx", vocabulary, value)
        for backend in BACKENDS:
            for file in map_files(folder, value, row):
                to = folder / f"{name}-{backend}-{Path(file).stem}"
                code, _, err = plumb("run", folder / "m.onnx", "--backend", backend, "--input", f"x={folder / file}", "-o", to)
                assert code == 0, (name, backend, file, err)
                if value == T.STRING:
                    got = [s.decode() for s in onnx.TensorProto.FromString((to / "y.pb").read_bytes()).string_data]
                else:
                    got = np.load(to / "y.npy").tolist()[0]
                assert got == expected, (name, backend, file, got)


def test_dict_vectorizer_is_analysed(folder):
    """A map that is generated has keys of the vocabulary; a reference that adds something else is not green."""
    for name, (vocabulary, value, row, _) in VECTOR.items():
        vectorizer(folder / "m.onnx", vocabulary, value)
        map_files(folder, value, row)
        for given in ([], ["--input", f"x={folder / 'row.json'}"]):
            code, out, err = plumb("analyze", folder / "m.onnx", "--backend", BACKENDS[-1], *given, "--json", "-o", folder / f"{name}{len(given)}")
            assert code == 0 and json.loads(out)["verdict"] == "agree", (name, given, code, err)
    vectorizer(folder / "m.onnx", VECTOR["text"][0], T.FLOAT)
    vectorizer(folder / "other.onnx", VECTOR["text"][0], T.FLOAT, shift=.25)
    code, out, err = plumb("analyze", folder / "m.onnx", "--backend", BACKENDS[-1], "--reference", folder / "other.onnx", "--json", "-o", folder / "two")
    assert code == 1 and json.loads(out)["verdict"] == "diverged", (code, err)
    vectorizer(folder / "other.onnx", VECTOR["text"][0][::-1], T.FLOAT)
    code, out, err = plumb("analyze", folder / "m.onnx", "--backend", BACKENDS[-1], "--reference", folder / "other.onnx", "--json", "-o", folder / "three")
    assert code == 1 and json.loads(out)["verdict"] == "diverged", (code, err)


def test_wrong_maps_are_refused(folder):
    vectorizer(folder / "m.onnx", [4, -1, 9], T.FLOAT)
    for text, why in (('{"a": 1}', "key 'a' is not an integer"), ('{"4": "x"}', "the value of '4' is string, expected float"),
                      ('{"4": 1, "04": 2}', "one of its keys twice"), ("[1]", "not an npy"), ('{"4": 1', "JSON")):
        (folder / "x.json").write_text(text)
        code, _, err = plumb("run", folder / "m.onnx", "--input", f"x={folder / 'x.json'}", "-o", folder / "out")
        assert code == 2 and why in err, (text, code, err)
    np.save(folder / "x.npy", X)
    code, _, err = plumb("run", folder / "m.onnx", "--input", f"x={folder / 'x.npy'}", "-o", folder / "out")
    assert code == 2 and "expected map(int64,float" in err, (code, err)


if __name__ == "__main__":
    sys.exit(main(globals()))

#!/usr/bin/python3
"""Models that are not quite right, which ONNX Runtime runs and users have (found among 2,059 public ones): wrong declarations, an
iteration number of shape [1], two initializers of one name, bools as text. Each runs on eager, jit and, where ONNX Runtime takes it, on the oracle
(tests/models/ort_run.c): names, types, shapes and values must be equal. Prints TAP."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/models"))
sys.dont_write_bytecode = True
import runners  # noqa: E402  (needs the path above)

PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
TESTS = []
rng = np.random.default_rng(5)
info = helper.make_tensor_value_info
node = helper.make_node


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def init(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def sparse(name, values, indices, shape):
    return helper.make_sparse_tensor(init(name, np.array(values, np.float32)), init("", np.array(indices, np.int64)), shape)


def model(nodes, inputs, outputs, initializers=(), sparse_initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers), sparse_initializer=list(sparse_initializers))
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    m.ir_version = 8
    return m


def test(fn):
    TESTS.append(fn)
    return fn


# ---- running ----

def load(file):
    if not file.endswith(".pb"):
        return np.load(file)
    with open(file, "rb") as f:
        return numpy_helper.to_array(onnx.TensorProto.FromString(f.read()))


def outputs(folder, m, feeds, who):
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as f:
        f.write(m.SerializeToString())
    files = runners.save_inputs(folder, feeds)
    to = os.path.join(folder, who)
    if who == "oracle":
        os.makedirs(to)
        return runners.load_outputs(runners.ort(path, files, to), to)
    report = runners.plumb(PLUMB, path, files, to, backend=who)
    return {o["name"]: load(o["file"] if os.path.exists(o["file"]) else os.path.join(to, o["file"])) for o in report["outputs"]}


def same(m, feeds, expected, oracle=True, near=0):
    """Eager and jit give `expected`, and so does ONNX Runtime if it takes the model at all."""
    for who in ["eager", "jit"] + ["oracle"] * (oracle and HAS_ORT):
        with tempfile.TemporaryDirectory() as folder:
            got = outputs(folder, m, feeds, who)
        assert sorted(got) == sorted(expected), f"{who}: outputs {sorted(got)}"
        for name, e in expected.items():
            e, g = np.asarray(e), got[name]
            assert g.shape == e.shape, f"{who}: {name} has shape {g.shape}, expected {e.shape}"
            if e.dtype.kind in "OUS":
                assert g.tolist() == e.tolist(), f"{who}: {name} is {g.tolist()}"
                continue
            assert g.dtype == e.dtype, f"{who}: {name} is {g.dtype}, expected {e.dtype}"
            assert np.abs(g.astype(float) - e).max(initial=0) <= near, f"{who}: {name} is {g}, expected {e}"


def refused(m, text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        with open(path, "wb") as f:
            f.write(m.SerializeToString())
        done = subprocess.run([PLUMB, "run", path, "-o", os.path.join(folder, "out")], capture_output=True, text=True)
    assert done.returncode == 2 and text in done.stderr, f"exit {done.returncode}: {done.stderr}"


# ---- wrong declarations ----

@test
def size_declared_as_float():
    """ONNX Runtime refuses it; jit must not be blamed for the type that Size has."""
    for declared in (info("y", T.FLOAT, [1]), info("y", T.INT32, [])):
        m = model([node("Size", ["x"], ["y"])], [info("x", T.FLOAT, [2, 6, 2, 3])], [declared])
        same(m, {"x": f32(2, 6, 2, 3)}, {"y": np.int64(72)}, oracle=False)


@test
def lstm_declared_with_three_dims():
    h, i, s, b = 5, 4, 3, 2
    weights = [init("W", f32(1, 4 * h, i)), init("R", f32(1, 4 * h, h)), init("B", f32(1, 8 * h))]
    feeds = {"x": f32(s, b, i), "h0": f32(1, b, h), "c0": f32(1, b, h)}

    def lstm(layout, names, shapes, y):
        return model([node("LSTM", ["x", "W", "R", "B", "", "h0", "c0"], ["y", "h", "c"], hidden_size=h, layout=layout)],
                     [info(n, T.FLOAT, k) for n, k in zip(names, shapes)], [info(n, T.FLOAT, y) for n in "yhc"], weights)

    names = list(feeds)
    with tempfile.TemporaryDirectory() as folder:
        right = outputs(folder, lstm(0, names, [feeds[n].shape for n in names], None), feeds, "eager")
    same(lstm(0, names, [feeds[n].shape for n in names], [s, b, h]), feeds, right, near=1e-6)
    # layout 1 has the batch first; ONNX Runtime's CPU kernel refuses it
    turned = {n: np.ascontiguousarray(a.swapaxes(0, 1)) for n, a in feeds.items()}
    expected = {"y": right["y"].transpose(2, 0, 1, 3), "h": right["h"].swapaxes(0, 1), "c": right["c"].swapaxes(0, 1)}
    same(lstm(1, names, [turned[n].shape for n in names], [b, s, h]), turned, expected, oracle=False, near=1e-6)


@test
def sparse_initializer_as_output():
    """ONNX Runtime returns a sparse tensor, which the oracle does not read."""
    w = sparse("w", [1.5, -2, 3], [1, 4, 5], [3, 3])
    dense = np.array([0, 1.5, 0, 0, -2, 3, 0, 0, 0], np.float32).reshape(3, 3)
    for declared in (info("w", T.FLOAT, [3, 3]), helper.make_sparse_tensor_value_info("w", T.FLOAT, [3, 3]), info("w", T.FLOAT, [3])):
        same(model([], [], [declared], sparse_initializers=[w]), {}, {"w": dense}, oracle=False)


# ---- Loop ----

def loop(number, condition, body, feeds, trip=3):
    graph = helper.make_graph(body, "body", [info("i", T.INT64, number), info("go", T.BOOL, condition), info("s", T.FLOAT, None)],
                              [info("on", T.BOOL, condition), info("s2", T.FLOAT, None), info("slice", T.INT64, None)])
    return model([node("Loop", ["n", "", "z"], ["y", "all"], body=graph)], [info(n, T.FLOAT, a.shape) for n, a in feeds.items()],
                 [info("y", T.FLOAT, None), info("all", T.INT64, None)], [init("n", np.int64(trip)), init("one", np.array([1], np.int64))])


@test
def loop_with_an_iteration_number_of_shape_1():
    keep = [node("Identity", ["go"], ["on"]), node("Identity", ["i"], ["slice"])]
    gather = [node("Gather", ["x", "i"], ["row"], axis=0), node("Add", ["s", "row"], ["s2"]), *keep]
    cut = [node("Add", ["i", "one"], ["end"]), node("Slice", ["x", "i", "end"], ["row"]), node("Add", ["s", "row"], ["s2"]), *keep]
    x, z = f32(4, 2), f32(2)
    total = z.copy()
    for i in range(3):
        total = total + x[i]
    numbers = np.arange(3)
    same(loop([], [], gather, {"x": x, "z": z}), {"x": x, "z": z}, {"y": total, "all": numbers})
    same(loop([1], [], gather, {"x": x, "z": z}), {"x": x, "z": z}, {"y": total[None], "all": numbers[:, None]})
    same(loop([1], [1], cut, {"x": x, "z": z[None]}), {"x": x, "z": z[None]}, {"y": total[None], "all": numbers[:, None]})


# ---- text ----

@test
def bools_as_text():
    x = np.array([True, False, True])
    m = model([node("Cast", ["x"], ["t"], to=T.STRING), node("Cast", ["t"], ["y"], to=T.INT64)], [info("x", T.BOOL, [3])],
              [info("y", T.INT64, [3])])
    same(m, {"x": x}, {"y": np.array([1, 0, 1])})
    m = model([node("Cast", ["x"], ["y"], to=T.STRING)], [info("x", T.BOOL, [3])], [info("y", T.STRING, [3])])
    same(m, {"x": x}, {"y": np.array(["1", "0", "1"], object)}, oracle=False)


# ---- names and ranks ----

@test
def initializers_of_one_name():
    """The last one counts, a sparse one after dense ones."""
    def add(first, *rest, **more):
        return model([node("Add", ["x", "w"], ["y"])], [info("x", T.FLOAT, [2])], [info("y", T.FLOAT, [2])],
                     [init("w", np.array(a, np.float32)) for a in (first, *rest)], **more)

    x = np.array([1, 2], np.float32)
    same(add([1, 2], [10, 20]), {"x": x}, {"y": np.array([11, 22], np.float32)})
    same(add([1, 2], [10, 20], [5, 5]), {"x": x}, {"y": np.array([6, 7], np.float32)})
    same(add([1, 2], sparse_initializers=[sparse("w", [7], [1], [2])]), {"x": x}, {"y": np.array([1, 9], np.float32)})
    refused(add([1, 2], [10]), "two initializers 'w'")


@test
def a_rank_beyond_the_limit_names_its_value():
    relu = [node("Relu", ["long"], ["y"])]
    refused(model(relu, [info("long", T.FLOAT, [1] * 17)], [info("y", T.FLOAT, None)]), "value 'long'")
    refused(model(relu, [], [info("y", T.FLOAT, None)], [init("long", np.ones([1] * 17, np.float32))]), "'long'")


def main():
    only = [a for a in sys.argv[1:] if not a.startswith("-")]
    tests = [t for t in TESTS if not only or any(o in t.__name__ for o in only)]
    print(f"1..{len(tests) + 1}")
    failed = 0
    for i, t in enumerate(tests, 1):
        try:
            t()
            wrong = ""
        except (AssertionError, runners.Failed) as e:
            wrong = str(e).replace("\n", " ")
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {i} - {t.__name__.replace('_', ' ')}" + (f"\n# {wrong}" if wrong else ""), flush=True)
    print(f"ok {len(tests) + 1} - against ONNX Runtime" + ("" if HAS_ORT else " # SKIP ONNX Runtime is not here"))
    return 1 if failed else 0


try:
    runners.ort_prepare()
    HAS_ORT = True
except runners.Failed:
    HAS_ORT = False

if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Quantised classifiers against their float models: the table of layers, the mixed-precision model that --advise writes, and mistakes of a
quantiser told from its noise. TAP.

A CNN and a transformer are trained here (quantised_nets.py) and quantised in every form that ONNX Runtime's quantiser writes, static and dynamic,
per tensor and per channel. The advised model has to be at least as accurate as the best of 50 random choices of as many layers, on samples
that plumb has not seen. --full: all forms; else one of each network."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent))
import quantised_nets as nets  # noqa: E402
from tap import Skip, main  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
LIBRARY = ROOT / ".cache/ort-1.27.0/libonnxruntime.so.1"
FULL = "--full" in sys.argv
BACKEND = "ort" if LIBRARY.exists() else "eager"
MAKERS = {"cnn": (nets.cnn, nets.images), "transformer": (nets.transformer, nets.sequences)}
made = {}


def plumb(*args, code=(0, 1)):
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=900, cwd=ROOT)
    if done.returncode not in code:
        raise RuntimeError(f"plumb {' '.join(map(str, args))}: exit {done.returncode}: {done.stderr.strip()[:400]}")
    return done.stdout


def run(folder, model, x):
    """All outputs of a model on these inputs."""
    onnx.save(model, folder / "run.onnx")
    np.savez(folder / "run.npz", x=x)
    (folder / "run-out.npz").unlink(missing_ok=True)
    plumb("run", folder / "run.onnx", "--backend", BACKEND, "--inputs", folder / "run.npz", "-o", folder / "run-out.npz")
    return dict(np.load(folder / "run-out.npz"))


def network(name, folder):
    """The float model, ranges of its values on calibration data; trained once."""
    if name not in made:
        make, data = MAKERS[name]
        model = nets.gemm_as_matmul(make())
        every = onnx.ModelProto()
        every.CopyFrom(model)
        kinds = {o.name for o in model.graph.output}
        every.graph.output.extend(helper.make_empty_tensor_value_info(o) for n in model.graph.node for o in n.output if o not in kinds)
        x = data(64, 5)[0]
        ranges = {k: (v.min(), v.max()) for k, v in run(folder, every, x).items() if v.size}
        ranges["x"] = (x.min(), x.max())
        made[name] = model, ranges
    return made[name]


def side_by_side(models):
    """One model with an output for each: names get a number, the input is shared."""
    out = onnx.ModelProto()
    out.CopyFrom(models[0])
    for part in ("node", "initializer", "output", "value_info"):
        del getattr(out.graph, part)[:]
    for i, model in enumerate(models):
        name = lambda v: v if v in ("x", "") else f"{v}#{i}"  # noqa: E731, B023
        for node in model.graph.node:
            copy = out.graph.node.add()
            copy.CopyFrom(node)
            copy.input[:] = [name(v) for v in node.input]
            copy.output[:] = [name(v) for v in node.output]
            copy.name = f"{node.name}#{i}"
        for t in model.graph.initializer:
            out.graph.initializer.add().CopyFrom(t)
            out.graph.initializer[-1].name = name(t.name)
        out.graph.output.add().CopyFrom(model.graph.output[0])
        out.graph.output[-1].name = name(model.graph.output[0].name)
    return out


def accuracies(folder, models, x, labels):
    got = run(folder, side_by_side(models), x)
    return [float((got[f"logits#{i}"].argmax(1) == labels).mean()) for i in range(len(models))]


def analyze(folder, quantised, model, x, *args):
    onnx.save(quantised, folder / "quantised.onnx")
    onnx.save(model, folder / "float.onnx")
    np.savez(folder / "in.npz", x=x)
    number = len(list(folder.glob("session*")))
    return json.loads(plumb("analyze", folder / "quantised.onnx", "--backend", BACKEND, "--reference", folder / "float.onnx", "--inputs",
                            folder / "in.npz", "--json", "--save", "none", "--skip-determinism", "-o", folder / f"session{number}", *args))


def advised(folder, name, form, per_channel, *args, error=0.0):
    model, ranges = network(name, folder)
    data = MAKERS[name][1]
    quantised = nets.quantise(model, form, per_channel, ranges)
    got = analyze(folder, quantised, model, data(192, 11)[0], "--advise-out", folder / "mixed.onnx", *args)
    rows, advice = got["quantisation"]["layers"], got["advice"]
    if len(rows) != len(nets.layers(model)):
        raise AssertionError(f"{len(rows)} layers in the table, {len(nets.layers(model))} were quantised")
    shares = [r["share"] for r in rows]
    if shares != sorted(shares, reverse=True) or abs(rows[-1]["cumulative"] - 1) > 1e-6:
        raise AssertionError(f"not sorted, or not all: {shares}")
    if got["blame"]:
        raise AssertionError(f"a clean quantiser is blamed: {got['blame'][0]}")
    k = len(advice["raise"])
    if not advice["met"] or k == 0:
        raise AssertionError(f"no advice: {advice['reason']}")
    mixed = onnx.load(folder / "mixed.onnx")
    onnx.checker.check_model(mixed)
    held, labels = data(2048, 99)
    rng = np.random.default_rng(3)
    layers = nets.layers(model)
    random = [nets.quantise(model, form, per_channel, ranges, keep=set(rng.choice(layers, k, replace=False))) for _ in range(50)]
    real, low, best, *others = accuracies(folder, [model, quantised, mixed, *random], held, labels)
    note = (f"float {real:.4f}, quantised {low:.4f}, {k} of {len(layers)} layers in float {best:.4f}, best of 50 random {max(others):.4f}; "
            f"{advice['queries']} runs")
    if best < max(others) - error * (real * (1 - real) / len(labels)) ** 0.5 or best < low:
        raise AssertionError(note)
    return note


def row(name, form, per_channel):
    def test(folder):
        return advised(folder, name, form, per_channel)
    return test


for name_, form_, channel_ in [(n, f, c) for n in MAKERS for f in ("qdq", "dynamic", "qoperator") for c in (False, True)]:
    if FULL or (name_, form_, channel_) in (("cnn", "qdq", False), ("transformer", "dynamic", True)):
        globals()[f"test_{name_} {form_} per {'channel' if channel_ else 'tensor'}"] = row(name_, form_, channel_)


def test_top1(folder):
    """The choice rests on 144 labels, of which one decides: models that are closer than the standard error of the test are equal."""
    return advised(folder, "cnn", "qdq", False, "--advise-metric", "top1", error=1)


def test_weights_are_the_float_ones(folder):
    """What is kept has the reference's weights; the rest stays int8."""
    model, ranges = network("cnn", folder)
    quantised = nets.quantise(model, "qdq", False, ranges)
    advice = analyze(folder, quantised, model, nets.images(192, 11)[0], "--advise-out", folder / "mixed.onnx")["advice"]
    floats = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    mixed = onnx.load(folder / "mixed.onnx").graph
    arrays = {t.name: numpy_helper.to_array(t) for t in mixed.initializer}
    for node in mixed.node:
        if node.op_type != "Conv":
            continue
        want = floats[next(n.input[1] for n in model.graph.node if n.output[0] == node.output[0])]
        if node.output[0] in advice["raise"]:
            assert np.array_equal(arrays[node.input[1]], want), node.output[0]
        else:
            maker = next(n for n in mixed.node if n.output[0] == node.input[1])
            assert maker.op_type == "DequantizeLinear" and arrays[maker.input[0]].dtype == np.int8, node.output[0]


def test_never_a_worse_one(folder):
    """A float model that is another one: nothing that is kept of it helps, and no file is written."""
    model, ranges = network("cnn", folder)
    same = nets.quantise(model, "qdq", True, ranges)
    got = analyze(folder, same, model, nets.images(64, 11)[0], "--advise-out", folder / "none.onnx", "--tol", "10")
    assert not (folder / "none.onnx").exists() and got["advice"]["raise"] == [], got["advice"]
    assert got["advice"]["reason"].startswith("nothing has to be kept in float"), got["advice"]["reason"]


def replaced(model, name, change):
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for t in out.graph.initializer:
        if t.name == name:
            t.CopyFrom(numpy_helper.from_array(np.asarray(change(numpy_helper.to_array(t))), name))
            return out
    raise KeyError(name)


def mistakes():
    """(what, initializer, change, kind, layer) for the CNN, QDQ, per channel."""
    relu = "/body/body.7/Relu_output_0"
    return (
        ("weight scale", "body.8.weight_scale", lambda s: s * np.float32(1.5), "wrong scale", "/body/body.8/Conv_output_0"),
        ("weight zero point", "body.8.weight_zero_point", lambda z: z + np.int8(5), "wrong zero point", "/body/body.8/Conv_output_0"),
        ("clipped range", relu + "_scale", lambda s: s * np.float32(0.1), "clipped range", "/body/body.8/Conv_output_0"),
    )


def test_mistakes(folder):
    model, ranges = network("cnn", folder)
    clean = nets.quantise(model, "qdq", True, ranges)
    x = nets.images(32, 11)[0]
    for what, name, change, kind, layer in mistakes():
        got = analyze(folder, replaced(clean, name, change), model, x)
        found = [(b["kind"], b["value"]) for b in got["blame"]]
        assert got["verdict"] == "diverged" and got["at_fault"] == "model", (what, got["verdict"], got["at_fault"], got["reason"])
        assert (kind, layer) in found and len(found) == 1, (what, found)
        rows = {r["value"]: r for r in got["quantisation"]["layers"]}
        assert rows[layer]["kind"] == kind and rows[layer]["evidence"], (what, rows[layer])


def test_mistake_in_a_pair(folder):
    """One more than it was: the DequantizeLinear of an activation reads its codes with another zero point."""
    model, ranges = network("cnn", folder)
    wrong = nets.quantise(model, "qdq", True, ranges)
    value = "/body/body.7/Relu_output_0"
    zero = next(numpy_helper.to_array(t) for t in wrong.graph.initializer if t.name == value + "_zero_point")
    wrong.graph.initializer.append(numpy_helper.from_array(np.uint8(zero + 1), "other_zero"))
    for node in wrong.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] == value + "_quantized":
            node.input[2] = "other_zero"
    got = analyze(folder, wrong, model, nets.images(32, 11)[0])
    assert [b["kind"] for b in got["blame"]] == ["wrong zero point"] and got["verdict"] == "diverged", (got["verdict"], got["reason"], got["blame"])


if __name__ == "__main__":
    if not LIBRARY.exists():
        print(f"# {LIBRARY} is not there: eager runs the models")
    _ = Skip
    sys.exit(main(globals()))

#!/usr/bin/python3
"""Make a corpus with known answers, as a folder of models with their inputs.

  bench/corpus/make.py FOLDER [small|large]

  bugs/CASE-FORM   every graph of ../shared/conformance/ort-bugs-open in four forms: as it is; `renamed`, every value and node has
                   another name; `wrapped`, an operation before every float input and one after every float output; `beside`, a branch
                   that has nothing to do with it. All forms of a graph have its bug (checked by running them: run.py known)
  npm/, torch/     the models of tools/fetch-models and tools/export-models that are in .cache, inputs of tests/models/inputs.py
  onnx/            Debian's libonnx-testdata: the first node test of each operator, and its `simple` and `pytorch-*` models
  large            with the nets that take seconds each
  small            bugs as they are and `renamed`, and every 25th of the ONNX data: for `make test`

CONFORMANCE is ../shared/conformance unless set. What it makes depends only on pinned files: models by hash (tests/models/models.tsv), Debian's package by version (tools/setup)."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
BUGS = Path(os.environ.get("CONFORMANCE", ROOT.parent / "shared/conformance")) / "ort-bugs-open.tar.zst"
DATA = Path("/usr/share/libonnx-testdata/data")
FORMS = ("plain", "renamed", "wrapped", "beside")
LARGE = ("efficientnet_b0", "resnet18", "vit_b_16", "retinaface", "moonshine", "ppocr_det", "ppocr_rec", "ddddocr")
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
sys.path.insert(0, str(ROOT / "tests/models"))


# ---- the forms of a graph ----

def rename(model):
    """Every name of a value or node in the graph becomes another; inputs and outputs, too. These graphs have no bodies."""
    graph, new = model.graph, {}
    def other(name):
        return name and new.setdefault(name, f"layer.{len(new)}.value")
    for node in graph.node:
        node.name = f"op_{len(new)}"
        node.input[:] = [other(n) for n in node.input]
        node.output[:] = [other(n) for n in node.output]
    for named in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        named.name = other(named.name)


def wrap(model):
    """x -> Neg -> Neg -> the graph -> Neg: exact in every float type, so that what the graph computes stays the same, but for its sign."""
    graph = model.graph
    constants = {t.name for t in graph.initializer}
    before, after, new = [], [], {}
    for value in graph.input:
        if value.type.tensor_type.elem_type in FLOATS and value.name not in constants:
            new[value.name] = value.name + "_in"
            before += [helper.make_node("Neg", [value.name], [value.name + "_neg"]), helper.make_node("Neg", [value.name + "_neg"], [value.name + "_in"])]
    for node in graph.node:
        node.input[:] = [new.get(n, n) for n in node.input]
    for value in graph.output:
        if value.type.tensor_type.elem_type in FLOATS:
            old, value.name = value.name, value.name + "_out"
            after.append(helper.make_node("Neg", [old], [value.name]))
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)


def put_beside(model):
    """Another input, another output, four operations between."""
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info("beside_x", TensorProto.FLOAT, [3, 5]))
    graph.output.append(helper.make_tensor_value_info("beside_y", TensorProto.FLOAT, [3, 5]))
    graph.node.extend([helper.make_node("Sigmoid", ["beside_x"], ["beside_s"]), helper.make_node("Mul", ["beside_x", "beside_s"], ["beside_m"]),
                       helper.make_node("Tanh", ["beside_m"], ["beside_t"]), helper.make_node("Softmax", ["beside_t"], ["beside_y"], axis=1)])


def write_form(case, form, target):
    model = onnx.load(str(case / "model.onnx"))
    {"plain": lambda m: None, "renamed": rename, "wrapped": wrap, "beside": put_beside}[form](model)
    shutil.copytree(case / "test_data_set_0", target / "test_data_set_0", ignore=shutil.ignore_patterns("output_*"))
    data = target / "test_data_set_0"
    constants = {t.name for t in model.graph.initializer}
    for i, value in enumerate(v for v in model.graph.input if v.name not in constants):
        path = data / f"input_{i}.pb"
        if form == "beside" and value.name == "beside_x":
            tensor = numpy_helper.from_array(np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32), value.name)
        else:
            tensor = onnx.load_tensor(str(path))
            tensor.name = value.name
        path.write_bytes(tensor.SerializeToString())
    onnx.save(model, str(target / "model.onnx"))


def make_bugs(folder, forms):
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(["tar", "--zstd", "-xf", str(BUGS), "-C", tmp], check=True)
        for case in sorted((Path(tmp) / "ort-bugs-open").iterdir()):
            for form in forms if case.is_dir() else ():
                target = folder / f"{case.name}-{form}"
                target.mkdir(parents=True)
                write_form(case, form, target)
                shutil.copy(case / "INFO.txt", target)


# ---- models of others ----

def make_cases(folder, large):
    """Models of .cache with realistic inputs."""
    import inputs
    n = 0
    for case in inputs.CASES:
        if not Path(case.path).exists() or (case.name.startswith(LARGE) and not large):
            continue
        target = folder / ("torch" if case.model.startswith("torch/") else "npm") / case.name
        (target / "test_data_set_0").mkdir(parents=True)
        shutil.copy(Path(case.path).resolve(), target / "model.onnx")  # plumb follows no link out of the folder
        given = case.inputs()
        names = [v.name for v in onnx.load(case.path, load_external_data=False).graph.input if v.name in given]
        for i, name in enumerate(names):
            (target / f"test_data_set_0/input_{i}.pb").write_bytes(numpy_helper.from_array(given[name], name).SerializeToString())
        n += 1
    return n


def first_of_each(folder):
    seen, chosen = set(), []
    for case in sorted(folder.iterdir()):
        if not (case / "model.onnx").exists():
            continue
        ops = tuple(sorted({n.op_type for n in onnx.load(str(case / "model.onnx")).graph.node}))
        if ops not in seen:
            seen.add(ops)
            chosen.append(case)
    return chosen


def make_onnx(folder, step):
    cases = first_of_each(DATA / "node")
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        cases += sorted(p for p in (DATA / kind).iterdir() if (p / "model.onnx").exists())
    for case in cases[::step]:
        target = folder / case.parent.name / case.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(case, target, symlinks=False)


def make(folder, small=False, large=False, step=1):
    folder = Path(folder)
    make_bugs(folder / "bugs", FORMS[:2] if small else FORMS)
    if not small:
        make_cases(folder, large)
    make_onnx(folder / "onnx", 25 if small else int(step))
    return folder


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    make(sys.argv[1], "small" in sys.argv[2:], "large" in sys.argv[2:])
    found = sorted(Path(sys.argv[1]).rglob("model.onnx"))
    print(f"{len(found)} models:", ", ".join(f"{d.name} {sum(1 for f in found if d in f.parents)}" for d in sorted(Path(sys.argv[1]).iterdir())))

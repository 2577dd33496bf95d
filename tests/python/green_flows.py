"""Situations of engines, recordings and options for test_green_audit.py that green_red_by_hand.py does not have: engines that are
right at times, that record their inside, several backends, swapped and mixed recordings, maps, opsets, steps, gradients."""

import json
import os
import shutil
import subprocess

import numpy as np
import onnx
from onnx import helper, numpy_helper

from green_models import F, MODELS, N, tensor, write_npy, write_npz, write_safetensors, write_set
from green_situation import Situation, engine, save_inputs, save_model

RED, CLEAN = [], []
MLP, TWO, CLASSES = MODELS["mlp"], MODELS["two"], MODELS["classes"]


def red(name, make, **more):
    RED.append(Situation(name, make, generated=False, **more))


def clean(name, make, **more):
    CLEAN.append(Situation(name, make, red=False, generated=False, **more))


def plumb(folder, *arguments):
    program = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
    done = subprocess.run([program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr


def scripted(folder, body, name="engine"):
    """an engine of shell; it finds right answers in $R, wrong ones in $W"""
    for word, answer in (("right", MLP.answers()), ("wrong", {"y": MLP.answers()["y"] * np.float32(1.5)})):
        if not (folder / word).exists():
            write_set(folder / word, MLP, MLP.samples[0], answer)
    save_model(folder, MLP)
    if not (folder / "in").exists():
        save_inputs(folder, MLP)
    (folder / name).write_text(f'#!/bin/sh\nD="$1/test_data_set_0"; H="{folder}"; R="$H/right/output_0.pb"; W="$H/wrong/output_0.pb"\n{body}\n')
    (folder / name).chmod(0o755)
    return ["--inputs", "in", "--backend", f"cmd:{folder}/{name}"]


ASK = {"run": lambda rest: ["run", "model.onnx", "--accuracy", *rest], "analyze": lambda rest: ["analyze", "model.onnx", "--skip-search", "-o", "s", *rest],
       "query": lambda rest: ["minify", "model.onnx", "--query", "--accuracy", *rest]}


# ---- engines ----

def engines():
    bodies = {"exit": 'cp "$R" "$D/output_0.pb"; exit 9', "killed": 'cp "$R" "$D/output_0.pb"; kill -9 $$', "other-name": 'cp "$R" "$D/output_1.pb"',
              "half-file": 'head -c 20 "$R" > "$D/output_0.pb"', "empty-file": ': > "$D/output_0.pb"', "input": 'cp "$D/input_0.pb" "$D/output_0.pb"',
              "model": 'cp "$1/model.onnx" "$D/output_0.pb"', "text": 'echo 1 2 3 > "$D/output_0.pb"', 
              "link": 'ln -s "$W" "$D/output_0.pb"', "both": 'cp "$R" "$D/output_1.pb"; cp "$W" "$D/output_0.pb"'}
    for word, body in bodies.items():
        for ask, words in ASK.items():
            red(f"engine/{word}/{ask}", lambda f, b=body, w=words: w(scripted(f, b)))
    turns = 'n=$(cat "$H/n" 2>/dev/null || echo 0); echo $((n + 1)) > "$H/n"\n'
    red("engine/second-run-wrong/analyze", lambda f: ASK["analyze"](scripted(f, turns + 'if [ $n = 1 ]; then cp "$W" "$D/output_0.pb"; else cp "$R" "$D/output_0.pb"; fi')))
    red("engine/runs-3-mostly-wrong/run", lambda f: ASK["run"](scripted(f, turns + 'if [ $n = 0 ]; then cp "$R" "$D/output_0.pb"; else cp "$W" "$D/output_0.pb"; fi')
                                                               + ["--runs", "3"]))
    for save in ("none", "suspects", "all"):
        red(f"engine/save-{save}", lambda f, s=save: ASK["analyze"](scripted(f, 'cp "$W" "$D/output_0.pb"')) + ["--save", s])
    for name in ("csv", "md", "github", "sarif", "junit", "model-explorer"):
        red(f"engine/format-{name}", lambda f, n=name: ASK["analyze"](scripted(f, 'cp "$W" "$D/output_0.pb"')) + ["--format", n])
    for flag in ("--skip-determinism", "--skip-gold"):
        red(f"engine/{flag}", lambda f, g=flag: ASK["analyze"](scripted(f, 'cp "$W" "$D/output_0.pb"')) + [g])
    clean("engine/more-outputs", lambda f: ASK["run"](scripted(f, 'cp "$R" "$D/output_0.pb"; cp "$R" "$D/output_1.pb"')), codes=(0, 3))
    clean("engine/noise", lambda f: ASK["run"](scripted(f, 'echo AGREE; echo oops >&2; cp "$R" "$D/output_0.pb"')))


def inside():
    """an engine that records its inside"""
    values = MLP.values()
    inner = {k: values[k] for k in ("h", "a", "r")}
    copy = 'cp "$H/inside.safetensors" "$D/intermediates.safetensors"; cp "$H/inside.safetensors" "$1/intermediates.safetensors"; cp "${0}" "$D/output_0.pb"'
    faults = {"middle": ({**inner, "r": values["r"] + np.float32(1)}, "R"), "output": (inner, "W"), "nan": ({**inner, "a": values["a"] * np.float32(np.nan)}, "R"),
              "shape": ({**inner, "h": values["h"][:2]}, "R"), "swapped": ({**inner, "h": values["a"], "a": values["h"]}, "R")}
    for word, (said, answer) in faults.items():
        def make(folder, said=said, answer=answer):
            write_safetensors(folder / "inside.safetensors", said)
            return ASK["analyze"](scripted(folder, copy.replace("0}", answer + "}")))
        red(f"inside/{word}", make)

    def right(folder):
        write_safetensors(folder / "inside.safetensors", inner)
        return ASK["analyze"](scripted(folder, copy.replace("0}", "R}")))
    clean("inside/right", right)


def several_backends():
    for word, specs in {"first": ("engine", "ort"), "second": ("ort", "engine"), "with-jit": ("jit", "ort", "engine")}.items():
        def make(folder, specs=specs):
            given = scripted(folder, 'cp "$W" "$D/output_0.pb"')
            chosen = [w for s in specs for w in ("--backend", given[-1] if s == "engine" else s)]
            return ["analyze", "model.onnx", "--skip-search", "--inputs", "in", *chosen, "-o", "s"]
        red(f"several/{word}", make)
    clean("several/right", lambda f: save_model(f, MLP) and ["analyze", "model.onnx", "--backend", "ort", "--backend", "jit", "-o", "s"])


# ---- recordings ----

def truths(folder, model, values, command, *more):
    save_model(folder, model)
    write_safetensors(folder / "truth.safetensors", values)
    rest = {"run": ["--accuracy"], "analyze": ["-o", "s"]}[command]
    return [command, "model.onnx", "--backend", "ort", "--reference", "truth.safetensors", *rest, *more]


def recordings():
    two, mlp = TWO.values(), MLP.values()
    swapped = {**two, "a": two["b"], "b": two["a"]}
    for command in ("run", "analyze"):
        red(f"recording/inputs-swapped/{command}", lambda f, c=command: truths(f, TWO, swapped, c))
        red(f"recording/one-input-of-another-sample/{command}", lambda f, c=command: truths(f, TWO, {**two, "b": TWO.values(1)["b"]}, c))
        red(f"recording/output-renamed/{command}", lambda f, c=command: truths(f, TWO, {("q" if k == "m" else k): v if k != "m" else -v for k, v in two.items()}, c))
        red(f"recording/input-transposed/{command}", lambda f, c=command: truths(f, MLP, {**mlp, "x": mlp["x"].T.copy()}, c))
        red(f"recording/other-seed-given/{command}", lambda f, c=command: truths(f, MLP, mlp, c, "--seed", "3", "--fill", "ones"))
        red(f"recording/integer-output/{command}", lambda f, c=command: truths(f, CLASSES, {**CLASSES.values(), "k": (CLASSES.values()["k"] + 1) % 5}, c))
        clean(f"recording/order/{command}", lambda f, c=command: truths(f, TWO, dict(reversed(list(two.items()))), c))

    def twice(folder, specs, seeds=("1", "1"), model=MLP):
        save_model(folder, model)
        for side, spec, seed in zip("ab", specs, seeds):
            plumb(folder, "record", "model.onnx", "--backend", spec, "--seed", seed, "-o", f"{side}.safetensors")
        return ["compare", "a.safetensors", "b.safetensors", "--no-session"]
    red("recording/own/fault", lambda f: twice(f, ("jit:inject=scale@Relu", "eager")))
    red("recording/own/fault-is-reference", lambda f: twice(f, ("eager", "jit:inject=offset@Add")))
    red("recording/own/other-seed", lambda f: twice(f, ("ort", "eager"), ("1", "2")))
    red("recording/own/other-model", lambda f: (twice(f, ("ort", "eager")), save_model(f, MODELS["square"]),
                                                plumb(f, "record", "model.onnx", "-o", "c.safetensors"), ["compare", "a.safetensors", "c.safetensors", "--no-session"])[3])
    clean("recording/own/right", lambda f: twice(f, ("ort", "eager")))
    clean("recording/own/half", lambda f: twice(f, ("ort", "eager"), model=MODELS["half"]))

    def maps(folder, pairs, wrong):
        save_model(folder, MLP)
        write_npz(folder / "a.npz", {**mlp, wrong: mlp[wrong] * np.float32(1.5)})
        write_npz(folder / "b.npz", mlp)
        (folder / "map.json").write_text(json.dumps({"pairs": [{"a": p, "b": q} for p, q in pairs]}))
        return ["compare", "a.npz", "b.npz", "--map", "map.json", "--no-session"]
    red("map/output", lambda f: maps(f, [("y", "y")], "y"))
    red("map/other-value", lambda f: maps(f, [("h", "h")], "y"))
    red("map/crossed", lambda f: maps(f, [("h", "a"), ("a", "h")], "y"))
    red("map/to-another", lambda f: maps(f, [("y", "h")], "y"))

    def complexes(folder, change):
        z = (np.arange(6) + 1j * np.arange(6, 0, -1)).astype(np.complex64).reshape(2, 3)
        write_npz(folder / "a.npz", {"z": change(z), "y": mlp["y"]})
        write_npz(folder / "b.npz", {"z": z, "y": mlp["y"]})
        return ["compare", "a.npz", "b.npz", "--no-session"]
    for word, change in {"conjugate": np.conj, "real": lambda z: z.real.astype(np.complex64), "swapped": lambda z: (z.imag + 1j * z.real).astype(np.complex64),
                         "nan": lambda z: z * np.complex64(np.nan), "imaginary-nan": lambda z: z + np.complex64(complex(0, np.nan)),
                         "floats": lambda z: z.real.copy()}.items():
        red(f"complex/{word}", lambda f, c=change: complexes(f, c))
    clean("complex/right", lambda f: complexes(f, lambda z: z.copy()))

    def padded(folder, change):
        write_npy(folder / "dump", {k: change(v) if k == "y" else v for k, v in mlp.items() if k != "x"} | {"x": mlp["x"]})
        save_model(folder, MLP)
        return ["compare", "dump", "model.onnx", "--no-session"]
    for word, change in {"batch-of-two": lambda v: np.stack([v, v * 2]), "first-row": lambda v: v[:1], "int": lambda v: v.astype(np.int32), "half": lambda v: (v * 1.2).astype(np.float16),
                         "fortran-bytes": lambda v: np.frombuffer(v.tobytes(order="F"), np.float32).reshape(v.shape), "big-endian": lambda v: (v * 2).astype(">f4")}.items():
        red(f"dump/{word}", lambda f, c=change: padded(f, c))
    clean("dump/big-endian", lambda f: padded(f, lambda v: v.astype(">f4")))
    clean("dump/fortran", lambda f: padded(f, np.asfortranarray))
    clean("dump/half", lambda f: padded(f, lambda v: v.astype(np.float16)), codes=(0, 1))


# ---- models ----

def dynamic():
    graph = helper.make_graph([N("MatMul", ["x", "w"], ["h"]), N("Relu", ["h"], ["y"])], "g", [helper.make_tensor_value_info("x", F, ["n", 6])],
                              [helper.make_tensor_value_info("y", F, ["n", 8])], [i for i in MLP.onnx.graph.initializer if i.name == "w"])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    w = numpy_helper.to_array(graph.initializer[0]).astype(np.float64)
    x = np.random.RandomState(0).standard_normal((5, 6)).astype(np.float32)
    h = (x.astype(np.float64) @ w).astype(np.float32)

    def make(folder, words, values=None):
        onnx.save(model, str(folder / "model.onnx"))
        write_safetensors(folder / "truth.safetensors", values or {"x": x, "h": h, "y": np.maximum(h, 0)})
        return words
    for command, rest in (("run", ["--accuracy"]), ("analyze", ["-o", "s"])):
        base = [command, "model.onnx", "--backend", "ort", "--reference", "truth.safetensors", *rest]
        clean(f"dynamic/truth/{command}", lambda f, b=base: make(f, b))
        red(f"dynamic/other-dim/{command}", lambda f, b=base: make(f, [*b, "--dim", "n=2"]))
        red(f"dynamic/rows-missing/{command}", lambda f, b=base: make(f, b, {"x": x, "h": h[:4], "y": np.maximum(h, 0)[:4]}))
        red(f"dynamic/last-row/{command}", lambda f, b=base: make(f, b, {"x": x, "h": h, "y": np.vstack([np.maximum(h, 0)[:4], h[4:] * 0])}))
        for backend in ("ort", "jit"):
            clean(f"dynamic/{backend}/{command}", lambda f, c=command, r=rest, b=backend: make(f, [c, "model.onnx", "--backend", b, "--dim", "n=7", *r]))


def opsets():
    newer = onnx.ModelProto()  # MatMul, Add and Relu are the same in opset 13
    newer.CopyFrom(MLP.onnx)
    newer.opset_import[0].version = 13
    other = onnx.ModelProto()
    other.CopyFrom(newer)
    next(n for n in other.graph.node if n.op_type == "Relu").op_type = "Abs"

    def make(folder, second, words):
        save_model(folder, MLP)
        save_inputs(folder, MLP)
        second.ir_version = 8
        onnx.save(second, str(folder / "second.onnx"))
        return words
    for command, rest in (("run", ["--accuracy"]), ("analyze", ["-o", "s"])):
        words = [command, "model.onnx", "--inputs", "in", "--backend", "ort", "--reference", "second.onnx", *rest]
        clean(f"opset/converted/{command}", lambda f, w=words: make(f, newer, w))
        red(f"opset/changed/{command}", lambda f, w=words: make(f, other, w))
    red("opset/changed/compare", lambda f: make(f, other, ["compare", "model.onnx", "second.onnx", "--inputs", "in", "--backend", "ort", "--no-session"]))
    clean("opset/converted/compare", lambda f: make(f, newer, ["compare", "model.onnx", "second.onnx", "--inputs", "in", "--backend", "ort", "--no-session"]))


def random_operators():
    noise = helper.make_graph([N("RandomNormalLike", ["x"], ["n"]), N("Add", ["x", "n"], ["y"])], "g", [helper.make_tensor_value_info("x", F, [64])],
                              [helper.make_tensor_value_info("y", F, [64])])
    model = helper.make_model(noise, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    for command, rest in (("run", ["--accuracy"]), ("analyze", ["-o", "s"])):
        red(f"random/{command}", lambda f, c=command, r=rest: onnx.save(model, str(f / "model.onnx")) or [c, "model.onnx", "--backend", "ort", *r])


def gradients():
    for word, fault in {"product": "jit:inject=scale@MatMul:2", "mask": "jit:inject=offset@Where"}.items():
        red(f"backward/{word}", lambda f, s=fault: save_model(f, MLP) and ["run", "model.onnx", "--accuracy", "--backward", "--backend", s], codes=(1, 2))
    for backend in ("jit", "ort"):
        clean(f"backward/{backend}", lambda f, b=backend: save_model(f, MLP) and ["run", "model.onnx", "--accuracy", "--backward", "--backend", b])
    for kind in ("fp16", "bf16"):
        red(f"amp/{kind}", lambda f, k=kind: save_model(f, MLP) and ["run", "model.onnx", "--accuracy", "--amp", k, "--backend", "jit:inject=scale@MatMul"])
        clean(f"amp/{kind}", lambda f, k=kind: save_model(f, MLP) and ["run", "model.onnx", "--accuracy", "--amp", k, "--backend", "jit"])


def test_folders():
    def case(folder, change):
        (folder / "case").mkdir()
        onnx.save(TWO.onnx, str(folder / "case" / "model.onnx"))
        data = write_set(folder / "case" / "test_data_set_0", TWO, TWO.samples[0], TWO.answers())
        change(data)
        return ["test", "case"]

    def swap(data):
        (data / "output_0.pb").rename(data / "t")
        (data / "output_1.pb").rename(data / "output_0.pb")
        (data / "t").rename(data / "output_1.pb")

    def swap_inputs(data):
        values = TWO.samples[0]
        for i, name in enumerate("ba"):
            (data / f"input_{i}.pb").write_bytes(tensor(values[name], "").SerializeToString())
    red("test/inputs-swapped", lambda f: case(f, swap_inputs))
    red("test/outputs-swapped", lambda f: case(f, swap), codes=(0, 1, 2))  # by name they are right
    red("test/output-of-other-size", lambda f: case(f, lambda d: (d / "output_1.pb").write_bytes(tensor(np.zeros((5, 2), np.float32)).SerializeToString())))
    red("test/input-missing", lambda f: case(f, lambda d: (d / "input_1.pb").unlink()))
    red("test/second-set-bad", lambda f: case(f, lambda d: write_set(d.parent / "test_data_set_1", TWO, TWO.samples[1], TWO.answers(0))))
    red("test/extra-output", lambda f: case(f, lambda d: shutil.copy(d / "output_0.pb", d / "output_2.pb")))


for fill in (engines, inside, several_backends, recordings, dynamic, opsets, random_operators, gradients, test_folders):
    fill()

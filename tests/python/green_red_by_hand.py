"""Situations in which AGREE would be wrong, written one by one: same computation in disguise, options that match nothing, stale
sessions, damaged and foreign recordings, baselines, samples, sequences, quantisation mistakes, files that are no reference."""

import json
import os
import shutil
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from green_models import F, MODELS, N, f32, tensor, write_npy, write_npz, write_safetensors, write_set
from green_situation import (Situation, accuracy, analyze, engine, query, recording, save_inputs, save_model, storable, suite, two_recordings, with_engine)

SITUATIONS = []


def add(name, make, **more):
    SITUATIONS.append(Situation(name, make, generated=False, **more))


def plumb(folder, *arguments):
    """a step before; it may end with 0 or 1"""
    done = subprocess.run([os.environ["PLUMB"] if os.path.isabs(os.environ.get("PLUMB", "")) else os.path.abspath(os.environ.get("PLUMB", "build/plumb")),
                           *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr


def ready(model, answer=None, sample=0):
    """model, inputs and an engine that gives `answer` (default: the right one)"""
    def files(folder):
        return save_model(folder, model), save_inputs(folder, model, sample), engine(folder, model, [answer or model.answers(k) for k in range(3)])
    return files


# ---- the same computation on both sides ----

DISGUISES = [("eager", "eager:threads=1"), ("eager:threads=2", "eager"), ("eager:kernels=plain", "eager"), ("eager:kernels=own,threads=1", "eager:kernels=plain"),
             ("ort", "ort:threads=1"), ("ort:opt=all", "ort"), ("ort:threads=1,opt=all", "ort:threads=2"), ("jit", "jit:threads=1"),
             ("jit:fuse=on", "jit"), ("jit:fresh-cache", "jit"), ("eager:fp64", "eager:fp64,threads=1"), ("jit:explain=log", "jit")]


def same_twice():
    for k, (a, b) in enumerate(DISGUISES):
        model = MODELS[("mlp", "classes", "conv")[k % 3]]

        def both(folder, words, model=model, a=a, b=b):
            path = save_model(folder, model)
            shutil.copy(folder / path, folder / "copy.onnx")
            return [w.format(a=a, b=b) for w in words]
        add(f"same/{a}/{b}/run", lambda f, go=both: go(f, ["run", "model.onnx", "--accuracy", "--backend", "{a}", "--reference", "{b}"]))
        add(f"same/{a}/{b}/analyze", lambda f, go=both: go(f, ["analyze", "model.onnx", "--backend", "{a}", "--reference", "{b}", "-o", "s"]))
        add(f"same/{a}/{b}/compare", lambda f, go=both: go(f, ["compare", "model.onnx", "copy.onnx", "--backend", "{a}", "--reference", "{b}", "--no-session"]))
        add(f"same/{a}/{b}/copy", lambda f, go=both: go(f, ["analyze", "model.onnx", "--backend", "{a}", "--reference-model", "copy.onnx", "--reference", "{b}", "-o", "s"]))
    for spec in ("eager", "eager:threads=1", "eager:kernels=plain"):
        add(f"same/{spec}/query", lambda f, s=spec: [save_model(f, MODELS["mlp"]) and "minify", "model.onnx", "--backend", s, "--query"])

    def one_program(folder):
        path, given, spec = ready(MODELS["mlp"])(folder)
        os.symlink(folder / "engine", folder / "alias")
        return ["run", path, "--inputs", given, "--accuracy", "--backend", spec, "--reference", f"cmd:{folder}/alias/run"]
    add("same/cmd/alias", one_program)

    def one_file(folder, link):
        write_npz(folder / "a.npz", MODELS["mlp"].values())
        if link:
            os.symlink("a.npz", folder / "b.npz")
        return ["compare", "a.npz", "b.npz" if link else "./a.npz", "--no-session"]
    add("same/file", lambda f: one_file(f, False))
    add("same/link", lambda f: one_file(f, True))
    # A compiler that hands every operator of the model to eager.
    for word, more in (("run", ["--accuracy"]), ("analyze", ["-o", "s"]), ("minify", ["--query"])):
        add(f"same/jit-of-nothing/{word}", lambda f, w=word, m=more: [save_model(f, MODELS["strings"]) and save_inputs(f, MODELS["strings"]) and w, "model.onnx",
                                                                      "--inputs", "in", "--backend", "jit", *m], codes=(2,))
    add("same/no-backend", lambda f: [save_model(f, MODELS["mlp"]) and "analyze", "model.onnx", "-o", "s"])
    add("same/no-backend-run", lambda f: [save_model(f, MODELS["mlp"]) and "run", "model.onnx", "--accuracy"])


# ---- options that match nothing ----

def dims_model(folder):
    graph = helper.make_graph([N("Relu", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", F, ["batch", 3])],
                              [helper.make_tensor_value_info("y", F, ["batch", 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(folder / "model.onnx"))
    np.save(folder / "x.npy", np.ones((2, 3), np.float32))
    (folder / "map.json").write_text(json.dumps({"pairs": [{"a": "nope", "b": "nor"}]}))
    (folder / "base.json").write_text("{}")
    return "model.onnx"


SILENT = [["--dim", "Batch=2"], ["--dim", "batch"], ["--dim", "batch=0.5"], ["--input", "X=x.npy"], ["--input", "y=x.npy"], ["--range", "z=0:1"],
          ["--inputs", "nothing.npz"], ["--fill", "noise"], ["--seed", "x"], ["--backend", "ort:optt=all"], ["--backend", "orl"],
          ["--backend", "jit:inject=scale@Reluu"], ["--backend", "jit:inject=scale@Relu:2"], ["--backend", "jit:inject=scal@Relu"], ["--reference", "eagr"],
          ["--reference", "nothing.onnx"], ["--profile", "pytorch"], ["--same", "tol=1"], ["--tol", "nan"], ["--tol", "-1"], ["--tol", "x"], ["--to", "z"],
          ["--from", "w"], ["--function", "Nope"], ["--reference-model", "nothing.onnx"], ["--threads", "-1"], ["--timeout", "never"],
          ["--baseline", "base.json"], ["--baseline", "nothing.json"], ["--format", "junitt"], ["--repro-level", "9"], ["--inject", "scale@Erff"]]


def silent_options():
    for option in SILENT:
        word = " ".join(option)
        has_backend = "--backend" in option
        if option[0] not in ("--from", "--to", "--function") or True:
            add(f"silent/run/{word}", lambda f, o=option, b=has_backend: ["run", dims_model(f), "--accuracy", *([] if b else ["--backend", "jit"]), *o])
        add(f"silent/analyze/{word}", lambda f, o=option, b=has_backend: ["analyze", dims_model(f), "-o", "s", *([] if b else ["--backend", "jit"]), *o])
        if option[0] not in ("--reference", "--reference-model", "--format", "--repro-level", "--baseline"):
            add(f"silent/query/{word}", lambda f, o=option, b=has_backend: ["minify", dims_model(f), "--query", *([] if b else ["--backend", "jit"]), *o])
    for option in (["--metric", "psnrr"], ["--map", "map.json"], ["--bisect=maybe"], ["--save", "some"]):
        add(f"silent/analyze/{' '.join(option)}", lambda f, o=option: ["analyze", dims_model(f), "--backend", "jit", "-o", "s", *o])
    values = MODELS["mlp"].values()
    for option in (["--metric", "psnrr"], ["--detail", "nope"], ["--map", "map.json"], ["--same", "tol=1"], ["--limits", "base.json"], ["--baseline", "base.json"],
                   ["--sort", "best"], ["--tol", "-1"], ["--tol", "nan"], ["--profile", "pytorch"], ["--plugin", "nothing.so"]):
        def make(folder, o=option):
            dims_model(folder)
            return two_recordings(values, values)(folder) + o
        add(f"silent/compare/{' '.join(option)}", make)
    wrong = {"y": MODELS["mlp"].answers()["y"] * 2}

    def level(folder):
        path, given, spec = ready(MODELS["mlp"], wrong)(folder)
        return ["run", path, "--inputs", given, "--backend", spec, "--repro-level", "4"]
    add("silent/repro-level-4", level)


# ---- stale sessions ----

def sessions():
    model = MODELS["mlp"]

    def made(folder, answer=None):
        path, given, spec = ready(model, answer)(folder)
        plumb(folder, "analyze", path, "--inputs", given, "--backend", spec, "--skip-search", "-o", "old")
        return path, given, spec

    def other_backend(folder):
        path, given, _ = made(folder)
        return ["analyze", path, "--inputs", given, "--backend", "ort", "--reuse", "old", "-o", "new"]
    add("reuse/other-backend", other_backend)

    def other_inputs(folder):
        path, _, _ = made(folder)
        save_inputs(folder, model, 1, "in1")
        return ["analyze", path, "--inputs", "in1", "--reuse", "old", "-o", "new"]
    add("reuse/other-inputs", other_inputs)

    def other_seed(folder):
        path = save_model(folder, model)
        plumb(folder, "analyze", path, "--backend", "jit", "-o", "old")
        return ["analyze", path, "--reuse", "old", "--seed", "5", "-o", "new"]
    add("reuse/other-seed", other_seed)

    def other_weights(folder):
        path, given, _ = made(folder)
        changed = onnx.ModelProto()
        changed.CopyFrom(model.onnx)
        changed.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((6, 8), np.float32), "w"))
        onnx.save(changed, str(folder / path))
        return ["analyze", path, "--inputs", given, "--reuse", "old", "-o", "new"]
    add("reuse/other-weights", other_weights)

    def wrong_then(folder):
        path, given, _ = made(folder, {"y": model.answers()["y"] + 1})
        return ["analyze", path, "--inputs", given, "--reuse", "old", "--skip-search", "-o", "new"]
    add("reuse/wrong", wrong_then)

    def damaged(folder):
        path, given, _ = made(folder)
        for blob in sorted((folder / "old" / "store").rglob("*")):
            if blob.is_file():
                blob.chmod(0o644)
                blob.write_bytes(b"\0" * blob.stat().st_size)
        return ["analyze", path, "--inputs", given, "--reuse", "old", "-o", "new"]
    add("reuse/damaged-store", damaged, codes=(1, 2, 3, 4))

    def report_of_wrong(folder, name):
        made(folder, {"y": model.answers()["y"] + 1})
        return ["report", "old", "--format", name]
    for name in ("json", "junit"):
        add(f"report/{name}", lambda f, n=name: report_of_wrong(f, n), codes=(0, 1, 2))


# ---- recordings ----

def damaged_recordings():
    model = MODELS["classes"]
    values = storable(model.values())

    def references(folder):
        save_model(folder, model)
        whole = write_safetensors(folder / "whole.safetensors", values).read_bytes()
        (folder / "cut.safetensors").write_bytes(whole[:-20])
        (folder / "head.safetensors").write_bytes(whole[:30])
        (folder / "empty.safetensors").write_bytes(b"")
        write_safetensors(folder / "none.safetensors", {})
        npz = write_npz(folder / "whole.npz", values).read_bytes()
        (folder / "cut.npz").write_bytes(npz[:-60])
        write_npz(folder / "none.npz", {})
        (folder / "empty").mkdir()
        write_npy(folder / "inputs", {k: values[k] for k in model.inputs})
        write_npz(folder / "zero.npz", {k: np.zeros_like(v) for k, v in values.items()})
        write_npz(folder / "no-elements.npz", {k: v[:0] for k, v in values.items()})
        write_npz(folder / "other.npz", MODELS["square"].values())
        write_npz(folder / "names.npz", {"x": values["x"], "p": values["h"], "h": values["p"], "k": values["k"]})
        write_npz(folder / "one.npz", {"x": values["x"], "p": values["p"]})
        (folder / "text.txt").write_text("p 1 2 3\n")
        (folder / "session").mkdir()
        (folder / "session" / "session.json").write_text("{}")
    names = ["cut.safetensors", "head.safetensors", "empty.safetensors", "none.safetensors", "cut.npz", "none.npz", "empty", "inputs", "zero.npz",
             "no-elements.npz", "other.npz", "names.npz", "one.npz", "text.txt", "session", "missing.npz"]
    for name in names:
        def make(folder, words, name=name):
            references(folder)
            return [w.format(name) for w in words]
        if name != "one.npz":
            add(f"recording/{name}/compare", lambda f, go=make: go(f, ["compare", "{}", "whole.npz", "--no-session"]))
        add(f"recording/{name}/reference", lambda f, go=make: go(f, ["compare", "whole.npz", "{}", "--no-session"]), red=name != "one.npz",
            codes=(0, 1, 2) if name == "one.npz" else ())
        add(f"recording/{name}/model", lambda f, go=make: go(f, ["compare", "{}", "model.onnx", "--no-session"]))
        add(f"recording/{name}/run", lambda f, go=make: go(f, ["run", "model.onnx", "--accuracy", "--backend", "ort", "--reference", "{}"]))
        add(f"recording/{name}/analyze", lambda f, go=make: go(f, ["analyze", "model.onnx", "--backend", "ort", "--reference", "{}", "-o", "s"]))

    def nan(folder):
        bad = {k: np.full_like(v, np.nan) if v.dtype.kind == "f" and k != "x" else v for k, v in MODELS["mlp"].values().items()}
        return two_recordings(bad, bad)(folder)
    add("recording/nan-on-both-sides", nan)

    def one_npy(folder):
        save_model(folder, model)
        np.save(folder / "x.npy", values["x"])
        return ["compare", "x.npy", "model.onnx", "--no-session"]
    add("recording/one-npy-the-input", one_npy)

    def raw(folder):
        save_model(folder, model)
        (folder / "dump").mkdir()
        for k, v in values.items():
            ((v * 2).astype(v.dtype) if k == "p" else v).tofile(folder / "dump" / f"{k}.bin")
        return ["compare", "dump", "model.onnx", "--no-session"]
    add("recording/raw-bin-wrong", raw)

    def likely(folder):
        """no name fits, and one value is wrong"""
        made = {f"t{i}": v for i, v in enumerate(values.values())}
        made["t2"] = made["t2"][:, ::-1].copy()
        save_model(folder, model)
        return ["compare", recording(folder, "a", made, "npz"), "model.onnx", "--no-session"]
    add("recording/no-names-one-wrong", likely)

    def given_others(folder, command):
        references(folder)
        np.save(folder / "x.npy", model.samples[1]["x"])
        rest = ["-o", "s"] if command == "analyze" else ["--accuracy"]
        return [command, "model.onnx", "--backend", "ort", "--reference", "whole.safetensors", "--input", "x=x.npy", *rest]
    for command in ("run", "analyze"):
        add(f"recording/other-inputs-given/{command}", lambda f, c=command: given_others(f, c))

    def compare_others(folder):
        references(folder)
        np.save(folder / "x.npy", model.samples[1]["x"])
        return ["compare", "whole.safetensors", "model.onnx", "--input", "x=x.npy", "--no-session"]
    add("recording/other-inputs-given/compare", compare_others)


# ---- samples ----

def several():
    for name in ("mlp", "classes", "ints", "bools", "two", "quant"):
        model = MODELS[name]
        first = model.outputs[0]
        right = [model.answers(k) for k in range(3)]
        for bad in range(3):
            wrong = [dict(a) for a in right]
            wrong[bad][first] = np.zeros_like(wrong[bad][first]) if wrong[bad][first].dtype != bool else ~wrong[bad][first]

            def make(folder, words, model=model, wrong=wrong):
                save_model(folder, model)
                spec = engine(folder, model, wrong)
                given = [w for k in range(3) for w in ("--inputs", save_inputs(folder, model, k, f"in{k}"))]
                return [*words, *given, "--backend", spec]
            add(f"sample/{name}/{bad}/analyze", lambda f, go=make: go(f, ["analyze", "model.onnx", "--skip-search", "-o", "s"]))
            add(f"sample/{name}/{bad}/run", lambda f, go=make: go(f, ["run", "model.onnx", "--accuracy"]))
            add(f"sample/{name}/{bad}/query", lambda f, go=make: go(f, ["minify", "model.onnx", "--query", "--accuracy"]))

            def cases(folder, model=model, wrong=wrong):
                (folder / "case").mkdir()
                onnx.save(model.onnx, str(folder / "case" / "model.onnx"))
                for k in range(3):
                    write_set(folder / "case" / f"test_data_set_{k}", model, model.samples[k], wrong[k])
                return ["test", "case"]
            add(f"sample/{name}/{bad}/test", cases)

    def dies(folder):
        model = MODELS["mlp"]
        save_model(folder, model)
        spec = engine(folder, model, [model.answers(k) for k in range(2)])
        program = folder / "engine" / "run"
        program.write_text(program.read_text().rsplit("\ncp ", 1)[0] + "\nexit 7\n")
        return ["analyze", "model.onnx", *(w for k in range(3) for w in ("--inputs", save_inputs(folder, model, k, f"in{k}"))), "--backend", spec, "-o", "s"]
    add("sample/third-fails", dies)


# ---- plumb test ----

def test_cases():
    model = MODELS["mlp"]

    def case(folder, outputs=True, name="case", inputs=True):
        (folder / name).mkdir(parents=True)
        onnx.save(model.onnx, str(folder / name / "model.onnx"))
        if inputs:
            write_set(folder / name / "test_data_set_0", model, model.samples[0], model.answers() if outputs else {})
    add("test/no-outputs", lambda f: case(f, outputs=False) or ["test", "case"])
    add("test/no-data", lambda f: case(f, inputs=False) or ["test", "case"])
    add("test/filter-matches-nothing", lambda f: case(f) or ["test", "case", "-k", "nope"])
    add("test/empty-folder", lambda f: (f / "case").mkdir() or ["test", "case"])
    add("test/no-folder", lambda f: ["test", "case"])
    add("test/one-of-two-folders-missing", lambda f: case(f) or ["test", "case", "nope"])

    def broken(folder):
        case(folder)
        (folder / "case/test_data_set_0/output_0.pb").write_bytes(b"\x08")
        return ["test", "case"]
    add("test/damaged-output", broken)

    def huge(folder):
        case(folder)
        (folder / "case/test_data_set_0/output_0.pb").write_bytes(tensor(model.answers()["y"] * np.float32(np.nan), "y").SerializeToString())
        return ["test", "case", "--rtol", "1e9", "--atol", "1e9"]
    add("test/nan-and-huge-tolerance", huge)
    for option in (["--rtol", "nan"], ["--atol", "-1"], ["--rtol", "x"]):
        add(f"test/{' '.join(option)}", lambda f, o=option: case(f) or ["test", "case", *o])


# ---- baselines, tolerances, profiles ----

def baselines():
    model = MODELS["two"]
    right = model.answers()

    def make(folder, command, second):
        path, given, spec = ready(model, {**right, "s": right["s"] * np.float32(1.2)})(folder)
        rest = ["-o", "s1", "--skip-search"] if command == "analyze" else ["--accuracy"]
        plumb(folder, command, path, "--inputs", given, "--backend", spec, *rest, "--write-baseline", "base.json")
        spec = engine(folder, model, [second], "engine2")
        rest = ["-o", "s2", "--skip-search"] if command == "analyze" else ["--accuracy"]
        return [command, path, "--inputs", given, "--backend", spec, *rest, "--baseline", "base.json"]
    seconds = {"other-output": {**right, "m": -right["m"]}, "worse": {**right, "s": right["s"] * 40}, "nan": {**right, "s": right["s"] * np.float32(np.nan)},
               "shape": {**right, "s": right["s"][:1]}, "type": {**right, "s": right["s"].astype(np.float64)}}
    for word, second in seconds.items():
        for command in ("run", "analyze"):
            add(f"baseline/{word}/{command}", lambda f, c=command, s=second: make(f, c, s))

        def compared(folder, second=second):
            values = model.values()
            write_npz(folder / "a.npz", {**values, "s": right["s"] * np.float32(1.2)})
            write_npz(folder / "b.npz", values)
            write_npz(folder / "c.npz", {**values, **second})
            plumb(folder, "compare", "a.npz", "b.npz", "--no-session", "--write-baseline", "base.json")
            return ["compare", "c.npz", "b.npz", "--no-session", "--baseline", "base.json"]
        if word != "type":
            add(f"baseline/{word}/compare", compared)


def tolerances():
    """a tolerance, a metric or a profile never hides NaN, types, shapes, integers and strings"""
    asks = {"run-tol": accuracy("--tol", "1e6"), "analyze-tol": analyze("--tol", "1e6"), "run-torch": accuracy("--profile", "torch"),
            "analyze-torch": analyze("--profile", "torch"), "run-strict-torch": lambda *a: [x if x != "--accuracy" else "--strict-accuracy" for x in
                                                                                          accuracy("--profile", "torch")(*a)]}
    for name, output, how in (("mlp", "y", "nan"), ("mlp", "y", "inf"), ("mlp", "y", "type"), ("ints", "y", "one"), ("bytes", "y", "one"), ("bools", "y", "flip"),
                              ("strings", "y", "word"), ("classes", "k", "one"), ("mlp", "y", "zero"), ("large", "y", "nan")):
        model = MODELS[name]
        v = model.answers()[output]
        w = v.copy()
        if how in ("nan", "inf"):
            w.ravel()[-1] = np.nan if how == "nan" else np.inf
        elif how == "type":
            w = v.astype(np.float64)
        elif how == "one":
            w.ravel()[0] += 1
        elif how == "flip":
            w = ~v
        elif how == "word":
            w[0] = "other"
        else:
            w = np.zeros_like(v)
        for ask, build in asks.items():
            if how == "zero" and "tol" in ask:
                continue
            add(f"rule/{name}/{output}/{how}/{ask}", with_engine(model, {**model.answers(), output: w}, build))
    mlp = MODELS["mlp"].values()
    for more in (["--tol", "1e6"], ["--profile", "torch"], ["--metric", "cosine"], ["--metric", "mae"], ["--profile", "torch", "--same", "cos_similarity=1"]):
        w = mlp["y"].copy()
        w.ravel()[3] = np.nan
        add(f"rule/compare/nan/{' '.join(more)}", two_recordings({**mlp, "y": w}, mlp, more=more))
        add(f"rule/compare/missing/{' '.join(more)}", two_recordings({k: v for k, v in mlp.items() if k == "x"}, mlp, more=more))
    ints = MODELS["ints"].values()
    for more in (["--tol", "1e6"], ["--profile", "torch"]):
        add(f"rule/compare/integers/{' '.join(more)}", two_recordings({**ints, "y": ints["y"] + 1}, ints, more=more))


# ---- precision that belongs to another output ----

def unrelated_codes():
    """a value of 8 bits elsewhere must not loosen what is asked of a float, and a tie elsewhere not what is asked of an index"""
    w = np.random.RandomState(3).standard_normal((4, 4)).astype(np.float32)
    nodes = [N("MatMul", ["x", "w"], ["y"]), N("Cast", ["x"], ["c"], to=TensorProto.UINT8)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", F, [4, 4])],
                              [helper.make_tensor_value_info("y", F, [4, 4]), helper.make_tensor_value_info("c", TensorProto.UINT8, [4, 4])],
                              [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    x = np.abs(np.random.RandomState(4).standard_normal((4, 4))).astype(np.float32) * 20
    y = (x.astype(np.float64) @ w).astype(np.float32)
    from green_models import Model
    m = Model("codes_elsewhere", model, lambda i: f32({"y": y}), [{"x": x}])
    for word, build in {"run": accuracy(), "analyze": analyze(), "query": query(), "test": suite}.items():
        def make(folder, build=build):
            right = {"y": y, "c": x.astype(np.uint8)}
            m.compute = lambda i: right
            return with_engine(m, {**right, "y": (y * np.float32(1.03)).astype(np.float32)}, build)(folder)
        add(f"codes-elsewhere/{word}", make)


# ---- quantisation mistakes against the float model or its recording ----

def quantised(zero=0, scale=1.0, weight_zero=0, clip=False):
    """the model `quant` with a mistake in it"""
    model = onnx.ModelProto()
    model.CopyFrom(MODELS["quant"].onnx)
    for w in model.graph.initializer:
        v = numpy_helper.to_array(w)
        if w.name == "zy":
            v = v  # the output's zero point is used twice: an error there cancels
        if w.name == "zx" and zero:
            v = np.uint8(v + zero)
        if w.name == "sw":
            v = np.float32(v * scale)
        if w.name == "zw" and weight_zero:
            v = np.int8(weight_zero)
        if w.name == "sx" and clip:
            v = np.float32(v / 16)
        w.CopyFrom(numpy_helper.from_array(np.asarray(v), w.name))
    if zero:  # only QuantizeLinear has it wrong
        model.graph.initializer.append(numpy_helper.from_array(np.uint8(128), "zx_right"))
        model.graph.node[1].input[2] = "zx_right"
    return model


def quantisation():
    values = MODELS["quant"].values()
    q = next(numpy_helper.to_array(w) for w in MODELS["quant"].onnx.graph.initializer if w.name == "q")
    plain = helper.make_model(helper.make_graph(
        [N("MatMul", ["x", "w"], ["y"])], "float", [helper.make_tensor_value_info("x", F, [3, 6])], [helper.make_tensor_value_info("y", F, [3, 4])],
        [numpy_helper.from_array(q.astype(np.float32) * np.float32(0.0078125), "w")]), opset_imports=[helper.make_opsetid("", 17)])
    plain.ir_version = 8
    mistakes = {"zero-point": dict(zero=12), "scale": dict(scale=1.5), "weight-zero-point": dict(weight_zero=30), "clipped": dict(clip=True)}
    for word, mistake in mistakes.items():
        def files(folder, mistake=mistake):
            onnx.save(quantised(**mistake), str(folder / "model.onnx"))
            onnx.save(plain, str(folder / "float.onnx"))
            write_safetensors(folder / "truth.safetensors", {k: values[k] for k in ("x", "y", "o", "p", "d", "c")})
            save_inputs(folder, MODELS["quant"])
        add(f"quantised/{word}/recording/run", lambda f, go=files: go(f) or ["run", "model.onnx", "--accuracy", "--backend", "ort", "--reference", "truth.safetensors"])
        add(f"quantised/{word}/recording/analyze",
            lambda f, go=files: go(f) or ["analyze", "model.onnx", "--backend", "ort", "--reference", "truth.safetensors", "-o", "s"])
        add(f"quantised/{word}/recording/compare", lambda f, go=files: go(f) or ["compare", "model.onnx", "truth.safetensors", "--no-session"])
        add(f"quantised/{word}/float/run", lambda f, go=files: go(f) or ["run", "model.onnx", "--inputs", "in", "--accuracy", "--backend", "ort", "--reference", "float.onnx"])
        add(f"quantised/{word}/float/analyze",
            lambda f, go=files: go(f) or ["analyze", "model.onnx", "--inputs", "in", "--backend", "ort", "--reference", "float.onnx", "-o", "s"])


# ---- references that are another thing ----

def references():
    model = MODELS["mlp"]

    def make(folder, words, other):
        save_model(folder, model)
        save_inputs(folder, model)
        onnx.save(other, str(folder / "other.onnx"))
        return words
    renamed, changed, less = (onnx.ModelProto() for _ in range(3))
    for m in (renamed, changed, less):
        m.CopyFrom(model.onnx)
    changed.graph.initializer[2].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(changed.graph.initializer[2]) * np.float32(1.1), "v"))
    del less.graph.node[3]
    less.graph.output[0].CopyFrom(helper.make_tensor_value_info("r", F, [3, 8]))
    renamed.CopyFrom(MODELS["square"].onnx)
    for word, other in {"weights": changed, "less": less, "unrelated": renamed}.items():
        add(f"reference/{word}/run", lambda f, o=other: make(f, ["run", "model.onnx", "--inputs", "in", "--accuracy", "--backend", "ort", "--reference", "other.onnx"], o))
        add(f"reference/{word}/analyze",
            lambda f, o=other: make(f, ["analyze", "model.onnx", "--inputs", "in", "--backend", "ort", "--reference", "other.onnx", "-o", "s"], o))
        add(f"reference/{word}/compare", lambda f, o=other: make(f, ["compare", "model.onnx", "other.onnx", "--inputs", "in", "--backend", "ort", "--no-session"], o))
        add(f"reference/{word}/swapped", lambda f, o=other: make(f, ["compare", "other.onnx", "model.onnx", "--inputs", "in", "--backend", "ort", "--no-session"], o))

    def is_set(folder, command):
        save_model(folder, model)
        write_set(folder / "set", model, model.samples[0], {"y": model.answers()["y"] * 2})
        rest = ["-o", "s"] if command == "analyze" else ["--accuracy"]
        return [command, "model.onnx", "--backend", "ort", "--reference", "set", *rest]
    for command in ("run", "analyze"):
        add(f"reference/test-data-set/{command}", lambda f, c=command: is_set(f, c))


# ---- parts of a model ----

def parts():
    inputs = MODELS["function"]

    def make(folder, model, words):
        save_model(folder, model)
        save_inputs(folder, model)
        return words
    add("part/function-fault", lambda f: make(f, inputs, ["analyze", "model.onnx", "--function", "Twice", "--backend", "jit:inject=scale@Tanh", "-o", "s"]))
    add("part/function-fault-run", lambda f: make(f, inputs, ["run", "model.onnx", "--function", "Twice", "--accuracy", "--backend", "jit:inject=scale@Tanh"]))
    mlp = MODELS["mlp"]
    for command, rest in (("analyze", ["-o", "s"]), ("run", ["--accuracy"]), ("minify", ["--query"])):
        add(f"part/to/{command}", lambda f, c=command, r=rest: make(f, mlp, [c, "model.onnx", "--to", "r", "--backend", "jit:inject=offset@Relu", *r]))
        add(f"part/from/{command}", lambda f, c=command, r=rest: make(f, mlp, [c, "model.onnx", "--from", "a", "--backend", "jit:inject=offset@Relu", *r]))
        # The fault is outside: it is said that nothing was planted, not that the part agrees.
        add(f"part/not-in-it/{command}", lambda f, c=command, r=rest: make(f, mlp, [c, "model.onnx", "--from", "r", "--backend", "jit:inject=offset@Relu", *r]))


# ---- sequences and optionals ----

def sequences():
    kind = helper.make_tensor_sequence_value_info("y", F, None)
    graph = helper.make_graph([N("SequenceConstruct", ["a", "b"], ["y"])], "seq",
                              [helper.make_tensor_value_info(n, F, [3]) for n in "ab"], [kind])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    a, b = np.arange(3, dtype=np.float32), np.ones(3, np.float32) * 5
    answers = {"order": [b, a], "short": [a], "long": [a, b, a], "none": [], "element": [a, b + 1], "shape": [a, b[:2]], "type": [a.astype(np.float64), b.astype(np.float64)],
               "nan": [a, b * np.float32(np.nan)]}
    for word, items in answers.items():
        def files(folder, items=items):
            case = folder / "case"
            (case / "test_data_set_0").mkdir(parents=True)
            onnx.save(model, str(case / "model.onnx"))
            for i, v in enumerate((a, b)):
                (case / "test_data_set_0" / f"input_{i}.pb").write_bytes(tensor(v, "ab"[i]).SerializeToString())
            wrong = numpy_helper.from_list(items, "y", None if items else onnx.SequenceProto.TENSOR).SerializeToString()
            (folder / "output_0.pb").write_bytes(wrong)
            (folder / "engine").write_text(f'#!/bin/sh\ncp "{folder}/output_0.pb" "$1/test_data_set_0/"\n')
            (folder / "engine").chmod(0o755)
            return ["--inputs", "case/test_data_set_0", "--backend", f"cmd:{folder}/engine"]
        add(f"sequence/{word}/run", lambda f, go=files: ["run", "case/model.onnx", *go(f), "--accuracy"])
        add(f"sequence/{word}/analyze", lambda f, go=files: ["analyze", "case/model.onnx", *go(f), "--skip-search", "-o", "s"])
        add(f"sequence/{word}/query", lambda f, go=files: ["minify", "case/model.onnx", *go(f), "--query", "--accuracy"])
        add(f"sequence/{word}/test",
            lambda f, go=files: (go(f), shutil.copy(f / "output_0.pb", f / "case/test_data_set_0"), ["test", "case"])[2])


same_twice()
silent_options()
sessions()
damaged_recordings()
several()
test_cases()
baselines()
tolerances()
unrelated_codes()
quantisation()
references()
parts()
sequences()

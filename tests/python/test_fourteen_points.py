"""The wrong answers that plumb 0.1.0 gave to new users, one test for each: none may come back. Prints TAP.

PLUMB is the program, PLUMB_PYTHON the folder of the package (default: this clone's). Every test fails with 0.1.0 (commit f7edbc1)."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, os.environ.get("PLUMB_PYTHON", str(ROOT / "python")))
import plumb  # noqa: E402
from green_models import MODELS, write_npy, write_npz  # noqa: E402
from tap import Skip, main  # noqa: E402

PLUMB = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
NET = ROOT / "tests/cli/net.onnxtxt"
INT8, FLOAT = ROOT / "examples/quantised/classifier_int8.onnxtxt", ROOT / "examples/classifier.onnxtxt"


def ask(folder, *args, code=None):
    env = dict(os.environ, ORT_DISABLE_TELEMETRY="1")
    done = subprocess.run([PLUMB, *map(str, args)], cwd=folder, env=env, capture_output=True, text=True, timeout=300, errors="replace")
    assert code is None or done.returncode == code, f"exit {done.returncode}, expected {code}: {(done.stdout + done.stderr)[-300:]}"
    return done


def record(folder, net, x, **options):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plumb.save_intermediates(net.eval(), (x,), folder / "net.onnx", folder / "run.safetensors", **options)


class Clamp(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.o = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        y = self.l(x) * 3
        y.view(-1).clamp_(0, 1)
        return self.o(y)


def test_01_a_recording_is_the_truth(folder):
    record(folder, Clamp(), torch.randn(3, 4))
    said = json.loads(ask(folder, "analyze", "net.onnx", "--backend", "ort", "--reference", "run.safetensors", "--json", "-o", "s", code=1).stdout)
    assert said["verdict"] == "diverged" and said["at_fault"] == "model", (said["verdict"], said.get("at_fault"))
    assert any(c["op"] == "clamp_" for c in said["lost_calls"]), said["lost_calls"]
    ask(folder, "run", "net.onnx", "--accuracy", "--backend", "ort", "--reference", "run.safetensors", code=1)
    said = ask(folder, "run", "net.onnx", "--accuracy", "--backend", "ort", "--reference", "run.safetensors", "--profile", "torch", code=1)
    assert "the exported model is wrong" in said.stderr, said.stderr


def test_02_only_inputs_paired_is_no_verdict(folder):
    onnx.save(MODELS["mlp"].onnx, str(folder / "m.onnx"))
    write_npz(folder / "dump.npz", {"x": MODELS["mlp"].samples[0]["x"], "other": np.arange(5.0)})
    ask(folder, "compare", "dump.npz", "m.onnx", "--no-session", code=2)


def test_03_a_folder_of_npy_pairs_by_value(folder):
    onnx.save(MODELS["mlp"].onnx, str(folder / "m.onnx"))
    values = MODELS["mlp"].values()
    write_npy(folder / "dump", {"x": values["x"], **{f"layer{i}": values[k] for i, k in enumerate(["h", "a", "r", "y"])}})
    said = json.loads(ask(folder, "compare", "dump", "m.onnx", "--no-session", "--json", code=0).stdout)
    pairs = {p["counterpart"] for p in said["sync_points"] if p["verdict"] in ("same", "within")}
    assert pairs >= {"x", "h", "a", "r", "y"}, pairs


def test_04_eager_with_eager_is_no_verdict(folder):
    ask(folder, "analyze", NET, "-o", "s", code=2)


def test_05_no_silent_option(folder):
    x = onnx.helper.make_tensor_value_info("x", 1, ["batch", 3])
    y = onnx.helper.make_tensor_value_info("y", 1, ["batch", 3])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), str(folder / "m.onnx"))
    assert "batch" in ask(folder, "run", "m.onnx", "--dim", "Batch=2", code=2).stderr
    assert "Exp" in ask(folder, "analyze", "m.onnx", "--backend", "jit", "--inject", "scale@Exb", "-o", "s", code=2).stderr
    ask(folder, "analyze", "m.onnx", "--backend", "jit", "-o", "one", code=0)
    ask(folder, "analyze", "m.onnx", "--backend", "ort", "--reuse", "one", "-o", "two", code=2)
    assert ask(folder, "run", "m.onnx", "--backend", "jit", "--inject", "scale@Exp", "--repro-level", "4").returncode != 0


def quantised_cnn(folder):
    """A CNN whose channels have very different sizes, and its static int8 form, per tensor: the walk of the issue in small."""
    import quantised_nets as nets
    model = nets.gemm_as_matmul(nets.cnn(20))
    every = onnx.ModelProto()
    every.CopyFrom(model)
    kinds = {o.name for o in model.graph.output}
    every.graph.output.extend(onnx.helper.make_empty_tensor_value_info(o) for n in model.graph.node for o in n.output if o not in kinds)
    x = nets.images(32, 5)[0]
    onnx.save(every, str(folder / "every.onnx"))
    np.savez(folder / "in.npz", x=x)
    ask(folder, "run", "every.onnx", "--inputs", "in.npz", "-o", "values.npz", code=0)
    ranges = {k: (v.min(), v.max()) for k, v in np.load(folder / "values.npz").items() if v.size}
    ranges["x"] = (x.min(), x.max())
    onnx.save(model, str(folder / "float.onnx"))
    onnx.save(nets.quantise(model, "qdq", False, ranges), str(folder / "int8.onnx"))
    np.savez(folder / "held.npz", x=nets.images(64, 99)[0])


def error_of(folder, model, want=None):
    name = f"{Path(model).stem}-out.npz"
    ask(folder, "run", model, "--inputs", "held.npz", "-o", name, code=0)
    got = np.load(folder / name)["logits"]
    return got if want is None else float(np.sqrt(((got - want) ** 2).mean()))


def test_06_advice_is_never_worse(folder):
    """On inputs that the advice did not see, by jit, whose products do not saturate on any CPU."""
    quantised_cnn(folder)
    ask(folder, "analyze", "int8.onnx", "--backend", "jit", "--reference", "float.onnx", "--inputs", "in.npz", "--save", "none", "-o", "s", "--advise-out",
        "mixed.onnx")
    assert (folder / "mixed.onnx").exists(), "no model was written"
    want = error_of(folder, "float.onnx")
    before, after = error_of(folder, "int8.onnx", want), error_of(folder, "mixed.onnx", want)
    assert after < before, (before, after)
    return f"error {before:.3g} before, {after:.3g} after"


def test_07_a_quantised_model_gets_a_table(folder):
    done = ask(folder, "analyze", INT8, "--backend", "ort", "--reference", FLOAT, "--dim", "batch=8", "-o", "s", code=1)
    assert done.stdout.count("DIVERGED at") <= 2 and "share" in done.stdout, done.stdout[:600]
    assert "e+07 times" not in done.stdout, done.stdout[:600]


def test_08_the_headline_is_one_node(folder):
    """An early small fault and a late large one: the value, the operator and the reason are those of the same node."""
    done = ask(folder, "analyze", NET, "--backend", "jit:inject=bf16@Tanh,inject=sign@Sigmoid", "--save", "none", "-o", "s", "--json", code=1)
    said = json.loads(done.stdout)
    first = said["blame"][0]
    assert said["first_divergence"] == "t" and first["value"] == "s", (said["first_divergence"], first["value"])
    line = next(x for x in ask(folder, "analyze", NET, "--backend", "jit:inject=bf16@Tanh,inject=sign@Sigmoid", "--save", "none", "-o", "s2").stdout.split("\n")
                if x.startswith("DIVERGED at") and "Sigmoid" in x)
    assert line.startswith("DIVERGED at s: Sigmoid"), line


def test_09_saturated_products_have_a_name(folder):
    a = np.full((4, 64), 255, np.uint8)
    w = np.full((64, 4), 127, np.int8)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "g", [onnx.helper.make_tensor_value_info("x", 2, [4, 64])],
        [onnx.helper.make_tensor_value_info("y", 6, [4, 4])], [onnx.numpy_helper.from_array(w, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), str(folder / "m.onnx"))
    np.save(folder / "x.npy", a)
    real = ask(folder, "analyze", "m.onnx", "--backend", "ort", "--input", "x=x.npy", "--json", "-o", "real")
    if real.returncode == 1:  # this CPU has no VNNI: ONNX Runtime's own products
        assert "saturated products" in json.loads(real.stdout)["blame"][0]["kind"], json.loads(real.stdout)["blame"]
    said = json.loads(ask(folder, "analyze", "m.onnx", "--backend", "eager:kernels=saturate", "--input", "x=x.npy", "--json", "-o", "s", code=1).stdout)
    assert "saturated products" in said["blame"][0]["kind"], said["blame"]
    return "simulated" if real.returncode == 0 else "ONNX Runtime's own on this CPU, and simulated"


def test_10_a_compiled_module_is_not_recorded_as_eager(folder):
    class Compiled(nn.Module):
        """What torch.compile(net) returns, as far as its attributes go (torch 1.13 has none)."""
        def __init__(self, net):
            super().__init__()
            self._orig_mod = net
            self.dynamo_ctx = None

        def forward(self, x):
            return self._orig_mod(x)
    compiled = torch.compile(Clamp(), backend="eager") if hasattr(torch, "compile") else Compiled(Clamp())
    try:
        result = record(folder, compiled, torch.randn(3, 4))
    except Exception as e:  # noqa: BLE001 - a refusal with its reason
        assert "compile" in str(e).lower(), e
        return "refused"
    assert "compile" in json.dumps(getattr(result, "__dict__", {}), default=str).lower(), "recorded as if it were eager"


def test_11_what_is_unmapped_never_pairs_by_name(folder):
    class Other(nn.Module):
        def forward(self, x):
            if not torch.jit.is_tracing():
                x = x * 1.5
            return torch.relu(x + 1)
    record(folder, Other(), torch.randn(3, 4), input_names=["x"], output_names=["y"])
    model = onnx.load(str(folder / "net.onnx"))
    add = next(n for n in model.graph.node if n.op_type == "Add")
    relu = next(n for n in model.graph.node if n.op_type == "Relu")
    relu.input[0] = add.output[0] = "mul"  # a value of the export that happens to have the torch-only key
    onnx.save(model, str(folder / "renamed.onnx"))
    said = json.loads(ask(folder, "compare", "renamed.onnx", "run.safetensors", "--no-session", "--json").stdout)
    sure = [p for p in said["sync_points"] if p["value"] == "mul" and p["counterpart"] == "mul" and (p["confidence"] or 0) >= 0.9]
    assert not sure, sure


def test_12_changes_are_words(folder):
    x = folder / "x.npy"
    np.save(x, np.ones((2, 3), np.float32))
    program = ["valgrind", "-q", "--error-exitcode=99", "--errors-for-leak-kinds=none", "--leak-check=no"]
    done = subprocess.run([*program, PLUMB, "run", ROOT / "tests/cli/training.onnxtxt", "--accuracy", "--backward", "--backend", "jit", "--input", f"x={x}",
                           "--json"], cwd=folder, capture_output=True, timeout=300) if have("valgrind") else ask(
        folder, "run", ROOT / "tests/cli/training.onnxtxt", "--accuracy", "--backward", "--backend", "jit", "--input", f"x={x}", "--json")
    assert done.returncode != 99, done.stderr[-600:]
    said = json.loads(done.stdout)
    words = json.dumps(said["changes"])
    assert said["changes"] and "BatchNormalization" in words and "Dropout" in words, words


def have(program):
    return any((Path(p) / program).exists() for p in os.environ.get("PATH", "").split(os.pathsep))


def test_13_static_quantised_modules_are_recorded(folder):
    engines = [e for e in torch.backends.quantized.supported_engines if e != "none"]
    if not engines:
        raise Skip("this torch has no engine for quantised modules")
    torch.backends.quantized.engine = engines[-1]
    net = nn.Sequential(torch.ao.quantization.QuantStub(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2), torch.ao.quantization.DeQuantStub()).eval()
    net.qconfig = torch.ao.quantization.get_default_qconfig(engines[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ready = torch.ao.quantization.prepare(net)
        ready(torch.randn(16, 8))
        made = torch.ao.quantization.convert(ready)
        result = plumb.save_intermediates(made, (torch.randn(3, 8),), None, folder / "run.safetensors")
    assert len(result.keys) >= 6, result.keys


def test_14_one_value_that_cannot_be_compared_stops_nothing(folder):
    write_npz(folder / "a.npz", {"c": np.array([1 + 1j, 2]), "f": np.array([1.0, 2], np.float32)})
    write_npz(folder / "b.npz", {"c": np.array([1 + 1j, 2]), "f": np.array([1.0, 3], np.float32)})
    said = json.loads(ask(folder, "compare", "a.npz", "b.npz", "--profile", "torch", "--same", "cos_similarity=1", "--no-session", "--json").stdout)
    of = {p["value"]: p for p in said["sync_points"]}
    assert set(of) == {"c", "f"} and of["c"]["verdict"] == "unverified" and "profile torch" in of["c"]["reason"], of


if __name__ == "__main__":
    sys.exit(main(globals()))

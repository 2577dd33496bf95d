"""Three users who have the documentation and nothing else: the first command that a page names gives the right answer. Prints TAP.

A: a quantised model lost accuracy (docs/howto/quantised-model.md). B: an engine of one's own, in several forms of dumps (docs/howto/own-engine.md).
C: a runtime developer with --bisect (docs/tutorial.md, docs/minify.md). docs/ itself is run by tests/docs/run; here the models are others. --full: walk A
with a CNN that was trained."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.dont_write_bytecode = True
from tap import Skip, main  # noqa: E402
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
import runners  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
ORT = ROOT / ".cache/ort-1.27.0/libonnxruntime.so.1"
FULL = "--full" in sys.argv


def page(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def first_command(name, verb):
    """The first `plumb VERB` that a page shows, as words."""
    return re.search(rf"^\$? ?(plumb {verb} .*?)(?:\s+#.*)?$", page(name), re.MULTILINE)[1].split()


def ask(folder, *args, code, **options):
    env = dict(os.environ, ORT_DISABLE_TELEMETRY="1")
    done = subprocess.run([PLUMB, *map(str, args)], cwd=folder, env=env, capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == code, f"plumb {' '.join(map(str, args))}: exit {done.returncode}, expected {code}: {(done.stdout + done.stderr)[-500:]}"
    return done


# ---- A: quantised ----

def quantised_cnn(folder):
    """A CNN and its static QDQ form, per tensor, one activation clipped; inputs. Returns its layers, and the same with one layer quantised alone."""
    import quantised_nets as nets
    import torch
    torch.manual_seed(0)
    model = nets.gemm_as_matmul(nets.cnn(200 if FULL else 10))
    every = onnx.ModelProto()
    every.CopyFrom(model)
    kinds = {o.name for o in model.graph.output}
    every.graph.output.extend(helper.make_empty_tensor_value_info(o) for n in model.graph.node for o in n.output if o not in kinds)
    x = nets.images(16, 5)[0]
    onnx.save(every, folder / "every.onnx")
    np.savez(folder / "in.npz", x=x)
    ask(folder, "run", "every.onnx", "--inputs", "in.npz", "-o", "values.npz", code=0)
    ranges = {k: (v.min(), v.max()) for k, v in np.load(folder / "values.npz").items() if v.size}
    ranges["x"] = (x.min(), x.max())
    ranges[CLIPPED] = tuple(0.1 * v for v in ranges[CLIPPED])
    onnx.save(model, folder / "float.onnx")
    onnx.save(nets.quantise(model, "qdq", False, ranges), folder / "int8.onnx")
    layers = nets.layers(model)
    return layers, lambda layer: nets.quantise(model, "qdq", False, ranges, keep=set(layers) - {layer})


CLIPPED, BEHIND = "/body/body.7/Relu_output_0", "/body/body.8/Conv_output_0"


def outputs(folder, model, *args):
    (folder / "out.npz").unlink(missing_ok=True)
    ask(folder, "run", model, "--inputs", "in.npz", "-o", "out.npz", *args, code=0)
    return np.load(folder / "out.npz")["logits"]


def worst_layer(folder, layers, alone):
    """The layer that moves the outputs most when it alone is quantised, by running all of them."""
    want, errors = outputs(folder, "float.onnx"), {}
    for layer in layers:
        onnx.save(alone(layer), folder / "alone.onnx")
        errors[layer] = float(((outputs(folder, "alone.onnx") - want) ** 2).sum())
    return max(errors, key=errors.get)


def test_a_quantised_model(folder):
    command = first_command("howto/quantised-model.md", "analyze")
    assert command[2].endswith("int8.onnxtxt") and command[3:6] == ["--backend", "ort", "--reference"], command
    layers, alone = quantised_cnn(folder)
    done = ask(folder, "analyze", "int8.onnx", *command[3:5], "--reference", "float.onnx", "--inputs", "in.npz", "-o", "ranked", code=1)
    lines = done.stdout.splitlines()
    if runners.clips_products() and "saturated products" in done.stdout:  # then the runtime is wrong as well
        assert "at fault: both" in done.stdout and "plumb minify" in lines[-1], lines[-1]
    else:
        assert "at fault: the model" in done.stdout and "plumb minify" not in lines[-1], "the runtime is right: minify would find nothing that fails"
    assert sum("DIVERGED at" in x for x in lines) <= 1 and "e+07 times" not in done.stdout, done.stdout[:800]
    at = next(i for i, x in enumerate(lines) if x.startswith("quantisation:"))
    heads, table = lines[at + 1], lines[at + 2:at + 2 + len(layers)]
    assert at < next(i for i, x in enumerate(lines) if "psnr dB" in x), "the table comes first"
    assert all(word in heads for word in ("share", "cumulative", "gain in float", "layer")), heads
    assert worst_layer(folder, layers, alone) in table[0], table[0]
    assert "clipped range" in next(x for x in table if BEHIND in x), table
    assert sum("clipped range" in x or "wrong" in x for x in table) == 1, table
    assert any(x.startswith("session: ranked") for x in lines) and "plumb report ranked" in lines[-1], lines[-2:]
    ask(folder, "report", "ranked", "-o", "report.html", code=0)
    assert "clipped range" in ask(folder, "report", "ranked", "--format", "md", code=0).stdout
    return table[0].strip()


def test_a_advice_is_no_worse(folder):
    quantised_cnn(folder)
    done = ask(folder, "analyze", "int8.onnx", "--backend", "ort", "--reference", "float.onnx", "--inputs", "in.npz", "--save", "none", "-o", "s", "--advise-out",
               "mixed.onnx", code=1)
    assert (folder / "mixed.onnx").exists(), done.stdout[-600:]
    want = outputs(folder, "float.onnx")
    before, after = (float(np.abs(outputs(folder, m, "--backend", "ort") - want).mean()) for m in ("int8.onnx", "mixed.onnx"))
    # Without VNNI the products saturate, which is mended first: unsigned weights compute what the int8 model says.
    limit = 1.0 if "unsigned weights" in done.stdout else 0.5
    assert after <= limit * before, (before, after)
    return f"error {before:.3g} before, {after:.3g} after"


# ---- B: an engine of one's own ----

def engine(folder):
    """A model and what an engine computed whose convolution ends one column early."""
    rng = np.random.default_rng(0)
    w, b = rng.standard_normal((8, 1, 3, 3)).astype(np.float32) * 0.3, rng.standard_normal(8).astype(np.float32) * 0.1
    d, e = rng.standard_normal((392, 10)).astype(np.float32) * 0.05, rng.standard_normal(10).astype(np.float32) * 0.1
    names = ["image", "/0/Conv_output_0", "/1/Relu_output_0", "/2/MaxPool_output_0", "/3/Flatten_output_0", "logits"]
    nodes = [helper.make_node("Conv", ["image", "0.weight", "0.bias"], [names[1]], "/0/Conv", pads=[1] * 4, kernel_shape=[3, 3]),
             helper.make_node("Relu", [names[1]], [names[2]], "/1/Relu"),
             helper.make_node("MaxPool", [names[2]], [names[3]], "/2/MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", [names[3]], [names[4]], "/3/Flatten"),
             helper.make_node("Gemm", [names[4], "4.weight", "4.bias"], [names[5]], "/4/Gemm")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("image", 1, [1, 1, 14, 14])],
                              [helper.make_tensor_value_info("logits", 1, [1, 10])],
                              [numpy_helper.from_array(a, n) for a, n in ((w, "0.weight"), (b, "0.bias"), (d, "4.weight"), (e, "4.bias"))])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "net.onnx")
    x = rng.standard_normal((1, 1, 14, 14)).astype(np.float32)
    padded = np.pad(x[0, 0].astype(np.float64), 1)
    conv = np.zeros((1, 8, 14, 14))
    for k in range(8):
        conv[0, k] = b[k] + sum(padded[i:i + 14, j:j + 14] * w[k, 0, i, j] for i in range(3) for j in range(3))
    conv[..., -1] = b[None, :, None]
    conv = conv.astype(np.float32)
    relu = np.maximum(conv, 0)
    pool = relu.reshape(1, 8, 7, 2, 7, 2).max((3, 5))
    logits = (pool.reshape(1, -1).astype(np.float64) @ d + e).astype(np.float32)
    return dict(zip(["image", *names[1:4], "logits"], [x, conv, relu, pool, logits]))


def file_name(value):
    return value.replace("/", "_")


def judge(folder, dump, *args):
    said = json.loads(ask(folder, *first_command("howto/own-engine.md", "compare")[1:2], dump, "net.onnx", "--no-session", "--json", *args, code=1).stdout)
    first = said["blame"][0]
    assert said["verdict"] == "diverged" and len(said["blame"]) == 1, (dump, said["verdict"], said["blame"])
    assert first["op"] == "Conv" and "tail: last 1 of axis 3" in json.dumps(first), (dump, first)


def test_b_every_form_of_a_dump(folder):
    values = engine(folder)
    for name in ("npy", "flat", "bin", "numbers"):
        (folder / name).mkdir()
    for i, (name, a) in enumerate(values.items()):
        np.save(folder / "npy" / f"{file_name(name)}.npy", a)
        np.save(folder / "flat" / f"{file_name(name)}.npy", a.ravel())  # [1568] for [1,8,14,14]
        a.tofile(folder / "bin" / f"{file_name(name)}.bin")
        np.save(folder / "numbers" / f"{i:02}.npy", a)
    np.savez(folder / "dump.npz", **{file_name(n): a for n, a in values.items()})
    np.save(folder / "image.npy", values["image"])
    np.save(folder / "_0_Conv_output_0.npy", values["/0/Conv_output_0"])
    values["/0/Conv_output_0"].tofile(folder / "_0_Conv_output_0.bin")
    for dump in ("npy", "flat", "bin", "dump.npz"):
        judge(folder, dump)
    for dump in ("numbers", "_0_Conv_output_0.npy", "_0_Conv_output_0.bin"):  # these do not say what they computed from
        told = ask(folder, "compare", dump, "net.onnx", "--no-session", code=2).stderr
        assert "--input image=FILE" in told, told
        judge(folder, dump, "--input", "image=image.npy")


def test_b_flat_and_far_off(folder):
    """Flat arrays keep the model's order also where the numbers are too wrong to tell: half of the columns are copies."""
    values = engine(folder)
    conv = values["/0/Conv_output_0"]
    conv[..., 7:] = conv[..., :7]
    relu = values["/1/Relu_output_0"] = np.maximum(conv, 0)
    values["/2/MaxPool_output_0"] = relu.reshape(1, 8, 7, 2, 7, 2).max((3, 5))
    (folder / "flat").mkdir()
    for name, a in values.items():
        np.save(folder / "flat" / f"{file_name(name)}.npy", a.ravel())
    said = json.loads(ask(folder, "compare", "flat", "net.onnx", "--no-session", "--json", code=1).stdout)
    assert said["blame"][0]["op"] == "Conv" and said["blame"][0]["kind"] != "shape", said["blame"]
    assert not [b for b in said["blame"] if b["kind"] == "shape"], said["blame"]


def test_b_only_the_input_is_no_verdict(folder):
    (folder / "dump").mkdir()
    np.save(folder / "dump/image.npy", engine(folder)["image"])
    done = ask(folder, "compare", "dump", "net.onnx", "--no-session", code=2)
    assert "AGREE" not in done.stdout, done.stdout


def test_b_an_engine_links_before_plumb_is_installed(folder):
    build = Path(PLUMB).parent
    assert "PKG_CONFIG_PATH=$PWD/build" in page("howto/own-engine.md")
    if not shutil.which("pkg-config") or not (build / "plumb.pc").exists():
        raise Skip("no pkg-config, or a build without plumb.pc")
    env = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PKG_CONFIG_SYSROOT_DIR")}
    env["PKG_CONFIG_PATH"] = str(build)
    if not list(build.glob("libplumb.so*")):
        raise Skip("a build without the shared library")
    subprocess.run(f"cc {ROOT}/examples/engine/engine.c -o engine $(pkg-config --cflags --libs plumb) -lm && ./engine --bug bad.safetensors", shell=True,
                   check=True, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    done = ask(folder, "compare", "bad.safetensors", ROOT / "examples/engine/digits.onnxtxt", "--no-session", code=1)
    assert done.stdout.startswith("DIVERGED at pool_out: MaxPool"), done.stdout[:200]


# ---- C: a runtime developer ----

def test_c_the_repro_names_the_pass(folder):
    """ONNX Runtime's issue 32228, and a pass of jit where there is no ONNX Runtime."""
    model, backend, passes = ROOT / "examples/identity_transpose.onnxtxt", "ort", ("TransposeFusion", "TransposeOptimizer")
    if not ORT.exists():
        raise Skip(f"{ORT} is not there")
    found = ask(folder, "analyze", model, "--backend", backend, "--bisect", "-o", "s", code=1).stdout
    assert any(p in found for p in passes) and "--bisect" in found.splitlines()[-1], found
    done = ask(folder, "minify", model, "--backend", backend, "--bisect", "-o", "repro", code=0)
    named = json.loads((folder / "repro/repro.json").read_text())["bisect"]["pass"]
    assert any(p in named for p in passes), named
    title, *rest = (folder / "repro/README.md").read_text().splitlines()
    assert title.startswith("# ort: ") and title.endswith(named), title
    assert any(named in line for line in rest), rest[:12]
    assert f"passes without {named}" in done.stdout, done.stdout
    fails = [x for x in done.stderr.splitlines() if x.startswith("FAIL")]
    assert all("the search goes on" in x for x in fails), fails[:3]
    scripts(folder / "repro")
    return named


def scripts(repro):
    """Exit codes of the programs in a repro: 0 and 1 are answers, 2 is none. The modules are stand-ins."""
    library = repro / "lib"
    library.mkdir()

    def run(text):
        (library / "onnxruntime.py").write_text(text)
        env = dict(os.environ, PYTHONPATH=str(library), PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run(["/usr/bin/python3", repro / "repro_ort.py"], env=env, capture_output=True, text=True).returncode

    options = "class SessionOptions:\n    def add_session_config_entry(self, k, v): pass\ndef GraphOptimizationLevel(x): return x\n"
    session = ("import numpy, onnx\nfrom onnx import numpy_helper\nclass InferenceSession:\n    def __init__(self, *a, **k): {0}\n"
               "    def get_inputs(self): return onnx.load('model.onnx').graph.input\n    def get_providers(self): return ['CPUExecutionProvider']\n"
               "    def run(self, names, feed):\n        t = onnx.TensorProto()\n"
               "        t.ParseFromString(open('test_data_set_0/output_0.pb', 'rb').read())\n        return [numpy_helper.to_array(t) + numpy.float32({1})]\n")
    assert run("raise ImportError('none')\n") == 2, "no runtime"
    assert run(options + session.format("raise RuntimeError('opset')", 0)) == 2, "it cannot load the model; the bug is in the values"
    assert run(options + session.format("pass", 0)) == 0, "a right answer"
    assert run(options + session.format("pass", 100)) == 1, "a wrong answer"
    if shutil.which("node"):
        assert subprocess.run(["node", repro / "repro_ort.js"], env=dict(os.environ, NODE_PATH="/nowhere"), capture_output=True).returncode == 2
    subprocess.run(["cc", "repro_ort.c", "-o", "repro_ort", "-ldl", "-lm"], cwd=repro, check=True)
    assert subprocess.run(["./repro_ort", "/nowhere.so"], cwd=repro, capture_output=True).returncode == 2
    assert subprocess.run(["./repro_ort", str(ORT)], cwd=repro, capture_output=True, env=dict(os.environ, ORT_DISABLE_TELEMETRY="1")).returncode == 1


def test_c_jit_names_its_pass(folder):
    """Without ONNX Runtime: a fault that is planted in a pass of jit."""
    net, spec = ROOT / "tests/cli/net.onnxtxt", "jit:inject=fuse/scale@Tanh"
    done = ask(folder, "minify", net, "--backend", spec, "--bisect", "-o", "repro", "-q", code=0)
    assert "passes without fuse" in done.stdout, done.stdout
    assert (folder / "repro/README.md").read_text().splitlines()[0].endswith("by fuse")
    told = ask(folder, "minify", net, "--check", "false", "--bisect", "-o", "other", code=2).stderr
    assert "--bisect requires --backend" in told, told


if __name__ == "__main__":
    sys.exit(main(globals()))

"""Large weights stay in the user's file: sessions and checkpoints name it by path and hash. Prints TAP."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.dont_write_bytecode = True
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
N = 2304  # one matrix of 21 MB: above what is copied


def plumb(*args):
    return subprocess.run([PLUMB, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300)


def make(folder, external):
    rng = np.random.default_rng(5)
    w = (rng.standard_normal((N, N)) / 48).astype(np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["h"], name="mm"), helper.make_node("Relu", ["h"], ["y"], name="relu")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, N])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, N])],
                              [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    model.metadata_props.add(key="author", value="me")
    folder.mkdir(exist_ok=True)
    onnx.save_model(model, str(folder / "m.onnx"), save_as_external_data=external, location="m.data", size_threshold=1024)
    return folder / ("m.data" if external else "m.onnx")


def size(folder):
    return sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())


def analyzed(folder, external, *more):
    home = make(folder / "model", external)
    r = plumb("analyze", folder / "model/m.onnx", "--backend", "eager:fp64", "-o", folder / "s", "-q", *more)
    assert r.returncode == 0, r.stderr
    return home, folder / "s"


def shown(session, folder):
    """The report, and the notes in it."""
    page = folder / f"r{len(list(folder.iterdir()))}.html"
    r = plumb("report", session, "-o", page)
    assert r.returncode == 0, r.stderr
    return page.read_text()


def check_use(folder, external):
    home, s = analyzed(folder, external)
    assert size(s) < 2e6, size(s)
    whole = plumb("run", folder / "model/m.onnx", "-o", folder / "a.npz")
    ours = plumb("run", s / "model.onnx", "-o", folder / "b.npz")  # the session's model
    assert whole.returncode == 0 and ours.returncode == 0, ours.stderr
    a, b = np.load(folder / "a.npz"), np.load(folder / "b.npz")
    assert all(np.array_equal(a[k], b[k]) for k in a.files)
    on_ort = plumb("run", s / "model.onnx", "--backend", "ort", "-o", folder / "c.npz")
    assert on_ort.returncode == 0 or "ONNX Runtime" in on_ort.stderr, on_ort.stderr
    made = plumb("convert", s / "model.onnx", folder / "whole.onnx")
    assert made.returncode == 0, made.stderr
    back = onnx.load(str(folder / "whole.onnx"))
    assert [(p.key, p.value) for p in back.metadata_props] == [("author", "me")] and size(folder / "model") < 2 * (folder / "whole.onnx").stat().st_size
    assert "without the model's weights" not in shown(s, folder)
    return home, s


def test_within(folder):
    check_use(folder, False)


def test_external(folder):
    check_use(folder, True)


def test_gone(folder):
    home, s = analyzed(folder, True)
    home.rename(folder / "elsewhere")
    r = plumb("run", s / "model.onnx", "-o", folder / "b.npz")
    assert r.returncode == 2 and f"'{home}', which is gone" in r.stderr, r.stderr
    page = shown(s, folder)  # the rest is shown
    assert "without the model's weights" in page and "which is gone" in page and '"mm"' in page
    shutil.copy(folder / "elsewhere", s / home.name)  # the user makes it whole
    r = plumb("run", s / "model.onnx", "-o", folder / "b.npz")
    assert r.returncode == 0, r.stderr


def test_changed(folder):
    home, s = analyzed(folder, True)
    with open(home, "r+b") as f:
        f.seek(1000)
        f.write(b"\x01")
    r = plumb("run", s / "model.onnx", "-o", folder / "b.npz")
    assert r.returncode == 2 and "has changed since" in r.stderr, r.stderr
    assert "has changed since" in shown(s, folder)


def test_packed(folder):
    home, s = analyzed(folder, True, "--pack")
    home.unlink()
    assert size(s) > 4 * N * N
    assert plumb("run", s / "model.onnx", "-o", folder / "b.npz").returncode == 0


def test_stranger(folder):
    """A session that names a file of the victim: of the right size, as a pipe, a device, a folder, a link."""
    home, s = analyzed(folder, True)
    raw = (s / "model.onnx").read_bytes()
    secret = folder / "secret"
    secret.write_bytes(os.urandom(home.stat().st_size))
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to(secret)
    (folder / "dir").mkdir()
    for target in (secret, folder / "pipe", "/dev/zero", folder / "link", folder / "dir", folder / "no/such", "relative", "/proc/self/mem", ""):
        model = onnx.ModelProto.FromString(raw)
        for p in model.metadata_props:
            if p.key.startswith("plumb-weights-"):
                head = p.value.split(" ")[:2]
                p.value = " ".join(head + [str(target)])
        (s / "model.onnx").write_bytes(model.SerializeToString())
        r = plumb("run", s / "model.onnx", "-o", folder / "b.npz")
        assert r.returncode == 2 and not (folder / "b.npz").exists(), (target, r.returncode, r.stderr)
        page = shown(s, folder)
        assert "without the model's weights" in page, target


def test_stranger_with_other_words(folder):
    """What stands in the metadata is checked, and a location without it is an error."""
    home, s = analyzed(folder, True)
    raw = (s / "model.onnx").read_bytes()
    for text in (None, "", "xxh3-128:", "md5:00 1 /x", "xxh3-128:" + "0" * 32, "xxh3-128:" + "0" * 32 + f" 99999999999999999999999 {home}",
                 "xxh3-128:" + "0" * 32 + f" {home.stat().st_size} {home}"):
        model = onnx.ModelProto.FromString(raw)
        (prop,) = [p for p in model.metadata_props if p.key.startswith("plumb-weights-")]
        if text is None:
            model.metadata_props.remove(prop)
        else:
            prop.value = text
        (s / "model.onnx").write_bytes(model.SerializeToString())
        r = plumb("run", s / "model.onnx", "-o", folder / "b.npz")
        assert r.returncode == 2, (text, r.returncode, r.stderr)
        shown(s, folder)


def test_absent_weights_of_any_size(folder):
    """A stranger's model may declare any amount of absent weights: nothing is allocated for them."""
    s = folder / "s"
    home, _ = analyzed(folder, True)
    model = onnx.ModelProto.FromString((s / "model.onnx").read_bytes())
    (w,) = [t for t in model.graph.initializer if t.name == "w"]
    for i in range(200):
        t = model.graph.initializer.add()
        t.CopyFrom(w)
        t.name = f"w{i}"
        del t.dims[:]
        t.dims.extend([1 << 20, 1 << 14])
    (s / "model.onnx").write_bytes(model.SerializeToString())
    home.unlink()
    r = subprocess.run(["bash", "-c", f"ulimit -v 4000000; exec '{PLUMB}' report '{s}' -o '{folder}/r.html'"], stderr=subprocess.PIPE, universal_newlines=True)
    assert r.returncode == 0, r.stderr


def test_checkpoint(folder):
    make(folder / "model", True)
    r = subprocess.run([PLUMB, "run", "model/m.onnx", "--backend", "jit", "--inject", "runtime-error@Relu", "--repro-level", "2", "-o", "y.npz"], cwd=str(folder),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert r.returncode == 3 and "Writing checkpoint" in r.stderr, r.stderr
    assert size(folder / "plumb-debug") < 1e6 and size(folder / "repro") < 1e6, (size(folder / "plumb-debug"), size(folder / "repro"))
    r = plumb("minify", folder / "repro", "-o", folder / "small", "-q")
    assert r.returncode == 0, r.stderr
    assert len(onnx.load(str(folder / "small/model.onnx")).graph.node) == 1


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

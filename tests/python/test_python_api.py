"""python/plumb over libplumb.so: results, tensors, errors, threads, leaks, the wheel, pytest's plugin, types. Prints TAP."""

import ast
import collections
import contextlib
import ctypes
import dataclasses
import gc
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import torch
from torch import nn

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import Skip  # noqa: E402
from torch_versions import TORCH2  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
sys.path.insert(0, str(ROOT / "python"))
import plumb  # noqa: E402
from plumb import _lib, _tensor  # noqa: E402

TEXT = """<ir_version: 8, opset_import: ["" : 13]>
g (float[2,3] x) => (float[2,3] y) { h = Relu(x) y = Neg(h) }"""
FAULT = "jit:inject=offset@Relu"


def x23(seed=0):
    return np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32)


def raises(kind, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")


# ---- running ---------------------------------------------------------------------------------------

def test_run(folder):
    x = x23()
    (folder / "m.onnxtxt").write_text(TEXT)
    model = plumb.Model(TEXT)
    model.convert(folder / "m.onnx")
    proto = onnx.load(str(folder / "m.onnx"))
    want = -np.maximum(x, 0)
    for source in (TEXT, model, folder / "m.onnxtxt", str(folder / "m.onnx"), proto, proto.SerializeToString()):
        for feeds in ({"x": x}, (x,), x, {"x": torch.from_numpy(x)}, np.asfortranarray(x), x.astype(">f4")):
            got = plumb.run(source, feeds)
            assert list(got) == ["y"] and np.array_equal(got["y"], want), (type(source), type(feeds))
    assert np.array_equal(plumb.run(model, x, backend="jit")["y"], want)
    assert plumb.run(model, x, backend="eager:fp64")["y"].dtype == np.float64
    got = plumb.run(model, seed=3, fill="ones", repeat=2, output=folder / "out.npz")
    assert np.array_equal(got["y"], -np.ones((2, 3))) and got.times["n_runs"] == 2
    assert np.array_equal(np.load(folder / "out.npz")["y"], got["y"]) and got.files["y"]
    assert json.loads(got.text("json"))["status"] == "ok"
    assert model.inputs == ["x"] and model.outputs == ["y"] and model.n_nodes == 2 and model.input_types == ["float"]
    assert onnx.load_from_string(model.to_bytes()).graph.node[0].op_type == "Relu"
    assert model.info()["nodes"] == 2
    assert model.output_types == ["float"] and model.input_shapes == [(2, 3)] == model.output_shapes
    assert [(n["op"], n["inputs"], n["outputs"]) for n in model.nodes] == [("Relu", ["x"], ["h"]), ("Neg", ["h"], ["y"])]
    assert plumb.Model(TEXT.replace("float[2,3] x", "float[N,3] x")).input_shapes == [(-1, 3)]


def test_types_and_memory(_folder):
    """Every type that numpy has, without a copy; bfloat16 of torch; strings."""
    kinds = "f4 f8 f2 i1 i2 i4 i8 u1 u2 u4 u8 ?".split()
    names = "float double float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()
    for kind, name in zip(kinds, names):
        a = np.arange(6).reshape(2, 3).astype(kind)
        text = f'<ir_version: 8, opset_import: ["" : 13]> g ({name}[2,3] x) => ({name}[2,3] y) {{ y = Identity(x) }}'
        got = plumb.run(text, a)["y"]
        assert got.dtype == a.dtype and np.array_equal(got, a) and not got.flags.writeable, kind
    a = x23()
    handle = _tensor.to_tensor(a)
    view = _tensor.to_array(handle)
    assert view.__array_interface__["data"][0] == a.__array_interface__["data"][0], "copied"
    t = torch.randn(2, 3)
    assert _tensor.to_array(_tensor.to_tensor(t)).__array_interface__["data"][0] == t.data_ptr(), "copied"
    assert np.array_equal(_tensor.to_array(_tensor.to_tensor(t.bfloat16())), t.bfloat16().float().numpy())
    words = np.array([["a", "bcd"], ["", "é"]])
    assert np.array_equal(_tensor.to_array(_tensor.to_tensor(words)), words.astype(object))
    assert _tensor.to_array(_tensor.to_tensor(np.zeros((0, 3), "f4"))).shape == (0, 3)
    assert _tensor.to_array(_tensor.to_tensor(np.float64(2.5))) == 2.5
    e = raises(TypeError, _tensor.to_tensor, np.zeros(2, "M8[s]"))
    assert "has no ONNX equivalent" in str(e)


# ---- analysis --------------------------------------------------------------------------------------

def test_analyze(folder):
    x = x23()
    r = plumb.analyze(TEXT, {"x": x}, backend=FAULT)
    assert not r.ok and r.verdict == "diverged" and r.exit_code == 1 and r.at_fault == "runtime" and "Relu" in r.reason
    assert len(r.blame) == 1 and r.blame[0].op == "Relu" and r.blame[0].value == "h" and r.blame[0].kind.startswith("offset")
    assert r.blame[0].effect == 1 and r.first_divergence == "h" and r.count("culprit") == 1
    assert [p.value for p in r.sync_points] == ["h", "y"] and r["h"].verdict == "culprit"
    offset = float(r.blame[0].kind.split()[1])
    assert np.allclose(r["h"].a, np.maximum(x, 0) + offset, atol=1e-5) and np.array_equal(r["h"].b, np.maximum(x, 0))
    assert np.array_equal(r["h"].gold, np.maximum(x, 0).astype(np.float64)) and r["h"].metrics["psnr"] < 40
    assert [p.value for p in r.outputs] == ["y"] and r.side("a").backend == "jit" and r.side("b").spec == "eager"
    assert r["h"].shape_a == (2, 3) and r["h"].dtype_a == "float"
    assert "did you mean 'h'" in str(raises(KeyError, lambda: r["hh"]))
    assert r.to_dict()["verdict"] == "diverged" and "DIVERGED" in str(r) and "<svg" in r._repr_html_() and "Relu" in repr(r)
    marked = r.text(style={"diverged": "<<", "reset": ">>"})
    assert marked.startswith("<<DIVERGED") and ">>" in marked.splitlines()[0], marked[:80]
    assert r.timing and set(json.loads(r.text("sarif"))) >= {"version", "runs"}
    report = r.report(folder / "r.html")
    assert Path(report).read_text().lstrip().lower().startswith("<!doctype html")
    kept = r.save(folder / "kept")
    again = plumb.open_session(kept)
    assert again.verdict == "diverged" and np.array_equal(again["h"].a, r["h"].a)
    temporary = r.folder
    assert os.path.isdir(temporary)
    del r
    gc.collect()
    assert not os.path.exists(temporary), "a temporary session stays"
    r = plumb.analyze(TEXT, x, backend="jit", output=folder / "session")
    assert r.ok and r.verdict == "agree" and not r.blame and os.path.isdir(folder / "session")
    assert isinstance(raises(plumb.ExistsError, plumb.analyze, TEXT, x, backend="jit", output=folder / "session"), FileExistsError)
    data = plumb.Model(TEXT).to_bytes()
    (folder / "m.onnx").write_bytes(data)
    for source in (data, onnx.load_from_string(data), folder / "m.onnx", str(folder / "m.onnx")):
        assert plumb.analyze(source, x, backend=FAULT).blame[0].value == "h", type(source)
    several = plumb.analyze(TEXT, [(x,), (x23(1),)], backend=FAULT)
    assert several.summary["n_samples"] == 2 and several.failing_samples


def test_several_backends(folder):
    """One table for three backends; the sessions are whole, and go with the result."""
    x = x23()
    r = plumb.analyze_many(TEXT, x, backends=["jit", FAULT, "jit:fuse=off"])
    assert len(r) == 3 and [s.verdict for s in r] == ["agree", "diverged", "agree"] and r.exit_code == 1 and not r.ok
    assert r[FAULT].blame[0].value == "h" and np.array_equal(r["jit:fuse=off"]["h"].a, np.maximum(x, 0))
    table = r.to_dict()
    assert [b["spec"] for b in table["backends"]] == ["jit", FAULT, "jit:fuse=off"] and table["exit_code"] == 1
    assert [row["value"] for row in table["values"]] == ["h", "y"] and "Relu" in str(r) and r.text("md").count("|") > 10
    assert "DIVERGED" in repr(r) and "available: jit" in str(raises(KeyError, lambda: r["ort"]))
    one, temporary = r[1], r.folder
    del r
    gc.collect()
    assert one["h"].a.shape == (2, 3), "a session without its folder"
    del one
    gc.collect()
    assert not os.path.exists(temporary), "temporary sessions stay"
    r = plumb.analyze_many(TEXT, x, backends=["jit", "jit:fuse=off"], output=folder / "many")
    assert r.ok and r.exit_code == 0 and (folder / "many/many.json").exists() and plumb.open_session(folder / "many/2").ok
    before = _lib.open_handles()
    assert raises(plumb.InputError, plumb.analyze_many, TEXT, x, backends=["jit", "nothing"]).value == "nothing"
    assert _lib.open_handles() == before
    assert "list of specs" in str(raises(TypeError, plumb.analyze_many, TEXT, x, backends="jit"))


def engine_of_numpy(wrong=0.0):
    """An engine in Python for Relu and Neg, as plumb.wrap takes it."""
    def compile(data):
        nodes = list(onnx.load_from_string(data).graph.node)

        def run(feeds):
            if feeds["x"].max() > 100:
                raise OverflowError("too large for this engine")
            values = dict(feeds)
            for n in nodes:
                a = values[n.input[0]]
                values[n.output[0]] = np.maximum(a, 0) + np.float32(wrong) if n.op_type == "Relu" else -a
            return values
        return run
    return compile


def test_wrapped_engine(folder):
    """An engine in Python with checkpoints: its error is raised, and the model with its inputs is on disk; a wrong result, too."""
    x = x23()
    before = _lib.open_handles()
    wrapped = plumb.wrap(engine_of_numpy(), 2, debug_dir=folder / "two", spec="jit")
    run = wrapped(TEXT)
    assert np.array_equal(run({"x": x})["y"], -np.maximum(x, 0)) and not wrapped.log and not (folder / "two").exists()
    assert "too large" in str(raises(OverflowError, run, {"x": x + 1000}))
    repros = list((folder / "two").glob("*/checkpoints/*"))
    assert len(repros) == 1 and "checkpoint" in wrapped.log[0], (repros, wrapped.log)
    assert plumb.check(repros[0] / "model.onnx", repros[0] / "test_data_set_0", backend="jit") and (repros[0] / "run.sh").exists()
    wrong = plumb.wrap(engine_of_numpy(0.5), 4, debug_dir=folder / "four", spec="jit")
    assert np.allclose(wrong(TEXT)({"x": x})["y"], -np.maximum(x, 0) - 0.5) and len(list((folder / "four").glob("*/checkpoints/*"))) == 1
    right = plumb.wrap(engine_of_numpy(), 4, debug_dir=folder / "none")
    right(TEXT)({"x": x})
    assert not (folder / "none").exists()
    assert "has no input 'z'" in str(raises(ValueError, right(TEXT), {"z": x}))
    assert "no output 'y'" in str(raises(KeyError, plumb.wrap(lambda _data: lambda _feeds: {"z": x}, 0)(TEXT), {"x": x}))
    raises(onnx.checker.ValidationError, plumb.wrap(engine_of_nothing, 0), TEXT)
    del wrapped, run, wrong, right
    gc.collect()
    assert _lib.open_handles() == before, _lib.open_handles()


def engine_of_nothing(_data):
    raise onnx.checker.ValidationError("not today")


def test_pandas(_folder):
    try:
        import pandas
    except ImportError:
        raise Skip("pandas not found") from None
    frame = plumb.analyze(TEXT, x23(), backend=FAULT).sync_points.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and list(frame["value"]) == ["h", "y"] and "psnr" in frame and "shape_a" in frame


def test_assert_close_and_minify(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert plumb.assert_close(TEXT, x23(), backend="jit").ok
        text = str(raises(AssertionError, plumb.assert_close, TEXT, x23(), backend=FAULT))
        last = text.splitlines()[-1].split("plumb view ")[1]
        assert "Relu producing 'h'" in text and os.path.isdir(last), text
        assert plumb.open_session(last)["h"].a.shape == (2, 3)
        r = plumb.analyze(TEXT, x23(), backend=FAULT)
        repro = r.minify(folder / "repro")
        assert repro.nodes_after == 1 and repro.verified and (folder / "repro/model.onnx").exists(), repro.fields
        assert plumb.open_session(last).minify(folder / "again", inputs=x23()).nodes_after == 1
        assert plumb.read_repro(folder / "repro")["seed"] == 0
        assert plumb.minify_query(TEXT, x23(), backend=FAULT).fails
        assert not plumb.minify_query(TEXT, x23(), backend="jit").fails
        assert "did not fail" in str(raises(plumb.InputError, plumb.minify, TEXT, x23(), backend="jit"))
    finally:
        os.chdir(before)


def test_compare_record_load(folder):
    x = x23()
    a = plumb.record(TEXT, x, folder / "a.safetensors", backend="jit:fuse=off")
    b = plumb.record(TEXT, x, folder / "b.safetensors")
    assert b.n_values == 3 and not b.observer_effect
    loaded = plumb.load(folder / "b.safetensors")
    assert set(loaded) == {"x", "h", "y"} and np.array_equal(loaded["h"], np.maximum(x, 0)) and loaded.format == "plumb"
    assert loaded.about["h"]["op"] == "Relu" and "did you mean 'y'" in str(raises(KeyError, lambda: loaded["yy"]))
    assert plumb.compare(a, b).ok and plumb.compare(folder / "a.safetensors", loaded).ok
    arrays = {"h": loaded["h"], "y": loaded["y"] * 1.5}
    r = plumb.compare(arrays, loaded)
    assert not r.ok and r["y"].similarity == "red" and r["h"].similarity == "green"
    torch.save({"h": torch.from_numpy(loaded["h"].copy())}, folder / "h.pt")
    assert np.array_equal(plumb.load(folder / "h.pt")["h"], loaded["h"])
    with plumb.Recorder(folder / "mine.safetensors", engine="mine") as recorder:
        recorder.write("h", x)
        recorder.write("h", x + 1)
    assert list(plumb.load(folder / "mine.safetensors")) == ["h", "h#1"]
    with raises_in(ValueError), plumb.Recorder(folder / "none.safetensors") as recorder:
        recorder.write("h", x)
        raise ValueError
    assert not (folder / "none.safetensors").exists()


class raises_in:
    def __init__(self, kind):
        self.kind = kind

    def __enter__(self):
        return self

    def __exit__(self, kind, _e, _t):
        assert kind is self.kind, kind
        return True


def test_same_and_measure(_folder):
    Point = collections.namedtuple("Point", "a b")

    @dataclasses.dataclass
    class Out:
        y: object
        n: int
    a = torch.randn(40)
    assert plumb.same(a, a) and plumb.same([a, {"k": (a, 1, None, "s")}], [a, {"k": (a, 1, None, "s")}])
    assert plumb.same(Point(a, 2.0), Point(a + 1e-7, 2.0)) and plumb.same(Out(a, 1), Out(a, 1)) and not plumb.same(Out(a, 1), Out(a, 2))
    found = plumb.same({"k": [a, a]}, {"k": [a, a + 1]})
    assert not found and found.path == "['k'][1]" and found.why
    assert not plumb.same([a], [a, a]) and not plumb.same({"x": a}, {"y": a})
    noisy = a + 0.01 * torch.randn(40)
    assert not plumb.same(a, noisy, a.double()) and plumb.same(a, noisy, a.double(), tol=0.5) and plumb.same(a, noisy, same="tol=0.5")
    assert not plumb.same(a, a.double()) and plumb.same(a, a.double(), exact_dtype=False)
    m = plumb.measure(a + 1, a)
    assert m["class"] == "finite" and abs(m["mae"] - 1) < 1e-5 and plumb.measure(a, a)["class"] == "exact"
    assert plumb.measure(a, a[:3])["class"] == "structural"
    rng = np.random.default_rng(3)
    r = rng.standard_normal((5, 40)).astype(np.float32) * 3
    a = (r + rng.standard_normal(r.shape).astype(np.float32)).astype(np.float32)
    tokens = rng.integers(0, 40, 5)
    p, q = [np.exp(x - np.log(np.exp(x).sum(1, keepdims=True))) for x in (r.astype(np.float64), a.astype(np.float64))]
    rows = np.arange(5)
    want = {"kl": (p * np.log(p / q)).sum(1).mean(), "kl_reverse": (q * np.log(q / p)).sum(1).mean(),
            "nll": -np.log(q[rows, tokens]).mean(), "nll_reference": -np.log(p[rows, tokens]).mean(),
            "flip": (p.argmax(1) != q.argmax(1)).mean(),
            "top_k": np.mean([len(set(x) & set(y)) / 10 for x, y in zip(np.argsort(-p, 1)[:, :10], np.argsort(-q, 1)[:, :10])])}
    m = plumb.measure_logits(a, r, tokens)
    assert set(m) == set(want) | {"margin", "drift"} and all(abs(m[k] - v) < 1e-12 for k, v in want.items()), (m, want)
    assert raises(plumb.InputError, plumb.measure_logits, a, r, tokens[:2])


def test_the_rest(folder):
    x = x23()
    r = plumb.check(TEXT, x, backend="jit")
    assert r and r.status == "pass" and r.outputs[0].name == "y" and np.array_equal(r.outputs[0].tensor, -np.maximum(x, 0))
    bad = plumb.check(TEXT, x, backend=FAULT)
    assert not bad and bad.exit_code == 1 and bad.error
    assert plumb.check(TEXT, x, backend="jit", context={"backward": True})
    assert any(b["name"] == "eager" and b["available"] for b in plumb.backends()) and plumb.ops("Relu")
    assert "Cos" in plumb.faults_missed(TEXT, "jit:inject=offset@Cos")
    plumb.analyze(TEXT, x, backend="jit", output=folder / "s")
    assert plumb.store_verify(folder / "s")["n_bad"] == 0 and plumb.store_ls(folder / "s") is not None
    plumb.store_gc(folder / "s", dry_run=True)
    model = plumb.Model(TEXT).restrict(to="h")
    assert model.outputs == ["h"]
    double = plumb.Model(TEXT)
    double.transform(fp64=True)
    assert plumb.run(double, x.astype(np.float64))["y"].dtype == np.float64
    case = folder / "cases/test_relu/test_data_set_0"
    case.mkdir(parents=True)
    plumb.Model(TEXT).convert(case.parent / "model.onnx")
    for name, array in (("input_0.pb", x), ("output_0.pb", -np.maximum(x, 0))):
        (case / name).write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())
    report = plumb.test(folder / "cases")
    assert report.passed == 1 and report.failed == 0 and report.cases[0].status == "pass"
    link = plumb.analyze(TEXT, x, backend="jit").show(browser=False)
    assert link.startswith("http://127.0.0.1:")
    served, plumb._session.view = plumb._session.view, no_server
    try:
        r = plumb.analyze(TEXT, x, backend="jit")
        page = r.show(browser=False)
        assert page.startswith("file://") and "<!doctype html" in Path(page[7:]).read_text()[:200].lower()
    finally:
        plumb._session.view = served
    del r
    gc.collect()
    assert not os.path.exists(page[7:])


def no_server(*_args, **_options):
    """As on a machine without libmicrohttpd."""
    raise plumb.InputError("E_UNSUPPORTED", "no server ('plumb report' works without one): libmicrohttpd not found (libmicrohttpd.so.12)")


def test_corpus(folder):
    """One planted bug in one of two models: a group, a plan, shards that are merged, a difference."""
    (folder / "m").mkdir()
    for name, op in (("a", "Relu"), ("b", "Tanh")):
        (folder / f"m/{name}.onnxtxt").write_text(f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[2] x) => (float[2] y) {{ y = {op}(x) }}\n')
    backends, program = ["jit:inject=accuracy@Relu"], str(PLUMB)
    plan = plumb.corpus_plan(folder / "m", backends, seeds=[1, 2])
    assert (plan["models"], plan["items"]) == (2, 4), plan
    whole = plumb.corpus(folder / "m", backends, folder / "whole", program=program, max_queries=0)
    assert whole.exit_code == 1 and not whole and whole.finished and whole.counts["diverged"] == 1, whole.counts
    assert [(c.model, c.status) for c in whole.cases] == [("a.onnxtxt", "diverged"), ("b.onnxtxt", "agree")]
    assert [g.n_cases for g in whole.groups] == [1] and whole.cases[0].group == whole.groups[0].id
    for i in (1, 2):
        part = plumb.corpus(folder / "m", backends, folder / f"s{i}", shard=f"{i}/2", program=program, max_queries=0)
        assert part.exit_code == 0 and not part.finished
    merged = plumb.corpus_merge([folder / "s1", folder / "s2"], folder / "merged", program=program)
    assert (folder / "merged/corpus.json").read_bytes() == (folder / "whole/corpus.json").read_bytes()
    opened = plumb.open_corpus(folder / "merged")
    assert opened.text("junit") == whole.text("junit") and opened.diff(whole)["same"] == 2
    assert json.loads(merged.text("json"))["exit_code"] == 1


# ---- torch modules ---------------------------------------------------------------------------------

class Clamped(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.o = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x, scale=None):
        y = self.l(x) * 3
        y.view(-1).clamp_(0, 1)  # the exporter loses this
        return {"out": self.o(y), "y": y if scale is None else y * scale}


class Fine(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x, scale=None):
        y = self.l(x).relu()
        return y if scale is None else y * scale


def test_modules(_folder):
    torch.manual_seed(2)
    x = torch.randn(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r = plumb.analyze(Fine(), (x,), backend="ort")
        assert r.ok, r.reason
        assert plumb.analyze(Fine(), {"x": x, "scale": torch.tensor(2.0)}, backend="ort").ok
        r = plumb.analyze(Fine(), [(x,), (x + 1,)], backend="ort")
        assert r.ok and len(r.samples) == 2
        r = plumb.analyze(Fine(), (x,), backend=FAULT)
        assert not r.ok and r.blame[0].op == "Relu" and ".relu()" in line_of(r.blame[0].source), r.blame
        r = plumb.analyze(Fine(), [(x,), (x[:0],)], backend=FAULT, input_names=["x"], dynamic_axes={"x": {0: "n"}})
        assert [s.verdict for s in r.samples] == ["diverged", "inconclusive"] and r.verdict == "diverged", [s.verdict for s in r.samples]
        r = plumb.analyze(Clamped(), (x,), backend="ort")
    lost = [c for c in r.lost_calls if c["status"] == "dropped"]
    assert len(lost) == 1 and lost[0]["op"] == "clamp_" and "clamp_(0, 1)" in lost[0]["source"]
    assert "needs inputs" in str(raises(TypeError, plumb.analyze, Fine(), backend="ort"))
    assert not r.ok and r.at_fault == "model" == r.to_dict()["at_fault"], (r.verdict, r.at_fault)


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    hidden: torch.Tensor


class Dictionary(Fine):
    def forward(self, x, scale=None):
        y = self.l(x).relu()
        return {"logits": y * 2, "hidden": [y, y.sum(0)]}


class Dataclass(Fine):
    def forward(self, x, scale=None):
        y = self.l(x).relu()
        return Answer(logits=y * 2, hidden=y)


def quietly(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plumb.analyze(*args, **kwargs)


def test_three_parties(_folder):
    """Exporter, runtime, both or neither; the line of the culprit is PyTorch's."""
    torch.manual_seed(2)
    x = torch.randn(3, 4)
    seen = {}
    for who, net, backend in (("none", Fine(), "jit"), ("runtime", Fine(), FAULT), ("model", Clamped(), "jit"),
                              ("both", Clamped(), "jit:inject=offset@Mul")):
        r = quietly(net, (x,), backend=backend)
        seen[who] = r.at_fault
        assert r.ok == (who == "none"), (who, r.reason)
        if who in ("runtime", "both"):
            wanted = ".relu()" if who == "runtime" else "* 3"
            assert r.blame and wanted in line_of(r.blame[0].source), (who, r.blame)
        if who in ("model", "both"):
            assert [c["op"] for c in r.lost_calls if c["status"] == "dropped"] == ["clamp_"], r.lost_calls
            text = str(raises(AssertionError, assert_close_here, _folder, net, (x,), backend=backend))
            assert "the exporter dropped clamp_" in text and "y.view(-1).clamp_(0, 1)" in text, text
    assert all(a == b for a, b in seen.items()), seen


def assert_close_here(folder, net, inputs, backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plumb.assert_close(net, inputs, backend=backend, output=folder / f"{type(net).__name__}-{len(os.listdir(folder))}")


def test_module_inputs_and_outputs(_folder):
    """Dynamic shapes, several input sets of different shapes, keyword inputs, outputs in dicts, lists and dataclasses."""
    torch.manual_seed(3)
    x, wide = torch.randn(3, 4), torch.randn(7, 4)
    r = quietly(Fine(), [(x,), (wide,)], backend="ort", dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    assert r.ok and [s.outputs[0].shape_a for s in r.samples] == [(3, 4), (7, 4)], (r.reason, [s.outputs for s in r.samples])
    r = quietly(Fine(), [{"x": x, "scale": torch.tensor(2.0)}, {"x": wide, "scale": torch.tensor(0.5)}], backend=FAULT,
                dynamic_axes={"x": {0: "n"}}, input_names=["x", "scale"])
    assert not r.ok and len(r.samples) == 2 and all(s.blame[0].op == "Relu" for s in r.samples)
    r = quietly(Dictionary(), (x,), backend="ort")
    assert r.ok and len(r.outputs) == 3, (r.reason, r.outputs)
    r = quietly(Dataclass(), (x,), backend="ort")
    assert r.ok and len(r.outputs) == 2, (r.reason, r.outputs)


def test_exported_program(_folder):
    if not TORCH2 or not hasattr(torch, "export"):
        program = type("ExportedProgram", (), {"__module__": "torch.export"})()
        assert "torch 2.5" in str(raises(NotImplementedError, plumb.analyze, program, backend="jit"))
        raise Skip(f"torch {torch.__version__} has no torch.export; tests/python/torch2 runs it")
    x = torch.randn(3, 4)
    program = torch.export.export(Fine(), (x,))
    if importlib.util.find_spec("onnxscript") is None:
        assert "onnxscript" in str(raises(NotImplementedError, plumb.analyze, program, backend="jit"))
        raise Skip("onnxscript not found")
    for inputs in ((x,), None):
        r = quietly(program, inputs, backend="jit")
        assert r.ok, r.reason
    r = quietly(program, (x,), backend=FAULT)
    assert not r.ok and r.blame[0].op == "Relu", r.reason
    scaled = torch.export.export(Fine(), (x,), {"scale": torch.tensor(2.0)})
    assert quietly(scaled, backend="jit").ok and quietly(scaled, {"x": x, "scale": torch.tensor(3.0)}, backend="jit").ok
    many = plumb.analyze_many(program, backends=["jit", FAULT])
    assert [s.ok for s in many] == [True, False], many


def line_of(source):
    path, _, line = source.rpartition(":")
    return Path(path).read_text().splitlines()[int(line) - 1]


# ---- errors, progress, threads, leaks --------------------------------------------------------------

def test_errors(folder):
    e = raises(plumb.PlumbError, plumb.Model, folder / "none.onnx")
    assert isinstance(e, FileNotFoundError) and e.status == "E_NOT_FOUND" and "none.onnx" in str(e)
    e = raises(plumb.InputError, plumb.run, TEXT, backend="nothing")
    assert "nothing" in str(e) and e.value == "nothing"
    assert "available:" in str(raises(TypeError, plumb.run, TEXT, backends="jit"))
    assert "has no input 'z'" in str(raises(ValueError, plumb.run, TEXT, {"z": x23()}))
    assert raises(plumb.PlumbError, plumb.run, TEXT, {"x": x23()[:1, :2].astype("f8")}).status in ("E_INVALID", "E_USAGE")
    e = raises(plumb.BackendError, plumb.run, TEXT, x23(), backend="jit:inject=crash@Relu")
    assert e.status == "E_BACKEND"
    from plumb import _abi, _errors
    for status in range(1, _abi.PLUMB_E_CANCELLED):
        name = _lib.lib().plumb_status_name(status).decode()
        assert _errors.error_of(name, "").exit_code == _lib.lib().plumb_exit_code(status), name
    assert raises(TypeError, plumb.Model, 3)
    import pickle
    assert pickle.loads(pickle.dumps(e)).status == "E_BACKEND"


def test_progress_and_cancel(_folder):
    seen, before = [], signal.getsignal(signal.SIGINT)
    plumb.analyze(TEXT, x23(), backend="jit", progress=lambda *a: seen.append(a) and None)
    assert seen and all(isinstance(p, str) for p, _, _ in seen)
    raises(KeyboardInterrupt, plumb.analyze, TEXT, x23(), backend="jit", progress=lambda *_: True)
    if importlib.util.find_spec("tqdm") is not None:
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown):
            plumb.analyze(TEXT, x23(), backend="jit", progress=True)
            bars = shown.getvalue()
            plumb.analyze(TEXT, x23(), backend="jit", progress=False)
            plumb.analyze(TEXT, x23(), backend="jit")  # not a terminal
        assert seen[0][0] in bars and "%|" in bars, bars
        assert shown.getvalue() == bars, "a bar that nobody asked for"

    class Odd(Exception):
        pass

    def throw(*_):
        raise Odd
    raises(Odd, plumb.analyze, TEXT, x23(), backend="jit", progress=throw)
    code = f"""
import sys, threading, time, os, signal
sys.path.insert(0, {str(ROOT / 'python')!r})
import plumb
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    plumb.run({TEXT!r}, backend="jit:inject=hang@Relu", timeout=3000)
except KeyboardInterrupt:
    print("interrupted")
"""
    # In the background of a shell SIGINT is ignored, and Python would leave it so.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert done.stdout.strip() == "interrupted" and done.returncode == 0, done.stderr
    assert signal.getsignal(signal.SIGINT) is before


def test_threads(_folder):
    model, wrong = plumb.Model(TEXT), []

    def work(n):
        for k in range(10):
            x = x23(n * 100 + k)
            if not np.array_equal(plumb.run(model, x)["y"], -np.maximum(x, 0)):
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_leaks(_folder):
    model, x = plumb.Model(TEXT), x23()
    gc.collect()
    before, kept = _lib.open_handles(), _tensor.kept()
    for _ in range(200):
        plumb.run(model, x)
    start, inside, begin = resident(), 0.0, time.thread_time()
    for _ in range(1000):
        r = plumb.run(model, x)
        r["y"]
        inside += r.times["load"] + r.times["first"]
    each = (time.thread_time() - begin) / 1000
    del r
    gc.collect()
    grown = resident() - start
    assert grown < 4 << 20, f"{grown} bytes in 1000 runs"
    for _ in range(3):
        r = plumb.analyze(model, x, backend=FAULT)
        r["h"].a
        del r
    gc.collect()
    assert _lib.open_handles() == before and _tensor.kept() == kept, (before, _lib.open_handles(), kept, _tensor.kept())
    return f"{each * 1e3:.2f} ms CPU a call, {inside:.2f} ms of it the run (wall time), {grown >> 10} kB in 1000 runs"


# ---- the package -----------------------------------------------------------------------------------

# Functions of plumb.h that the package does not call, because something else of it does the same.
THE_SAME = {
    "plumb_version_number": "version", "plumb_exit_code": "PlumbError.exit_code", "plumb_dtype_bytes": "Model.input_types",
    "plumb_session_verdict": "Session.verdict", "plumb_session_reason": "Session.reason",
    "plumb_session_exit_code": "Session.exit_code", "plumb_write_check": "Session.text",
    "plumb_run_result_tensor": "RunResult.__getitem__", "plumb_backends": "backends"}
# What only makes sense in C: a handler of signals after which nothing may be called (Ctrl-C cancels), the program's own worker.
FOR_C = {"plumb_abandon", "plumb_corpus_worker", "plumb_guard_main", "plumb_mpi_plain_tasks"}


def resolved(name):
    """The thing in the package, or None."""
    thing = plumb
    for part in name.split("."):
        thing = getattr(thing, part, None)
    return thing


def test_everything_of_the_header(_folder):
    """Each function of plumb.h is called by the package, or something that does the same is named above."""
    header = (ROOT / "include/plumb.h").read_text()
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    functions = set(re.findall(r"PLUMB_API[\w\s*]+?\b(plumb_\w+)\s*\(", text))
    used = set()
    for path in (ROOT / "python/plumb").glob("*.py"):
        if path.name == "_abi.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.add(node.value)
    named = FOR_C | set(THE_SAME)
    missing = functions - used - named
    assert not missing, f"not in Python: {sorted(missing)}"
    assert named <= functions and not named & used, sorted(named & used)
    assert all(resolved(n) is not None for n in THE_SAME.values()), THE_SAME
    assert all(hasattr(plumb, n) for n in plumb.__all__)
    return f"{len(functions)} functions, {len(THE_SAME)} by another name, {len(FOR_C)} for C"


def test_every_option_of_the_header(_folder):
    """Each options struct of plumb.h can be made with every one of its fields by name."""
    from plumb import _abi
    n = 0
    for kind in (k for k in vars(_abi) if k.startswith("PLUMB_OPTIONS_")):
        names = [s for s in vars(_abi) if s.lower() in (f"plumb_{kind[14:].lower()}_options", f"plumb_{kind[14:].lower()}")]
        assert len(names) == 1, (kind, names)
        made = _lib.options(names[0], kind, {})
        assert made.size == 0 or made.size == ctypes.sizeof(made), names
        n += len(made._fields_)
    return f"{n} fields"


def test_types_are_checked(_folder):
    done = subprocess.run([ROOT / "tools/check-python"], capture_output=True, text=True, timeout=300)
    if done.returncode == 2:
        raise Skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr


def test_wheel(folder):
    """Into an empty virtual environment, without the network; numpy is taken from the system."""
    build = Path(PLUMB).parent
    made = subprocess.run([ROOT / "tools/make-wheel", "--build", build, "-o", folder], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    wheel = made.stdout.strip()
    again = subprocess.run([ROOT / "tools/make-wheel", "--build", build, "-o", folder / "again"], capture_output=True, text=True)
    assert Path(wheel).read_bytes() == Path(again.stdout.strip()).read_bytes(), "two wheels of one tree differ"
    venv = folder / "venv"
    done = subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", venv], capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip("python3-venv not found")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PLUMB"))}
    pip = subprocess.run([venv / "bin/pip", "install", "--no-index", "--no-deps", wheel], capture_output=True, text=True, env=env)
    assert pip.returncode == 0, pip.stderr
    code = f"""
import sys
sys.modules["torch"] = None
import numpy as np, plumb
r = plumb.analyze({TEXT!r}, np.ones((2, 3), "f4"), backend={FAULT!r})
print(r.blame[0].op, r.blame[0].value, plumb.version() == plumb.__version__, plumb._lib.path().startswith({str(venv)!r}))
"""
    done = subprocess.run([venv / "bin/python", "-c", code], capture_output=True, text=True, env=env, cwd=folder, timeout=300)
    assert done.stdout.split() == ["Relu", "h", "True", "True"], (done.stdout, done.stderr)
    done = subprocess.run([venv / "bin/plumb", "--version"], capture_output=True, text=True, env=env, cwd=folder)
    assert plumb.__version__ in done.stdout, done.stderr
    return f"{Path(wheel).stat().st_size >> 20} MB"


PYTEST = '''
import pytest, plumb
TEXT = """%s"""

@pytest.mark.plumb(backends=["jit", "%s"], seeds=[0, 7])
def test_net(plumb_session):
    plumb_session.assert_close(TEXT)

def test_plain(plumb_session):
    assert plumb_session.analyze(TEXT, backend="jit").ok
'''


def test_pytest_plugin(folder):
    try:
        import pytest  # noqa: F401
    except ImportError:
        raise Skip("pytest not found") from None
    (folder / "test_it.py").write_text(PYTEST % (TEXT, FAULT))
    env = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "plumb.pytest_plugin", "-q", "--junitxml=r.xml", "test_it.py"],
                          capture_output=True, text=True, cwd=folder, env=env, timeout=300)
    assert "2 failed, 3 passed" in done.stdout, done.stdout[-2000:] + done.stderr
    assert "plumb view " in done.stdout and "Relu producing 'h'" in done.stdout
    xml = (folder / "r.xml").read_text()
    assert xml.count('name="plumb.culprit" value="Relu h"') == 2 and 'name="plumb.verdict" value="diverged"' in xml
    kept = re.findall(r"plumb view (\S+)", done.stdout)
    assert kept and all(plumb.open_session(p)["h"].verdict == "culprit" for p in kept)
    (folder / "test_bad.py").write_text("import pytest\n@pytest.mark.plumb(backend='jit')\ndef test_a(plumb_session): pass\n")
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "plumb.pytest_plugin", "-q", "test_bad.py"], capture_output=True,
                          text=True, cwd=folder, env=env, timeout=300)
    assert "takes backends=[…] and seeds=[…]" in done.stdout + done.stderr


def test_library(_folder):
    """First of all: is there a library of this version?"""
    try:
        return f"plumb {plumb.version()}"
    except plumb.LibraryError as e:
        raise Skip(str(e)) from None


WITHOUT_LIBRARY = ("test_library", "test_types_are_checked")

if __name__ == "__main__":
    names = dict(globals())
    try:
        plumb.version()
    except plumb.LibraryError:  # test_library says why
        names = {n: f for n, f in names.items() if not n.startswith("test_") or n in WITHOUT_LIBRARY}
    sys.exit(tap.main(names))

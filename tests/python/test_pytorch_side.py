"""python/plumb: recordings of torch modules, and the names that the exporter gave to what was recorded.

Three oracles: plain forward hooks that clone, for what must be in a recording; `plumb record` on the exported model,
for what a name must stand for; the exporter without plumb, for the model. Prints TAP."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from importlib.machinery import SourceFileLoader
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "python"))
import plumb  # noqa: E402
from torch_versions import OLD_EXPORTER, TORCH2  # noqa: E402
from plumb import _file, _match, _onnx, _watch  # noqa: E402
from tap import Skip  # noqa: E402, F401 (test_pytorch_dynamo.py takes it from here)
import tap  # noqa: E402

models = SourceFileLoader("export_models", str(ROOT / "tools/export-models")).load_module()
TOLERANCE = 1e-4  # of the largest element; two implementations in fp32
MODULES = {"F32": np.float32, "F64": np.float64, "F16": np.float16, "I8": np.int8, "I16": np.int16, "I32": np.int32,
           "I64": np.int64, "U8": np.uint8, "BOOL": np.bool_, "BF16": np.uint16}


class File:
    """A strict reader of safetensors that shares nothing with the writer."""

    def __init__(self, path):
        data = Path(path).read_bytes()
        n = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + n].decode("utf-8"))
        self.metadata = header.pop("__metadata__")
        assert all(isinstance(v, str) for v in self.metadata.values())
        self.tensors, end = {}, 0
        for key, t in sorted(header.items(), key=lambda kv: kv[1]["data_offsets"]):
            begin, stop = t["data_offsets"]
            assert begin == end, f"{key}: a hole or an overlap"
            kind = np.dtype(MODULES[t["dtype"]])
            assert (stop - begin) == kind.itemsize * int(np.prod(t["shape"], dtype=np.int64)), key
            assert begin % kind.itemsize == 0, f"{key}: not aligned"
            self.tensors[key] = np.frombuffer(data[8 + n + begin:8 + n + stop], kind).reshape(t["shape"])
            end = stop
        assert 8 + n + end == len(data)
        self.values = json.loads(self.metadata["plumb.values"]) if "plumb.values" in self.metadata else []
        self.about = json.loads(self.metadata["plumb.provenance"]) if "plumb.provenance" in self.metadata else {}

    def of_module(self, module, call=0, path=""):
        """The tensor that a module returned."""
        want = {"module": module, "call": call, "path": path}
        keys = [r["key"] for r in self.values if want in r["torch"].get("modules", [])]
        assert len(keys) == 1, f"{want}: {keys}"
        return self.tensors[keys[0]]

    def of_op(self, op, module=""):
        return [self.tensors[r["key"]] for r in self.values if r["op"] == op and r.get("module", "") == module]


def run(*args):
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"plumb {args[0]}: {done.stderr.strip()[-300:]}"
    return done.stdout


def record(folder, model, inputs, name="run", export=True, **options):
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = plumb.save_intermediates(model, inputs, folder / f"{name}.onnx" if export else None,
                                          folder / f"{name}.safetensors", **options)
    checked = run("store", "verify", result.path)
    assert checked.startswith(f"{len(result.keys)} checked") and ", 0 bad" in checked, checked
    return result, File(result.path)


def near(a, b, what):
    assert a.shape == b.shape, f"{what}: {a.shape} against {b.shape}"
    a, b = a.astype(np.float64), b.astype(np.float64)
    scale = np.abs(b).max(initial=0)
    worst = np.abs(a - b).max(initial=0)
    assert worst <= TOLERANCE * scale, f"{what}: differs by {worst:.3g}, the largest element is {scale:.3g}"


def check_mapped(folder, result, file, name="run"):
    """Every name is that of a value which plumb's own interpreter computes alike. Returns how many were compared."""
    graph = onnx.load(result.onnx_path).graph
    inputs = [f"--input={i.name}={result.path}" for i in graph.input]
    run("record", result.onnx_path, *inputs, "-o", folder / f"{name}-eager.safetensors")
    eager = File(folder / f"{name}-eager.safetensors")
    compared = 0
    for key, value in result.mapped.items():
        assert key == value, (key, value)
        near(file.tensors[key], eager.tensors[value], value)
        compared += 1
    assert set(result.mapped) | set(result.unmapped) == set(result.keys), "a record is neither mapped nor listed"
    listed = {u["key"]: u["reason"] for u in file.about["torch"]["unmapped"]}
    assert listed == result.unmapped and all(listed.values())
    return compared


def node_outputs(path):
    """Without constants, and without weights that stand for others with the same bytes."""
    graph = onnx.load(path).graph
    weights = {w.name for w in graph.initializer}
    return [o for n in graph.node if n.input and not set(n.input) <= weights for o in n.output]


def cloned_outputs(model, args):
    """{(leaf module, call): tensor} as plain hooks see it, and the model's output."""
    found, handles = {}, []

    def hook(path):
        def see(_m, _a, out):
            count = sum(1 for p, _ in found if p == path)
            found[path, count] = [t.clone() for _, t in _watch.tensors_in(out)]
        return see
    for path, m in model.named_modules():
        if not list(m.children()):
            handles.append(m.register_forward_hook(hook(path)))
    with torch.no_grad():
        model.eval()(*args)
    for h in handles:
        h.remove()
    return found


# ---- the three models ----------------------------------------------------------------------------

def made(name):
    torch.manual_seed(20260101)
    net, inputs, outputs = models.MODELS[name][1]()
    if name == "resnet18":
        inputs = {"x": torch.randn(1, 3, 96, 96)}
    return net, inputs, {"input_names": list(inputs), "output_names": outputs, "opset_version": 17}


def test_resnet18_preserved(folder):
    net, inputs, names = made("resnet18")
    result, file = record(folder, net, tuple(inputs.values()), training="preserve", **names)
    seen = cloned_outputs(net, tuple(inputs.values()))
    assert len(seen) == 60
    for (path, call), tensors in seen.items():
        assert np.array_equal(file.of_module(path, call), tensors[0].numpy()), f"{path} call {call}"
    assert result.fx == "traced" and not result.fx_not_seen, result.fx_not_seen
    assert len(file.of_op("flatten")) == 1 and sum(r["op"] == "add_" for r in file.values) == 8
    share = len(result.mapped) / len(result.keys)
    assert share >= 0.95, f"{share:.3f} mapped"
    assert set(node_outputs(result.onnx_path)) <= set(result.mapped), set(node_outputs(result.onnx_path)) - set(result.mapped)
    return f"{check_mapped(folder, result, file)} of {len(result.keys)} mapped and compared"


def test_resnet18_folded(folder):
    net, inputs, names = made("resnet18")
    result, file = record(folder, net, tuple(inputs.values()), **names)
    assert set(node_outputs(result.onnx_path)) | {"x"} == set(result.mapped), "a surviving value is not mapped"
    assert len(result.unmapped) == 20 and all(r.startswith("folded") for r in result.unmapped.values())
    assert all("conv2d" in k or "/Conv" in k for k in result.unmapped)
    return f"{check_mapped(folder, result, file)} mapped and compared, {len(result.unmapped)} folded"


def test_encoder(folder):
    net, inputs, names = made("encoder")
    counts = []
    for training in ("preserve", "eval"):
        result, file = record(folder, net, tuple(inputs.values()), training, training=training, **names)
        assert "Error" in result.fx, result.fx  # it asks for the values of its masks, which fx has not
        attention = (("scaled_dot_product_attention", 1), ("linear", 2), ("__getitem__", 3)) if TORCH2 else (
            ("bmm", 2), ("softmax", 1), ("linear", 2), ("chunk", 3))
        for op, n in attention:
            assert len(file.of_op(op, "layers.1.self_attn")) == n, op
        # What is not matched has no counterpart: contiguous() is no operation of ONNX, two transposes became one.
        assert {k.split("/")[-1].split("#")[0] for k in result.unmapped} <= {"contiguous", "transpose"}, result.unmapped
        assert all(r.startswith("folded") for r in result.unmapped.values()), result.unmapped
        counts.append(f"{check_mapped(folder, result, file, training)} of {len(result.keys)}")
    # torch's fast path is not taken while it is watched, so the reference must not take it either
    layer = net.layers[0]
    with torch.enable_grad():
        x = layer(inputs["x"])
    near(file.of_module("layers.0"), x.detach().numpy(), "layers.0")
    return ", ".join(counts)


def test_recurrent(folder):
    net, inputs, names = made("recurrent")
    result, file = record(folder, net, tuple(inputs.values()), **names)
    want = net(*inputs.values())
    for name, t in zip(names["output_names"], want):
        assert np.array_equal(file.tensors[name], t.detach().numpy()), name
    assert [r["key"] for r in file.values if "output" in r["flags"]] == ["h", "c", "g", "y"]
    assert [r["key"] for r in file.values if "input" in r["flags"]] == ["ids"]
    assert np.array_equal(file.of_module("lstm", 0, "[1][1]"), want[2].detach().numpy())
    # The transpose at the end of the LSTM and that at the start of the GRU cancel: no value has this layout.
    assert set(result.unmapped) == {"lstm/lstm[0]", "lstm/zeros", "lstm/zeros#1", "gru/zeros"}, result.unmapped
    return f"{check_mapped(folder, result, file)} mapped and compared"


class TwoStates(nn.Module):
    """Both states have the same shape and the same reader: only their order tells them apart."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, 2)
        self.both = nn.Linear(12, 3)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.both(torch.cat([h, c], -1)) + y[0, 0, :3]


def test_same_shape_same_reader(folder):
    result, file = record(folder, TwoStates(), torch.randn(3, 2, 4))
    rows = {r["torch"]["path"]: r["value"] for r in file.values if r["op"] == "lstm"}
    assert len(set(rows.values())) == 3 and all(v in result.mapped for v in rows.values()), (rows, result.unmapped)
    return f"{check_mapped(folder, result, file)} mapped and compared"


# ---- nothing is lost -----------------------------------------------------------------------------

class InPlace(nn.Module):
    def __init__(self, behind_view=True):
        super().__init__()
        self.behind_view = behind_view
        self.fc = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        a = self.fc(x)
        b = a.mul_(2)
        c = self.act(b)
        d = c + 1
        d[0] = 7
        e = d[1]
        if self.behind_view:
            e.add_(1)       # changes d
        return d - 3 if torch.jit.is_tracing() else torch.sub(d, 3, out=torch.empty_like(d))  # ONNX has no out=


def test_in_place(folder):
    net, x = InPlace(), torch.randn(3, 4)
    result, file = record(folder, net, x, export=False)
    w, b = net.fc.weight.detach(), net.fc.bias.detach()
    a = F.linear(x, w, b)
    m = a * 2
    c = m.clamp(min=0)
    d = c + 1
    d0 = d.clone()
    d0[0] = 7
    d1 = d0.clone()
    d1[1] += 1
    steps = {"linear": a, "mul_": m, "relu_": c, "add": d, "__setitem__": d0, "__getitem__": d0[1], "add_": d1[1],
             "changed": d1, "sub": d1 - 3}
    got = {r["op"]: file.tensors[r["key"]] for r in file.values}
    assert set(got) == {"input", *steps}, sorted(got)
    for op, want in steps.items():
        assert np.array_equal(got[op], want.numpy()), op
    assert np.array_equal(got["input"], x.numpy())
    assert np.array_equal(file.of_module("fc"), a.numpy()) and np.array_equal(file.of_module("act"), c.numpy())
    assert result.mapped == {} and result.unmapped == {}
    result, file = record(folder, InPlace(behind_view=False), x, "exported")
    compared = check_mapped(folder, result, file)
    assert compared == len(result.keys) - 1 and len(file.of_op("__getitem__")) == 1, result.unmapped  # e is not used
    return f"{compared} of {len(result.keys)} mapped and compared"


def test_an_exporters_error_shows(folder):
    """torch 1.13 exports a change behind a view as if it had not been made; the names stand where it happens."""
    result, file = record(folder, InPlace(), torch.randn(3, 4), output_names=["y"])
    assert "y" in result.mapped and result.unmapped["add_"].startswith("missing"), result.unmapped
    message = raises(AssertionError, check_mapped, folder, result, file)
    assert message.startswith("y: differs by 1,"), message


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.ones(4))
        self.scale = nn.Parameter(torch.full((4,), 3.0))

    def forward(self, x):
        self.seen.add_(x[0])
        return x * self.seen, self.scale


def test_buffers(folder):
    net, x = State(), torch.randn(3, 4)
    result, file = record(folder, net, x, input_names=["x"], output_names=["y", "scale"])
    assert torch.equal(net.seen, torch.ones(4))
    assert np.array_equal(file.of_op("add_")[0], (1 + x[0]).numpy())
    assert np.array_equal(file.tensors["y"], (x * (1 + x[0])).numpy())
    assert np.array_equal(file.tensors["scale"], np.full(4, 3, np.float32))
    assert not any("another value" in r for r in result.unmapped.values()), result.unmapped
    # torch exports the buffer as the traced run left it, so the model adds x[0] twice: again the names show where.
    weights = {w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(result.onnx_path).graph.initializer}
    assert np.array_equal(weights["seen"], (1 + x[0]).numpy())
    added = next(r["value"] for r in file.values if r["op"] == "add_")
    assert raises(AssertionError, check_mapped, folder, result, file).startswith(f"{added}: differs")


class Traced(nn.Module):
    """Computes something else when it is exported: the names inside must not be given to what was recorded."""

    def forward(self, x):
        y = x * (3 if torch.jit.is_tracing() else 2)
        if torch.jit.is_tracing():
            y = y.neg()
        return (y.neg() - 1).relu()


def test_exported_run_differs(folder):
    result, file = record(folder, Traced(), torch.randn(3, 4).abs() + 1, input_names=["x"], output_names=["y"])
    near(file.of_op("mul")[0] if file.of_op("mul") else file.of_op("__mul__")[0], 2 * file.tensors["x"], "mul")
    assert set(result.mapped) == {"x", "y"}, result.mapped  # an output is the model's output, with the value that the module gave
    assert sum("different value" in r for r in result.unmapped.values()) == 3, result.unmapped
    near(file.tensors["y"], (-2 * file.tensors["x"] - 1).clip(0), "y")


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.drop = nn.Dropout()
        self.block = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def forward(self, x):
        for _ in range(3):
            x = self.drop(self.fc(x))
        return self.block(self.block(x))


def test_run_twice(folder):
    net, x = Twice().train(), torch.randn(2, 3)
    net.block[1].eval()
    flags = [m.training for m in net.modules()]
    result, file = record(folder, net, x, export=False)
    assert [m.training for m in net.modules()] == flags
    net.eval()
    for (path, call), tensors in cloned_outputs(net, (x,)).items():
        assert np.array_equal(file.of_module(path, call), tensors[0].numpy()), (path, call)
    assert [r["key"] for r in file.values if r.get("module") == "fc"] == ["fc/linear", "fc/linear#1", "fc/linear#2"]
    assert [(r["value"], r.get("call", 0)) for r in file.values if r.get("module") == "fc"] == [
        ("fc/linear", 0), ("fc/linear", 1), ("fc/linear", 2)]
    assert result.fx == "traced" and not result.fx_not_seen
    names = [n.name for n in torch.fx.symbolic_trace(net).graph.nodes if n.op == "call_module"]
    assert [n for r in file.values for n in r["torch"].get("fx", [])] == names
    result, file = record(folder, net, x, "exported")
    return f"{check_mapped(folder, result, file)} of {len(result.keys)} mapped and compared"


class Untraceable(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, *, scale=None, flip=False):
        y = self.fc(x)
        while float(y.abs().max()) < 10:
            y = F.silu(y) * 3 + (scale if scale is not None else 0)
        if flip:
            y = -y
        return {"y": y.sin(), "parts": [y[:, :2], (y > 0)]}


def test_fx_cannot_trace(folder):
    torch.manual_seed(0)
    net, x = Untraceable(), torch.randn(2, 4)
    result, file = record(folder, net, {"x": x, "scale": torch.tensor(0.5), "flip": True}, export=False)
    assert result.fx.startswith("TypeError") or "Error" in result.fx
    assert file.about["torch"]["fx"] == result.fx
    with torch.no_grad():
        y, steps = net.fc(x), 0
        while float(y.abs().max()) < 10:
            y, steps = F.silu(y) * 3 + 0.5, steps + 1
        y = -y
    assert steps > 1 and len(file.of_op("silu")) == steps
    outputs = [r["key"] for r in file.values if "output" in r["flags"]]
    assert len(outputs) == 3
    for path, want in (("['y']", y.sin()), ("['parts'][0]", y[:, :2]), ("['parts'][1]", y > 0)):
        assert np.array_equal(file.of_module("", 0, path), want.numpy()), path
    assert [r["key"] for r in file.values if "input" in r["flags"]] == ["x", "scale"]
    return f"{len(result.keys)} records"


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True)))
        self.out = nn.Linear(5, 2)

    def forward(self, x):
        return self.out(self.inner(x))


def test_scripted(folder):
    net, x = Scripted(), torch.randn(2, 3)
    result, file = record(folder, net, x, export=False)
    assert any(o.startswith("inner") for o in result.opaque) and file.about["torch"]["opaque"] == result.opaque
    with torch.no_grad():
        want = net.inner(x).numpy()
        assert any(np.array_equal(t, want) for t in file.of_op("aten::relu_", "inner")), [r["op"] for r in file.values]
        assert np.array_equal(file.of_module("out"), net(x).numpy())
        assert np.array_equal(file.of_module("inner"), want)
    assert len(file.of_op("aten::addmm", "inner")) == 1
    # Exported as a whole: only inputs and outputs have names, everything else is listed.
    whole, inputs, names = made("control")
    result, file = record(folder, whole, tuple(inputs.values()), "whole", **names)
    assert result.mapped == {n: n for n in ("x", "limit", "y", "n")}, result.mapped
    assert len(file.of_op("aten::matmul") + file.of_op("aten::mm")) > 0 and result.unmapped
    check_mapped(folder, result, file, "whole")
    return f"{len(result.keys)} records"


# ---- types, files, errors ------------------------------------------------------------------------

class Types(nn.Module):
    def forward(self, x):
        made = {str(t).split(".")[-1]: (x * 3).to(t) for t in (
            torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.int16, torch.int32, torch.int64,
            torch.uint8, torch.complex64, torch.complex128)}
        more = [x.sum(), x[:0], torch.complex(x, x).conj(), x.t(), x[:1].expand(3, 5), x.bool()[0, :3]]
        return made, more, (x.to_sparse(), torch.quantize_per_tensor(x, 0.1, 0, torch.quint8))


def bits(t):
    t = t.detach().resolve_conj().contiguous()
    if t.dtype == torch.bfloat16:
        return t.view(torch.int16).numpy().view(np.uint16)
    if t.dtype.is_complex:
        return np.ascontiguousarray(t.numpy()).reshape(-1).view(np.uint8).reshape(*t.shape, t.element_size())
    return t.numpy()


def test_types(folder):
    net, x = Types(), torch.randn(4, 5)
    result, file = record(folder, net, x, export=False)
    made, more, _ = net(x)
    wanted = [(f"[0]['{k}']", t) for k, t in made.items()] + [(f"[1][{i}]", t) for i, t in enumerate(more)]
    for path, want in wanted:
        got = file.of_module("", 0, path)
        assert got.shape == bits(want).shape and got.tobytes() == bits(want).tobytes(), path
    rows = {m["path"]: r for r in file.values for m in r["torch"].get("modules", [])}
    assert rows["[0]['complex64']"]["dtype"] == "complex64" and rows["[0]['float64']"]["dtype"] == "double"
    assert rows["[1][3]"]["strides"] == [1, 5] and rows["[1][3]"]["flags"] == ["output", "strided"]
    assert rows["[1][4]"]["flags"] == ["output", "strided", "broadcast"]
    assert len(result.not_recorded) == 1 and file.about["torch"]["not_recorded"] == result.not_recorded
    assert "sparse" in result.not_recorded[0]
    return f"{len(wanted)} types and shapes"


def test_without_xxhash(folder):
    kept, _file._xxh3 = _file._xxh3, None
    try:
        result, file = record(folder, Twice().eval(), torch.randn(2, 3))
        assert not any("hash" in r for r in file.values) and "model_file_hash" not in file.about
        return f"{check_mapped(folder, result, file)} mapped and compared"
    finally:
        _file._xxh3 = kept


class Fails(nn.Module):
    def __init__(self, where):
        super().__init__()
        self.fc, self.where = nn.Linear(3, 3), where

    def forward(self, x):
        y = self.fc(x)
        if self.where == "run" or torch.jit.is_tracing() and self.where == "export":
            raise ZeroDivisionError(self.where)
        return y[0]


def raises(kind, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind as e:
        return str(e)
    raise AssertionError(f"no {kind.__name__}")


def test_failures_leave_nothing(folder):
    x = torch.randn(2, 3)
    for where in ("run", "export"):
        net = Fails(where)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raises(ZeroDivisionError, plumb.save_intermediates, net, x, folder / "m.onnx", folder / "m.safetensors")
        assert os.listdir(folder) == [], os.listdir(folder)
        assert net.training and not net.fc._forward_hooks and not net.fc._forward_pre_hooks
        assert "__getitem__" not in torch.Tensor.__dict__
    for taken, other in (("m.onnx", "m.safetensors"), ("m.safetensors", "m.onnx")):
        (folder / taken).write_text("mine")
        raises(FileExistsError, plumb.save_intermediates, Twice(), x, folder / "m.onnx", folder / "m.safetensors")
        assert (folder / taken).read_text() == "mine" and not (folder / other).exists()
        (folder / taken).unlink()
    raises(TypeError, plumb.save_intermediates, Twice(), x)
    raises(TypeError, plumb.save_intermediates, lambda t: t, x, out=folder / "n")
    raises(ValueError, plumb.save_intermediates, Twice(), x, out=folder / "n", training="train")
    raises(FileNotFoundError, plumb.save_intermediates, Twice(), x, out=folder / "no" / "n")
    if not OLD_EXPORTER:
        raises(ValueError, plumb.save_intermediates, Twice(), x, folder / "d.onnx", folder / "d", exporter="dynamo")
    assert os.listdir(folder) == []


class Stateful(nn.Module):
    """Keeps what it saw in attributes, counts in a buffer that it binds anew, and draws random numbers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("total", torch.zeros(1))
        self.cache, self.seen = None, []

    def forward(self, x):
        if self.cache is not None:
            x = torch.cat([self.cache, x])
        self.cache = x
        self.seen.append(x)
        self.count = self.count + 1
        self.total += 1
        return x * torch.rand(4) + self.count + self.total


def test_left_as_it_was(folder):
    """torch.fx runs forward too, on proxies: neither the run nor the caller may notice."""
    net, x = Stateful(), torch.randn(3, 4)
    torch.manual_seed(5)  # as record() does
    want = Stateful()(x)
    result, file = record(folder, net, x, export=False)
    state = torch.random.get_rng_state()
    assert torch.equal(state, torch.manual_seed(5).get_state()), "the random state was not put back"
    assert np.array_equal(file.of_module(""), want.numpy())
    assert float(net.count) == 0 and float(net.total) == 0
    assert [type(t) for t in net.seen] == [torch.Tensor] and type(net.cache) is torch.Tensor


class Catches(nn.Module):
    def __init__(self):
        super().__init__()
        self.bad, self.good = Fails("run"), nn.Linear(3, 3)

    def forward(self, x):
        try:
            return self.bad(x)
        except ZeroDivisionError:
            return self.good(x) * 2


def test_caught_exceptions(folder):
    net, x = Catches(), torch.randn(2, 3)
    result, file = record(folder, net, x, input_names=["x"], output_names=["y"])
    assert np.array_equal(file.of_module(""), net.eval()(x).detach().numpy())
    assert "y" in result.mapped, result.unmapped
    check_mapped(folder, result, file)


class Wrapper(torch.Tensor):
    """A tensor with no memory of its own."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        out = func(*(a.inner if isinstance(a, cls) else a for a in args), **(kwargs or {}))
        return cls(out) if isinstance(out, torch.Tensor) else out


class NoMemory(nn.Module):
    def forward(self, x):
        wrapped = Wrapper(x) * 2
        nested = torch.nested.nested_tensor([x, x[:1]])
        try:
            from torch.func import vmap
        except ImportError:
            from functorch import vmap
        return wrapped.inner + 1, torch.nested.to_padded_tensor(nested, 0.0), vmap(lambda row: row.sin() + 1)(x)


def test_tensors_without_memory(folder):
    x = torch.randn(2, 3)
    result, file = record(folder, NoMemory(), x, export=False)
    assert np.array_equal(file.of_module("", 0, "[0]"), (x * 2 + 1).numpy())
    assert np.array_equal(file.of_module("", 0, "[2]"), (x.sin() + 1).numpy())
    said = " ".join(result.not_recorded)
    assert "Wrapper without its own memory" in said and "nested tensor" in said and "model/sin" in said, said


def test_inference_tensors_and_own_dicts(folder):
    class Batch(dict):
        @property
        def x(self):
            return self["x"]

    class Takes(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, batch):
            return self.norm(batch.x)
    with torch.inference_mode():
        net = Takes().eval()
    record(folder, net, (Batch(x=torch.randn(2, 3)),), export=False)


def test_other_threads(folder):
    other, done = torch.arange(10.0), threading.Event()

    def work():
        while not done.wait(0.0005):
            other[3]

    class Slow(nn.Module):
        def forward(self, x):
            for _ in range(20):
                x = x + 1
                time.sleep(0.001)
            return x
    thread = threading.Thread(target=work)
    thread.start()
    try:
        result, _ = record(folder, Slow(), torch.randn(2), export=False, fx=False)
    finally:
        done.set()
        thread.join()
    assert len(result.keys) == 21, result.keys


# ---- the model -----------------------------------------------------------------------------------

def without_traces(path):
    model = onnx.load(path)
    traces = [n.doc_string for n in model.graph.node]
    for n in model.graph.node:
        n.doc_string = ""
    return model, traces


def test_export_is_the_exporters(folder):
    """The model is the one that torch writes alone; its traces name the lines of the model, not those of plumb."""
    for name in ("encoder", "recurrent"):
        net, inputs, names = made(name)
        result, _ = record(folder, net, tuple(inputs.values()), name, **names)
        with warnings.catch_warnings(), contextlib.redirect_stdout(None):
            warnings.simplefilter("ignore")
            # The fast path of the encoder is a single operator that ONNX lacks; gradients turn it off, as watching does.
            torch.onnx.export(net, tuple(inputs.values()), str(folder / "alone.onnx"), **names, **OLD_EXPORTER)
        model, traces = without_traces(result.onnx_path)
        alone, _ = without_traces(folder / "alone.onnx")
        onnx.checker.check_model(model)
        assert model.SerializeToString() == alone.SerializeToString(), f"{name}: another model"
        assert not any("plumb" in t.replace(str(ROOT), "") for t in traces)
        assert sum("torch/nn/modules" in t for t in traces) > len(traces) / 2
    result, _ = record(folder, Twice(), torch.randn(2, 3), "own")
    _, traces = without_traces(result.onnx_path)
    assert any(f"{Path(__file__).name}" in t and "forward" in t for t in traces), traces
    told = run("convert", result.onnx_path, folder / "own.onnxtxt")
    result, _ = record(folder, Twice(), torch.randn(2, 3), "bare", stack_traces=False)
    assert not any(without_traces(result.onnx_path)[1]), told


def test_dynamic_and_keywords(folder):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)

        def forward(self, x, bias=torch.zeros(3)):
            y = self.bn(self.conv(x))
            y = y.flatten(2).transpose(1, 2).reshape(y.shape[0], -1, 3)
            return (y + bias).softmax(-1), y[:, -1]
    net = models.calibrate(Net(), torch.randn(4, 2, 6, 6))
    result, file = record(folder, net, {"x": torch.randn(2, 2, 6, 6), "bias": torch.randn(3)}, opset_version=17,
                          input_names=["x", "bias"], output_names=["p", "last"], dynamic_axes={"x": {0: "n", 2: "h"}})
    assert set(result.unmapped) == {"conv/conv2d"}, result.unmapped
    return f"{check_mapped(folder, result, file)} mapped and compared"


def test_torch2_metadata(folder):
    """A graph as torch 2's exporter writes it: module paths in metadata_props, no call numbers."""
    net, x = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)), torch.randn(1, 1, 4, 4)
    net.eval()

    def text(field, *parts):
        body = b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)
        return bytes([field << 3 | 2]) + _onnx._put_varint(len(body)) + body

    def graph(*rows):
        nodes = b"".join(text(1, *(text(1, i) for i in ins), text(2, out), text(4, op), text(9, text(
            1, "pkg.torch.onnx.name_scopes"), text(2, repr(["", *path, "node"])))) for op, ins, out, path in rows)
        return text(7, nodes, text(11, text(1, "x")), text(12, text(1, "y")))
    folded = graph(("Conv", ["x", "w", "b"], "val_0", ["0"]), ("Relu", ["val_0"], "val_1", ["2"]),
                   ("Flatten", ["val_1"], "val_2", ["3"]), ("Gemm", ["val_2", "w2", "b2"], "y", ["4"]))
    whole = graph(("Conv", ["x", "w", "b"], "conv", ["0"]), ("BatchNormalization", ["conv", "s"], "bn", ["1"]),
                  ("Relu", ["bn"], "relu", ["2"]), ("Flatten", ["relu"], "flat", ["3"]),
                  ("Gemm", ["flat", "w2", "b2"], "y", ["4"]))
    for data, want in ((whole, {"x": "", "conv": "0", "bn": "1", "relu": "2", "flat": "3", "y": "4"}),
                       (folded, {"x": "", "val_0": "1", "val_1": "2", "val_2": "3", "y": "4"})):
        watcher = _watch.Watcher(net, lambda t: None, lambda *_: None)
        with torch.no_grad(), watcher.watching():
            net(x)
        match = _match.by_modules(watcher, _onnx.read(memoryview(data)))
        got = {name: watcher.values[v].module for v, name in match.names.items()}
        assert got == want, (got, match.reasons)
        assert b"".join(bytes(p) for p in _onnx.pieces(memoryview(data))) == data


# ---- plumb compare -------------------------------------------------------------------------------

def compared(folder, result, name):
    """`plumb compare` of the recording with eager and with ort: what has a name is paired on eager, and none is red."""
    notes = []
    graph = onnx.load(result.onnx_path).graph
    for backend in ("eager", "ort"):
        own = folder / f"{name}-{backend}-own.safetensors"
        run("record", result.onnx_path, *(f"--input={i.name}={result.path}" for i in graph.input), "--backend", backend, "-o", own)
        said = run("compare", own, result.path, "-o", folder / f"{name}-{backend}-session")  # exit 1: a difference
        n = int(said.split("AGREE: no divergence in ")[1].split()[0])
        assert backend != "eager" or n >= len(result.mapped), (n, len(result.mapped))
        if not result.unmapped:
            assert "of B unpaired" not in said or ", 0 unexplained" in said, said.splitlines()[3]
        notes.append(f"{backend} {n}")
    return "pairs that agree: " + ", ".join(notes)


def test_compare_with_eager_and_ort(folder):
    notes = []
    for name in ("resnet18", "encoder", "recurrent"):
        net, inputs, names = made(name)
        result, _ = record(folder, net, tuple(inputs.values()), name, training="preserve", **names)
        notes.append(f"{name} {compared(folder, result, name)}")
    return "; ".join(notes)


def main(tests):
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.set_num_threads(1)
    return tap.main(tests)


if __name__ == "__main__":
    sys.exit(main(globals()))

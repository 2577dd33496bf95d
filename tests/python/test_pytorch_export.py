"""python/plumb: quantised modules, compiled modules, other inputs for the export, calls that the exporter lost. Prints TAP."""

import json
import subprocess
import sys

import numpy as np
import torch
from torch import nn

sys.dont_write_bytecode = True
from test_pytorch_side import PLUMB, ROOT, File, check_mapped, main, raises, record  # noqa: E402
from torch_versions import TORCH2  # noqa: E402
from tap import Skip  # noqa: E402
import plumb  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
        self.conv, self.relu, self.fc = nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Linear(4, 5)

    def forward(self, x):
        x = self.relu(self.conv(self.quant(x)))
        return self.dequant(self.fc(x.mean((2, 3))))


def quantised():
    engines = [e for e in torch.backends.quantized.supported_engines if e != "none"]
    if not engines:
        raise Skip("this torch has no kernels for quantised tensors")
    torch.backends.quantized.engine = engines[0]
    torch.manual_seed(3)
    net, x = Net().eval(), torch.randn(2, 3, 8, 8)
    net.qconfig = torch.ao.quantization.get_default_qconfig(engines[0])
    ready = torch.ao.quantization.prepare(net)
    ready(x)
    return torch.ao.quantization.convert(ready), x


def steps(net, x):
    """What the module computes, step by step, quantised tensors as they are."""
    with torch.no_grad():
        a = net.quant(x)
        b = net.conv(a)
        c = net.relu(b)
        d = c.mean((2, 3))
        return {"quant/quantize_per_tensor": a, "conv/conv2d": b, "relu/relu": c, "mean": d, "fc/linear": net.fc(d)}


def test_quantised_tensors_are_recorded(folder):
    net, x = quantised()
    result, file = record(folder, net, x, export=False)
    assert not result.not_recorded, result.not_recorded
    rows = {r["key"]: r for r in file.values}
    for key, want in steps(net, x).items():
        assert np.array_equal(file.tensors[key], want.dequantize().numpy()), key
        assert np.array_equal(file.tensors[key + ".codes"], want.int_repr().numpy()), key
        about = rows[key]["torch"]["quantised"]
        assert about == rows[key + ".codes"]["torch"]["quantised"]
        assert about == {"dtype": "quint8", "scheme": "per_tensor_affine", "scale": want.q_scale(),
                         "zero_point": want.q_zero_point()}, about
    return f"{len(file.values)} records"


def test_quantised_modules_are_exported(folder):
    net, x = quantised()
    if TORCH2 and not hasattr(torch.onnx.utils, "_pre_trace_quant_model"):
        raise Skip(f"the exporter of torch {torch.__version__} takes no quantised modules")
    result, file = record(folder, net, x, opset_version=13)
    codes = {k for k in result.mapped if file.tensors[k].dtype == np.uint8}
    assert len(codes) == 5 and len(result.mapped) >= 11, (result.mapped, result.unmapped)
    assert not result.lost_calls, result.lost_calls
    for key in codes:
        row = next(r for r in file.values if r["key"] == key)
        assert row["dtype"] == "uint8" and row["torch"]["quantised"]["scale"] > 0
    return f"{len(result.mapped)} of {len(result.keys)} mapped"


def test_compiled_modules_are_refused(folder):
    class Compiled(nn.Module):  # what torch.compile leaves, for a torch without it
        def __init__(self, inner):
            super().__init__()
            self._orig_mod = inner

        def forward(self, x):
            return self._orig_mod(x)
    net = nn.Linear(3, 3)
    compile_ = torch.compile if hasattr(torch, "compile") else Compiled
    made = [("model", compile_(net)), ("1", nn.Sequential(nn.ReLU(), compile_(net)))]
    if hasattr(nn.Module, "compile"):
        inside = nn.Sequential(nn.ReLU(), nn.Linear(3, 3))
        inside[1].compile()
        made.append(("1", inside))
    for name, model in made:
        said = raises(ValueError, plumb.save_intermediates, model, torch.randn(2, 3), None, folder / "run.safetensors")
        assert said.startswith(f"{name} is compiled by torch.compile"), said
    assert not list(folder.iterdir())
    return f"{len(made)} kinds"


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        y = self.fc(x)
        return y * 2 if x.sum() > 0 else y.neg()


def test_other_inputs_for_the_export(folder):
    x = torch.rand(3, 4)
    result, file = record(folder, Branch(), x, export_inputs=-x, input_names=["x"], output_names=["y"])
    frozen = [r for r in result.lost_calls if r["status"] == "frozen"]
    assert [r["op"] for r in frozen] == ["__bool__"] and frozen[0]["value"] is True, result.lost_calls
    assert np.array_equal(file.tensors["x"], x.numpy()), "recorded with the inputs of the export"
    assert "y" in result.mapped and raises(AssertionError, check_mapped, folder, result, file).startswith("y: differs")
    about = json.loads(file.metadata["plumb.export"])
    assert about["calls"] == result.lost_calls and about["exporter"] == "torchscript"


class Hidden(nn.Module):
    def forward(self, x):
        y = x * 3
        y.view(-1).clamp_(0, 1)
        return y


def test_a_change_behind_a_view_is_in_the_output(folder):
    """The output is the changed tensor, which no call returned."""
    x = torch.randn(3, 4)
    result, file = record(folder, Hidden(), x, input_names=["x"], output_names=["y"])
    assert np.array_equal(file.tensors["y"], (x * 3).clamp(0, 1).numpy())
    row = next(r for r in file.values if r["key"] == "y")
    assert row["torch"]["changed_by"]["op"] == "clamp_" and "clamp_(0, 1)" in row["torch"]["changed_by"]["source"]
    (lost,) = result.lost_calls
    assert lost["status"] == "dropped" and lost["affects"] == ["y"], lost


class Sums(nn.Module):
    def forward(self, x):
        a = x + 1
        b = a.contiguous() + 2
        return b * 3


def test_names_of_torch_mean_nothing_in_the_graph(folder):
    """A record that is no value of the graph must not pair with a value of the same name."""
    result, _ = record(folder, Sums(), torch.randn(3, 4), input_names=["x"], output_names=["y"])
    text = """<ir_version: 8, opset_import: ["" : 13]>
g (float[3,4] x) => (float[3,4] y) { one = Constant <value = float {5}> () add = Add(x, one) y = Mul(add, one) }"""
    (folder / "other.onnxtxt").write_text(text)
    bare, file = record(folder, Sums(), torch.randn(3, 4), "bare", export=False)
    assert "add" in bare.keys
    # As a fall-back of the exporter leaves it: the key stays torch's, and the record says so.
    rows = json.loads(file.metadata["plumb.values"])
    for row in rows:
        if row["key"] == "add":
            row["torch"]["unmapped"] = "the exported run does not make this call"
    path = folder / "unmapped.safetensors"
    rewrite(bare.path, path, dict(file.metadata, **{"plumb.values": json.dumps(rows)}))
    assert File(path).tensors.keys() == file.tensors.keys()
    done = subprocess.run([PLUMB, "compare", folder / "other.onnxtxt", path, "-o", folder / "session", "--json"],
                          capture_output=True, text=True, timeout=300)
    points = json.loads(done.stdout)["sync_points"] if done.stdout else []
    assert not [p for p in points if p["value"] == "add" and p.get("counterpart") == "add"], done.stderr
    done = subprocess.run([PLUMB, "compare", folder / "other.onnxtxt", bare.path, "-o", folder / "session2", "--json"],
                          capture_output=True, text=True, timeout=300)
    points = json.loads(done.stdout)["sync_points"] if done.stdout else []
    assert [p for p in points if p["value"] == "add" and p.get("counterpart") == "add"], done.stderr[-300:]


def rewrite(source, target, metadata):
    """A copy of a safetensors file with other metadata."""
    with open(source, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        header, data = json.loads(f.read(n)), f.read()
    header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    target.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_types_are_checked(_folder):
    done = subprocess.run([ROOT / "tools/check-python"], capture_output=True, text=True, timeout=300)
    if done.returncode == 2:
        raise Skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(globals()))

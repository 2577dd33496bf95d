"""python/plumb with the exporter of torch 2 (torch.onnx.export(dynamo=True)). Prints TAP.

make test runs with Debian 12's torch 1.13, which has no such exporter: there all of this is skipped, but for the hand-made graph
of test_pytorch_side.py. tests/python/torch2 runs it with torch 2.6."""

import importlib.util
import inspect
import sys
import warnings

import numpy as np
import onnx
import torch
from torch import nn

sys.dont_write_bytecode = True
from test_pytorch_side import (InPlace, Skip, Twice, TwoStates, check_mapped, compared, made, main, models, record,  # noqa: E402
                               run)
from torch_versions import OLD_EXPORTER, TORCH2  # noqa: E402
from plumb import _onnx, _watch  # noqa: E402  test_pytorch_side found it


def need_dynamo():
    if not OLD_EXPORTER:
        raise Skip(f"torch {torch.__version__} has no torch.onnx.export(dynamo=True); tests/python/torch2 runs it")
    if importlib.util.find_spec("onnxscript") is None:
        raise Skip("onnxscript not found; tests/python/torch2 runs it")


def test_every_captured_node_has_its_call(_folder):
    """torch.export, which the exporter starts from, keeps the frames that carry the numbers of calls."""
    if not hasattr(torch, "export") or not TORCH2:
        raise Skip(f"torch {torch.__version__} has no torch.export; tests/python/torch2 runs it")
    notes = []
    for name in ("resnet18", "encoder", "recurrent"):
        net, inputs, _ = made(name)
        watcher = _watch.Watcher(net, lambda t: None, lambda *_: None, tag=True)
        with torch.no_grad(), watcher.watching(dispatch=False):
            program = torch.export.export(net, tuple(inputs.values()), strict=False)
        nodes = [n for n in program.graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)]
        calls = [_onnx._TAG_FRAME.findall(n.meta.get("stack_trace") or "") for n in nodes]
        assert nodes and all(c and int(c[-1]) <= len(watcher.calls) for c in calls), (name, calls)
        notes.append(f"{name} {len(nodes)} nodes")
    return ", ".join(notes)


def test_networks(folder):
    need_dynamo()
    notes = []
    for name, records in (("resnet18", 70), ("encoder", 65)):
        net, inputs, names = made(name)
        names.pop("opset_version")
        result, file = record(folder, net, tuple(inputs.values()), name, exporter="dynamo", **names)
        assert len(result.keys) == records and not result.unmapped, result.unmapped
        assert {r["torch"]["method"] for r in file.values} <= {"input", "output", "call", "order"}
        assert check_mapped(folder, result, file, name) == records
        notes.append(f"{name} {records} mapped, {compared(folder, result, name)}")
    return "; ".join(notes)


def test_run_twice_and_in_place(folder):
    """Modules that run three times and functional operations have names, too; a change behind a view is made right."""
    need_dynamo()
    result, file = record(folder, Twice().eval(), torch.randn(2, 3), "twice", exporter="dynamo")
    assert not result.unmapped, result.unmapped
    n = check_mapped(folder, result, file, "twice")
    result, file = record(folder, InPlace(), torch.randn(3, 4), "place", exporter="dynamo")
    assert set(result.unmapped) <= {"__setitem__", "__getitem__", "add_", "changed"}, result.unmapped
    return f"{n + check_mapped(folder, result, file, 'place')} mapped and compared"


def test_recurrent(folder):
    """torch.export of torch 2.6 gives the states of an LSTM a dim too many, and onnxscript 0.2 an unbind that keeps a dim:
    neither eager nor ort can run the model. The record that does not fit must have no name."""
    need_dynamo()
    net, x = TwoStates(), torch.randn(3, 2, 4)
    result, file = record(folder, net, x, exporter="dynamo")
    wrong = {k for k, why in result.unmapped.items() if "another shape" in why}
    with torch.no_grad():
        exported = torch.export.export(net.eval(), (x,), strict=False)
    spoilt = any(n.meta["val"].dim() == 4 for n in exported.graph.nodes if "lstm" in str(n.target)
                 for n in n.users if hasattr(n.meta.get("val"), "dim"))
    assert spoilt == ({"lstm/lstm[1]", "lstm/lstm[2]"} <= wrong), (spoilt, result.unmapped)
    if not spoilt:
        return f"{check_mapped(folder, result, file)} mapped and compared"
    return f"{len(result.mapped)} mapped, {len(wrong)} with another shape in torch.export"


def test_dynamic_and_keywords(folder):
    need_dynamo()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)

        def forward(self, x, bias=torch.zeros(3)):
            y = self.bn(self.conv(x))
            y = y.flatten(2).transpose(1, 2)
            return (y + bias).softmax(-1), y[:, -1]
    net = models.calibrate(Net(), torch.randn(4, 2, 6, 6))
    given = {"bias": torch.randn(3), "x": torch.randn(2, 2, 6, 6)}  # not in forward's order
    result, file = record(folder, net, given, "fixed", exporter="dynamo", input_names=["x", "bias"], output_names=["p", "last"])
    assert not result.unmapped, result.unmapped
    n = check_mapped(folder, result, file, "fixed")
    result, file = record(folder, net, (given["x"], given["bias"]), "dynamic", exporter="dynamo", input_names=["x", "bias"],
                          output_names=["p", "last"], dynamic_axes={"x": {0: "n"}})
    assert onnx.load(result.onnx_path).graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert not result.unmapped, result.unmapped
    return f"{n + check_mapped(folder, result, file, 'dynamic')} mapped and compared"


class Shy(nn.Module):
    """Cannot be exported while it has hooks."""

    def __init__(self):
        super().__init__()
        self.fc, self.act = nn.Linear(3, 4), nn.Tanh()

    def forward(self, x):
        if torch.compiler.is_compiling() and self.fc._forward_hooks:
            raise RuntimeError("hooked")
        return self.act(self.fc(x)) * 2


def test_without_being_watched(folder):
    """Then modules are what is matched by: the product, which is no module, is known as the output only."""
    need_dynamo()
    result, file = record(folder, Shy().eval(), torch.randn(2, 3), exporter="dynamo", input_names=["x"], output_names=["y"])
    by_module = {r.get("module", ""): r["key"] for r in file.values if r["key"] in result.mapped}
    assert len(result.mapped) == 4 and {"fc", "act"} <= set(by_module), (result.mapped, result.unmapped)
    assert np.array_equal(file.tensors[by_module["fc"]], file.of_module("fc"))
    return f"{check_mapped(folder, result, file)} mapped and compared"


def props_of(path):
    """The model without its traces; the traces; the rest of the metadata by node."""
    model = onnx.load(path)
    traces = []
    for n in model.graph.node:
        kept = [p for p in n.metadata_props if p.key != "pkg.torch.onnx.stack_trace"]
        traces.append("".join(p.value for p in n.metadata_props if p.key == "pkg.torch.onnx.stack_trace"))
        del n.metadata_props[:]
        n.metadata_props.extend(kept)
    return model, traces


def test_export_is_the_exporters(folder):
    need_dynamo()
    for name in ("resnet18", "encoder"):
        net, inputs, names = made(name)
        names.pop("opset_version")
        result, _ = record(folder, net, tuple(inputs.values()), name, exporter="dynamo", **names)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(net, tuple(inputs.values()), dynamo=True, verbose=False, **names).save(str(folder / "alone.onnx"))
        model, traces = props_of(result.onnx_path)
        alone, lines = props_of(folder / "alone.onnx")
        assert model.SerializeToString() == alone.SerializeToString(), f"{name}: another model"
        assert traces == lines and sum("torch/nn/modules" in t for t in traces) > len(traces) / 2
        bare, _ = record(folder, net, tuple(inputs.values()), name + "-bare", exporter="dynamo", stack_traces=False, **names)
        assert not any(props_of(bare.onnx_path)[1]) and props_of(bare.onnx_path)[0] == model
    text = run("info", result.onnx_path, "--nodes")  # the reader in C finds the modules in the metadata
    for op, module in (("Softmax", "layers.{}.self_attn"), ("LayerNormalization", "layers.{}.norm1")):
        found = [line.split("  in ")[1] for line in text.splitlines() if line.startswith(f"  {op} ")]
        assert [module.format(i) for i in range(2)] == [m for m in found if m.endswith(module.split(".")[-1])], found
    result, _ = record(folder, Twice().eval(), torch.randn(2, 3), "twice", exporter="dynamo")  # and the lines
    lines = inspect.getsourcelines(Twice.forward)[1]
    text = run("info", result.onnx_path, "--nodes")
    assert text.count(f"in fc  at {inspect.getsourcefile(Twice)}:{lines + 2}") == 3, text
    return f"{len(traces)} nodes"


if __name__ == "__main__":
    sys.exit(main(globals()))

"""Exports a module to ONNX while it is watched, so that each node's stack trace names the call it came from."""
from __future__ import annotations

import contextlib
import inspect
import mmap
import os
import shutil
import tempfile
from typing import Any, Dict, Iterator, List

import torch
import torch.onnx
from torch.nn import Module

from . import _file, _onnx
from ._watch import Watcher, scripted_when_traced, tensors_in

_SCALARS = {"Float": 1, "Byte": 2, "Char": 3, "Short": 5, "Int": 6, "Long": 7, "Bool": 9, "Half": 10, "Double": 11,
            "ComplexFloat": 14, "ComplexDouble": 15, "BFloat16": 16}


@contextlib.contextmanager
def _graph_kept(kept: Any) -> Iterator[None]:
    """verbose=True, which the stack traces need, also prints the graph; take it instead, it has the shapes."""
    places = [(torch.onnx, "log"), (torch._C, "_jit_onnx_log")]
    before = [(o, n, getattr(o, n)) for o, n in places if hasattr(o, n)]

    def keep(*args: Any) -> None:
        kept.extend(a for a in args if isinstance(a, torch._C.Graph))
    try:
        for o, n, _ in before:
            setattr(o, n, keep)
        yield
    finally:
        for o, n, f in before:
            setattr(o, n, f)


def _types_of(graph: Any) -> Dict[str, Any]:
    found = {}
    for node in graph.nodes():
        for value in node.outputs():
            t = value.type()
            if t.kind() == "TensorType":
                sizes = t.sizes()
                found[value.debugName()] = (_SCALARS.get(str(t.scalarType())), None if sizes is None else tuple(sizes))
    return found


@contextlib.contextmanager
def _plain_outputs(model: Module) -> Iterator[None]:
    """A dataclass that the module returns becomes the tuple of its tensors: no exporter takes it as it is."""
    def hook(_module: Any, _args: Any, out: Any) -> Any:
        if hasattr(out, "__dataclass_fields__") and not isinstance(out, (type, dict, tuple, list)):
            return tuple(t for _, t in tensors_in(out))
        return None
    if isinstance(model, torch.jit.ScriptModule) or id(model) in scripted_when_traced(model):  # a hook would be compiled
        yield
        return
    handle = model.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _export_torchscript(model: Module, args: Any, kwargs: Any, path: str, options: Dict[str, Any],
                        watcher: Watcher) -> Dict[str, Any]:
    known = inspect.signature(torch.onnx.export).parameters
    if "dynamo" in known:
        options = dict(options, dynamo=False)
    packed = (*args, dict(kwargs)) if kwargs or args and isinstance(args[-1], dict) else tuple(args)
    kept: List[Any] = []
    with _graph_kept(kept), watcher.watching(dispatch=False), _plain_outputs(model):
        torch.onnx.export(model, packed, path, verbose=True, **options)
    return _types_of(kept[-1]) if kept else {}


def _export_dynamo(model: Module, args: Any, kwargs: Any, path: str, options: Dict[str, Any], watcher: Watcher) -> None:
    if "dynamo" not in inspect.signature(torch.onnx.export).parameters:
        raise ValueError(f"exporter='dynamo' needs torch 2.5 or later (this is {torch.__version__})")
    options = {"verbose": False, **options, "dynamo": True}  # it prints its progress otherwise
    try:
        with watcher.watching(dispatch=False), _plain_outputs(model):
            program = torch.onnx.export(model, tuple(args), kwargs=dict(kwargs), **options)
    except Exception:  # the model's, or of capturing that does not go with hooks: without them it is the exporter's
        watcher.restart()
        with _plain_outputs(model):
            program = torch.onnx.export(model, tuple(args), kwargs=dict(kwargs), **options)
    program.save(path)


def export(model: Module, args: Any, kwargs: Any, onnx_path: Any, exporter: str, options: Dict[str, Any],
           watcher: Watcher, stack_traces: bool) -> Any:
    """Writes onnx_path, which must not exist; returns the graph as _onnx.Model and the tags of its nodes."""
    onnx_path = os.path.abspath(os.fspath(onnx_path))
    _file.refuse_existing(onnx_path)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(onnx_path), prefix=".plumb-") as folder:
        raw = os.path.join(folder, os.path.basename(onnx_path))
        types = {}
        if exporter == "dynamo":
            _export_dynamo(model, args, kwargs, raw, options, watcher)
        else:
            types = _export_torchscript(model, args, kwargs, raw, options, watcher)
        beside = [n for n in os.listdir(folder) if n != os.path.basename(raw)]  # external data
        for name in beside:
            _file.refuse_existing(os.path.join(os.path.dirname(onnx_path), name))
        graph, tags, clean = _rewrite(raw, folder, stack_traces)
        for name in beside:
            shutil.move(os.path.join(folder, name), os.path.join(os.path.dirname(onnx_path), name))
        _file.put_in_place(clean, onnx_path)
    for name, t in types.items():
        graph.types.setdefault(name, t)
    return graph, tags


def _rewrite(raw: str, folder: str, stack_traces: bool) -> Any:
    clean = os.path.join(folder, ".clean")
    with open(raw, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
        graph = _onnx.read(view)
        with open(clean, "wb") as out:
            for piece in _onnx.pieces(view, keep_traces=stack_traces):
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
            del piece
    return graph, [_onnx.call_of(n) for n in graph.nodes], clean

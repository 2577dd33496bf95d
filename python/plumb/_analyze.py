"""plumb.analyze, plumb.compare, plumb.assert_close: from a model or a torch module to the culprit."""
from __future__ import annotations

import ctypes
import importlib
import json
import os
import shutil
import tempfile
import time
import weakref
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _lib
from ._model import Model, PathLike, is_exported, is_module, open_model
from ._progress import Progress, ProgressLike
from ._run import Recorder, Tensors, take_inputs
from ._session import Session, Sessions, temporary_folder

_EXPORT = ("exporter", "training", "opset_version", "dynamic_axes", "export_options", "input_names", "output_names",
           "export_inputs")


def _analyze(model: Model, inputs: Any, backend: Optional[str], output: Optional[PathLike], progress: ProgressLike,
             options: Dict[str, Any]) -> Session:
    """With output=None the session folder is removed together with the result."""
    folder = temporary_folder() if output is None else os.fspath(output)
    left = dict(options)
    given = take_inputs(inputs, model.inputs, left)
    try:
        with model.lock, _lib.memory_kept(), Progress(progress) as p:
            made = _lib.options("plumb_analyze_options", "PLUMB_OPTIONS_ANALYZE",
                                dict(left, backend=backend, output=folder, inputs=given.struct, progress=p.struct))
            handle = _lib.make("session", "plumb_analyze", "plumb_session_free", model.pointer, ctypes.byref(made))
    except BaseException:
        if output is None:
            shutil.rmtree(os.path.dirname(folder), ignore_errors=True)
        raise
    setup = dict(options, backend=backend, inputs=inputs)
    return Session(handle, model, setup, os.path.dirname(folder) if output is None else None)


def analyze(model: Any, inputs: Any = None, *, backend: Optional[str] = None, output: Optional[PathLike] = None,
            progress: ProgressLike = None, **options: Any) -> Session:
    """Runs a full analysis and names the operation to blame.

    model     an ONNX path, bytes, onnx.ModelProto or plumb.Model; or a torch.nn.Module or torch.export.ExportedProgram. A
              module is exported and recorded on the inputs, and the result says which is wrong, the exported model or the
              runtime (`at_fault`), with the PyTorch line
    inputs    None: generated (of an ExportedProgram: those it was exported with). A mapping by name, or a tuple in the
              order of the model's inputs (of a module: arguments; a mapping: keyword arguments), of arrays or torch
              tensors; one array; a path of a file or folder that holds them; a list of these: several samples
    backend   spec of the run under test: "ort", "ort:opt=all,threads=1", "jit", "cmd:PROGRAM", "plugin:FILE.so", ...
    output    a new folder for the session; None: one that is removed with the result
    progress  None: a bar on a terminal when tqdm is there; False: none; True: always; or a function (phase, done, total)
              that cancels by returning True. Ctrl-C cancels, too
    options   reference (a spec, a recording or a model file), reference_model, timeout, memory_limit, threads, save, reuse,
              skip_determinism, skip_gold, skip_search, profile, precision_profile, same, tol, metric, bisect, amp, advise,
              advise_out, advise_metric, map, baseline, write_baseline; of the inputs: dims, ranges, fill, seed; of a
              module: exporter, training, opset_version, dynamic_axes, input_names, output_names, export_options, export_inputs
    """
    if is_module(model):
        return _analyze_module(model, inputs, backend, output, progress, options)
    if is_exported(model):
        inputs = _example_inputs(model) if inputs is None else inputs
        model = _export_program(model)
    return _analyze(open_model(model), inputs, backend, output, progress, options)


def _take_many(model: Model, options: Any, backends: Sequence[str]) -> List[Optional[_lib.Handle]]:
    """The sessions of plumb_analyze_many; after a failure those that there are, are freed."""
    out = (ctypes.c_void_p * max(1, len(backends)))()
    try:
        _lib.call("plumb_analyze_many", model.pointer, ctypes.byref(options), _lib.strings(backends), len(backends), out)
    finally:
        found = [_lib.Handle("session", ctypes.c_void_p(p), "plumb_session_free") if p else None for p in out[:len(backends)]]
    return found


def analyze_many(model: Any, inputs: Any = None, *, backends: Sequence[str], output: Optional[PathLike] = None,
                 progress: ProgressLike = None, **options: Any) -> Sessions:
    """The same model on several backends, each analysed against the same reference on the same inputs.

    model, inputs, progress, options  as in analyze; of a torch module one set of inputs: it is exported and recorded once
    backends  specs, in the order of the columns
    output    a new folder: sessions 1, 2, ... and many.json; None: one that is removed with the results
    """
    if isinstance(backends, str) or not backends:
        raise TypeError("backends is a list of specs: analyze_many(model, x, backends=[\"ort\", \"jit\"])")
    temporary = tempfile.mkdtemp(prefix="plumb-")
    try:
        left: Dict[str, Any] = dict(options)
        if is_module(model):
            _check_module(inputs, options)
            if len(_samples(inputs)) > 1:
                raise TypeError("several backends take one set of inputs of a torch module: call analyze_many for each")
            model, inputs, left, lost = _record_module(model, _samples(inputs)[0], temporary, options)
        elif is_exported(model):
            inputs = _example_inputs(model) if inputs is None else inputs
            model, lost = _export_program(model), []
        else:
            lost = []
        opened = open_model(model)
        setup = dict(left, inputs=inputs)
        given = take_inputs(inputs, opened.inputs, left)
        folder = os.path.join(temporary, "sessions") if output is None else os.fspath(output)
        with opened.lock, _lib.memory_kept(), Progress(progress) as p:
            made = _lib.options("plumb_analyze_options", "PLUMB_OPTIONS_ANALYZE",
                                dict(left, output=folder, inputs=given.struct, progress=p.struct))
            handles = _take_many(opened, made, backends)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    kept = _Folder(temporary)
    rows: List[Optional[Session]] = []
    for backend, handle in zip(backends, handles):
        row = None if handle is None else Session(handle, opened, dict(setup, backend=backend))
        if row is not None:
            row.lost_calls, row._kept = lost, kept
        rows.append(row)
    return Sessions(backends, rows, folder)


def _example_inputs(program: Any) -> Any:
    """The tensors that a program was exported with, arguments and keyword arguments, in order; None when it has none."""
    import torch
    example = getattr(program, "example_inputs", None)
    if not example:
        return None
    leaves = importlib.import_module("torch.utils._pytree").tree_flatten(example)[0]
    return tuple(t for t in leaves if isinstance(t, torch.Tensor))


def _export_program(program: Any) -> bytes:
    import torch.onnx
    import inspect
    if "dynamo" not in inspect.signature(torch.onnx.export).parameters:
        raise NotImplementedError("an ExportedProgram requires torch 2.5 or later, with onnxscript "
                                  f"(this is {torch.__version__})")
    try:
        made: Any = torch.onnx.export(program, dynamo=True, verbose=False)
    except ModuleNotFoundError as e:
        raise NotImplementedError(f"an ExportedProgram requires {e.name}, which torch.onnx.export imports") from e
    return bytes(made.model_proto.SerializeToString())


def _samples(inputs: Any) -> List[Any]:
    if isinstance(inputs, list) and inputs and all(isinstance(i, (tuple, Mapping)) for i in inputs):
        return inputs
    return [inputs]


def _analyze_module(net: Any, inputs: Any, backend: Optional[str], output: Optional[PathLike], progress: ProgressLike,
                    options: Dict[str, Any]) -> Session:
    """Compares three runs: the module itself, the exported model, the runtime."""
    _check_module(inputs, options)
    samples = _samples(inputs)
    export = {k: options[k] for k in _EXPORT if k in options}
    rest = {k: v for k, v in options.items() if k not in _EXPORT}
    found: List[Session] = []
    for i, sample in enumerate(samples):
        where = output if output is None or len(samples) == 1 else os.path.join(os.fspath(output), f"sample-{i}")
        if i > 0:
            export["export_inputs"] = export.get("export_inputs", samples[0])
        found.append(_analyze_sample(net, sample, backend, where, progress, export, rest))
    worst = max(found, key=lambda s: (0, 2, 1, 3)[s.exit_code])  # what diverged before what could not be told
    worst.samples = found if len(found) > 1 else []
    return worst


class _Folder:
    """A temporary folder that several sessions refer to; removed with the last of them."""

    def __init__(self, path: str) -> None:
        weakref.finalize(self, shutil.rmtree, path, True)


def _record_module(net: Any, sample: Any, folder: str, options: Dict[str, Any]) -> Any:
    """(exported model, its inputs, options left, lost calls) of a torch module; the recording in `folder` is the reference."""
    from ._save import save_intermediates
    export = {k: options[k] for k in _EXPORT if k in options}
    onnx, run = os.path.join(folder, "model.onnx"), os.path.join(folder, "torch.safetensors")
    recording = save_intermediates(net, sample, onnx, run, **export)
    model = Model(onnx)
    rest = {k: v for k, v in options.items() if k not in _EXPORT}
    return model, _feeds(model, Tensors(run)), dict(rest, reference=run), recording.lost_calls


def _check_module(inputs: Any, options: Dict[str, Any]) -> None:
    if inputs is None:
        raise TypeError("a torch module needs inputs: analyze(net, (x,), backend=...)")
    if "reference" in options or "reference_model" in options:
        raise TypeError("a torch module is its own reference; to use another one, export it and analyze the ONNX file")


def _analyze_sample(net: Any, sample: Any, backend: Optional[str], output: Optional[PathLike], progress: ProgressLike,
                    export: Dict[str, Any], rest: Dict[str, Any]) -> Session:
    folder = tempfile.mkdtemp(prefix="plumb-")
    try:
        model, feeds, left, lost = _record_module(net, sample, folder, {**export, **rest})
        where = os.path.join(folder, "session") if output is None else os.fspath(output)
        session = _analyze(model, feeds, backend, where, progress, left)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    session.lost_calls, session._kept = lost, _Folder(folder)  # the session refers to the recording in it
    session._setup["inputs"] = feeds
    return session


def _feeds(model: Model, recording: Tensors) -> Dict[str, Any]:
    """The recorded inputs of the module, under the names of the exported model."""
    missing = [n for n in model.inputs if n not in recording]
    if missing:
        raise ValueError(f"the recording has no input {missing[0]!r}; it has {', '.join(recording)}")
    return {n: recording[n] for n in model.inputs}


def _side(thing: Any, folder: str, name: str) -> str:
    """A path for one side of a comparison; anything that is not a file is written to one."""
    if isinstance(thing, (str, os.PathLike)):
        return os.fspath(thing)
    if isinstance(thing, Tensors) or hasattr(thing, "path") and not isinstance(thing, Model):
        return os.fspath(thing.path)
    if isinstance(thing, Mapping):
        path = os.path.join(folder, name + ".safetensors")
        with Recorder(path) as recorder:
            for key, array in thing.items():
                recorder.write(key, array)
        return path
    model = open_model(thing)
    if model.path:
        return model.path
    path = os.path.join(folder, name + ".onnx")
    with open(path, "wb") as f:
        f.write(model.to_bytes())
    return path


def compare(a: Any, b: Any, *, backend: Optional[str] = None, output: Optional[PathLike] = None,
            progress: ProgressLike = None, inputs: Any = None, **options: Any) -> Session:
    """Compares two recordings, or a model and a recording, or two models: a under test, b the reference.

    a, b      paths (recordings, .npz, .pt, folders of .npy, models), mappings of arrays, what record() returned, plumb.load's
              result, or models as in analyze
    backend   spec for a model; None = eager
    output    a new folder for the session; None: one that is removed with the result
    inputs    of a model, as in analyze; those that the other side holds are taken from it
    options   reference, timeout, memory_limit, threads, profile, same, tol, map, weights, export_map, keep_views, limits,
              baseline, write_baseline, plugins, details, metric, pack; dims, ranges, fill, seed
    """
    folder = tempfile.mkdtemp(prefix="plumb-")
    try:
        where = os.path.join(folder, "session") if output is None else os.fspath(output)
        left, right = _side(a, folder, "a"), _side(b, folder, "b")
        given = take_inputs(inputs, list(inputs) if isinstance(inputs, Mapping) else [], options)
        if options.get("tol") is not None:
            options["has_tol"] = True
        with Progress(progress) as p:
            made = _lib.options("plumb_compare_options", "PLUMB_OPTIONS_COMPARE",
                                dict(options, backend=backend, output=where, inputs=given.struct, progress=p.struct))
            handle = _lib.make("session", "plumb_compare", "plumb_session_free", os.fsencode(left), os.fsencode(right),
                               ctypes.byref(made))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Session(handle, None, {"backend": backend}, folder)


def explain(session: Session) -> str:
    """The last lines of an AssertionError: verdict, blame, lost calls, what to do next."""
    lines = [f"{session.verdict.upper()}: {session.reason}"]
    if session.at_fault in ("model", "both"):
        lines.append("the exported model and the module compute different results")
    for b in session.blame[:5]:
        place = b.source or b.module
        lines.append(f"  {b.op} producing '{b.value}'" + (f" ({place})" if place else "") + (f": {b.kind}" if b.kind else ""))
    for c in session.lost_calls[:5]:
        if not c["no_effect"]:
            line = f"{c['file']}:{c['line']}: {c.get('source', '')}" if "file" in c else c["module"]
            lines.append(f"  the exporter {c['status']} {c['op']} at {line}")
    lines += [f"session: {session.folder}", f"  plumb view {session.folder}"]
    return "\n".join(lines)


def assert_close(model: Any, inputs: Any = None, *, backend: Optional[str] = None, output: Optional[PathLike] = None,
                 **options: Any) -> Session:
    """As analyze; raises AssertionError unless the verdict is "agree". The message ends with the blame and the path of the
    session, which is kept: `output`, or plumb-out/NAME-TIME."""
    session = analyze(model, inputs, backend=backend, output=output, **options)
    if session.ok:
        return session
    if output is None:
        _keep(session, model)
    raise AssertionError(explain(session))


def _keep(session: Session, model: Any) -> None:
    """Moves a temporary session to the folder that the program would have used."""
    path = "" if session._model is None else session._model.path
    name = type(model).__name__ if is_module(model) else os.path.splitext(os.path.basename(path))[0] or "model"
    base = os.path.join("plumb-out", f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    target, n = base, 1
    while os.path.exists(target):
        target, n = f"{base}-{n}", n + 1
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copytree(session.folder, target)
    session.summary["folder"] = os.path.abspath(target)


def export_of(recording: PathLike) -> Dict[str, Any]:
    """The `plumb.export` part of a PyTorch recording: exporter, torch, calls; empty when it has none."""
    with open(recording, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        metadata = json.loads(f.read(n)).get("__metadata__", {})
    found: Dict[str, Any] = json.loads(metadata.get("plumb.export", "{}"))
    return found


__all__: Tuple[str, ...] = ("analyze", "analyze_many", "compare", "assert_close", "explain", "export_of")

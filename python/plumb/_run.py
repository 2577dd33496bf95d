"""Running and recording models, and reading recordings and files of tensors."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional

from . import _abi, _inputs, _lib, _tensor
from ._model import PathLike, is_module, open_model
from ._progress import Progress, ProgressLike
from ._tensor import Array

_INPUTS = ("dims", "ranges", "fill", "seed")


def take_inputs(inputs: Any, names: Any, options: Dict[str, Any]) -> _inputs.Inputs:
    """The inputs, together with the options that control how they are generated."""
    made = {k: options.pop(k) for k in _INPUTS if k in options}
    return _inputs.Inputs(inputs, names, **made)


class RunResult(Mapping[str, Array]):
    """The outputs of a run by name, as read-only arrays; `times` has load, first, best and median in seconds."""

    def __init__(self, handle: _lib.Handle) -> None:
        self._handle = handle
        lib, pointer = _lib.lib(), handle.pointer
        self._names = [_lib.text_of(lib.plumb_run_result_name(pointer, i)) for i in range(lib.plumb_run_result_outputs(pointer))]
        self.times: Dict[str, float] = _lib.fields("plumb_run_times", "plumb_run_result_times", pointer)

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(f"no output {name!r}; available: {', '.join(self._names)}")
        found = _tensor.shared(_lib.lib().plumb_run_result_find(self._handle.pointer, name.encode()))
        if found is None:
            raise TypeError(f"output {name!r} is a sequence or an optional, not a tensor")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def files(self) -> Dict[str, str]:
        """Where each output was written to, with output=."""
        lib = _lib.lib()
        paths = [_lib.text_of(lib.plumb_run_result_file(self._handle.pointer, i)) for i in range(len(self._names))]
        return {n: p for n, p in zip(self._names, paths) if p}

    @property
    def nodes(self) -> List[Dict[str, Any]]:
        """Time of each node in the last run, with profile=True: value, op, seconds."""
        lib, pointer = _lib.lib(), self._handle.pointer
        return [_lib.fields("plumb_node_time", "plumb_run_result_node", pointer, i)
                for i in range(lib.plumb_run_result_nodes(pointer))]

    def text(self, format: str = "text") -> str:
        """As `plumb run` prints it; format "json" is its JSON."""
        return write_text("plumb_run_result_write", self._handle, {"format": format})

    def __repr__(self) -> str:
        return "<plumb.RunResult " + ", ".join(f"{n}: {self[n].dtype}{list(self[n].shape)}" for n in self) + ">"


def write_text(function: str, handle: _lib.Handle, options: Dict[str, Any]) -> str:
    """The text of a result."""
    style = options.get("style")
    if isinstance(style, dict):
        options = dict(options, style=_lib.options("plumb_style", "PLUMB_OPTIONS_STYLE", style))
    made = _lib.options("plumb_write_options", "PLUMB_OPTIONS_WRITE", options)
    text = ctypes.c_void_p()
    _lib.call(function, handle.pointer, ctypes.byref(made), ctypes.byref(text))
    return _lib.take_text(text)


def run(model: Any, feeds: Any = None, *, backend: Optional[str] = None, progress: ProgressLike = None,
        **options: Any) -> RunResult:
    """Runs a model on a backend.

    model     a path, bytes, onnx.ModelProto or plumb.Model
    feeds     inputs: see plumb.analyze; None generates them
    backend   a spec: "eager" (default), "jit", "ort:opt=all", "eager:fp64", "cmd:PROGRAM", ...
    progress  None, False, True or a function: see docs/python.md
    options   timeout, memory_limit, threads, fp64, repeat, output, save_as, profile; dims, ranges, fill, seed
    """
    opened = open_model(model)
    given = take_inputs(feeds, opened.inputs, options)
    with opened.lock, Progress(progress) as p:
        made = _lib.options("plumb_run_options", "PLUMB_OPTIONS_RUN",
                            dict(options, backend=backend, inputs=given.struct, progress=p.struct))
        return RunResult(_lib.make("run", "plumb_run", "plumb_run_result_free", opened.pointer, ctypes.byref(made)))


class RecordResult:
    """What `record` wrote: path, n_values, n_bytes, seconds, observer_effect, notes. `load()` opens it."""

    def __init__(self, handle: _lib.Handle) -> None:
        lib, p = _lib.lib(), handle.pointer
        self._handle = handle
        self.path = _lib.text_of(lib.plumb_record_result_path(p))
        self.n_values = int(lib.plumb_record_result_values(p))
        self.n_bytes = int(lib.plumb_record_result_bytes(p))
        self.seconds = float(lib.plumb_record_result_seconds(p))
        self.observer_effect = bool(lib.plumb_record_result_observer_effect(p))
        self.notes = [_lib.text_of(lib.plumb_record_result_note(p, i)) for i in range(lib.plumb_record_result_notes(p))]

    def load(self) -> "Tensors":
        """The recording, opened for reading."""
        return load(self.path)

    def text(self, format: str = "text") -> str:
        """As `plumb record` prints it; format "json" is its JSON."""
        return write_text("plumb_record_result_write", self._handle, {"format": format})

    def __repr__(self) -> str:
        return f"<plumb.RecordResult {self.path}: {self.n_values} values, {self.n_bytes} bytes>"


def record(model: Any, feeds: Any = None, out: Optional[PathLike] = None, *, backend: Optional[str] = None,
           progress: ProgressLike = None, **options: Any) -> Any:
    """Runs a model and writes every intermediate tensor to `out`.

    model    a path, bytes, onnx.ModelProto or plumb.Model; or a torch.nn.Module, which is recorded while torch runs it
             (plumb.save_intermediates, whose options it takes and whose Recording it returns)
    feeds    inputs: see plumb.analyze
    out      the recording (.safetensors), a new file
    backend  a spec; None = eager
    options  timeout, memory_limit, threads, fp64, stats_only, names, ops, modules; dims, ranges, fill, seed
    """
    if is_module(model):
        from ._save import save_intermediates
        return save_intermediates(model, feeds, out=out, **options)
    if out is None:
        raise TypeError("missing argument: out, the file to write")
    opened = open_model(model)
    given = take_inputs(feeds, opened.inputs, options)
    with opened.lock, Progress(progress) as p:
        made = _lib.options("plumb_record_options", "PLUMB_OPTIONS_RECORD",
                            dict(options, backend=backend, output=out, inputs=given.struct, progress=p.struct))
        return RecordResult(_lib.make("record", "plumb_record", "plumb_record_result_free", opened.pointer,
                                      ctypes.byref(made)))


class Tensors(Mapping[str, Array]):
    """A recording or file of tensors, opened for reading: arrays by name, memory-mapped and read on first access."""

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        self._handle = _lib.make("recording", "plumb_recording_open", "plumb_recording_close", os.fsencode(self.path))
        lib, pointer = _lib.lib(), self._handle.pointer
        self.format = _lib.text_of(lib.plumb_recording_format(pointer))
        rows = [_lib.fields("plumb_recorded", "plumb_recording_get", pointer, i)
                for i in range(lib.plumb_recording_count(pointer))]
        for row in rows:
            row["dims"] = _lib.array_of(row["dims"], row["rank"])
            row["dtype"] = _tensor.dtype_name(row["dtype"])
        self.about: Dict[str, Dict[str, Any]] = {r["name"]: r for r in rows}

    def __getitem__(self, name: str) -> Array:
        if name not in self.about:
            near = _lib.nearest(name, list(self.about))
            raise KeyError(f"{self.path} has no {name!r}" + (f"; did you mean {near!r}?" if near else ""))
        handle = _lib.make("tensor", "plumb_recording_read", "plumb_tensor_free", self._handle.pointer, name.encode())
        return _tensor.to_array(handle)

    def __iter__(self) -> Iterator[str]:
        return iter(self.about)

    def __len__(self) -> int:
        return len(self.about)

    def __repr__(self) -> str:
        return f"<plumb.Tensors {self.path} ({self.format}): {len(self)} tensors>"


def load(path: PathLike) -> Tensors:
    """Opens a recording, .safetensors, .npz, .pt, .gguf, a folder of .npy files, Polygraphy's JSON or an ONNX test data set."""
    return Tensors(path)


class Recorder:
    """Writes a recording: `with Recorder("run.safetensors", engine="mine") as r: r.write("y", array)`.

    path     a new file; it appears complete when the block ends, and not at all if it raises
    options  engine, engine_version, model (a path), notes, stats_only
    """

    def __init__(self, path: PathLike, **options: Any) -> None:
        made = _lib.options("plumb_recorder_options", "PLUMB_OPTIONS_RECORDER", options)
        self._pointer: Optional[ctypes.c_void_p] = ctypes.c_void_p()
        _lib.call("plumb_recorder_open", os.fsencode(path), ctypes.byref(made), ctypes.byref(self._pointer))

    def write(self, name: str, array: Any) -> None:
        """Records one value under its name in the model; thread-safe."""
        if self._pointer is None:
            raise ValueError("the recorder is closed")
        plain, kind = _tensor._plain(array)
        if kind == _abi.PLUMB_STRING:
            raise TypeError(f"{name}: strings cannot be recorded")
        dims = (ctypes.c_int64 * plain.ndim)(*plain.shape)
        _lib.call("plumb_recorder_write", self._pointer, name.encode(), kind, plain.ndim, dims, None,
                  ctypes.c_void_p(plain.ctypes.data))

    def close(self) -> None:
        """Completes the recording and gives the file its name."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            _lib.call("plumb_recorder_close", pointer)

    def abandon(self) -> None:
        """Discards the recording; no file is left."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            _lib.lib().plumb_recorder_abandon(pointer)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: Any, _error: Any, _trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            self.abandon()

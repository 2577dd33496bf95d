"""Shrinking a failing model."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Optional, Tuple

from . import _lib
from ._model import PathLike, open_model
from ._progress import Progress, ProgressLike
from ._run import take_inputs, write_text


class Repro:
    """What minifying found: signature, folder, verified, one_minimal, n_queries, seconds, nodes_before, nodes_after, ..."""

    def __init__(self, handle: _lib.Handle) -> None:
        self._handle = handle
        self.fields: Dict[str, Any] = _lib.fields("plumb_repro_summary", "plumb_repro_get", handle.pointer)
        for name in ("fails", "verified", "one_minimal"):
            self.fields[name] = bool(self.fields[name])

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def others(self) -> List[Tuple[str, int]]:
        """Other failures seen on the way, and how often."""
        found, n = [], ctypes.c_size_t()
        for i in range(self.fields["n_others"]):
            text = _lib.text_of(_lib.lib().plumb_repro_other(self._handle.pointer, i, ctypes.byref(n)))
            found.append((text, n.value))
        return found

    def text(self, format: str = "text") -> str:
        """As `plumb minify` prints it; format "json" is its JSON."""
        return write_text("plumb_repro_write", self._handle, {"format": format})

    def __repr__(self) -> str:
        f = self.fields
        return f"<plumb.Repro {f['signature']}: {f['nodes_before']} nodes to {f['nodes_after']}, {f['folder'] or 'not written'}>"


def _asked(function: str, model: Any, inputs: Any, progress: ProgressLike, options: Dict[str, Any]) -> Repro:
    opened = open_model(model)
    given = take_inputs(inputs, opened.inputs, options)
    context = options.pop("context", None)
    if isinstance(context, dict):
        context = _lib.options("plumb_context", "PLUMB_OPTIONS_CONTEXT", context)
    options.setdefault("program", _lib.program())
    with opened.lock, Progress(progress) as p:
        made = _lib.options("plumb_minify_options", "PLUMB_OPTIONS_MINIFY",
                            dict(options, context=context, inputs=given.struct, progress=p.struct))
        return Repro(_lib.make("repro", function, "plumb_repro_free", opened.pointer, ctypes.byref(made)))


def minify(model: Any, inputs: Any = None, output: Optional[PathLike] = None, *, progress: ProgressLike = None,
           **options: Any) -> Repro:
    """The smallest model that fails in the same way; raises InputError for a model that does not fail.

    model    a path, bytes, onnx.ModelProto or plumb.Model
    inputs   see plumb.analyze
    output   a new folder for the repro; None writes none
    options  backend, timeout, memory_limit, jobs, check, accuracy, strict, max_queries, max_time, strip_weights, ...
             (plumb_minify_options of plumb.h)
    """
    options.setdefault("jobs", 1)  # forks of a process that may have threads
    return _asked("plumb_minify", model, inputs, progress, dict(options, output=output))


def minify_query(model: Any, inputs: Any = None, *, progress: ProgressLike = None, **options: Any) -> Repro:
    """Tests once whether the model fails (with signature=: as in that repro.json); see `fails`."""
    return _asked("plumb_minify_query", model, inputs, progress, options)


def dump_repro(model: Any, inputs: Any = None, **options: Any) -> str:
    """Writes a checkpoint below debug_dir and returns its path. Options: level, backend, error, name, no_data, ..."""
    opened = open_model(model)
    given = take_inputs(inputs, opened.inputs, options)
    made = _lib.options("plumb_repro_options", "PLUMB_OPTIONS_REPRO", dict(options, inputs=given.struct))
    text = ctypes.c_void_p()
    with opened.lock:
        _lib.call("plumb_repro_dump", opened.pointer, ctypes.byref(made), ctypes.byref(text))
    return _lib.take_text(text)


def read_repro(folder: PathLike) -> Dict[str, Any]:
    """Settings of the run from a repro folder: seed, threads, timeout, eval, backward, amp."""
    from . import _abi
    made = _abi.plumb_repro_info()
    made.size = ctypes.sizeof(made)
    _lib.call("plumb_repro_read", os.fsencode(folder), ctypes.byref(made))
    return {n: getattr(made, n).decode() if n == "amp" else getattr(made, n) for n, _ in made._fields_ if n != "size"}

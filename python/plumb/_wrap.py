"""plumb.wrap: an engine written in Python, with checkpoints around compile and run (plumb_wrap_backend)."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from . import _abi, _lib, _tensor
from ._model import PathLike, open_model
from ._tensor import Array

Outputs = Union[Mapping[str, Any], Any]
Engine = Callable[[bytes], Callable[[Dict[str, Array]], Outputs]]


def _kinds(struct: Any) -> Dict[str, Any]:
    """The types of a struct's fields."""
    return dict(struct._fields_)


def _host() -> Any:
    return _lib.lib().plumb_host_get().contents


def _datum(thing: Any) -> int:
    """A datum with a copy of an array; the caller owns it."""
    handle = _tensor.to_tensor(thing)
    lib, p, out, err = _lib.lib(), handle.pointer, ctypes.c_void_p(), _abi.plumb_error()
    status = _host().new_tensor(lib.plumb_tensor_dtype(p), lib.plumb_tensor_rank(p), lib.plumb_tensor_dims(p),
                                lib.plumb_tensor_data(p), lib.plumb_tensor_bytes(p), ctypes.byref(out), ctypes.byref(err))
    if status != _abi.PLUMB_OK:
        _lib.fail(status, err)
    return out.value or 0


def _array(datum: Optional[int]) -> Array:
    found = _tensor.shared(_host().tensor(datum)) if datum else None
    if found is None:
        raise TypeError("sequences and optionals are not passed on to an engine in Python")
    return found


def _told(error: Any, e: BaseException) -> int:
    """Puts an exception into a plumb_error; its status."""
    if error:
        text = f"{type(e).__name__}: {e}".encode()[:1000]
        error.contents.status, error.contents.message = _abi.PLUMB_E_BACKEND, text
    return int(_abi.PLUMB_E_BACKEND)


class _Program:
    """One compiled model of the engine, as the vtable sees it."""

    def __init__(self, run: Callable[[Dict[str, Array]], Outputs], inputs: List[str], outputs: List[str]) -> None:
        self.run, self.inputs, self.outputs = run, inputs, outputs

    def __call__(self, args: Any) -> None:
        given = getattr(args, "in")
        feeds = {n: _array(given[i]) for i, n in enumerate(self.inputs) if given[i]}
        made = self.run(feeds)
        if not isinstance(made, Mapping):
            made = dict(zip(self.outputs, made if isinstance(made, (tuple, list)) else [made]))
        missing = [n for n in self.outputs if n not in made]
        if missing:
            raise KeyError(f"the engine returned no output {missing[0]!r}; it returned {', '.join(made)}")
        for i, n in enumerate(self.outputs):
            args.out[i] = _datum(made[n])


class _Vtable:
    """A plumb_backend over an engine. What the engine raised last is kept: it is the cause of the error."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.next = engine, 1
        self.programs: Dict[int, _Program] = {}
        self.raised: Optional[BaseException] = None
        kinds = _kinds(_abi.plumb_backend)
        self.struct = _abi.plumb_backend(abi=_abi.PLUMB_ABI, n_bytes=ctypes.sizeof(_abi.plumb_backend), name=name.encode(),
                                         summary=b"an engine in Python")
        self._keep = [kinds["compile"](self._compile), kinds["run"](self._run), kinds["free"](self._free)]
        self.struct.compile, self.struct.run, self.struct.free = self._keep

    def _compile(self, _self: Any, source: Any, program: Any, n_hooks: Any, error: Any) -> int:
        try:
            s = source.contents
            run = self.engine(ctypes.string_at(s.onnx, s.n_onnx))
            names = [[_lib.text_of(p[i]) for i in range(n)] for p, n in ((s.inputs, s.n_inputs), (s.outputs, s.n_outputs))]
            number, self.next = self.next, self.next + 1
            self.programs[number] = _Program(run, *names)
            program[0] = number
            if n_hooks:
                n_hooks[0] = 0
        except BaseException as e:  # ctypes would print it and go on
            self.raised = e
            return _told(error, e)
        return int(_abi.PLUMB_OK)

    def _run(self, program: int, args: Any, error: Any) -> int:
        try:
            self.programs[program](args.contents)
        except BaseException as e:
            self.raised = e
            return _told(error, e)
        return int(_abi.PLUMB_OK)

    def _free(self, program: int) -> None:
        self.programs.pop(program, None)


class Compiled:
    """A model that a wrapped engine has compiled: call it with {name: array}; returns {name: array}."""

    def __init__(self, wrapped: "Wrapped", model: Any) -> None:
        opened = open_model(model)
        self._wrapped, self._data = wrapped, opened.to_bytes()
        self.inputs, self.outputs = opened.inputs, opened.outputs
        source = _abi.plumb_source(n_onnx=len(self._data), n_inputs=len(self.inputs), n_outputs=len(self.outputs))
        source.onnx = ctypes.cast(ctypes.c_char_p(self._data), ctypes.c_void_p)
        source.inputs, source.outputs = _lib.strings(self.inputs), _lib.strings(self.outputs)
        self._source = source  # lives until the program is freed
        program, n_hooks, err = ctypes.c_void_p(), ctypes.c_size_t(), _abi.plumb_error()
        vtable = wrapped._vtable
        status = vtable.compile(wrapped._handle.pointer, ctypes.byref(source), ctypes.byref(program), ctypes.byref(n_hooks),
                                ctypes.byref(err))
        wrapped._check(status, err)
        self._handle = _lib.Handle("program", program, lambda p: wrapped._vtable.free(p))  # the wrapper outlives it

    def __call__(self, feeds: Mapping[str, Any]) -> Dict[str, Array]:
        unknown = [n for n in feeds if n not in self.inputs]
        if unknown:
            raise ValueError(f"the model has no input {unknown[0]!r}; available: {', '.join(self.inputs)}")
        given = (ctypes.c_void_p * max(1, len(self.inputs)))()
        made = (ctypes.c_void_p * max(1, len(self.outputs)))()
        args, err = _abi.plumb_run_args(n_in=len(self.inputs), n_out=len(self.outputs)), _abi.plumb_error()
        setattr(args, "in", given)
        args.out = made
        try:
            for i, name in enumerate(self.inputs):
                given[i] = _datum(feeds[name]) if name in feeds else None
            status = self._wrapped._vtable.run(self._handle.pointer, ctypes.byref(args), ctypes.byref(err))
            self._wrapped._check(status, err)
            return {n: _array(made[i]) for i, n in enumerate(self.outputs)}
        finally:
            for datum in (*given, *made):
                _host().unref(datum)


class Wrapped:
    """An engine with checkpoints: wrapped(model) compiles a model, and the result runs it. `log` has what was written."""

    def __init__(self, engine: Engine, options: Dict[str, Any]) -> None:
        self.log: List[str] = []
        self._inner = _Vtable(engine, str(options.get("name") or "python"))
        made = _lib.options("plumb_wrap_options", "PLUMB_OPTIONS_WRAP", options)
        log = self.log
        self._log = _kinds(_abi.plumb_wrap_options)["log"](lambda _ctx, line: log.append(_lib.text_of(line)))
        made.log = self._log
        self._handle = _lib.make("wrapped", "plumb_wrap_backend", "plumb_wrapped_free", ctypes.byref(self._inner.struct), None,
                                 ctypes.byref(made))
        self._vtable = _lib.lib().plumb_wrapped_backend(self._handle.pointer).contents

    def __call__(self, model: Any) -> Compiled:
        return Compiled(self, model)

    def _check(self, status: int, err: Any) -> None:
        if status == _abi.PLUMB_OK:
            return
        raised, self._inner.raised = self._inner.raised, None
        if raised is not None:
            raise raised
        _lib.fail(status, err)


def wrap(engine: Engine, level: int = 2, *, spec: Optional[str] = None, name: Optional[str] = None,
         debug_dir: Optional[PathLike] = None, no_data: bool = False) -> Wrapped:
    """An ONNX engine of yours with checkpoints: when it fails, the model and its inputs are on disk, ready for `plumb minify`.

    engine     a function: bytes of an ONNX model to a function {name: array} -> {name: array} (or the outputs in order)
    level      0: off. 1, 2: a checkpoint when it raises. 3: before it compiles and runs. 4: when a result is wrong; the wrong
               result is passed on
    spec       how plumb opens the same engine, for the repro: "cmd:python3 engine.py"
    name       "forward", "backward": graphs that are wrapped apart
    debug_dir  folder for the checkpoints; None: plumb-debug
    no_data    keep shapes and types only
    What the engine raises is raised again.
    """
    return Wrapped(engine, {"level": level, "spec": spec, "name": name, "debug_dir": debug_dir, "no_data": no_data})

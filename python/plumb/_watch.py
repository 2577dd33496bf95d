"""Watches one run of a module: every tensor that an operation or a module returns, in order.

Three nets, each for what the one before it misses:
  a TorchFunctionMode sees calls of torch functions and tensor methods; functions of torch that are written
  in Python (multi_head_attention_forward, ...) are entered, so that the calls inside are seen as well;
  forward hooks see what modules return, and tell which module an operation belongs to;
  a TorchDispatchMode sees operations that no torch function call contains (scripted code, C++ extensions).

A value is a tensor object at one version: an in-place operation makes a new value, and what was recorded
before it has been written already. The same tensor seen again (a module returns what its last operation
returned) is a further name of that value, not a second record.
"""
from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
import types
import weakref
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch import Tensor
from torch._jit_internal import FunctionModifiers
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from ._onnx import TAG

try:
    from torch.overrides import TorchFunctionMode
except ImportError as e:
    raise ImportError(f"plumb needs torch 1.13 or later (this is {torch.__version__})") from e
try:
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:
    TorchDispatchMode = None

Source = Tuple[str, int, str]  # file, line, function
_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
_WITH_KWARGS = {"with_kwargs": True} if "with_kwargs" in inspect.signature(
    torch.nn.Module.register_forward_pre_hook).parameters else {}  # torch 2.0 and later


class Value:
    """One tensor seen during the run."""

    def __init__(self, **fields: Any) -> None:
        self.call: Optional[int] = None  # number of the call that made it
        self.path = ""          # where it stands in what was returned: "", "[0]", "[1].h"
        self.module = ""        # path of the module it was made in
        self.op = ""            # the function
        self.names: List[Tuple[str, int, str]] = []  # (module path, call number, path): modules that returned it
        self.aliases: List[int] = []     # calls that returned it unchanged
        self.fx: List[str] = []
        self.consumers: Set[int] = set()  # numbers of calls that took it
        self.depends = False    # on the inputs
        self.flags: Set[str] = set()
        self.shape: Tuple[Any, ...] = ()
        self.dtype: Any = None
        self.summary: Any = None  # what the sink returned
        self.changed: Optional[Value] = None  # its value before it was changed through a view
        self.changed_by: Optional[int] = None  # number of the call that did it
        self.quantised: Optional[Dict[str, Any]] = None  # scale, zero point ... of a quantised tensor
        self.twin: Optional[int] = None  # of a quantised tensor's values, number of the one with its codes
        self.__dict__.update(fields)


class Call:
    def __init__(self, module: Module, op: str, leaf: bool, depth: int, source: Optional[Source]) -> None:
        self.module, self.op, self.leaf, self.depth = module, op, leaf, depth
        self.source = source     # (file, line, function) of the model's code that made the call, or None
        self.outs: List[int] = []  # numbers of the values it made
        self.takes: List[int] = []  # numbers of the values it was given
        self.depends = False     # on the inputs
        self.in_place = False    # changed what it was given
        self.python: Any = None  # the Python number it returned


def tensors_in(thing: Any, path: str = "") -> Iterator[Tuple[str, Tensor]]:
    """(path, tensor) for each tensor in nested tuples, lists, dicts and objects made of them."""
    if isinstance(thing, torch.Tensor):
        yield path, thing
    elif isinstance(thing, dict):
        for k, v in thing.items():
            yield from tensors_in(v, f"{path}[{k!r}]")
    elif isinstance(thing, tuple) and hasattr(thing, "_fields"):
        for k in thing._fields:
            yield from tensors_in(getattr(thing, k), f"{path}.{k}")
    elif isinstance(thing, (list, tuple)):
        for i, v in enumerate(thing):
            yield from tensors_in(v, f"{path}[{i}]")
    elif hasattr(thing, "__dataclass_fields__") and not isinstance(thing, type):
        for k in thing.__dataclass_fields__:
            yield from tensors_in(getattr(thing, k, None), f"{path}.{k}")


def function_name(func: Any) -> str:
    name = getattr(func, "__name__", None) or str(func)
    if name in ("__get__", "__set__"):
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    return name


def version(tensor: Tensor) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # an inference tensor has none
        return 0


_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TORCHS = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
RUNNER = "run_model"  # the function of plumb's that calls the model: what stands above it is not the model's


def _where() -> Optional[Source]:
    """(file, line, function) of the innermost frame of the model's own code; None when torch's own code made the call."""
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        own = code.co_filename.startswith(_OWN)
        if own and code.co_name == RUNNER:
            return None
        if not own and code.co_filename != TAG and not code.co_filename.startswith((_TORCHS, "<")):
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return None


def _memory(tensor: Tensor) -> Optional[int]:
    """A key shared by all views of the same memory; None for a tensor without memory."""
    try:
        return (tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()).data_ptr() or None
    except (RuntimeError, NotImplementedError):
        return None


def quantisation(tensor: Tensor) -> Dict[str, Any]:
    """How the codes of a quantised tensor stand for numbers, for the metadata."""
    about = {"dtype": str(tensor.dtype).split(".")[-1], "scheme": str(tensor.qscheme()).split(".")[-1]}
    if "per_channel" in about["scheme"]:
        about.update(axis=tensor.q_per_channel_axis(), scale=tensor.q_per_channel_scales().tolist(),
                     zero_point=tensor.q_per_channel_zero_points().tolist())
    else:
        about.update(scale=tensor.q_scale(), zero_point=tensor.q_zero_point())
    return about


@contextlib.contextmanager
def tracing_paused() -> Iterator[None]:
    state = torch._C._get_tracing_state()
    if state is None:
        yield
        return
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)


_through = lambda func, args, kwargs: func(*args, **kwargs)  # noqa: E731  one line: its number is co_firstlineno


def _tagged(number: int) -> Any:
    """_through, in a frame that torch's tracer notes as the innermost of a node's stack trace. torch.export keeps
    only frames of functions that are called forward."""
    code = _through.__code__.replace(co_filename=TAG, co_firstlineno=number + 1, co_name="forward")
    return types.FunctionType(code, globals())


class _FunctionMode(TorchFunctionMode):  # type: ignore[misc]
    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self.watcher = watcher

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.watcher.on_call(func, args, kwargs or {})


if TorchDispatchMode is not None:
    class _DispatchMode(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self, watcher: Watcher) -> None:
            super().__init__()
            self.watcher = watcher

        def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with self.watcher.quiet():
                out = func(*args, **(kwargs or {}))
            self.watcher.on_dispatch(func, out)
            return out


class Watcher:
    """sink(tensor) is called once for each value and keeps what it needs of it; it may raise _file.UnsupportedError,
    which is passed to `refuse`. With tag=True each call runs in a frame that carries its number."""

    def __init__(self, model: Module, sink: Any, refuse: Any, tag: bool = False) -> None:
        self.model, self.sink, self.refuse, self.tag = model, sink, refuse, tag
        self.restart()
        self.opaque: List[str] = []
        self.constants: Dict[int, Tuple[Tensor, int]] = {}  # id of a parameter or buffer: (it, its version before the run)
        self.busy = 0                       # inside a call that is seen as a whole
        self.expanded: Dict[Any, Any] = {}
        self.entered: List[Any] = []        # functions of torch whose Python code is running
        self.mode = _FunctionMode(self)
        self.thread: Optional[int] = None

    def restart(self) -> None:
        self.values: List[Value] = []
        self.calls: List[Call] = []
        self.module_calls: List[Tuple[str, int, bool, List[int]]] = []
        self.inputs: List[int] = []         # numbers of values, in flattened order
        self.outputs: List[int] = []
        self.stack: List[Tuple[str, int]] = []  # (module path, call number) of the modules that are running
        self.times: Dict[str, int] = {}
        self.live: Dict[int, Tuple[Any, Optional[int], int]] = {}  # by id: (weak reference, version, value)
        self.changes: Dict[Any, int] = {}   # memory: number of the last call that changed it in place

    # ---- values ------------------------------------------------------------------------------------

    def find(self, tensor: Tensor) -> Optional[int]:
        entry = self.live.get(id(tensor))
        if entry is None or entry[0]() is not tensor:
            return None
        if entry[1] is None:  # seen below autograd, which had not yet given it its version
            self.live[id(tensor)] = (entry[0], version(tensor), entry[2])
        elif entry[1] != version(tensor):
            return None
        return entry[2]

    def add(self, tensor: Tensor, has_version: bool = True, **fields: Any) -> int:
        """Adds a value; for a quantised tensor two, the dequantised value and its codes. Returns the number of the first."""
        if tensor.is_quantized:
            number = self.add_quantised(tensor, fields)
        else:
            number = self.add_value(tensor, fields)
        self.live[id(tensor)] = (weakref.ref(tensor), version(tensor) if has_version else None, number)
        return number

    def add_quantised(self, tensor: Tensor, fields: Any) -> int:
        with tracing_paused():
            try:
                about, plain, codes = quantisation(tensor), tensor.dequantize(), tensor.int_repr()
            except RuntimeError as e:  # a kind of quantised tensor that has no such thing
                self.refuse(fields, f"quantised tensor ({tensor.dtype}): {str(e).splitlines()[0]}")
                about, plain, codes = None, None, None
        if plain is None:
            self.values.append(Value(shape=tuple(tensor.shape), dtype=tensor.dtype, **fields))
            return len(self.values) - 1
        number = self.add_value(plain, dict(fields, quantised=about))
        self.values[number].twin = self.add_value(codes, dict(
            fields, quantised=about, path=fields.get("path", "") + ".codes", flags=set()))
        return number

    def add_value(self, tensor: Tensor, fields: Any) -> int:
        shape: Tuple[Optional[int], ...] = ()  # a nested tensor has none
        try:
            with tracing_paused():  # a traced shape is made of tensors, and a node of the graph
                summary = self.sink(tensor)
                shape = tuple(d if type(d) is int else None for d in tensor.shape)  # None: torch.export's symbols
        except Exception as e:
            if type(e).__name__ != "UnsupportedError":
                raise
            self.refuse(fields, str(e))
            summary = None
        self.values.append(Value(summary=summary, shape=shape, dtype=tensor.dtype, **fields))
        return len(self.values) - 1

    def is_constant(self, tensor: Tensor) -> bool:
        """A parameter or buffer as it was before the run; one that the run changes is a value like others."""
        entry = self.constants.get(id(tensor))
        return entry is not None and entry[0] is tensor and entry[1] == version(tensor)

    def module(self) -> str:
        return self.stack[-1][0] if self.stack else ""

    def take(self, tensor: Tensor) -> Optional[int]:
        """The value of an argument. A tensor changed through a view is a new value."""
        number = self.find(tensor)
        if number is None:
            entry = self.live.get(id(tensor))
            if entry is not None and entry[0]() is tensor:
                number = self.add(tensor, module=self.module(), op="changed", path="", depends=True,
                                  changed=self.values[entry[2]], changed_by=self.changes.get(_memory(tensor)))
        return number

    def twins(self, number: int) -> List[int]:
        """The value and, for a quantised tensor, the value of its codes."""
        twin = self.values[number].twin
        return [number] if twin is None else [number, twin]

    # ---- calls of torch functions ------------------------------------------------------------------

    def expand(self, func: Any) -> Any:
        """The same Python function without its checks for overrides; None for what is not Python or not torch's."""
        if not isinstance(func, types.FunctionType) or not (func.__module__ or "").startswith("torch"):
            return None
        if func in self.entered:  # its check for overrides stands in a function that it calls
            return None
        if func not in self.expanded:
            names = dict(func.__globals__)
            names.update({c: (lambda *_: False) for c in _CHECKS if c in names})
            copy = types.FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
            copy.__kwdefaults__ = func.__kwdefaults__
            self.expanded[func] = copy
        return self.expanded[func]

    def on_call(self, func: Any, args: Any, kwargs: Any) -> Any:
        if self.busy or not self.stack:
            return func(*args, **kwargs)
        with self.quiet():
            return self.watch_call(func, args, kwargs)

    @contextlib.contextmanager
    def quiet(self, step: int = 1) -> Iterator[None]:
        """Calls inside are plumb's own and are not recorded (step -1: the model's again)."""
        self.busy += step
        try:
            yield
        finally:
            self.busy -= step

    def watch_call(self, func: Any, args: Any, kwargs: Any) -> Any:
        inner = self.expand(func)
        number = len(self.calls)
        call = Call(self.module(), function_name(func), inner is None, len(self.entered), _where())
        self.calls.append(call)
        given = [t for _, t in tensors_in((args, kwargs))]
        for t in given:
            value = self.take(t)
            if value is not None:
                call.depends |= self.values[value].depends
                call.takes.append(value)
                for v in self.twins(value) if inner is None else []:
                    self.values[v].consumers.add(number)
        versions = [version(t) for t in given]
        if inner is not None:
            self.entered.append(func)
            try:
                with self.quiet(-1), self.mode:
                    out = inner(*args, **kwargs)
            finally:
                self.entered.pop()
        else:
            out = (_tagged(number) if self.tag else _through)(func, args, kwargs)
        self.after_call(number, call, out, given, versions)
        return out

    def after_call(self, number: int, call: Call, out: Any, given: Any, versions: List[int]) -> None:
        returned = list(tensors_in(out))
        if type(out) in (bool, int, float, complex) or call.op == "tolist":
            call.python = out
        for t, before in zip(given, versions):  # changed in place and not returned: x[0] = 1, out=
            if version(t) == before:
                continue
            call.in_place = True
            memory = _memory(t)
            if memory is not None and call.leaf:
                self.changes[memory] = number
            if not any(t is r for _, r in returned):
                returned.append(("", t))
        for path, t in returned:
            if self.is_constant(t) or call.op in _EMPTY:
                continue
            known = self.find(t)
            if known is not None:
                self.values[known].aliases.append(number)
                continue
            call.outs += self.twins(self.add(t, call=number, path=path, module=call.module, op=call.op,
                                             depends=call.depends))

    def on_getitem(self, original: Any) -> Any:
        """Tensor.__getitem__ of torch 1.13 does not ask the mode; this does."""
        watcher = self

        def __getitem__(tensor: Tensor, index: Any) -> Any:  # noqa: N807
            if watcher.elsewhere():
                return original(tensor, index)
            return watcher.on_call(original, (tensor, index), {})
        return __getitem__

    def on_dispatch(self, func: Any, out: Any) -> None:
        if self.busy or not self.stack:
            return
        name = func._schema.name if hasattr(func, "_schema") else str(func)
        if name.split("::")[-1] in _EMPTY + ("detach",):
            return
        in_place = name.endswith("_")
        with self.quiet():
            for path, t in tensors_in(out):
                if in_place or self.find(t) is None and not self.is_constant(t):
                    self.add(t, has_version=False, path=path, module=self.module(), op=name, depends=True)

    # ---- modules -----------------------------------------------------------------------------------

    def elsewhere(self) -> bool:
        """Modes apply to one thread; hooks and patches of torch.Tensor to all."""
        return threading.get_ident() != self.thread

    def before_module(self, path: str) -> Any:
        def hook(_module: Any, args: Any, kwargs: Any = None) -> None:
            if self.elsewhere():
                return
            if path == "" and not self.stack and self.tag and self.module_calls:
                self.restart()  # an exporter that tries again, another way
            self.times[path] = self.times.get(path, 0) + 1
            self.stack.append((path, self.times[path] - 1))
            if path == "" and not self.inputs:
                with self.quiet():
                    self.add_inputs((*args, *(kwargs or {}).values()))
        return hook

    def after_module(self, path: str, leaf: bool) -> Any:
        def hook(module: Module, _args: Any, out: Any) -> None:
            if self.elsewhere():
                return
            while self.stack[-1][0] != path:  # raised what a module around it has caught
                self.stack.pop()
            count = self.stack.pop()[1]
            with self.quiet():
                seen = [self.add_returned(module, path, count, where, t) for where, t in tensors_in(out)]
            outs = [n for n in seen if n is not None]
            if path == "" and not self.stack:
                self.outputs.extend(outs)
            self.module_calls.append((path, count, leaf, outs))
        return hook

    def add_returned(self, module: Module, path: str, count: int, where: str, tensor: Tensor) -> Optional[int]:
        number = self.find(tensor)
        if number is None:
            if path and self.is_constant(tensor):
                return None
            entry = self.live.get(id(tensor))
            before = self.values[entry[2]] if entry is not None and entry[0]() is tensor else None
            number = self.add(tensor, module=path, op=type(module).__name__, path=where, depends=True, changed=before,
                              changed_by=None if before is None else self.changes.get(_memory(tensor)))
        self.values[number].names.append((path, count, where))
        return number

    def add_inputs(self, args: Any) -> None:
        for path, t in tensors_in(args):
            number = self.find(t)
            if number is None:
                number = self.add(t, path=path, op="input", depends=True, flags={"input"})
            self.inputs.append(number)

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        handles, scripted = [], {}
        compiled = scripted_when_traced(self.model)
        self.constants = {id(t): (t, version(t)) for t in (*self.model.parameters(), *self.model.buffers())}
        try:
            for path, m in self.model.named_modules():
                pair = self.before_module(path), self.after_module(path, not any(True for _ in m.children()))
                if isinstance(m, torch.jit.ScriptModule):  # has no hooks of its own
                    scripted[id(m)] = pair
                    self.opaque.append(f"{path or 'model'}: scripted; its operations are recorded without its modules")
                elif id(m) in compiled:
                    scripted[id(m)] = pair
                else:
                    handles.append(m.register_forward_hook(pair[1]))
                    handles.append(m.register_forward_pre_hook(pair[0], **_WITH_KWARGS))
            if scripted:
                handles += self.global_hooks(scripted)
            yield
        finally:
            for h in handles:
                h.remove()

    @staticmethod
    def global_hooks(scripted: Any) -> List[Any]:
        def before(module: Module, args: Any) -> None:
            if id(module) in scripted:
                scripted[id(module)][0](module, args)

        def after(module: Module, args: Any, out: Any) -> None:
            if id(module) in scripted:
                scripted[id(module)][1](module, args, out)
        return [register_module_forward_pre_hook(before), register_module_forward_hook(after)]

    @contextlib.contextmanager
    def watching(self, dispatch: bool = True) -> Iterator['Watcher']:
        """Records what runs inside, on this thread."""
        self.thread = threading.get_ident()
        own = "__getitem__" in torch.Tensor.__dict__
        original = torch.Tensor.__getitem__
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.hooks())
            if not own and not _mode_sees_getitem():
                torch.Tensor.__getitem__ = self.on_getitem(original)
                stack.callback(lambda: delattr(torch.Tensor, "__getitem__"))
            if dispatch and TorchDispatchMode is not None:
                stack.enter_context(_DispatchMode(self))
            stack.enter_context(self.mode)
            yield self


def _has_exports(module: Module) -> bool:
    methods = {name: f for kind in reversed(type(module).__mro__) for name, f in vars(kind).items()}
    return any(getattr(f, "_torchscript_modifier", None) is FunctionModifiers.EXPORT for f in methods.values())


def scripted_when_traced(model: Module) -> Set[int]:
    """ids of the modules that torch.jit.trace compiles (torch.ao's quantised ones): hooks of theirs would be compiled, too."""
    return {id(m) for top in model.modules() if not isinstance(top, torch.jit.ScriptModule) and _has_exports(top)
            for m in top.modules()}


def _mode_sees_getitem() -> bool:
    class Probe(TorchFunctionMode):  # type: ignore[misc]
        seen = False

        def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen = True
            return func(*args, **(kwargs or {}))
    x = torch.zeros(1)
    with Probe() as probe:
        x[0]
    return bool(probe.seen)

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
import contextlib
import inspect
import threading
import types
import weakref

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

try:
    from torch.overrides import TorchFunctionMode
except ImportError as e:
    raise ImportError(f"plumb needs torch 1.13 or later (this is {torch.__version__})") from e
try:
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:
    TorchDispatchMode = None

TAG = "plumb-call"  # file name of the frame around a call; its line is the number of the call
_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
_WITH_KWARGS = {"with_kwargs": True} if "with_kwargs" in inspect.signature(
    torch.nn.Module.register_forward_pre_hook).parameters else {}  # torch 2.0 and later


class Value:
    """One tensor that was seen."""

    def __init__(self, **fields):
        self.call = None        # number of the call that made it
        self.path = ""          # where it stands in what was returned: "", "[0]", "[1].h"
        self.module = ""        # path of the module it was made in
        self.op = ""            # the function
        self.names = []         # (module path, call number, path): modules that returned it
        self.aliases = []       # calls that returned it unchanged
        self.fx = []
        self.consumers = set()  # numbers of calls that took it
        self.depends = False    # on the inputs
        self.flags = set()
        self.summary = None     # what the sink returned
        self.__dict__.update(fields)


class Call:
    def __init__(self, module, op, leaf, depth):
        self.module, self.op, self.leaf, self.depth = module, op, leaf, depth
        self.outs = []  # numbers of the values it made


def tensors_in(thing, path=""):
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


def function_name(func):
    name = getattr(func, "__name__", None) or str(func)
    if name in ("__get__", "__set__"):
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    return name


def version(tensor):
    try:
        return tensor._version
    except RuntimeError:  # an inference tensor has none
        return 0


@contextlib.contextmanager
def tracing_paused():
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


def _tagged(number):
    """_through, in a frame that torch's tracer notes as the innermost of a node's stack trace. torch.export keeps
    only frames of functions that are called forward."""
    code = _through.__code__.replace(co_filename=TAG, co_firstlineno=number + 1, co_name="forward")
    return types.FunctionType(code, globals())


class _FunctionMode(TorchFunctionMode):
    def __init__(self, watcher):
        super().__init__()
        self.watcher = watcher

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        return self.watcher.on_call(func, args, kwargs or {})


if TorchDispatchMode is not None:
    class _DispatchMode(TorchDispatchMode):
        def __init__(self, watcher):
            super().__init__()
            self.watcher = watcher

        def __torch_dispatch__(self, func, _types, args=(), kwargs=None):
            with self.watcher.quiet():
                out = func(*args, **(kwargs or {}))
            self.watcher.on_dispatch(func, out)
            return out


class Watcher:
    """sink(tensor) is called once for each value and keeps what it needs of it; it may raise _file.Unsupported,
    which `refuse` is told of. With tag=True each call runs in a frame that carries its number."""

    def __init__(self, model, sink, refuse, tag=False):
        self.model, self.sink, self.refuse, self.tag = model, sink, refuse, tag
        self.restart()
        self.opaque = []
        self.constants = {}                 # id of a parameter or buffer: (it, its version before the run)
        self.busy = 0                       # inside a call that is seen as a whole
        self.expanded = {}
        self.entered = []                   # functions of torch whose Python code is running
        self.mode = _FunctionMode(self)
        self.thread = None

    def restart(self):
        self.values, self.calls, self.module_calls = [], [], []
        self.inputs, self.outputs = [], []  # numbers of values, in flattened order
        self.stack = []                     # (module path, call number) of the modules that are running
        self.times = {}
        self.live = {}                      # id of a tensor: (weak reference, version, number of its value)

    # ---- values ------------------------------------------------------------------------------------

    def find(self, tensor):
        entry = self.live.get(id(tensor))
        if entry is None or entry[0]() is not tensor:
            return None
        if entry[1] is None:  # seen below autograd, which had not yet given it its version
            self.live[id(tensor)] = (entry[0], version(tensor), entry[2])
        elif entry[1] != version(tensor):
            return None
        return entry[2]

    def add(self, tensor, has_version=True, **fields):
        shape = ()  # a nested tensor has none
        try:
            with tracing_paused():  # a traced shape is made of tensors, and a node of the graph
                summary = self.sink(tensor)
                shape = tuple(d if type(d) is int else None for d in tensor.shape)  # None: torch.export's symbols
        except Exception as e:
            if type(e).__name__ != "Unsupported":
                raise
            self.refuse(fields, str(e))
            summary = None
        value = Value(summary=summary, shape=shape, dtype=tensor.dtype, **fields)
        self.values.append(value)
        number = len(self.values) - 1
        self.live[id(tensor)] = (weakref.ref(tensor), version(tensor) if has_version else None, number)
        return number

    def is_constant(self, tensor):
        """A parameter or buffer as it was before the run; one that the run changes is a value like others."""
        entry = self.constants.get(id(tensor))
        return entry is not None and entry[0] is tensor and entry[1] == version(tensor)

    def module(self):
        return self.stack[-1][0] if self.stack else ""

    def take(self, tensor):
        """The value of an argument. A tensor that was changed behind a view is a value of its own."""
        number = self.find(tensor)
        if number is None:
            entry = self.live.get(id(tensor))
            if entry is not None and entry[0]() is tensor:
                before = self.values[entry[2]]
                number = self.add(tensor, module=self.module(), op="changed", path="", depends=True,
                                  changed=before)
        return number

    # ---- calls of torch functions ------------------------------------------------------------------

    def expand(self, func):
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

    def on_call(self, func, args, kwargs):
        if self.busy or not self.stack:
            return func(*args, **kwargs)
        with self.quiet():
            return self.watch_call(func, args, kwargs)

    @contextlib.contextmanager
    def quiet(self, step=1):
        """What runs inside is plumb's own (step -1: the model's again)."""
        self.busy += step
        try:
            yield
        finally:
            self.busy -= step

    def watch_call(self, func, args, kwargs):
        inner = self.expand(func)
        number = len(self.calls)
        call = Call(self.module(), function_name(func), inner is None, len(self.entered))
        self.calls.append(call)
        given = [t for _, t in tensors_in((args, kwargs))]
        depends = False
        for t in given:
            value = self.take(t)
            if value is not None:
                depends |= self.values[value].depends
                if inner is None:
                    self.values[value].consumers.add(number)
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
        self.after_call(number, call, out, given, versions, depends)
        return out

    def after_call(self, number, call, out, given, versions, depends):
        returned = list(tensors_in(out))
        for t, before in zip(given, versions):  # changed in place and not returned: x[0] = 1, out=
            if version(t) != before and not any(t is r for _, r in returned):
                returned.append(("", t))
        for path, t in returned:
            if self.is_constant(t) or call.op in _EMPTY:
                continue
            known = self.find(t)
            if known is not None:
                self.values[known].aliases.append(number)
                continue
            call.outs.append(self.add(t, call=number, path=path, module=call.module, op=call.op, depends=depends))

    def on_getitem(self, original):
        """Tensor.__getitem__ of torch 1.13 does not ask the mode; this does."""
        watcher = self

        def __getitem__(tensor, index):
            if watcher.elsewhere():
                return original(tensor, index)
            return watcher.on_call(original, (tensor, index), {})
        return __getitem__

    def on_dispatch(self, func, out):
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

    def elsewhere(self):
        """Modes are of one thread; hooks and what is put into torch.Tensor are not."""
        return threading.get_ident() != self.thread

    def before_module(self, path):
        def hook(_module, args, kwargs=None):
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

    def after_module(self, path, leaf):
        def hook(module, _args, out):
            if self.elsewhere():
                return
            while self.stack[-1][0] != path:  # raised what a module around it has caught
                self.stack.pop()
            count = self.stack.pop()[1]
            with self.quiet():
                outs = [self.add_returned(module, path, count, where, t) for where, t in tensors_in(out)]
            outs = [n for n in outs if n is not None]
            if path == "" and not self.stack:
                self.outputs.extend(outs)
            self.module_calls.append((path, count, leaf, outs))
        return hook

    def add_returned(self, module, path, count, where, tensor):
        number = self.find(tensor)
        if number is None:
            if path and self.is_constant(tensor):
                return None
            number = self.add(tensor, module=path, op=type(module).__name__, path=where, depends=True)
        self.values[number].names.append((path, count, where))
        return number

    def add_inputs(self, args):
        for path, t in tensors_in(args):
            number = self.find(t)
            if number is None:
                number = self.add(t, path=path, op="input", depends=True, flags={"input"})
            self.inputs.append(number)

    @contextlib.contextmanager
    def hooks(self):
        handles, scripted = [], {}
        self.constants = {id(t): (t, version(t)) for t in (*self.model.parameters(), *self.model.buffers())}
        try:
            for path, m in self.model.named_modules():
                pair = self.before_module(path), self.after_module(path, not any(True for _ in m.children()))
                if isinstance(m, torch.jit.ScriptModule):  # has no hooks of its own
                    scripted[id(m)] = pair
                    self.opaque.append(f"{path or 'model'}: scripted; its operations are recorded without its modules")
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
    def global_hooks(scripted):
        def before(module, args):
            if id(module) in scripted:
                scripted[id(module)][0](module, args)

        def after(module, args, out):
            if id(module) in scripted:
                scripted[id(module)][1](module, args, out)
        return [register_module_forward_pre_hook(before), register_module_forward_hook(after)]

    @contextlib.contextmanager
    def watching(self, dispatch=True):
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


def _mode_sees_getitem():
    class Probe(TorchFunctionMode):
        seen = False

        def __torch_function__(self, func, _types, args=(), kwargs=None):
            self.seen = True
            return func(*args, **(kwargs or {}))
    x = torch.zeros(1)
    with Probe() as probe:
        x[0]
    return probe.seen

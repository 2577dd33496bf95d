"""torch.compile under watch: wraps a dynamo backend, and names the fx node that goes wrong.

A backend is a function (GraphModule, example inputs) -> function. The watched one runs it, compares it with eager (PyTorch's
`same` with an fp64 run), and when it fails searches the prefixes of the graph for the first node that fails, tries that
node alone on the inputs it had, writes a repro script that needs only torch, and raises. Works on fx graphs of torch 1.13 and
later; torch.compile itself came with torch 2.0.
"""
from __future__ import annotations

import copy
import inspect
import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
import torch.fx

from ._same import same

_Backend = Callable[[Any, List[Any]], Callable[..., Any]]


class CompileError(RuntimeError):
    """The compiled graph failed or is wrong.

    kind    "error" (the backend raised), "timeout", "accuracy", "metadata" (type, shape or strides), "nondeterministic"
    node    name of the first fx node that fails; op: what it calls; source: its line in the model, "" when unknown
    nodes   how many nodes the repro has; repro: its folder, "" when it could not be written
    """

    def __init__(self, kind: str, text: str, node: Any, nodes: int, repro: str) -> None:
        self.kind, self.text, self.nodes, self.repro = kind, text, nodes, repro
        self.node = "" if node is None else str(node.name)
        self.op = "" if node is None else _target(node)
        self.source = "" if node is None else _line(node)
        where = f" at node {self.node} ({self.op}{', ' + self.source if self.source else ''})" if self.node else ""
        super().__init__(f"{kind}{where}: {text}" + (f"\nrepro: python3 {os.path.join(repro, 'repro.py')}" if repro else ""))


class AccuracyError(CompileError):
    """The compiled graph and eager compute different results."""


def _target(node: Any) -> str:
    return str(getattr(node.target, "__name__", None) or node.target)


def _line(node: Any) -> str:
    """The innermost line of the model in the node's stack trace."""
    import re
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.stack_trace or "")
    own = [f for f in frames if os.sep + "torch" + os.sep not in f[0]]
    return f"{own[-1][0]}:{own[-1][1]}" if own else ""


def _lookup(backend: Union[str, _Backend]) -> _Backend:
    if callable(backend):
        return backend
    if not hasattr(torch, "compile"):
        raise NotImplementedError(f"backend {backend!r} needs torch 2.0 or later (this is {torch.__version__}); "
                                  "pass a function (GraphModule, inputs) instead")
    import importlib
    found: _Backend = importlib.import_module("torch._dynamo").lookup_backend(backend)
    return found


def _tensors(thing: Any) -> List[Any]:
    return list(thing) if isinstance(thing, (tuple, list)) else [thing]


def _clone(inputs: Sequence[Any]) -> List[Any]:
    """Copies that keep the strides."""
    return [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in inputs]


def _rolled(inputs: Sequence[Any]) -> List[Any]:
    """The same inputs with elements rotated: exposes a result that does not depend on them."""
    return [t.roll(1) if isinstance(t, torch.Tensor) and t.dim() and t.is_floating_point() else t for t in inputs]


def _double(gm: Any, inputs: Sequence[Any]) -> Any:
    """The outputs in fp64, or None."""
    try:
        deep = copy.deepcopy(gm).double()
        for node in deep.graph.nodes:
            node.args = torch.fx.node.map_aggregate(node.args, _wide)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, _wide)
        deep.recompile()
        with torch.no_grad():
            return _tensors(deep(*[t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
                                   for t in _clone(inputs)]))
    except Exception:  # an operation without fp64
        return None


def _wide(thing: Any) -> Any:
    return torch.float64 if isinstance(thing, torch.dtype) and thing.is_floating_point else thing


class _Failure:
    def __init__(self, kind: str, text: str) -> None:
        self.kind, self.text = kind, text


class _Watched:
    def __init__(self, backend: Union[str, _Backend], level: int, folder: str, timeout: float, options: Dict[str, Any]) -> None:
        self.backend, self.level, self.folder, self.timeout, self.options = backend, level, folder, timeout, options
        self.compile = _lookup(backend)

    # ---- one question --------------------------------------------------------------------------

    def _limited(self, function: Callable[[], Any]) -> Any:
        """The result, or TimeoutError; a call that hangs keeps running in its thread."""
        if not self.timeout:
            return function()
        found: Dict[str, Any] = {}

        def work() -> None:
            try:
                found["value"] = function()
            except BaseException as e:
                found["error"] = e
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(self.timeout)
        if thread.is_alive():
            raise TimeoutError(f"timed out after {self.timeout:g} s")
        if "error" in found:
            raise found["error"]
        return found["value"]

    def fails(self, gm: Any, inputs: Sequence[Any]) -> Optional[_Failure]:
        """How the compiled graph differs from eager; None if it does not."""
        with torch.no_grad():
            want = _tensors(copy.deepcopy(gm)(*_clone(inputs)))
        try:
            compiled = self._limited(lambda: self.compile(copy.deepcopy(gm), _clone(inputs)))
            got = self._limited(lambda: _tensors(_call(compiled, _clone(inputs))))
            again = self._limited(lambda: _tensors(_call(compiled, _clone(inputs))))
            others = _rolled(inputs) if self.level >= 4 else []
            stale = self._limited(lambda: _tensors(_call(compiled, _clone(others)))) if others else []
        except TimeoutError as e:
            return _Failure("timeout", str(e))
        except Exception as e:
            return _Failure("error", f"{type(e).__name__}: {e}".splitlines()[0][:300])
        failure = self.judge(gm, inputs, want, got, again)
        if failure is None and others:
            with torch.no_grad():
                want = _tensors(copy.deepcopy(gm)(*_clone(others)))
            failure = self.judge(gm, others, want, stale, stale)
            if failure is not None:
                failure.text = "on the next inputs: " + failure.text
        return failure

    def judge(self, gm: Any, inputs: Sequence[Any], want: List[Any], got: List[Any], again: List[Any]) -> Optional[_Failure]:
        if len(want) != len(got):
            return _Failure("metadata", f"{len(got)} outputs, but eager has {len(want)}")
        for i, (a, b) in enumerate(zip(want, got)):
            text = _metadata(a, b)
            if text:
                return _Failure("metadata", f"output {i}: {text}")
        if not self.level >= 4:
            return None
        deep = _double(gm, inputs)
        first = same(want, got, deep, **self.options)
        if not first:
            return _Failure("accuracy", f"output {first.path}: {first.why}")
        if not _equal(got, again):
            return _Failure("nondeterministic", "two runs on the same inputs differ")
        return None

    # ---- the search ----------------------------------------------------------------------------

    def explain(self, gm: Any, inputs: Sequence[Any], failure: _Failure) -> CompileError:
        """The error to raise: the first node that fails in the same way, alone if possible."""
        node, small, feeds = self._first(gm, inputs, failure)
        folder = ""
        if self.level >= 2:
            folder = _write(small, feeds, self.backend, failure, self.folder)
        kind = AccuracyError if failure.kind in ("accuracy", "metadata", "nondeterministic") else CompileError
        return kind(failure.kind, failure.text, node, _n_calls(small), folder)

    def _first(self, gm: Any, inputs: Sequence[Any], failure: _Failure) -> Tuple[Any, Any, Sequence[Any]]:
        values = _values(gm, inputs)

        def bad(last: Any) -> bool:
            found = self.fails(_prefix(gm, last), inputs)
            return found is not None and found.kind == failure.kind
        ends = [n for n in list(gm.graph.nodes)[-1].all_input_nodes if n.op.startswith("call_")]
        end = next((n for n in ends if bad(n)), None)
        if end is None:
            return None, gm, inputs  # only the whole graph fails
        above = _ancestors(end)
        calls = [n for n in gm.graph.nodes if n in above and n.op.startswith("call_") and isinstance(values.get(n), torch.Tensor)]
        low, high = 0, len(calls) - 1
        while low < high:
            middle = (low + high) // 2
            if bad(calls[middle]):
                high = middle
            else:
                low = middle + 1
        node = calls[high]
        for depth in (1, 2, 3):
            small, feeds = _window(gm, node, values, depth)
            found = self.fails(small, feeds)
            if found is not None and found.kind == failure.kind:
                return node, small, feeds
        return node, _prefix(gm, node), inputs

    # ---- the backend ---------------------------------------------------------------------------

    def __call__(self, gm: Any, inputs: List[Any], **more: Any) -> Callable[..., Any]:
        kept = copy.deepcopy(gm)
        try:
            compiled = self._limited(lambda: self.compile(gm, inputs, **more))
        except Exception as e:
            kind = "timeout" if isinstance(e, TimeoutError) else "error"
            raise self.explain(kept, inputs, _Failure(kind, f"{type(e).__name__}: {e}".splitlines()[0][:300])) from e

        def run(*args: Any) -> Any:
            before = _clone(args)
            try:
                out = self._limited(lambda: _call(compiled, list(args)))
            except Exception as e:
                kind = "timeout" if isinstance(e, TimeoutError) else "error"
                raise self.explain(kept, before, _Failure(kind, f"{type(e).__name__}: {e}".splitlines()[0][:300])) from e
            if self.level >= 4:
                failure = self.fails(kept, before)
                if failure is not None:
                    raise self.explain(kept, before, failure)
            return out
        return run


def _call(compiled: Any, args: List[Any]) -> Any:
    with torch.no_grad():
        return compiled(*args)


def _metadata(a: Any, b: Any) -> str:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return "" if type(a) is type(b) else f"{type(b).__name__}, eager has {type(a).__name__}"
    if a.dtype != b.dtype:
        return f"{b.dtype}, eager has {a.dtype}"
    if a.shape != b.shape:
        return f"shape {list(b.shape)}, eager has {list(a.shape)}"
    strides = [(s, t) for s, t, d in zip(a.stride(), b.stride(), a.shape) if d > 1]
    if any(s != t for s, t in strides):
        return f"strides {list(b.stride())}, eager has {list(a.stride())}"
    return ""


def _equal(a: List[Any], b: List[Any]) -> bool:
    return all(not isinstance(x, torch.Tensor) or torch.equal(torch.nan_to_num(x.detach().double()), torch.nan_to_num(
        y.detach().double())) for x, y in zip(a, b) if not (isinstance(x, torch.Tensor) and x.is_complex()))


def _ancestors(node: Any) -> Any:
    """The node and everything it depends on."""
    found, todo = {node}, [node]
    while todo:
        for n in todo.pop().all_input_nodes:
            if n not in found:
                found.add(n)
                todo.append(n)
    return found


def _values(gm: Any, inputs: Sequence[Any]) -> Dict[Any, Any]:
    """What eager computes, node by node, cloned so that later in-place operations cannot change it."""
    found: Dict[str, Any] = {}

    class Keep(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            found[n.name] = _clone([value])[0]
            return value
    with torch.no_grad():
        Keep(copy.deepcopy(gm)).run(*_clone(inputs))
    return {n: found[n.name] for n in gm.graph.nodes if n.name in found}


def _prefix(gm: Any, last: Any) -> Any:
    """The graph up to a node, whose value is the output."""
    graph = torch.fx.Graph()
    env: Dict[Any, Any] = {}
    reached = False
    for node in gm.graph.nodes:
        if node.op == "output" or reached and node.op != "placeholder":
            continue
        env[node] = graph.node_copy(node, lambda n: env[n])
        reached = reached or node is last
    graph.output((env[last],))
    return torch.fx.GraphModule(gm, graph)


def _window(gm: Any, last: Any, values: Dict[Any, Any], depth: int) -> Tuple[Any, List[Any]]:
    """A node and its producers up to `depth` - 1 steps back; their inputs get the values of the run."""
    inside, edge = {last}, {last}
    for _ in range(depth - 1):
        edge = {p for n in edge for p in n.all_input_nodes if p.op.startswith("call_")}
        inside |= edge
    graph = torch.fx.Graph()
    env: Dict[Any, Any] = {}
    feeds: List[Any] = []
    needed = [n for n in gm.graph.nodes if n not in inside and n.op != "get_attr" and any(u in inside for u in n.users)]
    for node in needed:
        env[node] = graph.placeholder(node.name)
        feeds.append(values[node])
    for node in gm.graph.nodes:
        if node in inside or node.op == "get_attr" and any(u in inside for u in node.users):
            env[node] = graph.node_copy(node, lambda n: env[n])
    graph.output((env[last],))
    return torch.fx.GraphModule(gm, graph), feeds


def _n_calls(gm: Any) -> int:
    return sum(n.op.startswith("call_") for n in gm.graph.nodes)


# ---- the repro ---------------------------------------------------------------------------------------

_SCRIPT = '''"""{title}

Needs torch and nothing else: python3 repro.py. Exits 1 when the compiled graph fails, 0 when it does not.
{code}
"""
import os
import sys

import torch

here = os.path.dirname(os.path.abspath(__file__))
{backend}


def load(name):
    path = os.path.join(here, name)
    try:
        return torch.load(path, weights_only=False)
    except TypeError:
        return torch.load(path)


gm, inputs = load("graph.pt"), load("inputs.pt")
original = load("graph.pt")  # a backend may change what it is given
copies = [[t.clone() if isinstance(t, torch.Tensor) else t for t in inputs] for _ in range(4)]
with torch.no_grad():
    want = gm(*copies[0])
    try:
        compiled = backend(original, copies[1])
        got, again = compiled(*copies[2]), compiled(*copies[3])
    except Exception as e:
        sys.exit(f"{{type(e).__name__}}: {{e}}")
for a, b, c in zip(*[x if isinstance(x, (tuple, list)) else [x] for x in (want, got, again)]):
    if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
        sys.exit(f"{{b.dtype}} {{tuple(b.shape)}} {{b.stride()}}, eager has {{a.dtype}} {{tuple(a.shape)}} {{a.stride()}}")
    if not torch.allclose(b, a, rtol=1e-3, atol=1e-3, equal_nan=True):
        sys.exit(f"differs from eager by {{(a - b).abs().max().item():g}}")
    if not torch.equal(torch.nan_to_num(b), torch.nan_to_num(c)):
        sys.exit("two runs differ")
with torch.no_grad():
    other = [t.roll(1) if isinstance(t, torch.Tensor) and t.dim() and t.is_floating_point() else t for t in inputs]
    want, got = gm(*other), compiled(*other)
for a, b in zip(*[x if isinstance(x, (tuple, list)) else [x] for x in (want, got)]):
    if not torch.allclose(b, a, rtol=1e-3, atol=1e-3, equal_nan=True):
        sys.exit("on the next inputs it differs from eager: a stale result")
print("the same as eager")
'''


def _backend_line(backend: Union[str, _Backend]) -> str:
    if isinstance(backend, str):
        return f"import torch._dynamo\nbackend = torch._dynamo.lookup_backend({backend!r})"
    function: Any = backend
    if "<" in getattr(function, "__qualname__", "<") or not hasattr(function, "__module__"):
        return "raise SystemExit('the backend is a function without a name: put it here as `backend`')"
    file = os.path.abspath(inspect.getfile(function))
    name = os.path.splitext(os.path.basename(file))[0]
    return f"sys.path.insert(0, {os.path.dirname(file)!r})\nfrom {name} import {function.__qualname__} as backend"


def _write(gm: Any, inputs: Sequence[Any], backend: Union[str, _Backend], failure: _Failure, folder: str) -> str:
    base = os.path.join(folder, f"compile-{time.strftime('%Y%m%d-%H%M%S')}")
    target, n = base, 1
    while os.path.exists(target):
        target, n = f"{base}-{n}", n + 1
    os.makedirs(target)
    torch.save(gm, os.path.join(target, "graph.pt"))
    torch.save(list(inputs), os.path.join(target, "inputs.pt"))
    title = f"{failure.kind}: {failure.text}".replace('"""', "'''").replace("\\", "/")
    code = gm.code.replace('"""', "'''").replace("\\", "/")
    with open(os.path.join(target, "repro.py"), "w", encoding="utf-8") as f:
        f.write(_SCRIPT.format(title=title, code=code, backend=_backend_line(backend)))
    return os.path.abspath(target)


def watch(backend: Union[str, _Backend] = "inductor", level: int = 4, *, folder: str = "plumb-out", timeout: float = 0,
          **options: Any) -> Callable[..., Callable[..., Any]]:
    """A backend for torch.compile(net, backend=plumb.watch("inductor")) that checks another one.

    backend  a name that torch knows ("inductor", "aot_eager", "eager"; torch 2.0 and later) or a function (GraphModule, inputs)
    level    1: on an error, name the node; 2: and write a repro; 4: also when a result is wrong (types, shapes, strides,
             values by PyTorch's `same` with an fp64 run, two runs that differ). Raises CompileError or AccuracyError
    folder   for the repros
    timeout  seconds for each compile and run; 0 = none
    options  of plumb.same: tol, cos_similarity, ...
    """
    if level not in (0, 1, 2, 3, 4):
        raise ValueError(f"level is {level}, expected 0 to 4")
    if level == 0:
        return _lookup(backend)
    return _Watched(backend, level, folder, timeout, options)

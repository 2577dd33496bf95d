"""torch.compile under watch: wraps a dynamo backend, and names the fx node that goes wrong.

A backend is a function (GraphModule, example inputs) -> function. The watched one runs it, compares it with eager (PyTorch's
`same` with an fp64 run), and when it fails records both node by node, names the first fx node that differs, shrinks the graph
to the nodes that fail alone, writes a repro script that needs only torch, and raises. Works on fx graphs of torch 1.13 and
later; torch.compile itself came with torch 2.0.
"""
from __future__ import annotations

import copy
import importlib
import os
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

import torch
import torch.fx

from . import _graph, _inductor, _script
from ._oracle import Failure, InProcess, Isolated, judge, limited, of_exception, run_script

_MOST_QUERIES = 200  # of one minification


class CompileError(RuntimeError):
    """The compiled graph failed or is wrong.

    kind      "error" (the backend raised), "crash", "timeout", "accuracy", "metadata" (type, shape or strides) or
              "nondeterministic"
    node      name of the first fx node that fails; op: what it calls; source: its line in the model, "" when unknown
    nodes     number of nodes of the repro; nodes_before: of the graph
    rows      what eager and the compiled graph computed, node by node: dicts with node, op, shape, max_abs, same
    repro     folder of the repro, "" when none was written; verified: its script was run and fails in the same way
    """

    def __init__(self, kind: str, text: str, node: Any = None, **found: Any) -> None:
        self.kind, self.text = kind, text
        self.node = "" if node is None else str(node.name)
        self.op = "" if node is None else _graph.target(node)
        self.source = "" if node is None else _graph.line(node)
        self.nodes: int = found.get("nodes", 0)
        self.nodes_before: int = found.get("nodes_before", 0)
        self.rows: List[Dict[str, Any]] = found.get("rows", [])
        self.repro: str = found.get("repro", "")
        self.verified: bool = found.get("verified", False)
        where = f" at node {self.node} ({self.op}{', ' + self.source if self.source else ''})" if self.node else ""
        size = f"\n{self.nodes_before} nodes reduced to {self.nodes}" if self.nodes and self.nodes_before else ""
        script = f"\nrepro: python3 {os.path.join(self.repro, 'repro.py')}" if self.repro else ""
        super().__init__(f"{kind}{where}: {text}{size}{script}")


class AccuracyError(CompileError):
    """The compiled graph does not compute what eager computes."""


def _lookup(backend: Union[str, _script.Backend]) -> _script.Backend:
    if callable(backend):
        return backend
    if not hasattr(torch, "compile"):
        raise NotImplementedError(f"backend {backend!r} requires torch 2.0 or later (this is {torch.__version__}); "
                                  "pass a function (GraphModule, inputs) instead")
    found: _script.Backend = importlib.import_module("torch._dynamo").lookup_backend(backend)
    return found


class _Search:
    """From a graph that fails to the node to blame and the fewest nodes that still fail."""

    def __init__(self, gm: Any, inputs: Sequence[Any], failure: Failure, oracle: Union[InProcess, Isolated],
                 first: Optional[Callable[[], Any]] = None) -> None:
        self.gm, self.inputs, self.failure, self.oracle, self.hooked = gm, inputs, failure, oracle, first
        self.known = _graph.values(gm, inputs)
        self.tensors = _graph.recordable(gm, inputs, self.known)
        self.rows: List[Dict[str, Any]] = []

    def first(self) -> Any:
        """The first node that fails; None when only the whole graph does."""
        if self.failure.kind in ("error", "crash", "timeout"):
            return self._first_to_raise()
        hooked = self._by_hooks()
        return hooked if hooked is not None else self._first_to_differ()

    def _by_hooks(self) -> Any:
        """The node that inductor's own hooks show, when it fails alone; they do not change what is fused."""
        node = None if self.hooked is None else self.hooked()
        if node is None or not self._fails({node}, [node]):
            return None
        self._ask_all()
        return node

    def _first_to_raise(self) -> Any:
        """A prefix of the graph with all its values as outputs fails as soon as it has the node: bisection."""
        nodes = _graph.calls(self.gm)

        def bad(last: int) -> bool:
            shown = [n for n in nodes[:last + 1] if isinstance(self.known.get(n), torch.Tensor)]
            return bool(shown) and self.failure.like(self.oracle.ask(_graph.upto(self.gm, nodes[last], shown), self.inputs))
        low, high = 0, len(nodes) - 1
        if not nodes or not bad(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if bad(middle) else (middle + 1, high)
        return nodes[high]

    def _first_to_differ(self) -> Any:
        """Every value as an output, compared in the order of the graph."""
        if not self.tensors:
            return None
        start = self._ask_all()
        # The graph up to that node alone must fail, too: a later one may have written to its memory, or recording
        # changes what is fused.
        for node in self.tensors[start:]:
            if self.failure.like(self.oracle.ask(_graph.upto(self.gm, node, [node]), self.inputs)):
                return node
        return None if start == 0 else self.tensors[start]

    def _ask_all(self) -> int:
        """Compares every value as an output and keeps the rows; the number of the first that differs, 0 when none is known."""
        strides = self.failure.kind == "metadata"  # of a value inside, a compiler may choose them
        found = self.oracle.ask(_graph.upto(self.gm, _graph.calls(self.gm)[-1], self.tensors), self.inputs, strides)
        if found is None or not 0 <= found.output < len(self.tensors):
            return 0
        self._write_rows(found)
        return found.output

    def _write_rows(self, failure: Failure) -> None:
        for i, (node, a, b) in enumerate(zip(self.tensors, self.oracle.want, self.oracle.got)):
            fits = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape
            largest = (a.double() - b.double()).abs().max().item() if fits and a.numel() and not a.is_complex() else float("nan")
            self.rows.append({"node": node.name, "op": _graph.target(node), "shape": "x".join(map(str, a.shape)),
                              "max_abs": largest, "same": i < failure.output or _graph.same_bits(a, b)})

    # ---- minification --------------------------------------------------------------------------

    def _fails(self, inside: Set[Any], outputs: Sequence[Any]) -> bool:
        needed = self._needed(inside, outputs)
        small, feeds = _graph.part(self.gm, needed, outputs, self.known)
        if not all(isinstance(f, (torch.Tensor, int, float, bool)) for f in feeds):
            return False
        return self.failure.like(self.oracle.ask(small, feeds))

    @staticmethod
    def _needed(inside: Set[Any], outputs: Sequence[Any]) -> Set[Any]:
        """Those that lead to an output through each other."""
        found, todo = set(outputs), list(outputs)
        while todo:
            for n in todo.pop().all_input_nodes:
                if n in inside and n not in found:
                    found.add(n)
                    todo.append(n)
        return found

    def smallest(self, node: Any) -> Tuple[Any, Sequence[Any]]:
        """The fewest nodes that fail in the same way, on the values that they had; no single one of them can be left out."""
        if node is not None:
            outputs = [node]
            if self._fails({node}, outputs):
                return _graph.part(self.gm, {node}, outputs, self.known)
        else:
            outputs = [n for n in list(self.gm.graph.nodes)[-1].all_input_nodes if n.op.startswith("call_")]
        inside = _graph.above(outputs)
        if not outputs or not self._fails(inside, outputs):
            return self.gm, self.inputs
        inside = self._reduce(inside, outputs)
        return _graph.part(self.gm, inside, outputs, self.known)

    def _reduce(self, inside: Set[Any], outputs: Sequence[Any]) -> Set[Any]:
        """Takes chunks of nodes away (their values become inputs), half as large each time."""
        order = [n for n in self.gm.graph.nodes if n in inside and n not in outputs]
        size = max(1, len(order) // 2)
        limit = self.oracle.n_queries + _MOST_QUERIES
        while order and self.oracle.n_queries < limit:
            progress, start = False, 0
            while start < len(order) and self.oracle.n_queries < limit:
                rest = order[:start] + order[start + size:]
                if self._fails({*rest, *outputs}, outputs):
                    needed = self._needed({*rest, *outputs}, outputs)
                    order, progress = [n for n in rest if n in needed], True
                else:
                    start += size
            if size == 1 and not progress:
                break
            size = max(1, size // 2)
        return self._needed({*order, *outputs}, outputs)


class _Watched:
    def __init__(self, backend: Union[str, _script.Backend], level: int, folder: str, timeout: float, isolate: bool, verify: bool,
                 options: Dict[str, Any]) -> None:
        self.backend, self.level, self.folder, self.timeout, self.options = backend, level, folder, timeout, options
        self.isolate, self.verify = isolate, verify
        self.compile = _lookup(backend)
        if isolate and "raise SystemExit" in _script.backend_lines(backend, False):
            raise ValueError("isolate=True requires a backend that another process can import: a name, or a function of a module")

    def _oracle(self, random: bool) -> Union[InProcess, Isolated]:
        if self.isolate:
            return Isolated(self.backend, self.timeout, self.options, self.level >= 4, random)
        chosen = self.compile
        if random:
            chosen = self._compile_checked
        return InProcess(chosen, self.timeout, self.options, self.level >= 4)

    def _compile_checked(self, gm: Any, inputs: List[Any]) -> Any:
        """Inductor with eager's random numbers, so that dropout can be compared."""
        if self.backend != "inductor":
            return self.compile(gm, inputs)
        config = importlib.import_module("torch._inductor.config")
        with config.patch(fallback_random=True):
            return self.compile(gm, inputs)

    def explain(self, gm: Any, inputs: Sequence[Any], failure: Failure, random: bool = False) -> CompileError:
        """The error to raise: the first node that fails, with a repro."""
        kind = AccuracyError if failure.kind in ("accuracy", "metadata", "nondeterministic") else CompileError
        n = len(_graph.calls(gm))
        if self.level == 1:
            folder, verified = self._write(gm, inputs, failure, random, [])
            return kind(failure.kind, failure.text, None, nodes=n, repro=folder, verified=verified)
        hooked = None
        if self.backend == "inductor" and _inductor.available():
            hooked = lambda: _inductor.first(gm, inputs, self.options)  # noqa: E731
        search = _Search(gm, inputs, failure, self._oracle(random), hooked)
        node = search.first()
        small, feeds = search.smallest(node)
        folder, verified = self._write(small, feeds, failure, random, search.rows)
        return kind(failure.kind, failure.text, node, nodes=len(_graph.calls(small)), nodes_before=n, rows=search.rows,
                    repro=folder, verified=verified)

    def _write(self, gm: Any, inputs: Sequence[Any], failure: Failure, random: bool,
               rows: List[Dict[str, Any]]) -> Tuple[str, bool]:
        folder = _script.new_folder(self.folder)
        strides = failure.kind == "metadata"
        values = failure.kind in ("accuracy", "metadata", "nondeterministic")
        _script.write(folder, gm, inputs, self.backend, f"{failure.kind}: {failure.text}", tol=self.options["tol"],
                      strides=strides, values=values, random=random)
        _script.write_rows(folder, rows)
        if not self.verify:
            return folder, False
        seen = run_script(folder, self.timeout + 60 if self.timeout else 300)
        return folder, seen is not None and seen.kind == failure.kind

    def _dump(self, gm: Any, inputs: Sequence[Any]) -> None:
        """Level 3: the graph as it is, before it is compiled and run; a crash of this process leaves it."""
        _script.write(_script.new_folder(self.folder), gm, inputs, self.backend,
                      f"written before compiling, {time.strftime('%Y-%m-%d %H:%M:%S')}", tol=self.options["tol"])

    def __call__(self, gm: Any, inputs: List[Any], **more: Any) -> Callable[..., Any]:
        kept = copy.deepcopy(gm)
        state: Dict[str, Any] = {"fresh": True, "random": False}

        def compile_now() -> None:
            try:
                state["compiled"] = limited(lambda: self.compile(gm, inputs, **more), self.timeout)
            except Exception as e:
                state["error"] = e
        if not self.isolate and self.level != 3:
            compile_now()  # what it raises is explained on the inputs of the first call, which are real

        def run(*args: Any) -> Any:
            before = _graph.clone(args)
            if state["fresh"]:
                self._on_first_call(kept, before, state, compile_now)
            try:
                out = limited(lambda: state["compiled"](*args), self.timeout)
            except Exception as e:
                raise self.explain(kept, before, of_exception(e), state["random"]) from e
            if self.level >= 4 and not state["random"]:
                self._compare(kept, before, [*_graph.flat(out), *(t for t in args if isinstance(t, torch.Tensor))])
            return out
        return run

    def _on_first_call(self, kept: Any, before: Sequence[Any], state: Dict[str, Any], compile_now: Callable[[], None]) -> None:
        state["random"] = self.level >= 4 and _graph.is_random(kept, before)
        if self.level == 3:
            self._dump(kept, before)
        if self.isolate or self.level >= 4 and "error" not in state:
            failure = self._oracle(state["random"]).ask(kept, before)
            if failure is not None:
                raise self.explain(kept, before, failure, state["random"])
        if "compiled" not in state and "error" not in state:
            compile_now()
        if "error" in state:
            raise self.explain(kept, before, of_exception(state["error"])) from state["error"]
        state["fresh"] = False

    def _compare(self, kept: Any, before: Sequence[Any], got: List[Any]) -> None:
        """What this very call returned, and left in its inputs, against eager."""
        failure = judge(_graph.eager(kept, before), got, got, _graph.fp64(kept, before), self.options, True)
        if failure is not None:
            raise self.explain(kept, before, failure)


def watch(backend: Union[str, _script.Backend] = "inductor", level: int = 4, *, folder: str = "plumb-out", timeout: float = 0,
          isolate: bool = False, verify: bool = True, **options: Any) -> Callable[..., Callable[..., Any]]:
    """A backend for torch.compile(net, backend=plumb.watch("inductor")) that checks another one.

    backend  a name that torch knows ("inductor", "aot_eager", "eager"; torch 2.0 and later) or a function (GraphModule, inputs)
    level    0: off. 1: on an error, write a repro of the graph as it is. 2: on an error, name the fx node and write a repro with
             as few nodes as possible. 3: as 2, and write the graph before it is compiled and run. 4: as 2, also when a result
             is wrong: types, shapes, strides, values by PyTorch's `same` with an fp64 run, inputs that are changed, results
             that differ from run to run. Raises CompileError or AccuracyError. Checks the forward pass
    folder   for the repros, each in a new folder compile-TIME
    timeout  seconds for each compilation and run; 0: no limit
    isolate  ask in a process of its own first: survives a backend that crashes; slower
    verify   run the script of the repro once and note whether it fails (`verified`)
    options  of plumb.same: tol (1e-3, as in PyTorch's tools), equal_nan (True), cos_similarity, ...
    """
    if level not in (0, 1, 2, 3, 4):
        raise ValueError(f"invalid level {level}; expected 0 to 4")
    if level == 0:
        return _lookup(backend)
    return _Watched(backend, level, folder, timeout, isolate, verify, {"tol": 1e-3, "equal_nan": True, **options})

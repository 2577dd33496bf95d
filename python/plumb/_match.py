"""Which ONNX value is which recorded tensor.

Every node of the exported graph carries the number of the torch call it was traced in (_watch.TAG), so the
values that leave the nodes of a call are the candidates for what the call returned. A candidate is taken only
if its consumers agree: each node that reads it must come from a call that took the tensor. That is what
exposes folding: after Conv and BatchNormalization became one Conv, the value that bears the convolution's
number is read by what read the normalisation, and it is matched with the normalisation's output.
A value that fits two tensors, or none with certainty, stays unmatched: a wrong match would be worse.

Both exporters are watched like that. Where the one of torch 2 had to take a way on which it cannot be watched, its nodes
still have module paths; there the unit is a module call.
"""
from __future__ import annotations

import ast
import difflib
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import torch

from ._onnx import Model, Node
from ._watch import Value, Watcher

OUT = "output of the model"  # stands for the reader of a model output
_ELEMENTS = {  # TensorProto.DataType
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
}
_TRANSPOSES = ("transpose", "permute", "t", "swapaxes", "swapdims", "movedim", "T", "mT")
_FOLDS_MAX = 4  # calls that may have been folded into one node


def _changes(op: str) -> bool:
    """Is it an in-place operation? Then others can see its effect without reading its result."""
    return op == "__setitem__" or op.endswith("_") and not op.endswith("__")


class Unit:
    """A group of graph nodes: those of one torch call, or of one module call."""

    def __init__(self, outs: List[int], label: str) -> None:
        self.outs, self.label = outs, label
        self.nodes: List[int] = []


class Match:
    def __init__(self) -> None:
        self.names: Dict[int, str] = {}    # number of a value: name in the graph
        self.methods: Dict[int, str] = {}
        self.reasons: Dict[int, str] = {}  # number of a value: why it has no name


def _spread(tags: List[Any], model: Model) -> Dict[str, List[int]]:
    """A node without a number joins its readers' unit, if they all share one."""
    readers: Dict[str, List[int]] = {}
    for i, node in enumerate(model.nodes):
        for name in node.inputs:
            readers.setdefault(name, []).append(i)
    for i in reversed(range(len(model.nodes))):
        if tags[i] is None:
            found = {tags[j] for name in model.nodes[i].outputs for j in readers.get(name, [])}
            if len(found) == 1 and not any(n in model.outputs for n in model.nodes[i].outputs):
                tags[i] = found.pop()
    return readers


class Matcher:
    """values: of a Watcher; units: id -> Unit; readers_of(value number): ids of the units that took it."""

    def __init__(self, values: List[Value], units: Dict[Any, Unit], readers_of: Callable[[int], Iterable[Any]],
                 model: Model, tags: List[Any], outputs: Any, inputs: Any) -> None:
        self.values, self.units, self.model = values, units, model
        self.match = Match()
        self.readers = _spread(tags, model)
        self.tags = tags
        for i, tag in enumerate(tags):
            if tag in units:
                units[tag].nodes.append(i)
        self.out_names = set(model.outputs)
        self.taken: Set[str] = set()
        self.unit_of = {v: u for u, unit in units.items() for v in unit.outs}
        self.readers_of = {v: set(readers_of(v)) for v in range(len(values))}
        for v in outputs:
            self.readers_of[v].add(OUT)
        self._merge_equal()
        self._merge_transposes()
        self._merge_changes()
        self._ends(inputs, model.inputs, "input")
        self._ends(outputs, model.outputs, "output")

    def _merge_equal(self) -> None:
        """A call without nodes (dropout, a duplicate) may have been replaced by another with the same bytes."""
        same: Dict[Any, List[int]] = {}
        for v, value in enumerate(self.values):
            if value.summary is not None and value.summary.digest:
                same.setdefault((value.summary.digest, value.shape, value.dtype), []).append(v)
        for group in same.values():
            gone = [v for v in group if v in self.unit_of and not self.units[self.unit_of[v]].nodes]
            for v in group:
                for w in gone:
                    if w != v:
                        self.readers_of[v] = self.readers_of[v] | self.readers_of[w]
        self.same = same

    def _merge_transposes(self) -> None:
        """The exporter merges two Transposes in a row into the second, which then reads the first one's input."""
        for v in reversed(range(len(self.values))):
            for u in [u for u in self.readers_of[v] if u in self.units]:
                unit = self.units[u]
                if unit.label in _TRANSPOSES and not unit.nodes and len(unit.outs) == 1:
                    self.readers_of[v] |= {r for r in self.readers_of[unit.outs[0]]
                                           if r in self.units and self.units[r].label in _TRANSPOSES}

    def _merge_changes(self) -> None:
        """Where the exporter dropped an in-place change through a view, readers of the changed tensor read the old one."""
        numbers = {id(value): v for v, value in enumerate(self.values)}
        for v in reversed(range(len(self.values))):
            value = self.values[v]
            if value.changed is not None and value.changed_by in self.units and not self.units[value.changed_by].nodes:
                before = numbers[id(value.changed)]
                self.readers_of[before] = self.readers_of[before] | self.readers_of[v]

    def _dequantised(self) -> None:
        """The dequantised value of a quantised tensor is made by the node that reads its codes."""
        for v, value in enumerate(self.values):
            name = self.match.names.get(value.twin) if value.twin is not None else None
            if name is None or v in self.match.names:
                continue
            casts = [self.model.nodes[i].outputs[0] for i in self.readers.get(name, []) if self.model.nodes[i].op == "Cast"]
            made = [self.model.nodes[i].outputs[0] for code in (name, *casts) for i in self.readers.get(code, [])
                    if self.model.nodes[i].op == "DequantizeLinear" and self.model.nodes[i].inputs[0] == code]
            free = [n for n in made if n not in self.taken]
            if free:
                self.give(v, free[0], "dequantised")
                self.match.reasons.pop(v, None)
            else:
                self.match.reasons[v] = f"folded: the graph has its codes, {name}"

    def _kept_inputs(self, numbers: Sequence[int], names: Sequence[str]) -> Tuple[Sequence[int], Sequence[str]]:
        """The exporter drops unused inputs; matches the rest where type and shape are unambiguous."""
        found = {}
        for name in names:
            fit = [v for v in numbers if self.type_fits(v, name)]
            if len(fit) == 1:
                found[fit[0]] = name
        if len(found) != len(names):
            return numbers, names
        for v in numbers:
            if v not in found:
                self.match.reasons[v] = "unused: the graph has no such input"
        return list(found), list(found.values())

    def _ends(self, numbers: Sequence[int], names: Sequence[str], what: str) -> None:
        if len(numbers) > len(names) and what == "input":
            numbers, names = self._kept_inputs(numbers, names)
        if len(numbers) != len(names):
            for v in numbers:
                self.match.reasons[v] = f"the module has {len(numbers)} {what}s, the graph {len(names)}"
            return
        for v, name in zip(numbers, names):
            if v in self.match.names:  # an input returned as it is, or one tensor returned twice
                self.taken.add(name)
                continue
            self.give(v, name, what)

    def give(self, v: int, name: str, method: str) -> None:
        self.match.names[v], self.match.methods[v] = name, method
        self.taken.add(name)

    def read_by(self, name: str, unit: Any) -> Set[Any]:
        found = {self.tags[i] for i in self.readers.get(name, [])} - {unit}
        if name in self.out_names:
            found.add(OUT)
        return found

    def type_fits(self, v: int, name: str) -> bool:
        element, shape = self.model.types.get(name, (None, None))
        value = self.values[v]
        if element and element != _ELEMENTS.get(str(value.dtype).split(".")[-1], element):
            return False
        return shape is None or len(shape) == len(value.shape) and all(
            a is None or a == b for a, b in zip(shape, value.shape))

    def fits(self, v: int, name: str, unit: Any) -> bool:
        return self.type_fits(v, name) and self.read_by(name, unit) <= self.readers_of[v] | {unit}

    def candidates(self, unit: Any) -> List[Tuple[str, int]]:
        """Values that the nodes of a unit pass to others, in order."""
        found = []
        for i in self.units[unit].nodes:
            if self.model.nodes[i].op == "Constant":
                continue
            for name in self.model.nodes[i].outputs:
                if name and name not in self.taken and self.read_by(name, unit):
                    found.append((name, i))
        return found

    def after_folding(self, v: int, name: str, unit: Any) -> Optional[int]:
        """The value that a later call without nodes made from v, if `name` fits it."""
        for _ in range(_FOLDS_MAX):
            makers = [u for u in self.readers_of[v] if u in self.units and self.units[u].outs]
            if len(makers) != 1 or self.units[makers[0]].nodes or len(self.units[makers[0]].outs) != 1:
                return None
            v = self.units[makers[0]].outs[0]
            if v in self.match.names:
                return None
            if self.fits(v, name, unit):
                return v
        return None

    def run_unit(self, u: Any) -> None:
        unit = self.units[u]
        outs = [v for v in unit.outs if v not in self.match.names]
        found = self.candidates(u)
        if not unit.nodes or not outs:
            return
        pairs = {v: [(n, i) for n, i in found if self.fits(v, n, u)] for v in outs}
        for v in outs:
            if len(pairs[v]) == 1 and sum(pairs[v][0] in p for p in pairs.values()) == 1:
                self.give(v, pairs[v][0][0], "call")
        left = [v for v in outs if v not in self.match.names]
        shared = [c for c in found if c[0] not in self.taken and any(c in pairs[v] for v in left)]
        if left and len(shared) == len(left) and all(c in pairs[v] for c, v in zip(shared, left)) \
                and len({self.model.nodes[i].op for _, i in shared}) == 1:
            for (name, _), v in zip(shared, left):  # the parts of one result are made in their order
                self.give(v, name, "order")
            return
        if len(outs) == 1 and left and not shared:
            rest = [(w, n) for n, _ in found for w in [self.after_folding(left[0], n, u)] if w is not None]
            if len(rest) == 1:
                self.give(rest[0][0], rest[0][1], "folded")
                self.match.reasons[left[0]] = "folded: the graph has only " + \
                    f"{rest[0][1]}, which is {self.label(rest[0][0])}"
                return
        for v in left:
            if not self.values[v].depends:
                continue  # explain() says so
            self.match.reasons[v] = ("several values of the graph fit: " + ", ".join(n for n, _ in pairs[v])) if pairs[v] \
                else "no value of the graph matches with certainty: its readers or its shape differ"

    def label(self, v: int) -> str:
        value = self.values[v]
        return f"{value.module}/{value.op}" if value.module else value.op

    def explain(self, v: int) -> None:
        value = self.values[v]
        if v in self.match.reasons:
            return
        u = self.unit_of.get(v)
        twins = [] if value.summary is None else self.same.get((value.summary.digest, value.shape, value.dtype), [])
        twin = next((w for w in twins if w != v and w in self.match.names), None)
        if u is None:
            reason = "it was not made by a call that the exporter traces"
        elif not value.depends:
            reason = "folded: a constant, it does not depend on the inputs"
        elif twin is not None:
            reason = f"folded: the exporter left it out, it equals {self.match.names[twin]}"
        elif self.units[u].label in _TRANSPOSES and any(
                r in self.units and self.units[r].label in _TRANSPOSES for r in self.readers_of[v]):
            reason = "folded: it and the transpose after it became one"
        elif not self.readers_of[v] and not _changes(value.op):
            reason = "unused: nothing reads it, the exporter left it out"
        else:
            reason = "missing: the exporter left no node of this call"
        self.match.reasons[v] = reason

    def run(self) -> Match:
        for u in self.units:
            self.run_unit(u)
        self._dequantised()
        for v in range(len(self.values)):
            if v not in self.match.names:
                self.explain(v)
        return self.match


def by_calls(watcher: Watcher, model: Model, tags: List[Any]) -> Match:
    """watcher: of the run that the exporter traced."""
    units = {k: Unit(list(c.outs), c.op) for k, c in enumerate(watcher.calls) if c.leaf}
    return Matcher(watcher.values, units, lambda v: watcher.values[v].consumers, model, tags, watcher.outputs,
                   watcher.inputs).run()


def module_of(node: Node) -> Optional[str]:
    """Path of the module that a node of torch 2's exporter belongs to, from its metadata; None without it."""
    try:
        scopes = ast.literal_eval(node.props.get("pkg.torch.onnx.name_scopes", ""))
    except (ValueError, SyntaxError):
        return None
    return scopes[-2] if isinstance(scopes, list) and len(scopes) >= 2 else None


def by_modules(watcher: Watcher, model: Model) -> Match:
    """For models whose nodes have module paths only: leaf modules that ran once, and the ends of the graph."""
    often = {path for path, count, _, _ in watcher.module_calls if count > 0}
    units = {path: Unit([v for v in outs if watcher.values[v].module == path], path)
             for path, _, leaf, outs in watcher.module_calls if leaf and path not in often}

    def readers(v: int) -> Set[str]:
        return {watcher.calls[k].module for k in watcher.values[v].consumers}
    tags = [module_of(n) for n in model.nodes]
    return Matcher(watcher.values, units, readers, model, tags, watcher.outputs, watcher.inputs).run()


def align(recorded: Watcher, traced: Watcher) -> Dict[int, int]:
    """Pairs (value of the recorded run, value of the traced run): the same call, the same place in its result."""
    a = [(c.module, c.op, c.leaf) for c in recorded.calls]
    b = [(c.module, c.op, c.leaf) for c in traced.calls]
    blocks: Iterable[Any] = [(0, 0, len(a))]
    if a != b:
        blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    pairs = list(zip(recorded.outputs, traced.outputs))
    if len(recorded.inputs) == len(traced.inputs):
        pairs += zip(recorded.inputs, traced.inputs)
    for i, j, n in blocks:
        for d in range(n):
            by_path = {traced.values[w].path: w for w in traced.calls[j + d].outs}
            for v in recorded.calls[i + d].outs:
                if recorded.values[v].path in by_path:
                    pairs.append((v, by_path[recorded.values[v].path]))
    return dict(reversed(pairs))


def adopt(recorded: Watcher, traced: Watcher, pairs: Dict[int, int]) -> None:
    """torch.export runs the module on tensors without data: what it traced gets the data of the recorded run where type
    and shape fit, as far as the shape is known."""
    for v, w in pairs.items():
        a, b = recorded.values[v], traced.values[w]
        if b.summary is None and a.dtype == b.dtype and len(a.shape) == len(b.shape) and all(
                d is None or c == d for c, d in zip(a.shape, b.shape)):
            b.summary, b.shape = a.summary, a.shape


def agree(a: Value, b: Value) -> bool:
    """The two runs computed the same here: equal bytes, or samples within 1e-4 of the largest."""
    if a.summary is None or b.summary is None or a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.summary.digest == b.summary.digest:
        return True
    x, y = a.summary.samples, b.summary.samples
    if not (a.dtype.is_floating_point or a.dtype.is_complex) or len(x) != len(y):
        return False
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    return bool(torch.allclose(x, y, rtol=0, atol=1e-4 * float(x.abs().nan_to_num(0, 0, 0).max()), equal_nan=True))

"""Parts of fx graphs: what eager computes node by node, every value as an output, a few nodes on the inputs that they had."""
from __future__ import annotations

import copy
import os
import re
from typing import Any, Dict, Iterable, List, Sequence, Set, Tuple

import torch
import torch.fx

Feeds = Sequence[Any]


def calls(gm: Any) -> List[Any]:
    """The nodes that compute something, in order."""
    return [n for n in gm.graph.nodes if n.op.startswith("call_")]


def target(node: Any) -> str:
    """What a node calls: "tanh", "layers.0"."""
    return str(getattr(node.target, "__name__", None) or node.target)


def line(node: Any) -> str:
    """The innermost line of the model in the node's stack trace, "file:line"; "" when unknown."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.stack_trace or "")
    own = [f for f in frames if os.sep + "torch" + os.sep not in f[0]]
    return f"{own[-1][0]}:{own[-1][1]}" if own else ""


def clone(inputs: Iterable[Any]) -> List[Any]:
    """Copies with the strides they have; what is not a tensor stays."""
    return [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in inputs]


def flat(thing: Any) -> List[Any]:
    """Outputs as a list."""
    return list(thing) if isinstance(thing, (tuple, list)) else [thing]


def _keep(t: Any) -> Any:
    """A copy, unless that changes the strides (an expanded tensor)."""
    if not isinstance(t, torch.Tensor):
        return t
    copied = t.detach().clone()
    return copied if copied.stride() == t.stride() else t.detach()


def run(function: Any, inputs: Feeds) -> List[Any]:
    """The outputs of a function on copies of these inputs, then the inputs as it left them; the random state is put back."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        given = clone(inputs)
        return [_keep(t) for t in flat(function(*given)) + [t for t in given if isinstance(t, torch.Tensor)]]


def eager(gm: Any, inputs: Feeds) -> List[Any]:
    """The same of eager, without a change of the module."""
    return run(copy.deepcopy(gm), inputs)


def _wide(thing: Any) -> Any:
    return torch.float64 if isinstance(thing, torch.dtype) and thing.is_floating_point else thing


def fp64(gm: Any, inputs: Feeds) -> Any:
    """The outputs in double precision; None where an operation has none."""
    try:
        deep = copy.deepcopy(gm).double()
        for node in deep.graph.nodes:
            node.args = torch.fx.node.map_aggregate(node.args, _wide)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, _wide)
            if node.op == "call_method" and node.target in ("float", "half", "bfloat16"):
                node.target = "double"
        deep.recompile()
        return run(deep, [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs])
    except Exception:  # an operation without fp64
        return None


def values(gm: Any, inputs: Feeds) -> Dict[Any, Any]:
    """What eager computes, node by node, cloned: a later operation in place does not reach it."""
    found: Dict[str, Any] = {}

    class Keep(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            found[n.name] = clone([value])[0]
            return value
    with torch.no_grad():
        Keep(copy.deepcopy(gm)).run(*clone(inputs))
    return {n: found[n.name] for n in gm.graph.nodes if n.name in found}


def _make(gm: Any, graph: Any) -> Any:
    made = torch.fx.GraphModule(gm, graph)
    made.train(gm.training)
    if hasattr(made, "meta"):
        made.meta = {}  # dynamo's may hold what cannot be copied or saved
    return made


def upto(gm: Any, last: Any, outputs: Sequence[Any]) -> Any:
    """The graph up to a node, with these values as its outputs."""
    graph = torch.fx.Graph()
    env: Dict[Any, Any] = {}
    reached = False
    for node in gm.graph.nodes:
        if node.op == "output" or reached and node.op != "placeholder":
            continue
        env[node] = graph.node_copy(node, lambda n: env[n])
        reached = reached or node is last
    graph.output(tuple(env[n] for n in outputs))
    return _make(gm, graph)


def recordable(gm: Any, inputs: Feeds, known: Dict[Any, Any]) -> List[Any]:
    """The nodes whose tensors can be outputs: those that nothing overwrites afterwards."""
    nodes = [n for n in calls(gm) if isinstance(known.get(n), torch.Tensor)]
    if not nodes:
        return []
    after = eager(upto(gm, calls(gm)[-1], nodes), inputs)
    return [n for n, t in zip(nodes, after)
            if t.shape == known[n].shape and torch.equal(torch.nan_to_num(t), torch.nan_to_num(known[n]))]


def part(gm: Any, inside: Set[Any], outputs: Sequence[Any], known: Dict[Any, Any]) -> Tuple[Any, List[Any]]:
    """Some nodes of a graph; what they read from others are inputs, with the values of eager's run: (graph, inputs)."""
    graph = torch.fx.Graph()
    env: Dict[Any, Any] = {}
    feeds: List[Any] = []
    for node in gm.graph.nodes:
        if node not in inside and node.op not in ("get_attr", "output") and any(u in inside for u in node.users):
            env[node] = graph.placeholder(node.name)
            feeds.append(known[node])
    for node in gm.graph.nodes:
        if node in inside or node.op == "get_attr" and any(u in inside for u in node.users):
            env[node] = graph.node_copy(node, lambda n: env[n])
    graph.output(tuple(env[n] for n in outputs))
    return _make(gm, graph), feeds


def above(nodes: Iterable[Any]) -> Set[Any]:
    """The nodes that compute these, themselves included."""
    found = {n for n in nodes if n.op.startswith("call_")}
    todo = list(found)
    while todo:
        for n in todo.pop().all_input_nodes:
            if n not in found and n.op.startswith("call_"):
                found.add(n)
                todo.append(n)
    return found


def is_random(gm: Any, inputs: Feeds) -> bool:
    """Whether the graph draws random numbers."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        before = torch.get_rng_state()
        copy.deepcopy(gm)(*clone(inputs))
        return not torch.equal(before, torch.get_rng_state())


def equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Bit for bit, where NaN equals NaN."""
    return all(same_bits(x, y) for x, y in zip(a, b))


def same_bits(x: Any, y: Any) -> bool:
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        return True
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.is_complex():
        x, y = torch.view_as_real(x), torch.view_as_real(y)
    return bool(torch.equal(torch.nan_to_num(x.detach()), torch.nan_to_num(y.detach())))

"""torch.fx's names for what was recorded, where it can trace the module; also a second opinion on completeness."""
from __future__ import annotations

import difflib
from typing import Any, Dict, List, Tuple

import torch
import torch.fx
from torch.nn import Module

from ._watch import Watcher

# What fx writes down and no tensor comes of, or nothing new.
_NOT_TENSORS = {"getitem", "getattr", "size", "dim", "shape", "len", "eq", "ne", "lt", "gt", "floordiv", "assert", "numel",
                "requires_grad", "device", "dtype", "is_cuda"}


def trace(model: Module) -> Any:
    """(nodes, None), or (None, the reason why fx cannot trace)."""
    try:
        tracer = torch.fx.Tracer()
        return [(n.op, n.target, n.name, tracer) for n in tracer.trace(model).nodes], None
    except Exception as e:  # whatever the model raises on a proxy
        return None, f"{type(e).__name__}: {e}".split("\n")[0][:200]


def _plain(name: str) -> str:
    name = str(name).strip("_")
    return {"radd": "add", "rmul": "mul", "iadd": "add", "imul": "mul", "isub": "sub", "truediv": "div", "rtruediv": "div",
            "rsub": "sub", "itruediv": "div", "rpow": "pow", "rmatmul": "matmul"}.get(name, name)


def _is_torchs(function: Any) -> bool:
    """Is it torch's own? Calls inside functions that others wrapped for fx are recorded instead."""
    module = getattr(function, "__module__", None)
    return not isinstance(module, str) or module in ("torch", "_operator") or module.startswith("torch.")


def attach(nodes: Any, watcher: Watcher, model: Module) -> List[str]:
    """Adds fx's names to the values; returns the nodes without a recorded value."""
    modules = dict(model.named_modules())
    tracer = nodes[0][3] if nodes else None
    leaves = {p for p, m in modules.items() if p and tracer and tracer.is_leaf_module(m, p)}

    def outside(path: str) -> bool:  # not within a module that fx takes as one
        parts = path.split(".")
        return not any(".".join(parts[:i]) in leaves for i in range(1, len(parts) + 1))
    outs: Dict[int, List[int]] = {}
    for v, value in enumerate(watcher.values):
        if value.call is not None:
            outs.setdefault(value.call, []).append(v)
        for k in value.aliases:
            outs.setdefault(k, []).append(v)
    calls = [(_plain(c.op), outs.get(k, [])) for k, c in enumerate(watcher.calls)
             if c.depth == 0 and outside(c.module)]
    lost: List[str] = []
    runs: Dict[str, int] = {}
    wanted: List[Tuple[str, str]] = []
    for op, target, name, _ in nodes:
        if op == "call_module":
            count = runs.get(target, 0)
            runs[target] = count + 1
            found = next((o for p, c, _, o in watcher.module_calls if p == target and c == count), None)
            for v in found or []:
                watcher.values[v].fx.append(name)
            if not found:
                lost.append(name)
        elif op == "call_method" or op == "call_function" and _is_torchs(target):
            wanted.append((_plain(target if op == "call_method" else getattr(target, "__name__", target)), name))
    matcher = difflib.SequenceMatcher(None, [w[0] for w in wanted], [c[0] for c in calls], autojunk=False)
    matched = set()
    for i, j, n in matcher.get_matching_blocks():
        for d in range(n):
            matched.add(i + d)
            for v in calls[j + d][1]:
                watcher.values[v].fx.append(wanted[i + d][1])
    lost += [name for i, (target, name) in enumerate(wanted) if i not in matched and target not in _NOT_TENSORS]
    return lost

"""Inductor's intermediate hooks: what its kernels left in their buffers, beside what eager computes for the same ATen node.

Called after Triton's kernels, and on any device after kernels that inductor does not generate itself and that return a new
tensor (convolutions). Where nothing is shown, the search goes on without.
"""
from __future__ import annotations

import copy
import importlib
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _graph
from ._same import same


def available() -> bool:
    """Whether this torch has the hooks (2.1 and later)."""
    try:
        config = importlib.import_module("torch._inductor.config")
        return hasattr(importlib.import_module("torch._inductor.hooks"), "intermediate_hook") and hasattr(
            config, "generate_intermediate_hooks")
    except ImportError:
        return False


def _origin(node: Any) -> Optional[str]:
    """The name of the node of dynamo's graph that an ATen node comes from."""
    stack = node.meta.get("source_fn_stack") or node.meta.get("source_fn")
    if not stack:
        return None
    last = stack[-1]
    return str(last[0] if isinstance(last, tuple) else last)


def buffers(gm: Any, inputs: Sequence[Any]) -> List[Tuple[Any, Any, Any]]:
    """(ATen node, what the kernel computed, what eager computes) of every buffer, in the order of the run."""
    fx = importlib.import_module("torch._inductor.compile_fx")
    hooks = importlib.import_module("torch._inductor.hooks")
    config = importlib.import_module("torch._inductor.config")
    found: List[Tuple[Any, Any, Any]] = []

    def inner(aten: Any, examples: Any, *more: Any, **options: Any) -> Any:
        kept = copy.deepcopy(aten)
        compiled = fx.compile_fx_inner(aten, examples, *more, **options)

        def run(args: List[Any]) -> Any:
            want = {n.name: (n, v) for n, v in _graph.values(kept, args).items()}
            seen: Dict[str, Any] = {}
            with hooks.intermediate_hook(lambda name, value: seen.setdefault(name, value.detach().clone())):
                out = compiled(list(args))
            found.extend((*want[name][:1], value, want[name][1]) for name, value in seen.items() if name in want)
            return out
        run._boxed_call = True  # type: ignore[attr-defined]
        return run
    with config.patch(generate_intermediate_hooks=True, fx_graph_cache=False):
        compiled = fx.compile_fx(copy.deepcopy(gm), _graph.clone(inputs), inner_compile=inner)
        _graph.run(compiled, inputs)
    return found


def first(gm: Any, inputs: Sequence[Any], options: Dict[str, Any]) -> Any:
    """The node of gm where the first buffer that differs comes from; None: none does, or the hooks do not work."""
    try:
        rows = buffers(gm, inputs)
    except Exception:  # of inductor's inside, which changes from version to version; the search goes on without
        return None
    by_name = {n.name: n for n in gm.graph.nodes}
    for aten, value, want in rows:
        if value.shape == want.shape and not same(want, value, None, **dict(options, exact_dtype=False)):
            return by_name.get(_origin(aten) or "")
    return None

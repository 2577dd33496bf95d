"""The repro of a compiled graph: a script that needs torch and nothing else, and the folder around it."""
from __future__ import annotations

import inspect
import os
import time
from typing import Any, Callable, Dict, List, Sequence, Union

import torch

Backend = Callable[..., Callable[..., Any]]

# Prints one line and exits with 1: "KIND: output N: why". same() is PyTorch's rule with an fp64 run (torch._dynamo.utils.same).
_SCRIPT = '''"""{title}

Needs torch and nothing else: python3 repro.py. Exits 1 when the compiled graph fails, 0 when it computes what eager does.

{code}
"""
import copy
import os
import sys

import torch
import torch.fx

TOL = {tol!r}
STRIDES = {strides!r}
here = os.path.dirname(os.path.abspath(__file__))
{backend}


def load(name):
    path = os.path.join(here, name)
    try:
        return torch.load(path, weights_only=False)
    except TypeError:  # torch before 1.13
        return torch.load(path)


def clone(things):
    return [t.clone() if isinstance(t, torch.Tensor) else t for t in things]


def keep(t):
    """A copy, unless that changes the strides (an expanded tensor)."""
    if not isinstance(t, torch.Tensor) or t.clone().stride() != t.stride():
        return t
    return t.clone()


def flat(thing):
    return list(thing) if isinstance(thing, (tuple, list)) else [thing]


def fp64(gm, inputs):
    def wide(x):
        return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x
    try:
        gm = copy.deepcopy(gm).double()
        for n in gm.graph.nodes:
            n.args = torch.fx.node.map_aggregate(n.args, wide)
            n.kwargs = torch.fx.node.map_aggregate(n.kwargs, wide)
            if n.op == "call_method" and n.target in ("float", "half", "bfloat16"):
                n.target = "double"
        gm.recompile()
        return run(gm, [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs])
    except Exception:
        return None


def rmse(a, b):
    return torch.sqrt(torch.mean(torch.square(a.double() - b.double())))


def same(ref, res, third):
    if torch.allclose(ref, res, rtol=TOL, atol=TOL, equal_nan=True):
        return True
    if third is None or third.dtype != torch.float64:
        return False
    if not third.isnan().any() and not res.isnan().any() and ref.isnan().any():
        return torch.allclose(third.to(res.dtype), res, rtol=0.04, atol=0.04)
    small = third.numel() < 1000 or ref.dim() == 4 and ref.shape[-2:] == (1, 1) or TOL >= 0.02
    factor = 3 if small or res.dtype in (torch.float16, torch.bfloat16) else 2
    return bool(rmse(third, res) <= factor * rmse(third, ref) + TOL / 10)


def look(gm, inputs, got, again, note=""):
    want, third = run(copy.deepcopy(gm), inputs), fp64(gm, inputs)
    if len(want) != len(got):
        sys.exit(f"metadata: {{len(got)}} outputs, eager has {{len(want)}}")
    for i, (a, b, c) in enumerate(zip(want, got, again)):
        if not isinstance(a, torch.Tensor):
            continue
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            sys.exit(f"metadata: output {{i}}: {{b.dtype}} {{tuple(b.shape)}}, eager has {{a.dtype}} {{tuple(a.shape)}}")
        if STRIDES and any(s != t and d > 1 for s, t, d in zip(a.stride(), b.stride(), a.shape)):
            sys.exit(f"metadata: output {{i}}: strides {{b.stride()}}, eager has {{a.stride()}}")
        if not same(a, b, third[i] if third else None):
            sys.exit(f"accuracy: output {{i}}: {{note}}differs from eager by {{(a.double() - b.double()).abs().max().item():g}}")
        if not torch.equal(torch.nan_to_num(b), torch.nan_to_num(c)):
            sys.exit(f"nondeterministic: output {{i}}: two runs on the same inputs differ")


def run(function, inputs):
    """The outputs, and the inputs as the function left them."""
    torch.manual_seed(0)
    given = clone(inputs)
    return [keep(t) for t in flat(function(*given)) + [t for t in given if isinstance(t, torch.Tensor)]]


gm, inputs = load("graph.pt"), load("inputs.pt")
others = [t.roll(1) if isinstance(t, torch.Tensor) and t.dim() and t.is_floating_point() else t for t in inputs]
with torch.no_grad():
    try:
        compiled = backend(copy.deepcopy(gm), clone(inputs))
        got, again, later = run(compiled, inputs), run(compiled, inputs), run(compiled, others)
    except Exception as e:
        sys.exit(f"error: {{type(e).__name__}}: {{e}}")
    if {values!r}:
        look(gm, inputs, got, again)
        look(gm, others, later, later, "on the next inputs: ")
print("the same as eager")
'''


def backend_lines(backend: Union[str, Backend], random: bool) -> str:
    """How the script gets at the backend."""
    if isinstance(backend, str):
        lines = f"import torch._dynamo\nbackend = torch._dynamo.lookup_backend({backend!r})"
        if backend == "inductor":
            import importlib
            config = importlib.import_module("torch._inductor.config")
            changed = [row for row in str(config.codegen_config()).splitlines() if " = " in row]
            lines += "\nimport torch._inductor.config\n" + "\n".join(changed)
            if random:
                lines += "\ntorch._inductor.config.fallback_random = True"
        return lines
    function: Any = backend
    if "<" in getattr(function, "__qualname__", "<") or not hasattr(function, "__module__"):
        return "raise SystemExit('the backend is a function without a name: put it here as `backend`')"
    file = os.path.abspath(inspect.getfile(function))
    name = os.path.splitext(os.path.basename(file))[0]
    return f"sys.path.insert(0, {os.path.dirname(file)!r})\nfrom {name} import {function.__qualname__} as backend"


def new_folder(folder: str) -> str:
    """A folder that did not exist: compile-TIME below it."""
    base = os.path.join(folder, f"compile-{time.strftime('%Y%m%d-%H%M%S')}")
    target, n = base, 1
    while True:
        try:
            os.makedirs(target)
            return os.path.abspath(target)
        except FileExistsError:
            target, n = f"{base}-{n}", n + 1


def write(target: str, gm: Any, inputs: Sequence[Any], backend: Union[str, Backend], title: str, **more: Any) -> None:
    """The script with its graph and inputs. more: tol, strides, values (compare them, else errors only), random."""
    torch.save(gm, os.path.join(target, "graph.pt"))
    torch.save(list(inputs), os.path.join(target, "inputs.pt"))
    quiet = [t.replace('"""', "'''").replace("\\", "/") for t in (title, str(gm.code).strip())]
    fields: Dict[str, Any] = {"tol": more.get("tol", 1e-3), "strides": more.get("strides", True),
                              "values": more.get("values", True)}
    with open(os.path.join(target, "repro.py"), "w", encoding="utf-8") as f:
        fields["backend"] = backend_lines(backend, more.get("random", False))
        f.write(_SCRIPT.format(title=quiet[0], code=quiet[1], **fields))


def write_rows(target: str, rows: List[Dict[str, Any]]) -> None:
    """nodes.tsv: what eager and the compiled graph computed, node by node."""
    if not rows:
        return
    with open(os.path.join(target, "nodes.tsv"), "w", encoding="utf-8") as f:
        f.write("\t".join(rows[0]) + "\n")
        for row in rows:
            f.write("\t".join(str(v) for v in row.values()) + "\n")

"""PyTorch's rule for "the same" (torch._dynamo.utils.same) on nested structures, and metrics over two arrays."""
from __future__ import annotations

import ctypes
import math
from typing import Any, Dict, Mapping, Optional

from . import _abi, _lib, _tensor


def _one(ref: Any, res: Any, fp64: Any, options: Any) -> Dict[str, Any]:
    a, b = _tensor.to_tensor(ref), _tensor.to_tensor(res)
    third = None if fp64 is None else _tensor.to_tensor(fp64)
    result = _abi.plumb_same_result()
    result.size = ctypes.sizeof(result)
    _lib.call("plumb_same", a.pointer, b.pointer, None if third is None else third.pointer, ctypes.byref(options),
              ctypes.byref(result))
    return {"same": result.same == 1, "raises": result.same < 0, "rule": _lib.text_of(result.rule),
            "why": result.why.decode("utf-8", "replace"), "ref_error": result.ref_error, "res_error": result.res_error,
            "multiplier": result.multiplier}


class Same:
    """The answer of plumb.same: true or false; `path`, `rule` and `why` of the first difference."""

    def __init__(self, same: bool, path: str = "", rule: str = "", why: str = "") -> None:
        self.same, self.path, self.rule, self.why = same, path, rule, why

    def __bool__(self) -> bool:
        return self.same

    def __repr__(self) -> str:
        return "<plumb.Same>" if self.same else f"<plumb.Same: no, at {self.path or 'the value itself'}: {self.why}>"


def _tensor_like(thing: Any) -> bool:
    return hasattr(thing, "__array__") or hasattr(thing, "detach") or hasattr(thing, "__array_interface__")


def _part(thing: Any, key: Any) -> Any:
    return None if thing is None else thing[key]


def _walk(ref: Any, res: Any, fp64: Any, options: Any, path: str) -> Same:
    if _tensor_like(ref):
        if not _tensor_like(res):
            return Same(False, path, "type", f"a tensor and {type(res).__name__}")
        found = _one(ref, res, fp64 if _tensor_like(fp64) else None, options)
        return Same(found["same"], path, found["rule"], found["why"])
    if isinstance(ref, Mapping):
        if not isinstance(res, Mapping) or set(ref) != set(res):
            return Same(False, path, "keys", "different keys, or not a dict")
        keys = [(k, f"{path}[{k!r}]") for k in ref]
    elif isinstance(ref, (list, tuple)):
        if not isinstance(res, (list, tuple)) or len(ref) != len(res):
            return Same(False, path, "length", "different length, or not a list")
        keys = [(i, f"{path}[{i}]") for i in range(len(ref))]
    elif hasattr(ref, "__dataclass_fields__") and not isinstance(ref, type):
        return _walk(vars(ref), getattr(res, "__dict__", None) or {}, getattr(fp64, "__dict__", None), options, path)
    elif isinstance(ref, float):
        near = isinstance(res, (int, float)) and (math.isclose(ref, res, rel_tol=options.tol, abs_tol=options.tol) or
                                                  options.equal_nan and math.isnan(ref) and math.isnan(res))
        return Same(bool(near), path, "number", "" if near else f"{ref!r} and {res!r}")
    else:
        return Same(bool(ref == res), path, "equality", "" if ref == res else f"{ref!r} and {res!r}")
    for key, name in keys:
        found_part = _walk(ref[key], res[key], _part(fp64, key), options, name)
        if not found_part:
            return found_part
    return Same(True)


def same(a: Any, b: Any, fp64: Any = None, **options: Any) -> Same:
    """Whether b, the candidate, is the same as a, the reference, by PyTorch's rule.

    a, b, fp64  arrays, torch tensors, numbers, or nested lists, tuples, dicts and dataclasses of them; fp64 (may be None) is
                the same computation in double precision, to tell which side is right
    options     tol, equal_nan, exact_dtype, ignore_non_fp, cos_similarity, use_larger_multiplier_for_smaller_tensor,
                force_max_multiplier, use_iou_for_bool, iou_threshold: as of PyTorch; or same="tol=1e-4,…" as of the program
    """
    text: Optional[str] = options.pop("same", None)
    made = _lib.options("plumb_same_options", "PLUMB_OPTIONS_SAME", options)
    if text is not None:
        _lib.call("plumb_same_options_parse", text.encode(), ctypes.byref(made))
    return _walk(a, b, fp64, made, "")


def measure(a: Any, reference: Any) -> Dict[str, Any]:
    """Every metric of a against the reference, by name, and "class": exact, finite, nonfinite or structural."""
    lib = _lib.lib()
    n = lib.plumb_metric_count()
    values, kind = (ctypes.c_double * n)(), ctypes.c_int()
    x, y = _tensor.to_tensor(a), _tensor.to_tensor(reference)
    _lib.call("plumb_measure", x.pointer, y.pointer, values, ctypes.byref(kind))
    found: Dict[str, Any] = {"class": ("exact", "finite", "nonfinite", "structural")[kind.value]}
    if kind.value != _abi.PLUMB_PAIR_STRUCTURAL:
        found.update((_lib.text_of(lib.plumb_metric_name(i)), values[i]) for i in range(n))
    return found


def measure_logits(a: Any, reference: Any, tokens: Any = None) -> Dict[str, float]:
    """Metrics of logits by name: kl, kl_reverse, nll, nll_reference, top_k, flip, margin, drift; means over the rows.

    tokens   what came next, one for each row; None: the reference's choices. exp(nll) is the perplexity of these tokens
    """
    lib = _lib.lib()
    n = lib.plumb_logit_metric_count()
    values = (ctypes.c_double * n)()
    given = None if tokens is None else [int(t) for t in tokens]
    ids = None if given is None else (ctypes.c_int64 * len(given))(*given)
    x, y = _tensor.to_tensor(a), _tensor.to_tensor(reference)
    _lib.call("plumb_measure_logits", x.pointer, y.pointer, ids, 0 if given is None else len(given), values)
    return {_lib.text_of(lib.plumb_logit_metric_name(i)): values[i] for i in range(n)}

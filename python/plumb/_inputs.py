"""Inputs of a run as the C API wants them: arrays by name or in order, files, several samples, or generated ones."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

from . import _abi, _lib, _tensor

_FILLS = {"random": 0, "zeros": 1, "ones": 2}


def names_and_tensors(inputs: Any, names: Sequence[str]) -> Dict[str, Any]:
    """{name: array} of one sample: a mapping, a sequence in the order of the model's inputs, or one array."""
    if isinstance(inputs, Mapping):
        unknown = [k for k in inputs if k not in names]
        if unknown:
            raise ValueError(f"the model has no input {unknown[0]!r}; available: {', '.join(names)}")
        return dict(inputs)
    given = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    if len(given) > len(names):
        raise ValueError(f"{len(given)} inputs for a model with {len(names)}: {', '.join(names)}")
    return dict(zip(names, given))


class Inputs:
    """Owns the memory that the struct points to.

    inputs  None (generated); a mapping or tuple of arrays or torch tensors, or one array: a sample; a list of such: several
            samples; a path: a file or folder that holds them by name; a list of paths: several samples
    dims    {"batch": 2}: sizes of symbolic dims; others are 1
    ranges  {"x": (lo, hi)} of generated inputs
    fill    "random", "zeros" or "ones"
    seed    of the generated ones
    """

    def __init__(self, inputs: Any, names: Sequence[str], dims: Optional[Mapping[str, int]] = None,
                 ranges: Optional[Mapping[str, Any]] = None, fill: str = "random", seed: int = 0) -> None:
        if fill not in _FILLS:
            raise ValueError(f"fill is {fill!r}; available: {', '.join(_FILLS)}")
        given: Dict[str, Any] = {"fill": _FILLS[fill], "seed": seed}
        if dims:
            given["dims"] = [f"{k}={v}" for k, v in dims.items()]
        if ranges:
            given["ranges"] = [f"{k}={lo}:{hi}" for k, (lo, hi) in ranges.items()]
        samples, sets = _split(inputs)
        if sets:
            given["sets"] = sets
        self.struct = _lib.options("plumb_inputs", "PLUMB_OPTIONS_INPUTS", given)
        self.handles: List[_lib.Handle] = []
        if samples:
            self._add([names_and_tensors(s, names) for s in samples])

    def _add(self, samples: List[Dict[str, Any]]) -> None:
        keys = list(samples[0])
        if any(set(s) != set(keys) for s in samples):
            raise ValueError("the samples do not have the same inputs")
        rows = (_abi.plumb_input * (len(samples) * len(keys)))()
        for i, sample in enumerate(samples):
            for k, key in enumerate(keys):
                handle = _tensor.to_tensor(sample[key])
                self.handles.append(handle)
                rows[i * len(keys) + k].name = key.encode()
                rows[i * len(keys) + k].tensor = handle.pointer
        self.struct.tensors = rows
        self.struct.n_tensors, self.struct.n_samples = len(keys), len(samples)
        self.rows = rows

    @property
    def pointer(self) -> Any:
        return ctypes.pointer(self.struct)


def _is_path(thing: Any) -> bool:
    return isinstance(thing, (str, os.PathLike))


def _split(inputs: Any) -> Any:
    """(samples of arrays, paths of sets)"""
    if inputs is None:
        return [], []
    if _is_path(inputs):
        return [], [inputs]
    if isinstance(inputs, list) and inputs and all(_is_path(i) for i in inputs):
        return [], inputs
    if isinstance(inputs, list) and inputs and all(isinstance(i, (tuple, Mapping)) for i in inputs):
        return inputs, []
    return [inputs], []

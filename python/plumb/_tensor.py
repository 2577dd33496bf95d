"""Tensors between numpy, torch and plumb, without a copy where the memory allows it."""
from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any, Dict, Optional, Tuple

import numpy as np

from . import _abi, _lib

Array = Any  # numpy.ndarray of any type; numpy 1.24's stubs want one parameter, numpy 2's two

_TYPES: Dict[int, str] = {  # ONNX type: numpy type. Those that numpy lacks are read as their codes
    1: "<f4", 2: "|u1", 3: "|i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "|b1", 10: "<f2", 11: "<f8", 12: "<u4", 13: "<u8",
    14: "<c8", 15: "<c16", 17: "|u1", 18: "|u1", 19: "|u1", 20: "|u1", 21: "|u1", 22: "|i1", 23: "|u1", 24: "|u1", 25: "|u1",
    26: "|i1",
}
_FROM_NUMPY = {np.dtype(_TYPES[k]): k for k in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15)}
_BFLOAT16, _STRING = 16, 8
_kept: Dict[int, Any] = {}
_next = [1]
_lock = threading.Lock()


def _drop(ctx: Optional[int]) -> None:
    with _lock:
        _kept.pop(ctx or 0, None)


_release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_drop)


def _keep(array: Array) -> int:
    """Keeps the array alive until plumb releases its memory."""
    with _lock:
        number = _next[0]
        _next[0] += 1
        _kept[number] = array
    return number


def kept() -> int:
    """Number of arrays that plumb still holds, for leak tests."""
    with _lock:
        return len(_kept)


def _is_torch(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def _plain(thing: Any) -> Tuple[Array, int]:
    """(array in C order, ONNX type) of an array, a torch tensor or a number."""
    if _is_torch(thing):
        dense = thing.detach().resolve_conj().resolve_neg().cpu().contiguous()
        if str(dense.dtype) == "torch.bfloat16":
            return dense.view(sys.modules["torch"].int16).numpy().view("<u2"), _BFLOAT16
        return dense.numpy(), _FROM_NUMPY[dense.numpy().dtype]
    array = np.asarray(thing)
    if array.dtype.kind in "US" or array.dtype == object:
        return array.astype(object), _STRING
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
    if little.dtype.name == "bfloat16":  # of ml_dtypes
        return little.view("<u2"), _BFLOAT16
    if little.dtype not in _FROM_NUMPY:
        raise TypeError(f"numpy type {array.dtype} has no ONNX equivalent")
    return little, _FROM_NUMPY[little.dtype]


def to_tensor(thing: Any) -> _lib.Handle:
    """A plumb tensor over the memory of an array or torch tensor, which lives as long as it."""
    array, kind = _plain(thing)
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    if kind == _STRING:
        return _strings(array, dims)
    number = _keep(array)
    data = array.ctypes.data if array.size else None
    try:
        return _lib.make("tensor", "plumb_tensor_wrap", "plumb_tensor_free", kind, array.ndim, dims,
                         ctypes.c_void_p(data), array.nbytes, _release, ctypes.c_void_p(number))
    except BaseException:
        _drop(number)
        raise


def _strings(array: Array, dims: Any) -> _lib.Handle:
    texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.reshape(-1)]
    items = (_abi.plumb_string * max(len(texts), 1))()
    for item, text in zip(items, texts):
        item.data, item.n_bytes = text, len(text)
    return _lib.make("tensor", "plumb_tensor_new", "plumb_tensor_free", _STRING, array.ndim, dims,
                     ctypes.cast(items, ctypes.c_void_p), len(texts) * ctypes.sizeof(_abi.plumb_string))


class _Memory:
    """Owner of plumb memory that a numpy array points to."""

    def __init__(self, handle: _lib.Handle, shape: Tuple[int, ...], kind: str, data: int) -> None:
        self.handle = handle
        self.__array_interface__ = {"shape": shape, "typestr": kind, "data": (data, True), "version": 3}


def to_array(handle: _lib.Handle) -> Array:
    """A read-only array over a plumb tensor, without a copy. bfloat16 becomes float32; float8 and smaller types are codes."""
    lib, pointer = _lib.lib(), handle.pointer
    kind = lib.plumb_tensor_dtype(pointer)
    shape = _lib.array_of(lib.plumb_tensor_dims(pointer), lib.plumb_tensor_rank(pointer))
    data = lib.plumb_tensor_data(pointer) or 0
    if kind == _STRING:
        n = lib.plumb_tensor_elements(pointer)
        items = ctypes.cast(data, ctypes.POINTER(_abi.plumb_string))
        texts = [ctypes.string_at(items[i].data, items[i].n_bytes).decode("utf-8", "replace") for i in range(n)]
        made: Array = np.array(texts + [None], dtype=object)[:n].reshape(shape)
        return made
    if not data or 0 in shape:
        return np.zeros(shape, "<f4" if kind == _BFLOAT16 else _TYPES[kind])
    if kind == _BFLOAT16:
        codes: Array = np.asarray(_Memory(handle, shape, "<u2", data))
        return (codes.astype("<u4") << 16).view("<f4")
    found: Array = np.asarray(_Memory(handle, shape, _TYPES[kind], data))
    return found


def shared(pointer: Optional[int]) -> Optional[Array]:
    """An array over a tensor that belongs to another object."""
    if not pointer:
        return None
    again = ctypes.c_void_p(_lib.lib().plumb_tensor_ref(ctypes.c_void_p(pointer)))
    return to_array(_lib.Handle("tensor", again, "plumb_tensor_free"))


def dtype_name(kind: int) -> str:
    """'float16' of an ONNX type number; '' for none."""
    return _lib.text_of(_lib.lib().plumb_dtype_name(kind))

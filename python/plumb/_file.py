"""Writes a plumb recording: a safetensors file whose tensors stream to disk as they come.

The header comes first but is known last, so tensors go to unnamed files and are joined
at the end; memory does not grow with the bytes recorded. The file gets its name when it is complete, and
never replaces an existing one. Format: docs/formats/recording.md.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import shutil
import sys
import tempfile
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

HEADER_MAX = 100_000_000  # of the safetensors specification


class UnsupportedError(Exception):
    """The tensor cannot be recorded; the message says why."""


# torch type: (safetensors type, ONNX type, trailing dim of the packed form or 0)
def _types() -> Dict[Any, Tuple[str, str, int]]:
    rows: Dict[str, Tuple[Any, ...]] = {
        "float32": ("F32", "float"), "float64": ("F64", "double"), "float16": ("F16", "float16"),
        "bfloat16": ("BF16", "bfloat16"), "bool": ("BOOL", "bool"),
        "int8": ("I8", "int8"), "int16": ("I16", "int16"), "int32": ("I32", "int32"), "int64": ("I64", "int64"),
        "uint8": ("U8", "uint8"), "uint16": ("U16", "uint16"), "uint32": ("U32", "uint32"), "uint64": ("U64", "uint64"),
        "complex64": ("U8", "complex64", 8), "complex128": ("U8", "complex128", 16),
        "float8_e4m3fn": ("F8_E4M3", "float8e4m3fn"), "float8_e5m2": ("F8_E5M2", "float8e5m2"),
        "float8_e4m3fnuz": ("U8", "float8e4m3fnuz"), "float8_e5m2fnuz": ("U8", "float8e5m2fnuz"),
        "float8_e8m0fnu": ("U8", "float8e8m0"),
    }
    return {getattr(torch, k): (v[0], v[1], v[2] if len(v) > 2 else 0) for k, v in rows.items() if hasattr(torch, k)}


TYPES = _types()


def dense(tensor: Tensor) -> Tensor:
    """The tensor in C order in main memory, or UnsupportedError. Shares its memory if possible."""
    if getattr(tensor, "is_nested", False):
        raise UnsupportedError("nested tensor")
    if tensor.layout != torch.strided:
        raise UnsupportedError(f"layout {tensor.layout}")
    if tensor.is_quantized:
        raise UnsupportedError(f"quantised tensor ({tensor.dtype})")
    if tensor.device.type == "meta":
        raise UnsupportedError("meta tensor: it has no data")
    if tensor.dtype not in TYPES:
        raise UnsupportedError(f"element type {tensor.dtype}")
    if type(tensor).__name__ in ("FakeTensor", "FunctionalTensor"):
        raise UnsupportedError(f"{type(tensor).__name__}: it has no data")
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    try:
        has_data = plain.numel() == 0 or plain.data_ptr() != 0
    except RuntimeError:  # within torch.func
        has_data = False
    if not has_data:
        raise UnsupportedError(f"{type(tensor).__name__} without its own memory (a wrapper, or within torch.func)")
    return plain


def as_bytes(tensor: Tensor) -> memoryview:
    """The memory of a dense tensor, without a copy. The caller keeps the tensor alive."""
    n = tensor.numel() * tensor.element_size()
    if n == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * n).from_address(tensor.data_ptr())).cast("B")


class _Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def _load_xxhash() -> Any:
    """XXH3_128bits of the system's libxxhash, which most Linux systems have; None without it."""
    for name in ("libxxhash.so.0", ctypes.util.find_library("xxhash")):
        try:
            f = ctypes.CDLL(name).XXH3_128bits if name else None
        except (OSError, AttributeError):
            continue
        if f is not None:
            f.argtypes, f.restype = [ctypes.c_void_p, ctypes.c_size_t], _Hash128
            return f
    return None


_xxh3 = _load_xxhash()


def xxh3_hex(address: Any, n: int) -> Optional[str]:
    """32 hexadecimal digits, high half first as plumb prints them; None without libxxhash."""
    if _xxh3 is None:
        return None
    h = _xxh3(address, n)
    return f"{h.high:016x}{h.low:016x}"


def put_in_place(temporary: str, path: Any) -> None:
    """Gives a finished file its name; raises FileExistsError if the name is taken."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError(17, "File exists", path) from None
        os.rename(temporary, path)
        return
    os.unlink(temporary)


def refuse_existing(path: Any) -> None:
    if os.path.lexists(path):
        raise FileExistsError(17, "File exists", path)


def sync_folder(folder: str) -> None:
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)


class Writer:
    """write() each tensor, then finish() or abandon()."""

    def __init__(self, path: Any) -> None:
        if sys.byteorder != "little":
            raise OSError("recordings can only be written on little-endian machines")
        self.path = os.path.abspath(os.fspath(path))
        refuse_existing(self.path)
        self.folder = os.path.dirname(self.path)
        # By alignment: sizes that are multiples of 8, then elements of 4, 2 and 1 bytes, so that there are no holes.
        self.parts = {a: tempfile.TemporaryFile(dir=self.folder, prefix=".plumb-") for a in (8, 4, 2, 1)}  # noqa: SIM115
        self.sizes = dict.fromkeys(self.parts, 0)
        self.tensors: List[Tuple[str, str, List[int], int, int, int]] = []
        # (safetensors type, ONNX type, shape in the file, part, begin, end)

    def write(self, tensor: Tensor) -> int:
        """Appends a dense tensor; returns its number."""
        kind, onnx, packed = TYPES[tensor.dtype]
        data = as_bytes(tensor)
        align = 8 if len(data) % 8 == 0 else min(tensor.element_size(), 4)
        begin = self.sizes[align]
        self.parts[align].write(data)
        self.sizes[align] += len(data)
        shape = list(tensor.shape) + ([packed] if packed else [])
        self.tensors.append((kind, onnx, shape, align, begin, begin + len(data)))
        return len(self.tensors) - 1

    def _header(self, keys: List[str], metadata: Dict[str, str]) -> bytes:
        start, base = 0, {}
        for align in self.parts:
            base[align] = start
            start += self.sizes[align]
        header: Dict[str, Any] = {"__metadata__": dict(metadata)}
        for key, (kind, onnx, shape, align, begin, end) in zip(keys, self.tensors):
            if kind == "U8" and onnx != "uint8":
                header["__metadata__"][f"plumb.dtype.{key}"] = onnx
            header[key] = {"dtype": kind, "shape": shape, "data_offsets": [base[align] + begin, base[align] + end]}
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        text += b" " * (-len(text) % 8)
        if len(text) > HEADER_MAX:
            raise ValueError(f"{self.path}: the header would have {len(text)} bytes, safetensors allows {HEADER_MAX}")
        return len(text).to_bytes(8, "little") + text

    def finish(self, keys: List[str], metadata: Dict[str, str]) -> None:
        """keys: the names of the tensors in the order of write(); metadata: strings for __metadata__."""
        fd, temporary = tempfile.mkstemp(dir=self.folder, prefix=".plumb-", suffix=".tmp")
        try:
            with os.fdopen(fd, "wb") as out:
                out.write(self._header(keys, metadata))
                for part in self.parts.values():
                    part.seek(0)
                    shutil.copyfileobj(part, out, 1 << 20)
                out.flush()
                os.fchmod(out.fileno(), 0o666 & ~_umask())
                os.fsync(out.fileno())
            put_in_place(temporary, self.path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
        finally:
            self.abandon()
        sync_folder(self.folder)

    def abandon(self) -> None:
        for part in self.parts.values():
            part.close()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

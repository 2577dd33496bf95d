"""llama.cpp's library and a writer of GGUF files, for the tests that need them.

ggml() opens the libggml of the npm package that tools/fetch-llama pins. Files are written after the published format (ggml's docs/gguf.md)."""

import ctypes
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
from tap import Skip

ROOT = Path(__file__).resolve().parents[2]
ALIGNMENT = 32
QUANTISED = (2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 29, 34, 35, 39, 40, 41, 42)  # of ggml's enum ggml_type
KINDS = {"u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"),
         "bool": (7, "<B"), "text": (8, None), "u64": (10, "<Q"), "i64": (11, "<q"), "f64": (12, "<d")}


class Traits(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("block", ctypes.c_int64), ("interleave", ctypes.c_int64), ("bytes", ctypes.c_size_t),
                ("quantised", ctypes.c_bool), ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
                ("from_float_ref", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64))]


def libraries():
    """The folder with libllama and its parts."""
    done = subprocess.run([ROOT / "tools/fetch-llama"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip("llama.cpp's library: " + done.stderr.strip())
    return done.stdout.strip()


def ggml():
    lib = ctypes.CDLL(os.path.join(libraries(), "libggml-base.so"))
    lib.ggml_type_size.restype = lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_blck_size.restype = ctypes.c_int64
    lib.ggml_type_name.restype = ctypes.c_char_p
    lib.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    lib.ggml_quantize_init(ctypes.c_int(0))
    # The struct has no version: what it says must be what the functions say, or the test asks the wrong fields.
    for number in QUANTISED:
        t = lib.ggml_get_type_traits(number).contents
        assert (t.name, t.block, t.bytes) == (lib.ggml_type_name(number), lib.ggml_blck_size(number), lib.ggml_type_size(number))
    return lib


def expand(lib, number, raw):
    t = lib.ggml_get_type_traits(number).contents
    out = np.empty(len(raw) // t.bytes * t.block, np.float32)
    rows = lib.dequantize_row_q8_K if number == 15 else t.to_float  # an intermediate format: without traits
    rows(raw, ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(out.size))
    return out


def quantised(lib, number, x):
    """Rows of floats as blocks of a type, as llama.cpp's quantiser makes them."""
    x = np.ascontiguousarray(x, np.float32)
    buffer = ctypes.create_string_buffer(x.size // lib.ggml_blck_size(number) * lib.ggml_type_size(number))
    importance = np.ones(x.shape[-1], np.float32)
    n = lib.ggml_quantize_chunk(number, x.ctypes.data, buffer, 0, x.size // x.shape[-1], x.shape[-1], importance.ctypes.data)
    assert n == len(buffer), (number, n, len(buffer))
    return buffer.raw


# ---- a writer ----

def text(s):
    b = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(b)) + b


def value(kind, v):
    if isinstance(v, list):
        return struct.pack("<IIQ", 9, KINDS[kind][0], len(v)) + b"".join(value(kind, x)[4:] for x in v)
    number, form = KINDS[kind]
    return struct.pack("<I", number) + (text(v) if form is None else struct.pack(form, v))


def gguf(path, tensors, metadata=(), version=3, alignment=ALIGNMENT):
    """tensors: name -> (type number, shape in C order, bytes); metadata: (key, kind, value)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(text(k) + value(kind, v) for k, kind, v in metadata)
    data = b""
    for name, (number, shape, raw) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in reversed(shape))
        head += struct.pack("<IQ", number, len(data))
        data += raw + bytes(-len(raw) % alignment)
    path.write_bytes(head + bytes(-len(head) % alignment) + data)
    return path

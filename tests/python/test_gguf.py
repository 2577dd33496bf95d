"""GGUF: every type of block against llama.cpp's own library, bit for bit; metadata; files that lie. Prints TAP.

The oracle is libggml of the npm package that tools/fetch-llama pins: ggml_get_type_traits()->to_float expands blocks, and
ggml_quantize_chunk makes real ones. Files are written here after the published format (ggml's docs/gguf.md)."""

import ctypes
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import Skip  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
sys.path.insert(0, str(ROOT / "python"))
import plumb  # noqa: E402
from gguf_files import ALIGNMENT, expand, ggml, gguf, quantised, text, value  # noqa: E402

# Numbers of ggml's enum ggml_type; the rest of what the test needs to know of a type comes from the library.
PLAIN = {0: np.float32, 1: np.float16, 24: np.int8, 25: np.int16, 26: np.int32, 27: np.int64, 28: np.float64, 30: np.uint16}
BLOCKS = (2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 29, 34, 35, 39, 40, 41, 42)


def same_bits(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (found.dtype, found.shape, wanted.dtype, wanted.shape)
    nan = np.isnan(wanted)  # the payload of a NaN is not told by a format, and differs between compilers
    assert np.array_equal(np.isnan(found), nan)
    bad = (found.view(np.uint32) != wanted.view(np.uint32)) & ~nan
    assert not bad.any(), f"{bad.sum()} of {bad.size} differ, first at {np.argwhere(bad)[0]}: {found[bad][0]!r}, {wanted[bad][0]!r}"


def refused(path, *words):
    done = subprocess.run([PLUMB, "info", path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and all(w in done.stderr for w in words), (done.returncode, done.stderr)


# ---- tests ----

def test_every_type_is_known_by_the_same_size(folder):
    lib = ggml()
    tensors = {}
    for number in (*PLAIN, *BLOCKS, 9):
        tensors[f"t{number}"] = (number, (3, 2 * lib.ggml_blck_size(number)), bytes(6 * lib.ggml_type_size(number)))
    info = plumb.info_tensors(gguf(folder / "a.gguf", tensors))
    assert [t["name"] for t in info["tensors"]] == list(tensors)
    for t in info["tensors"]:
        number, shape, raw = tensors[t["name"]]
        assert t["type"].lower() == lib.ggml_type_name(number).decode().lower(), (t, number)
        assert t["shape"] == list(shape) and t["bytes"] == len(raw), (t, shape, len(raw))
    # and what the library knows beyond that is not forgotten here
    known = {n for n in range(43) if lib.ggml_type_size(n) > 0}
    assert known == {*PLAIN, *BLOCKS, 9}, known
    return f"{len(tensors)} types"


def test_random_blocks_expand_to_the_same_bits(folder):
    """Any bytes are blocks: every code of every type, with scales that are subnormal, huge, infinite and NaN."""
    lib, rng = ggml(), np.random.default_rng(7)
    tensors, wanted = {}, {}
    for number in BLOCKS:
        n = 300
        raw = rng.integers(0, 256, n * lib.ggml_type_size(number), np.uint8).tobytes()
        tensors[f"t{number}"] = (number, (n // 3, 3 * lib.ggml_blck_size(number)), raw)
        wanted[f"t{number}"] = expand(lib, number, raw).reshape(n // 3, -1)
    found = plumb.load(gguf(folder / "a.gguf", tensors))
    for name, w in wanted.items():
        try:
            same_bits(found[name], w)
        except AssertionError as e:
            raise AssertionError(f"{lib.ggml_type_name(int(name[1:])).decode()}: {e}") from None
    return f"{len(wanted)} types, {sum(w.size for w in wanted.values())} elements"


def test_quantised_weights_expand_to_the_same_bits(folder):
    """Blocks that llama.cpp's quantiser makes of normal weights; and they are near the weights."""
    lib, rng = ggml(), np.random.default_rng(3)
    x = rng.standard_normal((8, 512)).astype(np.float32)
    tensors, wanted = {}, {}
    for number in BLOCKS:
        if number == 15:
            buffer = ctypes.create_string_buffer(x.size // lib.ggml_blck_size(number) * lib.ggml_type_size(number))
            lib.quantize_row_q8_K_ref(*(ctypes.c_void_p(p) for p in (x.ctypes.data, ctypes.addressof(buffer))), ctypes.c_int64(x.size))
            raw = buffer.raw
        else:
            raw = quantised(lib, number, x)
        tensors[f"t{number}"] = (number, x.shape, raw)
        wanted[f"t{number}"] = expand(lib, number, raw).reshape(x.shape)
    found = plumb.load(gguf(folder / "a.gguf", tensors))
    for name, w in wanted.items():
        same_bits(found[name], w)
        near = .3 if name in ("t34", "t35") else .75  # ternary by the largest weight of 256: most become zero
        assert np.isfinite(w).all() and np.corrcoef(w.ravel(), x.ravel())[0, 1] > near, name
    return f"{len(wanted)} types"


def test_q8_1(folder):
    """llama.cpp does not expand Q8_1; the elements are those of its writer times the scale that it wrote."""
    lib, rng = ggml(), np.random.default_rng(5)
    x = rng.standard_normal((4, 64)).astype(np.float32)
    raw = ctypes.create_string_buffer(8 * 36)
    lib.ggml_get_type_traits(9).contents.from_float_ref(x.ctypes.data, ctypes.addressof(raw), x.size)
    blocks = np.frombuffer(raw.raw, np.uint8).reshape(8, 36)
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    q = blocks[:, 4:].view(np.int8).astype(np.float32)
    found = plumb.load(gguf(folder / "a.gguf", {"t": (9, x.shape, raw.raw)}))["t"]
    same_bits(found, (q * d).reshape(x.shape))
    assert np.abs(found - x).max() < .03


def test_plain_types(folder):
    rng = np.random.default_rng(1)
    tensors, wanted = {}, {}
    for number, kind in PLAIN.items():
        raw = rng.integers(0, 256, 24 * np.dtype(kind).itemsize, np.uint8).tobytes()
        tensors[f"t{number}"] = (number, (2, 3, 4), raw)
        wanted[f"t{number}"] = raw
    tensors["scalar"] = (0, (), struct.pack("<f", 2.5))
    tensors["empty"] = (0, (0, 4), b"")
    found = plumb.load(gguf(folder / "a.gguf", tensors))
    for name, raw in wanted.items():
        t = found[name]
        if name == "t30":  # bfloat16, which numpy lacks: as float, whose upper half it is
            t, raw = t.view(np.uint32), (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).tobytes()
        assert t.tobytes() == raw and t.shape == (2, 3, 4), name
    assert found["scalar"].shape == () and found["scalar"] == 2.5 and found["empty"].shape == (0, 4)


def test_metadata(folder):
    metadata = [("general.architecture", "text", "llama"), ("a.u8", "u8", 255), ("a.i8", "i8", -3), ("a.u16", "u16", 65535),
                ("a.i16", "i16", -300), ("a.u32", "u32", 4294967295), ("a.i32", "i32", -2147483648), ("a.f32", "f32", 1e-5),
                ("a.bool", "bool", 1), ("a.u64", "u64", 2 ** 64 - 1), ("a.i64", "i64", -2 ** 63), ("a.f64", "f64", .1),
                ("a.list", "i32", [1, -2, 3]), ("tokens", "text", ["<s>", "né", "x\n"] + ["t"] * 100), ("none", "text", [])]
    info = plumb.info_tensors(gguf(folder / "a.gguf", {"t": (0, (1,), bytes(4))}, metadata))
    found = {k: v["value"] for k, v in info["metadata"].items()}
    assert info["version"] == 3 and found["general.architecture"] == "llama" and found["a.u8"] == "255" and found["a.i8"] == "-3"
    assert found["a.u16"] == "65535" and found["a.i16"] == "-300" and found["a.u32"] == "4294967295" and found["a.bool"] == "true"
    assert found["a.i32"] == "-2147483648" and np.float32(found["a.f32"]) == np.float32(1e-5) and found["a.list"] == "[1, -2, 3]"
    assert found["a.u64"] == str(2 ** 64 - 1) and found["a.i64"] == str(-2 ** 63) and found["a.f64"] == "0.1" and found["none"] == "[]"
    assert found["tokens"] == "[<s>, né, x?, t, t, t, t, t, …]" and info["metadata"]["tokens"]["items"] == 103
    assert plumb.info_tensors(gguf(folder / "b.gguf", {"t": (0, (1,), bytes(4))}, version=2))["version"] == 2
    other = gguf(folder / "c.gguf", {"t": (0, (1,), b"abcd"), "u": (0, (1,), b"abcd")}, [("general.alignment", "u32", 8)], alignment=8)
    assert plumb.load(other)["u"].tobytes() == b"abcd"


def test_compare_with_safetensors(folder):
    """A Q8_0 file against the float weights under the same names: the one weight that is another is named."""
    lib, rng = ggml(), np.random.default_rng(9)
    tensors, floats = {}, {}
    for name in ("blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.1.attn_q.weight"):
        x = rng.standard_normal((16, 64)).astype(np.float32)
        raw = ctypes.create_string_buffer(x.size // 32 * 34)
        lib.ggml_quantize_chunk(8, x.ctypes.data, ctypes.addressof(raw), 0, 16, 64, None)
        tensors[name] = (8, x.shape, raw.raw)
        floats[name] = expand(lib, 8, raw.raw).reshape(x.shape)
    gguf(folder / "a.gguf", tensors)
    floats["blk.1.attn_q.weight"] = np.roll(floats["blk.1.attn_q.weight"], 1, axis=0)
    np.savez(folder / "b.npz", **floats)
    done = subprocess.run([PLUMB, "compare", folder / "a.gguf", folder / "b.npz", "-o", folder / "s", "--json"], capture_output=True,
                          text=True, timeout=300)
    points = {p["value"]: p for p in json.loads(done.stdout)["sync_points"]}
    assert done.returncode == 1 and set(points) == set(tensors)
    assert [points[n]["class"] for n in tensors] == ["exact", "exact", "finite"], [p["class"] for p in points.values()]


def test_files_that_lie(folder):
    one = {"t": (2, (2, 32), bytes(36))}
    whole = gguf(folder / "a.gguf", one, [("k", "u32", 1)]).read_bytes()
    bad = folder / "b.gguf"
    for n in range(8, len(whole) - 28):  # every prefix, but those that only lack padding
        bad.write_bytes(whole[:n])
        if n % 5 == 0 or n > len(whole) - 40:
            refused(bad)
    bad.write_bytes(whole[:8] + struct.pack("<Q", 1 << 60) + whole[16:])
    refused(bad, "1152921504606846976 tensors", "do not fit")
    bad.write_bytes(b"GGUF" + struct.pack(">I", 3) + whole[8:])
    refused(bad, "big-endian")
    bad.write_bytes(b"GGUF" + struct.pack("<I", 1) + whole[8:])
    refused(bad, "version 1, expected 2 or 3")
    refused(gguf(bad, {"t": (2, (2, 33), bytes(38))}), "'t'", "not whole blocks of 32 (Q4_0)")
    refused(gguf(bad, {"t": (99, (2, 32), bytes(36))}), "'t'", "unknown type 99")
    refused(gguf(bad, {"t": (0, (2 ** 33, 2 ** 33), bytes(4))}), "'t'", "too large")
    refused(gguf(bad, {"t": (0, (1, 1, 1, 1, 1), bytes(4))}), "rank 5")
    refused(gguf(bad, one, [("k", "u32", 1), ("k", "u32", 2)]), "'k' is there twice")
    refused(gguf(bad, one, [("general.alignment", "u32", 24)]), "not a power of two")
    raw = whole.replace(struct.pack("<IQ", 2, 0), struct.pack("<IQ", 2, 32))
    bad.write_bytes(raw)
    refused(bad, "begin at 32, expected 0")


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

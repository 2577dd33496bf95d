"""`plumb compare` and recording against a plain mapped read, numpy, and cp: called by bench/run.py.

By hand: bench/compare/throughput.py [--gb N] [--rounds N] [KIND…]
All contenders alternate in one run on the same files in the page cache; wall time of whole processes, the best round counts.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KINDS = {"f32": ("F32", 4, 0.8), "f64": ("F64", 8, 0.8), "f16": ("F16", 2, 0.65), "bf16": ("BF16", 2, 0.65)}  # part of a plain read
TENSORS = 16
NUMPY_TIMES, PRIVATE_MB, WRITE_SHARE = 50, 64, 0.7


def build(out, source, *flags):
    subprocess.run(["cc", "-O3", "-march=native", "-I", os.path.join(ROOT, "include"), os.path.join(HERE, source), "-o", out, *flags], check=True)


def convert(x, kind):
    if kind == "bf16":
        return (x.view(np.uint32) >> 16).astype(np.uint16)
    return x.astype({"f32": np.float32, "f64": np.float64, "f16": np.float16}[kind])


def make_pair(folder, kind, n_bytes):
    """Two files of TENSORS tensors; the second is off by rounding."""
    name, size, _ = KINDS[kind]
    per = int(n_bytes) // TENSORS // 64 * 64
    x = np.random.default_rng(1).standard_normal(per // size, dtype=np.float32)
    header, at = {}, 0
    for i in range(TENSORS):
        header[f"t{i}"] = {"dtype": name, "shape": [per // size], "data_offsets": [at, at + per]}
        at += per
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    paths = []
    for side, factor in (("a", 1 + (2e-3 if size == 2 else 1e-6)), ("b", 1)):
        values = convert(x * np.float32(factor), kind)
        paths.append(os.path.join(folder, f"{kind}-{side}.safetensors"))
        with open(paths[-1], "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for i in range(TENSORS):
                f.write(np.roll(values, 1009 * i).tobytes())
    return paths


def wall(command):
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    spent = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise RuntimeError(f"exit {done.returncode}: {' '.join(command)}: {done.stderr[:200]}")
    return spent


def numpy_seconds(paths):
    """The five metrics on one of the tensors, scaled to all: MSE, MAE, max abs, mean relative, PSNR."""
    arrays = []
    for path in paths:
        with open(path, "rb") as f:
            (n,) = struct.unpack("<Q", f.read(8))
            shape = json.loads(f.read(n))["t0"]["shape"]
        arrays.append(np.memmap(path, np.float32, "r", 8 + n, tuple(shape)))
    a, r = arrays
    start = time.perf_counter()
    d = a.astype(np.float64) - r.astype(np.float64)
    mse, peak = np.mean(d * d), np.max(np.abs(r))
    np.mean(np.abs(d)), np.max(np.abs(d)), np.mean(np.abs(d) / np.maximum(np.abs(r), 1e-7 * peak)), 10 * np.log10(float(peak) ** 2 / mse)
    return (time.perf_counter() - start) * TENSORS


def compare_command(plumb, paths):
    return [plumb, "compare", *paths, "--no-session", "--json"]


def measure_kind(plumb, reader, folder, kind, n_bytes, rounds):
    paths = make_pair(folder, kind, n_bytes)
    threads = str(len(os.sched_getaffinity(0)))
    best = {"read": 1e9, "plumb": 1e9}
    for _ in range(rounds):
        best["read"] = min(best["read"], wall([reader, threads, *paths]))
        best["plumb"] = min(best["plumb"], wall(compare_command(plumb, paths)))
    best["numpy"] = min(numpy_seconds(paths) for _ in range(2)) if kind == "f32" else None
    best["gb"] = sum(os.path.getsize(p) for p in paths) / 1e9
    best["paths"] = paths
    return best


def measure_write(writer, folder, n_bytes, rounds):
    """Seconds to write a recording, and to cp it and sync."""
    mb = max(1, int(n_bytes / TENSORS) >> 20)
    best = {"plumb": 1e9, "cp": 1e9}
    for _ in range(rounds):
        one, two = os.path.join(folder, "r.safetensors"), os.path.join(folder, "copy.safetensors")
        os.sync()
        done = subprocess.run([writer, one, str(TENSORS), str(mb)], check=True, capture_output=True, text=True)
        best["plumb"] = min(best["plumb"], float(done.stdout))
        os.sync()
        start = time.perf_counter()
        subprocess.run(["cp", one, two], check=True)
        subprocess.run(["sync", two], check=True)
        best["cp"] = min(best["cp"], time.perf_counter() - start)
        os.unlink(one)
        os.unlink(two)
    return best


def bench_compare(bench, private_peak_mb, n_bytes=None, kinds=tuple(KINDS)):
    n_bytes = n_bytes or (256 << 20 if bench.quick else 2 << 30)
    library = os.path.dirname(bench.plumb)
    bench.say(f"### `compare` of two recordings of {n_bytes / 2**30:.3g} GB in the page cache, and writing one\n")
    bench.say("| | plain mapped read GB/s | plumb compare GB/s | part of the read | numpy GB/s |\n|---|---|---|---|---|")
    folder = tempfile.mkdtemp(prefix="plumb-bench-")
    rounds = 2 * bench.rounds + 2
    shares, memory = {}, 0
    try:
        reader, writer = os.path.join(folder, "read_mapped"), os.path.join(folder, "write_recording")
        build(reader, "read_mapped.c", "-lpthread")
        build(writer, "write_recording.c", "-L", library, "-lplumb", f"-Wl,-rpath,{library}")
        for kind in kinds:
            f = measure_kind(bench.plumb, reader, folder, kind, n_bytes, rounds)
            shares[kind] = f["read"] / f["plumb"]
            times = f["numpy"] / f["plumb"] if f["numpy"] else None
            other = f"{f['gb'] / f['numpy']:.2f} ({times:.0f} times slower)" if times else ""
            bench.say(f"| {kind} | {f['gb'] / f['read']:.1f} | {f['gb'] / f['plumb']:.1f} | {shares[kind]:.2f} | {other} |")
            if times:
                memory = private_peak_mb(compare_command(bench.plumb, f["paths"]))
                slower = times
            for path in f["paths"]:
                os.unlink(path)
        write = measure_write(writer, folder, n_bytes / 2, 3)
    finally:
        shutil.rmtree(folder)
    bench.say()
    for kind, share in shares.items():
        bench.limit(f"time of compare over a plain read, {kind}", 1 / share, 1 / KINDS[kind][2])
    if "f32" in shares:
        bench.limit("time of compare over numpy's", 1 / slower, 1 / NUMPY_TIMES)
        bench.limit("private memory of compare", memory, PRIVATE_MB, " MB")
    bench.limit("time to hash and write a recording over cp and sync", write["plumb"] / write["cp"], 1 / WRITE_SHARE)
    bench.say()


class Plain:
    """Enough of bench/run.py's Bench to run by hand."""

    def __init__(self, rounds):
        self.plumb, self.quick, self.rounds = os.path.join(ROOT, "build", "plumb"), False, rounds

    def say(self, line=""):
        print(line, flush=True)

    def limit(self, what, value, top, unit=""):
        print(f"- {what}: {value:.3g}{unit}, limit {top:.3g}{unit}: {'held' if value <= top else '**missed**'}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    from run import private_peak_mb

    words = sys.argv[1:]
    gb = float(words[words.index("--gb") + 1]) if "--gb" in words else 2
    n_rounds = int(words[words.index("--rounds") + 1]) if "--rounds" in words else 3
    bench_compare(Plain(n_rounds), private_peak_mb, int(gb * 2**30), tuple(k for k in KINDS if k in words) or tuple(KINDS))

"""`plumb compare` and recording against a plain mapped read, numpy, torch, and cp: called by bench/run.py.

By hand: bench/compare/throughput.py [--gb N] [--rounds N] [KIND…]
All contenders alternate in one run on the same files in the page cache, wall time of whole processes. The ratio to the plain read is the
median over the rounds of each round's own ratio: single reads have two speeds (33 or 55 GB/s on one machine), and the best of each
contender would set a lucky read against an unlucky comparison. The two speeds come with the distance of the cores, which is shown (cores_apart.c).
"""
import json
import os
import shutil
import statistics
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


def mapped(path):
    """The tensors of one of make_pair's float32 files, not yet read."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    return [np.memmap(path, np.float32, "c", 8 + n + t["data_offsets"][0], tuple(t["shape"])) for t in header.values()]


def numpy_metrics(a, r):
    """MSE, MAE, max abs, mean relative, PSNR, in double."""
    d = a.astype(np.float64) - r.astype(np.float64)
    mse, peak = np.mean(d * d), np.max(np.abs(r))
    e = np.abs(d)
    return mse, np.mean(e), np.max(e), np.mean(e / np.maximum(np.abs(r), 1e-7 * peak)), 10 * np.log10(float(peak) ** 2 / mse)


def torch_metrics(a, r):
    import torch

    a, r = torch.from_numpy(a), torch.from_numpy(r)
    d = a.double() - r.double()
    mse, peak = (d * d).mean().item(), r.abs().max().item()
    e = d.abs()
    return mse, e.mean().item(), e.max().item(), (e / r.abs().clamp(min=1e-7 * peak)).mean().item(), 10 * np.log10(peak**2 / mse)


def library_seconds(paths, metrics):
    """The five metrics on every tensor, one after the other: the time of all of them, not the best of one scaled up."""
    pairs = list(zip(*map(mapped, paths)))
    start = time.perf_counter()
    for a, r in pairs:
        metrics(a, r)
    return time.perf_counter() - start


def torch_there():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def compare_command(plumb, paths):
    return [plumb, "compare", *paths, "--no-session", "--json"]


def measure_kind(plumb, reader, distance, folder, kind, n_bytes, rounds):
    """Median seconds of each contender, the median of the rounds' own ratios read/plumb (`share`), and the least and largest `distance`."""
    paths = make_pair(folder, kind, n_bytes)
    threads = str(len(os.sched_getaffinity(0)))
    times, apart = {"read": [], "plumb": []}, []
    for _ in range(rounds):
        apart.append(int(subprocess.run([distance], check=True, capture_output=True, text=True).stdout))
        times["read"].append(wall([reader, threads, *paths]))
        times["plumb"].append(wall(compare_command(plumb, paths)))
    found = {name: statistics.median(t) for name, t in times.items()}
    found["share"] = statistics.median(r / p for r, p in zip(times["read"], times["plumb"]))
    found["apart"] = f"{min(apart)}..{max(apart)}"
    found["numpy"] = found["torch"] = None
    if kind == "f32":
        found["numpy"] = min(library_seconds(paths, numpy_metrics) for _ in range(2))
        found["torch"] = min(library_seconds(paths, torch_metrics) for _ in range(2)) if torch_there() else None
    found["gb"] = sum(os.path.getsize(p) for p in paths) / 1e9
    found["paths"] = paths
    return found


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
    bench.say("| | plain mapped read GB/s | plumb compare GB/s | part of the read | cores apart ns | numpy GB/s | torch GB/s |\n|---|---|---|---|---|---|---|")
    folder = tempfile.mkdtemp(prefix="plumb-bench-")
    rounds = 2 * bench.rounds + 2
    shares, memory = {}, 0
    try:
        reader, distance, writer = (os.path.join(folder, name) for name in ("read_mapped", "cores_apart", "write_recording"))
        build(reader, "read_mapped.c", "-lpthread")
        build(distance, "cores_apart.c", "-lpthread")
        build(writer, "write_recording.c", "-L", library, "-lplumb", f"-Wl,-rpath,{library}")
        for kind in kinds:
            f = measure_kind(bench.plumb, reader, distance, folder, kind, n_bytes, rounds)
            shares[kind] = f["share"]
            cells = [f"{f['gb'] / f[lib]:.2f} ({f[lib] / f['plumb']:.0f} times slower)" if f[lib] else "" for lib in ("numpy", "torch")]
            bench.say(f"| {kind} | {f['gb'] / f['read']:.1f} | {f['gb'] / f['plumb']:.1f} | {shares[kind]:.2f} | {f['apart']} | {' | '.join(cells)} |")
            if kind == "f32":
                memory = private_peak_mb(compare_command(bench.plumb, f["paths"]))
                slower = {lib: f[lib] / f["plumb"] for lib in ("numpy", "torch") if f[lib]}
            for path in f["paths"]:
                os.unlink(path)
        write = measure_write(writer, folder, n_bytes / 2, 3)
    finally:
        shutil.rmtree(folder)
    bench.say()
    for kind, share in shares.items():
        bench.limit(f"time of compare over a plain read, {kind}", 1 / share, 1 / KINDS[kind][2])
    if "f32" in shares:
        bench.limit("time of compare over numpy's", 1 / slower["numpy"], 1 / NUMPY_TIMES)
        if "torch" in slower:
            bench.ratio("time of compare over torch's", 1 / slower["torch"])
        bench.limit("private memory of compare", memory, PRIVATE_MB, " MB")
    bench.limit("time to hash and write a recording over cp and sync", write["plumb"] / write["cp"], 1 / WRITE_SHARE)
    bench.say()


class Plain:
    """Enough of bench/run.py's Bench to run by hand."""

    def __init__(self, rounds):
        self.plumb, self.quick, self.rounds = os.path.join(ROOT, "build", "plumb"), False, rounds

    def say(self, line=""):
        print(line, flush=True)

    def ratio(self, what, value):
        print(f"- {what}: {value:.3g}", flush=True)

    def limit(self, what, value, top, unit=""):
        print(f"- {what}: {value:.3g}{unit}, limit {top:.3g}{unit}: {'held' if value <= top else '**missed**'}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    from run import private_peak_mb

    words = sys.argv[1:]
    gb = float(words[words.index("--gb") + 1]) if "--gb" in words else 2
    n_rounds = int(words[words.index("--rounds") + 1]) if "--rounds" in words else 3
    bench_compare(Plain(n_rounds), private_peak_mb, int(gb * 2**30), tuple(k for k in KINDS if k in words) or tuple(KINDS))

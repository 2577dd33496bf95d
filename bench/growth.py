"""Growth curves: nodes of a graph, bytes of a recording, threads. Tables into the report, plots into bench/plots/. Called by bench/run.py."""
import json
import os
import statistics
import struct
import subprocess
import tempfile
import time

import plot

HERE = os.path.dirname(os.path.abspath(__file__))
PLOTS = os.path.join(HERE, "plots")
SPARSE_TENSORS = 16


def wall(command, **kw):
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **kw)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"exit {done.returncode}: {' '.join(command)}: {done.stderr[:200]}")
    return time.perf_counter() - start


def write_plot(bench, name, *args):
    if bench.quick:
        return
    os.makedirs(PLOTS, exist_ok=True)
    with open(os.path.join(PLOTS, name), "w", encoding="utf-8") as f:
        f.write(plot.svg(*args))
    bench.say(f"![{args[0]}](plots/{name})\n")


def grow_nodes(bench, big_model, info_figures, onnx_figures):
    counts = (1, 10, 30, 100)
    ours, peers = [], []
    bench.say("| nodes | plumb info ms | python-onnx load, check, infer ms |\n|---|---|---|")
    for count in counts:
        model = big_model(f"nodes{count}k")
        ours.append((1000 * count, info_figures(bench, model)[0]))
        peers.append((1000 * count, onnx_figures(bench, model, "check", "infer")[0]))
        bench.say(f"| {count}k | {ours[-1][1]:.1f} | {peers[-1][1]:.0f} |")
    bench.say()
    write_plot(bench, "nodes.svg", "Load, verify and infer shapes", "nodes", "ms", {"plumb info": ours, "python-onnx": peers})
    bench.ratio("time of info over python-onnx, 100k nodes", ours[-1][1] / peers[-1][1])
    # 1 is linear: time per node at 100k over time per node at 10k.
    bench.ratio("growth from 10k to 100k nodes", ours[-1][1] / ours[1][1] / 10)


def sparse_recording(path, n_bytes, value):
    """A safetensors file of zeros that takes no room on the disk, but for one element a tensor, so that the two sides differ."""
    per = n_bytes // SPARSE_TENSORS // 64 * 64
    header = {f"t{i}": {"dtype": "F32", "shape": [per // 4], "data_offsets": [per * i, per * (i + 1)]} for i in range(SPARSE_TENSORS)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for i in range(SPARSE_TENSORS):
            f.seek(8 + len(text) + per * i)
            f.write(struct.pack("<2f", 1.0, value))
        f.truncate(8 + len(text) + per * SPARSE_TENSORS)


def grow_bytes(bench, reader):
    """compare of two recordings of 1 MB to 4 GB each (sparse files in the page cache) and a plain read of both."""
    sizes = [1 << 20, 16 << 20, 256 << 20] + ([] if bench.quick else [1 << 30, 4 << 30])
    threads = str(len(os.sched_getaffinity(0)))
    ours, plain = [], []
    bench.say("| bytes on each side | compare s | GB/s | plain read s |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="plumb-bench-") as folder:
        build_reader = os.path.join(folder, "read_mapped")
        reader(build_reader)
        for size in sizes:
            paths = [os.path.join(folder, f"{side}.safetensors") for side in "ab"]
            for path, value in zip(paths, (1.0, 1.0 + 2e-7)):
                sparse_recording(path, size, value)
            times = [(wall([bench.plumb, "compare", *paths, "--no-session", "--json"]), wall([build_reader, threads, *paths]))
                     for _ in range(2 + bench.rounds)][1:]
            a, b = (statistics.median(t[i] for t in times) for i in (0, 1))
            ours.append((size, a))
            plain.append((size, b))
            bench.say(f"| {plot.short(size)} | {a:.3f} | {2 * size / a / 1e9:.1f} | {b:.3f} |")
    bench.say()
    write_plot(bench, "bytes.svg", "Compare two recordings", "bytes on each side", "seconds", {"plumb compare": ours, "plain read": plain})
    bench.ratio(f"growth of compare from {plot.short(sizes[-2])} to {plot.short(sizes[-1])} bytes", ours[-1][1] / ours[-2][1] / (sizes[-1] / sizes[-2]))


def grow_threads(bench, model, files, run_plumb, run_ort):
    cores = len(os.sched_getaffinity(0))
    counts = sorted({1, *(2**i for i in range(1, 8) if 2**i < cores), cores})
    ours, peers = [], []
    bench.say("| threads | plumb run ms | ORT ms | plumb's speed-up | ORT's |\n|---|---|---|---|---|")
    for t in counts:
        rounds = [(run_plumb(t), run_ort(t)) for _ in range(bench.rounds)]
        ours.append((t, min(r[0] for r in rounds)))
        peers.append((t, min(r[1] for r in rounds)))
        bench.say(f"| {t} | {ours[-1][1]:.2f} | {peers[-1][1]:.2f} | {ours[0][1] / ours[-1][1]:.2f} | {peers[0][1] / peers[-1][1]:.2f} |")
    bench.say()
    write_plot(bench, "threads.svg", "resnet18", "threads", "ms", {"plumb run": ours, "ORT, optimisation off": peers})
    if cores > 1:
        bench.ratio("time on all cores over that on one, over ORT's", ours[-1][1] / ours[0][1] / (peers[-1][1] / peers[0][1]))

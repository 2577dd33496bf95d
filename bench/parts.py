"""The parts of the bench that call the existing benches of their folder and turn what they say into rows and ratios. Called by bench/run.py."""
import contextlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BLAME_OUT = os.path.join(ROOT, "build", "bench-blame")
ANALYZE_TIMES, ANALYZE_SECONDS = 25, 1  # resnet18: at most so many plain inferences of ORT, plus so many seconds

VIEWER_GOALS = {  # key of the test's figures: name, ms
    "first_paint_ms": ("first paint", 1000),
    "pan_frame_ms": ("a frame while panning", 16),
    "selection_ms": ("selection to inspector with heatmaps", 100),
}

JIT_MEANS = {1: 0.90, 2: 0.85}  # threads: the models' geometric mean over ORT
# Kernels on 16 MB over ORT; None: no goal (chain-heavy has a Tanh more than the mix that the goal is about).
JIT_KERNELS = {"relu": None, "softmax": 1, "silu": 1, "gelu": 1, "layernorm": 0.15, "mish": 0.15, "rope": 0.15, "chain": 0.15, "chain-mish": 0.15,
               "chain-heavy": None}
JIT_QUICK = ["mobilenet_v3_small", "encoder", "relu", "softmax", "gelu", "chain"]


class PartFailed(Exception):
    pass


def call(command, timeout=3600, codes=(0,)):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=ROOT, timeout=timeout)
    if done.returncode not in codes:
        raise PartFailed(f"exit {done.returncode}: {' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def mean(values):
    """Geometric."""
    return math.exp(statistics.fmean(map(math.log, values)))


def jit_ratios(bench, threads, names):
    """{name: jit's time over ORT's}, and the table's rows."""
    out = call([sys.executable, os.path.join(HERE, "jit", "run.py"), "--threads", threads, "--rounds", bench.rounds, *names])
    found = {}
    for name, ort, jit, ratio in re.findall(r"^(\S+)\s+ort\s+([\d.]+) ms\s+jit\s+([\d.]+) ms\s+ratio ([\d.]+)$", out, re.M):
        found[name] = float(ratio)
        bench.say(f"| {name} | {threads} | {float(ort):.3g} | {float(jit):.3g} | {ratio} |")
    return found


def jit_ready(bench):
    out = call([sys.executable, os.path.join(HERE, "jit", "run.py"), "--load", "--rounds", "3", "resnet18"])
    cached, cold = re.search(r"ratio ([\d.]+)\s+jit cold\s+([\d.]+) ms", out).groups()
    bench.limit("resnet18 ready from jit's cache over ORT's session load", float(cached), 0.5)
    bench.limit("resnet18 compiled by jit from nothing", float(cold) / 1e3, 2, " s")


def bench_jit(bench):
    """1 thread in CPU time, 2 by the wall clock; --quick: a part of it, as one ratio."""
    bench.say("### `jit` against ONNX Runtime, all optimisations (best ms; ratio below 1: jit is faster)\n")
    bench.say("| | threads | ORT ms | jit ms | ratio |\n|---|---|---|---|---|")
    found = {n: jit_ratios(bench, n, JIT_QUICK if bench.quick else []) for n in ([1] if bench.quick else JIT_MEANS)}
    bench.say()
    if bench.quick:
        bench.limit("geometric mean of jit over ORT at full optimisation", mean(found[1].values()), 1.0)
    for threads, ratios in {} if bench.quick else found.items():
        models = {name: r for name, r in ratios.items() if name not in JIT_KERNELS}
        bench.limit(f"jit over ORT, threads={threads}, geometric mean of the models", mean(models.values()), JIT_MEANS[threads])
        bench.limit(f"jit over ORT, threads={threads}, the slowest model", max(models.values()), 1.05)
        for name, ratio in ratios.items():
            what, top = f"jit over ORT, threads={threads}, {name}", JIT_KERNELS.get(name)
            bench.limit(what, ratio, top) if top else bench.ratio(what, ratio)
    if not bench.quick:
        jit_ready(bench)
    bench.say()


def analyze_seconds(bench, model, inputs):
    """Wall seconds of one analysis, nothing saved, and what it says."""
    with tempfile.TemporaryDirectory(prefix="plumb-bench-") as folder:
        start = time.perf_counter()
        flags = [part for name, path in inputs.items() for part in ("--input", f"{name}={path}")]
        text = call([bench.plumb, "analyze", model, "--backend", "ort", *flags, "--save", "none", "--json", "-o", folder + "/s"], codes=(0, 1))
        return time.perf_counter() - start, json.loads(text)


def bench_analyze(bench, cases):
    """cases: [(name, model, {input: file}, function that gives the ms of one plain inference of ORT)]"""
    bench.say("### `analyze` of ORT against eager, with gold, determinism and blame, beside one plain inference of ORT (whole process, best of the rounds)\n")
    bench.say("| model | values | one inference ms | analyze ms | over 25 inferences + 1 s |\n|---|---|---|---|---|")
    shares = {}
    for name, model, inputs, inference_ms in cases:
        best, points = 1e9, 0
        for _ in range(bench.rounds):
            spent, found = analyze_seconds(bench, model, inputs)
            best, points = min(best, spent), len(found["sync_points"])
        one = min(inference_ms() for _ in range(2))
        shares[name] = best / (ANALYZE_TIMES * one / 1e3 + ANALYZE_SECONDS)
        bench.say(f"| {name} | {points} | {one:.1f} | {1e3 * best:.0f} | {shares[name]:.2f} |")
    bench.say()
    for name, share in shares.items():
        what = f"time of analyze over 25 inferences of ORT and a second, {name}"
        bench.limit(what, share, 1) if name == "resnet18" else bench.ratio(what, share)
    bench.say()


def bench_blame(bench):
    bench.say("### Blame: planted faults named first (bench/blame --quick; bench/blame/README.md has the thousand)\n")
    for name in ("cases", "clean"):  # its results are kept from run to run; these are to be of this build
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(BLAME_OUT, name + ".jsonl"))
    out = call([sys.executable, os.path.join(HERE, "blame", "run.py"), "cases", "clean", "--quick", "--out", BLAME_OUT, *(["-k", "cnn"] if bench.quick else [])])
    for line in out.splitlines():
        if line.startswith("|") and (line.startswith(("|  |", "|---", "| (a) |", "| (b) |", "| (c) |", "| all |"))):
            bench.say(line)
            if line.startswith("| all |"):
                break
    bench.say()
    m = re.search(r"^\| all \| (\d+) \| (\d+)/(\d+) [^|]*\| (\d+) \| (\d+) \|", out, re.M)
    if not m:
        raise PartFailed("bench/blame printed no row 'all'")
    visible = max(int(m[3]), 1)
    bench.limit("share of visible faults that are not named first", 1 - int(m[2]) / visible, 0.01)
    bench.limit("share of cases with an innocent named", int(m[5]) / max(int(m[1]), 1), 0)
    clean = [line.strip("|").split("|") for line in out.split("| backend | runs |")[-1].splitlines()[2:] if line.startswith("|")]
    values, alarms = (sum(int(row[i]) for row in clean) for i in (3, 4))
    if not values:
        raise PartFailed("bench/blame printed no clean run")
    bench.limit(f"share of clean values with a false alarm ({values} values)", alarms / values, 0)
    bench.say()


def bench_minify(bench):
    """Queries and nodes left, over the two-sweep reducer (Polygraphy, bisect) and the power-of-two one (PyTorch's fx minifier)."""
    bench.say("### `minify` against the two-sweep (Polygraphy) and power-of-two (fx) reducers: queries and nodes left on the same graphs\n")
    out = call([sys.executable, os.path.join(HERE, "minify", "run.py"), "--plumb", bench.plumb, *(["-k", "100"] if bench.quick else [])], codes=(0, 1))
    bench.say("| graph | nodes | queries | limit | left | CPU ms a query | two-sweep: checks / left | power of two: queries / left |\n|---|---|---|---|---|---|---|---|")
    sums = {"two-sweep": [0, 0, 0, 0], "power-of-two": [0, 0, 0, 0]}
    for line in out.splitlines():
        bench.say(line)
        cells = [c.strip() for c in line.strip("|").split("|")]
        for name, cell in zip(sums, cells[6:8]):
            m = re.fullmatch(r"([\d.]+) / ([\d.]+)", cell)  # sweeps over real models have more in the cell, and do not count
            if m:
                s = sums[name]
                for i, v in enumerate((float(cells[2].split()[0]), float(cells[4].split()[0]), float(m[1]), float(m[2]))):
                    s[i] += v
    bench.say()
    for name, (queries, left, peer_queries, peer_left) in sums.items():
        bench.ratio(f"queries of minify over the {name} reducer's", queries / peer_queries)
        bench.ratio(f"nodes left by minify over those of the {name} reducer", left / peer_left)
    bench.say()


def bench_viewer(bench):
    bench.say("### The debugger: 10,000 nodes in headless Chromium, software rendering\n")
    out = call(["node", os.path.join(ROOT, "tests", "web", "test_view.mjs"), "-k", "scale"], codes=(0, 1))
    told = re.search(r"^# figures (\{.+\})$", out, re.M)
    figures = json.loads(told[1]) if told else {}
    if set(VIEWER_GOALS) - set(figures):
        raise PartFailed("tests/web/test_view.mjs told no figures: " + out.strip()[-200:])
    bench.say("| | ms | goal |\n|---|---|---|")
    for key, (name, goal) in VIEWER_GOALS.items():
        bench.say(f"| {name} | {figures[key]:.3g} | {goal} |")
    bench.say()
    for key, (name, goal) in VIEWER_GOALS.items():
        bench.limit(f"{name}, over its goal", figures[key] / goal, 1)
    bench.say()

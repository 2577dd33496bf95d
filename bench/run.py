#!/usr/bin/python3
"""The benches of plumb: load, graph and run, each against its rival, in one go. `make bench` calls it.

Usage: bench/run.py [--quick] [--check] [--rounds N] [--plumb FILE] [NAME...]

  --quick    fewer models and rounds; bench/README.md is left alone
  --check    exit 1 if a limit is missed (a model that does not run is exit 1 always)
  NAME       only these cases of tests/models/inputs.py; bench/README.md is left alone

A full run writes its tables into bench/README.md; how they are measured is written there.
"""
import argparse
import datetime
import math
import os
import platform
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "models"))
sys.path.insert(0, os.path.join(ROOT, "bench", "compare"))
from inputs import CACHE, CASES  # noqa: E402
from runners import ORT_VERSION, Failed, execute, ort, ort_prepare, plumb, save_inputs  # noqa: E402

README = os.path.join(ROOT, "bench", "README.md")
BEGIN, END = "<!-- bench:begin -->\n", "<!-- bench:end -->\n"
QUICK = ("silero_v5", "ppocr_det", "oww_embedding", "resnet18", "mobilenet_v3_small", "encoder", "recurrent")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024
CORES = len(os.sched_getaffinity(0))

# Limits, from the project's requirements; the slope is this bench's own way to say "linear".
INFO_MS, INFO_MB = 50, 40
GRAPH_MS, GRAPH_MB, SLOPE = 300, 100, 2
RUN_MEAN, RUN_WORST, GOLD_WORST = 1.2, 3.0, 10.0
GUARD_MS = 5

ONNX_SCRIPT = """
import json, sys, time, onnx, onnx.shape_inference
start = time.perf_counter()
model = onnx.load(sys.argv[1])
if "check" in sys.argv: onnx.checker.check_model(model)
if "infer" in sys.argv: onnx.shape_inference.infer_shapes(model)
print(json.dumps({"ms": 1e3 * (time.perf_counter() - start)}))
"""


class Bench:
    """What was asked for, the lines of the report, and whether all went well."""

    def __init__(self, args):
        self.plumb, self.quick, self.names = os.path.abspath(args.plumb), args.quick, args.names
        self.rounds = args.rounds or (2 if args.quick else 5)
        self.lines, self.errors, self.missed = [], [], []

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def limit(self, what, value, top, unit=""):
        """Report one limit; the unit stands behind both figures."""
        good = value <= top
        if not good:
            self.missed.append(what)
        self.say(f"- {what}: {value:.3g}{unit}, limit {top:g}{unit}: {'held' if good else '**missed**'}")

    def ratio(self, what, value):
        """Report one ratio that has no limit of its own."""
        self.say(f"- {what}: {value:.3g}")

    def error(self, what, why):
        self.errors.append(what)
        self.say(f"- **{what} failed**: {why}")


def private_peak_mb(command):
    """Peak of private memory (resident minus file pages), by polling /proc/PID/statm while the command runs."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        with open(f"/proc/{child.pid}/statm", "rb", buffering=0) as statm:
            while child.poll() is None:
                statm.seek(0)
                fields = statm.read().split()
                if len(fields) > 2:
                    peak = max(peak, int(fields[1]) - int(fields[2]))
    if child.returncode:
        raise Failed(f"exit {child.returncode}: {' '.join(command)}")
    return peak * PAGE_KB / 1024


def wall_ms(command):
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    spent = 1e3 * (time.perf_counter() - start)
    if done.returncode:
        raise Failed(f"exit {done.returncode}: {' '.join(command)}: {done.stderr.strip()[:200]}")
    return spent


def info_figures(bench, model):
    """Best wall time of the whole `plumb info` process, and the larger of its private memory as polled and as reported."""
    command = [bench.plumb, "info", model]
    best = min(wall_ms(command) for _ in range(2 * bench.rounds))
    peak = max(private_peak_mb(command) for _ in range(5))  # a short process can slip through the poll
    own = execute(command + ["--json"]).get("private_kb") or 0
    return best, max(peak, own / 1024)


def onnx_figures(bench, model, *steps):
    command = [sys.executable, "-c", ONNX_SCRIPT, model, *steps]
    best = min(execute(command)["ms"] for _ in range(1 if bench.quick else 3))
    return best, private_peak_mb(command)


def big_model(name):
    path = os.path.join(CACHE, "big", name + ".onnx")
    if subprocess.run([os.path.join(ROOT, "tools", "make-big-model"), name], stdout=sys.stderr).returncode:
        raise Failed(f"tools/make-big-model {name} failed")
    return path


def bench_load(bench):
    bench.say("### Load and `info` of a 537 MB model (32 weights)\n")
    model = big_model("weights")
    ms, mb = info_figures(bench, model)
    load, infer = onnx_figures(bench, model), onnx_figures(bench, model, "infer")
    bench.say("| | ms | private MB |\n|---|---|---|")
    bench.say(f"| plumb info | {ms:.1f} | {mb:.1f} |")
    bench.say(f"| python-onnx load | {load[0]:.0f} | {load[1]:.0f} |")
    bench.say(f"| python-onnx load, shape inference | {infer[0]:.0f} | {infer[1]:.0f} |\n")
    bench.limit("time of info", ms, INFO_MS, " ms")
    bench.limit("private memory of info", mb, INFO_MB, " MB")
    bench.say()


def bench_graph(bench):
    bench.say("### Load, verify and infer shapes of large graphs\n")
    bench.say("| nodes | plumb info ms | private MB | us per node | python-onnx ms | private MB |\n|---|---|---|---|---|---|")
    figures = {}
    for count in (10, 30, 100):
        model = big_model(f"nodes{count}k")
        ms, mb = figures[count] = info_figures(bench, model)
        other = onnx_figures(bench, model, "check", "infer")
        bench.say(f"| {count}k | {ms:.1f} | {mb:.1f} | {ms / count:.2f} | {other[0]:.0f} | {other[1]:.0f} |")
    bench.say()
    bench.limit("time for 100k nodes", figures[100][0], GRAPH_MS, " ms")
    bench.limit("private memory for 100k nodes", figures[100][1], GRAPH_MB, " MB")
    # Slopes, so that the start of the process does not hide growth; quadratic work would give 3.25.
    slope = (figures[100][0] - figures[30][0]) / 70 / max((figures[30][0] - figures[10][0]) / 20, 1e-9)
    bench.limit("cost of a node from 30k to 100k over that from 10k to 30k (1 is linear, 3.25 quadratic)", slope, SLOPE)
    bench.say()


def settled(times):
    """Two rounds came within 10 % of the best: it was not luck, and no neighbour spoilt them all."""
    return all(len(t) > 1 and sorted(t)[1] <= 1.1 * min(t) for t in times.values())


def time_case(bench, case, files, threads):
    """Best ms of (ORT, plumb, gold): rounds of separate processes in turn, in alternating order."""
    first = ort(case.path, files, threads=threads, repeat=3)["timing"]["best_ms"]
    repeat = min(300, max(3, int(400 / first)))
    runs = {
        "ort": lambda: ort(case.path, files, threads=threads, repeat=repeat),
        "plumb": lambda: plumb(bench.plumb, case.path, files, threads=threads, repeat=repeat),
        "gold": lambda: plumb(bench.plumb, case.path, files, threads=threads, repeat=max(2, repeat // 5), fp64=True),
    }
    times = {name: [] for name in runs}
    for i in range(3 * bench.rounds):
        if i >= bench.rounds and settled(times):
            break
        for name in sorted(runs, reverse=i % 2 == 1):
            times[name].append(runs[name]()["timing"]["best_ms"])
    return {name: min(t) for name, t in times.items()}


def bench_guard(bench):
    bench.say("### A query (compile, run, free a small model) behind the guard, a fresh process each (ms: median of 60, best of the rounds)\n")
    if subprocess.run([os.path.join(ROOT, "tools", "build"), "build", "bench_query"]).returncode:
        raise Failed("bench_query does not build")
    bench.say("| backend | in this process | guarded | beyond the work itself |\n|---|---|---|---|")
    command = [os.path.join(ROOT, "build", "bench_query"), "eager", "ort:threads=1", "ort:threads=2"]
    rounds = [execute(command) for _ in range(bench.rounds)]
    figures = {spec: {key: min(r[spec][key] for r in rounds) for key in rounds[0][spec]} for spec in rounds[0]}
    for spec, ms in figures.items():
        bench.say(f"| {spec} | {ms['here_ms']:.2f} | {ms['guarded_ms']:.2f} | {ms['guarded_ms'] - ms['here_ms']:.2f} |")
    bench.say()
    worst = max(figures, key=lambda s: figures[s]["guarded_ms"] - figures[s]["here_ms"])
    bench.limit(f"guarded query beyond the work itself ({worst})", figures[worst]["guarded_ms"] - figures[worst]["here_ms"], GUARD_MS, " ms")
    bench.say()


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def bench_run(bench):
    bench.say(f"### `run` of fp32 models against ONNX Runtime {ORT_VERSION}, optimisation off (best ms; ratio below 1: plumb is faster)\n")
    settings = [1] if CORES == 1 else [1, CORES]
    head = [f"{t} thread{'s' if t > 1 else ''}: ORT | plumb | ratio | gold ratio" for t in settings]
    bench.say(f"| model | {' | '.join(head)} |\n|---{'|---' * 4 * len(settings)}|")
    cases = [c for c in CASES if not c.quantised and (c.name in bench.names if bench.names else not bench.quick or c.name in QUICK)]
    ratios = {(t, kind): {} for t in settings for kind in ("plumb", "gold")}
    failures = []
    for case in cases:
        try:
            if not os.path.exists(case.path):
                raise Failed(f"no {os.path.relpath(case.path, ROOT)} (tools/fetch-models full, tools/export-models full)")
            files = save_inputs(os.path.join(CACHE, "io", case.name), case.inputs())
            cells = []
            for t in settings:
                best = time_case(bench, case, files, t)
                for kind in ("plumb", "gold"):
                    ratios[t, kind][case.name] = best[kind] / best["ort"]
                cells.append(f"{best['ort']:.3g} | {best['plumb']:.3g} | {best['plumb'] / best['ort']:.2f} | {best['gold'] / best['ort']:.2f}")
            bench.say(f"| {case.name} | {' | '.join(cells)} |")
        except Failed as e:
            failures.append((case.name, e))
            bench.say(f"| {case.name} |{' - |' * 4 * len(settings)}")
    if any(ratios.values()):
        bench.say("| **geometric mean** | " + " | ".join(
            f"| | {mean(ratios[t, 'plumb'].values()):.2f} | {mean(ratios[t, 'gold'].values()):.2f}" for t in settings) + " |")
    bench.say()
    for name, why in failures:
        bench.error(name, why)
    for t in settings if any(ratios.values()) else []:
        run, gold = ratios[t, "plumb"], ratios[t, "gold"]
        worst, slow = max(run, key=run.get), max(gold, key=gold.get)
        bench.limit(f"geometric mean of the ratio, {t}T", mean(run.values()), RUN_MEAN)
        bench.limit(f"worst ratio, {t}T ({worst})", run[worst], RUN_WORST)
        bench.limit(f"worst gold ratio, {t}T ({slow})", gold[slow], GOLD_WORST)
    bench.say()


def bench_sessions(bench):
    from throughput import bench_compare  # needs numpy, the rest does not

    try:
        bench_compare(bench, private_peak_mb)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as e:
        raise Failed(str(e)) from e


def output_of(*command):
    try:
        return subprocess.run(command, text=True, capture_output=True, cwd=ROOT).stdout.strip()
    except OSError:
        return ""


def describe(bench):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), platform.machine())
    version = (output_of(bench.plumb, "--version").splitlines() or ["plumb"])[0]
    commit = output_of("git", "rev-parse", "--short", "HEAD")
    changed = " with changes" if output_of("git", "status", "--porcelain", "--untracked-files=no", "--", ":!bench/README.md") else ""
    python_onnx = output_of(sys.executable, "-c", "import onnx; print(onnx.__version__)")
    bench.say(f"{datetime.date.today()}, {cpu}, {CORES} cores, {platform.system()} {platform.release()}, load {os.getloadavg()[0]:.1f} at the start; "
              f"{version} (commit {commit}{changed}), ONNX Runtime {ORT_VERSION}, python-onnx {python_onnx}; {bench.rounds} rounds or more.\n")


def write_readme(bench):
    with open(README, encoding="utf-8") as f:
        text = f.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(README, "w", encoding="utf-8") as f:
        f.write(before + BEGIN + "\n".join(bench.lines).rstrip() + "\n" + END + after)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--plumb", default=os.path.join(ROOT, "build", "plumb"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    unknown = set(args.names) - {c.name for c in CASES if not c.quantised}
    if unknown:
        parser.error(f"no fp32 case {', '.join(sorted(unknown))}")
    bench = Bench(args)
    try:
        if not os.access(bench.plumb, os.X_OK):
            raise Failed(f"{bench.plumb} does not exist: run make first")
        ort_prepare()
    except Failed as e:
        parser.exit(2, f"bench: {e}\n")
    describe(bench)
    for part in ([] if bench.names else [bench_load, bench_graph, bench_guard, bench_sessions]) + [bench_run]:
        try:
            part(bench)
        except Failed as e:
            bench.error(part.__name__, e)
    bench.say(f"Load {os.getloadavg()[0]:.1f} at the end.")
    if not bench.quick and not bench.names:
        if bench.errors:
            print("bench: not all ran; bench/README.md is left alone", file=sys.stderr)
        else:
            write_readme(bench)
    return 1 if bench.errors or (args.check and bench.missed) else 0


if __name__ == "__main__":
    sys.exit(main())

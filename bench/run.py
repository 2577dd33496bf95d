#!/usr/bin/python3
"""The benches of plumb, each against a peer or a physical limit in the same run, in one go. `make bench` calls it.

Usage: bench/run.py [--quick] [--check] [--only PART,PART…] [--against] [--fresh FILE] [--write-ratios] [--rounds N] [--plumb FILE] [NAME...]

  --quick    fewer models, smaller data, fewer rounds; bench/README.md is left alone
  --check    exit 1 if a limit is missed (a part that does not run is exit 1 always)
  --only     of load, graph, guard, compare, run, jit, analyze, blame, minify, viewer, growth; bench/README.md is left alone
  --against  show every ratio that is more than 20 % worse than the committed one (bench/ratios.json), and exit 1 then
  --fresh    with --against: do not run, take the ratios of this file (a run leaves build/bench.json)
  --write-ratios   commit the ratios to bench/ratios.json; a full run of everything always does
  NAME       only these cases of tests/models/inputs.py in the part run; bench/README.md is left alone

A full run writes its tables into bench/README.md; how they are measured is written there.
"""
import argparse
import datetime
import json
import math
import os
import platform
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "models"))
sys.path.insert(0, os.path.join(ROOT, "bench", "compare"))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import growth  # noqa: E402
import parts  # noqa: E402
import ratios  # noqa: E402
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
        self.head, self.ratios = "", {}

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def limit(self, what, value, top, unit=""):
        """Report one limit; the unit stands behind both figures."""
        good = value <= top
        if not good:
            self.missed.append(what)
        if not unit:
            self.ratios[ratios.key_of(what)] = value
        self.say(f"- {what}: {value:.3g}{unit}, limit {top:g}{unit}: {'held' if good else '**missed**'}")

    def ratio(self, what, value):
        """Report one ratio that has no limit of its own; smaller is better."""
        self.ratios[ratios.key_of(what)] = value
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


def protobuf_figures(bench, model):
    """The same for protobuf's C++ library; None when it cannot be built (libonnx-dev, libprotobuf-dev)."""
    program = os.path.join(ROOT, "build", "bench_load_protobuf")
    source = os.path.join(ROOT, "bench", "load", "load_protobuf.cc")
    done = subprocess.run(["c++", "-O2", source, "-o", program, "-lonnx_proto", "-lprotobuf"], capture_output=True, text=True)
    if done.returncode:
        bench.say(f"- no figure of protobuf's C++ library: {(done.stderr.splitlines() or ['it does not build'])[0][:120]}")
        return None
    best = min(execute([program, model])["ms"] for _ in range(1 if bench.quick else 3))
    return best, private_peak_mb([program, model])


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
    bench.say(f"| python-onnx load, shape inference | {infer[0]:.0f} | {infer[1]:.0f} |")
    cxx = protobuf_figures(bench, model)
    if cxx:
        bench.say(f"| protobuf's C++ library, load | {cxx[0]:.0f} | {cxx[1]:.0f} |")
        bench.ratio("time of info over protobuf's load in C++", ms / cxx[0])
    bench.say()
    bench.ratio("time of info over python-onnx load", ms / load[0])
    bench.ratio("private memory of info over python-onnx load", mb / load[1])
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
    bench.say("| backend | in this process | guarded | beyond the work itself | guarded, no sandbox | CPU behind the guard | the same, no sandbox |\n"
              "|---|---|---|---|---|---|---|")
    command = [os.path.join(ROOT, "build", "bench_query"), "eager", "ort:threads=1", "ort:threads=2"]
    rounds = [execute(command) for _ in range(bench.rounds)]
    figures = {spec: {key: min(r[spec][key] for r in rounds) for key in rounds[0][spec]} for spec in rounds[0]}
    for spec, ms in figures.items():
        bench.say(f"| {spec} | {ms['here_ms']:.2f} | {ms['guarded_ms']:.2f} | {ms['guarded_ms'] - ms['here_ms']:.2f} | {ms['unconfined_ms']:.2f} | "
                  f"{ms['guarded_cpu_ms']:.2f} | {ms['unconfined_cpu_ms']:.2f} |")
    bench.say()
    worst = max(figures, key=lambda s: figures[s]["guarded_ms"] - figures[s]["here_ms"])
    bench.limit(f"guarded query beyond the work itself ({worst})", figures[worst]["guarded_ms"] - figures[worst]["here_ms"], GUARD_MS, " ms")
    bench.say()
    bench_guarded_runs(bench)


def bench_guarded_runs(bench):
    """The same interpreter on the same model: `eager` alone runs in plumb itself, a spec with options behind the guard."""
    name = "mobilenet_v3_small" if bench.quick else "efficientnet_b0"
    case, files = torch_case(name)
    bench.say(f"### A run of {name} on `eager` behind the guard (ms: best of the rounds)\n")
    bench.say("| threads | in this process | guarded | beyond |\n|---|---|---|---|")
    over = {}
    for threads in sorted({1, CORES}):
        here, guarded = (min(plumb(bench.plumb, case.path, files, threads=threads, repeat=40, backend=backend)["timing"]["best_ms"] for _ in range(bench.rounds))
                         for backend in ("eager", f"eager:threads={threads}"))
        bench.say(f"| {threads} | {here:.2f} | {guarded:.2f} | {guarded - here:.2f} |")
        over[threads] = guarded / here
    bench.say()
    for threads, ratio in over.items():
        bench.ratio(f"time of a guarded run over one in the process, {threads}T", ratio)
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

    bench_compare(bench, private_peak_mb)


def torch_case(name):
    """Model, inputs by name, of a case of tests/models/inputs.py."""
    case = next(c for c in CASES if c.name == name)
    if not os.path.exists(case.path):
        raise Failed(f"no {os.path.relpath(case.path, ROOT)} (tools/fetch-models full, tools/export-models full)")
    return case, save_inputs(os.path.join(CACHE, "io", case.name), case.inputs())


def bench_analyze(bench):
    cases = []
    for name in ("resnet18",) if bench.quick else ("mobilenet_v3_small", "resnet18", "efficientnet_b0", "encoder"):
        case, files = torch_case(name)
        cases.append((name, case.path, files, lambda c=case, f=files: ort(c.path, f, opt=99, threads=0, repeat=5)["timing"]["best_ms"]))
    parts.bench_analyze(bench, cases)


def bench_growth(bench):
    from throughput import build

    bench.say("### Growth\n")
    growth.grow_nodes(bench, big_model, info_figures, onnx_figures)
    growth.grow_bytes(bench, lambda out: build(out, "read_mapped.c", "-lpthread"))
    case, files = torch_case("resnet18")
    growth.grow_threads(bench, case.path, files, lambda t: plumb(bench.plumb, case.path, files, threads=t, repeat=5)["timing"]["best_ms"],
                        lambda t: ort(case.path, files, threads=t, repeat=5)["timing"]["best_ms"])
    bench.say()


PARTS = {  # in the order of the report
    "load": bench_load, "graph": bench_graph, "guard": bench_guard, "compare": bench_sessions, "run": bench_run, "jit": parts.bench_jit,
    "analyze": bench_analyze, "blame": parts.bench_blame, "minify": parts.bench_minify, "viewer": parts.bench_viewer, "growth": bench_growth,
}


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
    bench.head = f"{datetime.date.today()}, {cpu}, {CORES} cores, commit {commit}{changed}, load {os.getloadavg()[0]:.1f}"
    bench.say(f"{datetime.date.today()}, {cpu}, {CORES} cores, {platform.system()} {platform.release()}, load {os.getloadavg()[0]:.1f} at the start; "
              f"{version} (commit {commit}{changed}), ONNX Runtime {ORT_VERSION}, python-onnx {python_onnx}; {bench.rounds} rounds or more.\n")


def write_readme(bench):
    with open(README, encoding="utf-8") as f:
        text = f.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(README, "w", encoding="utf-8") as f:
        f.write(before + BEGIN + "\n".join(bench.lines).rstrip() + "\n" + END + after)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--against", action="store_true")
    parser.add_argument("--fresh", metavar="FILE")
    parser.add_argument("--write-ratios", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--plumb", default=os.path.join(ROOT, "build", "plumb"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    unknown = set(args.names) - {c.name for c in CASES if not c.quantised}
    if unknown:
        parser.error(f"no fp32 case {', '.join(sorted(unknown))}")
    args.parts = ["run"] if args.names else [p for p in args.only.split(",") if p] or list(PARTS)
    if wrong := [p for p in args.parts if p not in PARTS]:
        parser.error(f"no part {wrong[0]}; there are {', '.join(PARTS)}")
    return parser, args


def measure(bench, names):
    describe(bench)
    for name in names:
        try:
            PARTS[name](bench)
        except (Failed, parts.PartFailed, RuntimeError, OSError, subprocess.SubprocessError) as e:
            bench.error(name, e)
    bench.say(f"Load {os.getloadavg()[0]:.1f} at the end.")


def show_against(kind, found):
    lines, worse = ratios.compare(kind, found)
    print("\n" + "\n".join(lines))
    return worse


def main():
    parser, args = parse_args()
    if args.fresh:
        with open(args.fresh, encoding="utf-8") as f:
            found = json.load(f)
        return 1 if show_against(found["kind"], found["ratios"]) else 0
    bench, kind = Bench(args), "quick" if args.quick else "full"
    try:
        if not os.access(bench.plumb, os.X_OK):
            raise Failed(f"{bench.plumb} does not exist: run make first")
        ort_prepare()
    except Failed as e:
        parser.exit(2, f"bench: {e}\n")
    measure(bench, args.parts)
    with open(os.path.join(ROOT, "build", "bench.json"), "w", encoding="utf-8") as f:
        json.dump({"kind": kind, "measured": bench.head, "ratios": bench.ratios}, f, indent=1)
    whole = not args.quick and not bench.names and args.parts == list(PARTS)
    worse = show_against(kind, bench.ratios) if args.against else 0
    if whole and bench.errors:
        print("bench: not all ran; bench/README.md is left alone", file=sys.stderr)
    elif whole and not args.against:
        write_readme(bench)
    if args.write_ratios or (whole and not bench.errors and not args.against):
        ratios.save(kind, bench.head, bench.ratios)
    return 1 if bench.errors or worse or (args.check and bench.missed) else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Did a change make plumb slower? Both builds do the same jobs in turn, round after round, and each job is judged by its
least CPU time (user and system, children included), so that what else the machine does matters little.

    bench/two_builds.py OLD/plumb NEW/plumb [--rounds 7] [--limit 1.05] [-k TEXT] [--all]

Prints the ratio new / old of each job and of their geometric mean, the sizes of both binaries and their start times. Exit 1
when a ratio is above the limit after twice the rounds for those that are. Jobs below 20 ms of CPU (but for --all)
and those that end with different codes are shown and not judged."""

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / ".cache/models"
TEST_DATA = Path("/usr/share/libonnx-testdata/data/node")
JUDGED_SECONDS = 0.02


SIZES = {"ppocr_det": ["p2o.DynamicDimension.1=320", "p2o.DynamicDimension.2=320"], "ppocr_cls": ["p2o.DynamicDimension.1=48", "p2o.DynamicDimension.2=192"],
         "oww_embedding": [], "silero_v5": [], "retinaface_v1": [], "resnet18": [], "mobilenet_v3_small": [], "encoder": []}
ORT = ["--backend", "ort:opt=all,threads=1"]


def jobs(made):
    """(name, arguments); {out} is a folder of the run's own, made anew each time; `made` is one for what all runs read."""
    yield "start", ["--version"]
    yield "help", ["analyze", "--help"]
    yield "ops", ["ops", "--json"]
    for path in sorted([*MODELS.glob("*.onnx"), *MODELS.glob("torch/*.onnx")]):
        if path.stem not in SIZES:
            continue
        dims = [w for d in SIZES[path.stem] for w in ("--dim", d)]
        yield f"info {path.stem}", ["info", path, "--json"]
        yield f"run {path.stem}", ["run", path, *dims, "--threads", "1", "--repeat", "5"]
        yield f"jit {path.stem}", ["run", path, *dims, "--backend", "jit:threads=1", "--repeat", "5"]
        yield f"analyze {path.stem}", ["analyze", path, *dims, *ORT, "--threads", "1", "--save", "none", "-o", "{out}/s"]
    net, bad = ROOT / "tests/cli/net.onnxtxt", ROOT / "examples/classifier.onnxtxt"
    yield "analyze net", ["analyze", net, "--backend", "jit:inject=scale@Tanh", "--threads", "1", "-o", "{out}/s"]
    yield "minify classifier", ["minify", bad, "--backend", "jit:inject=scale@Erf", "--jobs", "1", "-o", "{out}/r"]
    yield "record classifier", ["record", bad, "-o", "{out}/a.safetensors"]
    if TEST_DATA.exists():
        yield "test", ["test", TEST_DATA, "--threads", "1"]
    model = MODELS / "ppocr_det.onnx"
    if model.exists():  # two recordings of many values, made once
        for name, backend in (("a", "eager"), ("b", "eager:kernels=plain")):
            subprocess.run([PROGRAMS[0], "record", model, "--backend", backend, *(w for d in SIZES["ppocr_det"] for w in ("--dim", d)),
                            "-o", f"{made}/{name}.safetensors"], check=True, capture_output=True)
        yield "compare recordings", ["compare", f"{made}/a.safetensors", f"{made}/b.safetensors", "--threads", "1", "-o", "{out}/s"]


def cpu_seconds(program, arguments):
    with tempfile.TemporaryDirectory() as out:
        words = [program, *(str(a).replace("{out}", out) for a in arguments)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, cwd=out, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return done.returncode, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(name, arguments, rounds, best):
    """The least time of each build so far goes to best[name]; the codes must be the same."""
    for r in range(rounds):
        for side in (0, 1) if r % 2 == 0 else (1, 0):  # neither is always first
            code, seconds = cpu_seconds(PROGRAMS[side], arguments)
            codes, times = best.setdefault(name, ([None, None], [math.inf, math.inf]))
            codes[side], times[side] = code, min(times[side], seconds)


def size(program):
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, program], check=True)
        return os.path.getsize(program), os.path.getsize(stripped.name)


def main():
    with tempfile.TemporaryDirectory() as made:
        return compare([j for j in jobs(made) if OPTIONS.filter in j[0]])


def compare(chosen):
    best = {}
    for _ in range(OPTIONS.rounds):
        for name, arguments in chosen:
            measure(name, arguments, 1, best)
    ratio = {name: times[1] / times[0] for name, (_, times) in best.items() if times[0] > 0}
    again = [(n, a) for n, a in chosen if ratio.get(n, 1) > OPTIONS.limit]
    for _ in range(OPTIONS.rounds):
        for name, arguments in again:
            measure(name, arguments, 1, best)
    slow, judged = [], []
    for name, (codes, times) in best.items():
        r = times[1] / times[0] if times[0] > 0 else 1
        counts = codes[0] == codes[1] and (OPTIONS.all or times[0] >= JUDGED_SECONDS)
        judged += [r] if counts else []
        slow += [name] if counts and r > OPTIONS.limit else []
        note = "" if codes[0] == codes[1] else f"  exit {codes[0]} and {codes[1]}"
        print(f"{name:28} {1e3 * times[0]:9.1f} ms {1e3 * times[1]:9.1f} ms  {r:6.3f}{'' if counts else '  (not judged)'}{note}")
    if judged:
        print(f"geometric mean of {len(judged)}: {math.exp(sum(map(math.log, judged)) / len(judged)):.3f}")
    for label, program in zip(("old", "new"), PROGRAMS):
        whole, stripped = size(program)
        print(f"{label}: {whole / 1e6:.2f} MB, {stripped / 1e6:.2f} MB stripped")
    print(f"{len(slow)} above {OPTIONS.limit}" + (": " + ", ".join(slow) if slow else ""))
    return 1 if slow else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=os.path.abspath)
    parser.add_argument("new", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=1.05)
    parser.add_argument("-k", dest="filter", default="")
    parser.add_argument("--all", action="store_true")
    OPTIONS = parser.parse_args()
    PROGRAMS = (OPTIONS.old, OPTIONS.new)
    sys.exit(main())

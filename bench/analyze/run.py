#!/usr/bin/python3
"""Speed and memory of `plumb analyze`, against the limits that it has to keep. Prints two tables.

  bench/analyze/run.py [speed] [cnns] [memory] [--rounds N] [--gigabytes G]

speed    resnet18, ONNX Runtime (level all) against eager with gold, determinism and blame: wall and CPU time over those of one plain
         inference in a session that is warm. Limit: 25 inferences and one second. On a busy machine look at the CPU time.
cnns     four CNNs (make_cnns.py) on ONNX Runtime and jit, over 12 inferences of eager and one second. An inference is counted twice: by
         the clock of `run --repeat` (buffers are warm) and as a whole process of `plumb run` (they are new, as they are in analyze).
memory   a model whose intermediate values sum to 4 GB (make_model.py): peak resident memory of plumb and of the process that
         ONNX Runtime is in. Limit: 1 GB for plumb. Takes minutes."""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
RESNET = ROOT / ".cache/models/torch/resnet18.onnx"


def cpu():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime


def timed(*args):
    wall, used = time.time(), cpu()
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"plumb {args[0]}: exit {done.returncode}: {done.stderr.strip()[:300]}")
    return time.time() - wall, cpu() - used, done.stdout


def speed(rounds):
    if not RESNET.exists():
        return print("resnet18 is not there: tools/export-models")
    best = {"inference": (9e9, 9e9), "analyze": (9e9, 9e9)}
    with tempfile.TemporaryDirectory() as tmp:
        for k in range(rounds):  # alternately: the load of the machine is that of both
            few = timed("run", RESNET, "--backend", "ort:opt=all", "--repeat", 2, "-o", f"{tmp}/a{k}")
            many = timed("run", RESNET, "--backend", "ort:opt=all", "--repeat", 12, "-o", f"{tmp}/b{k}")
            wall = float(re.search(r"best of 12 ([0-9.]+) ms", many[2]).group(1)) / 1000
            one = (wall, max(many[1] - few[1], 1e-4) / 10)
            whole = timed("analyze", RESNET, "--backend", "ort:opt=all", "--save", "none", "-o", f"{tmp}/s{k}")
            for name, got in (("inference", one), ("analyze", whole)):
                best[name] = tuple(min(a, b) for a, b in zip(best[name], got))
    print("| resnet18, ort:opt=all | one inference | analyze | limit: 25 inferences + 1 s | analyze over limit |")
    print("|---|---|---|---|---|")
    for i, name in enumerate(("wall", "CPU")):
        one, whole = best["inference"][i], best["analyze"][i]
        limit = 25 * one + 1
        print(f"| {name} s | {one:.3f} | {whole:.2f} | {limit:.2f} | {whole / limit:.2f} |")
    print(f"\nload {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, best of {rounds}")


def cnns(rounds):
    print("| model | eager: one inference, one process s | backend | analyze wall s | CPU s | wall over 12 inferences + 1 s | over 12 processes + 1 s |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(["/usr/bin/python3", str(Path(__file__).with_name("make_cnns.py")), tmp], check=True)
        for model in sorted(Path(tmp).glob("*.onnx")):
            best = {}

            def keep(name, *figures):
                best[name] = tuple(map(min, best.get(name, figures), figures))
            for k in range(rounds):  # alternately: the load of the machine is that of all
                keep("process", *timed("run", model, "--backend", "eager", "-o", f"{tmp}/{model.stem}-p{k}")[:2])
                many = timed("run", model, "--backend", "eager", "--repeat", 8, "-o", f"{tmp}/{model.stem}-r{k}")[2]
                keep("inference", float(re.search(r"best of 8 ([0-9.]+) ms", many).group(1)) / 1000)
                for backend in ("ort", "jit"):
                        keep(backend, *timed("analyze", model, "--backend", backend, "--save", "none", "-o", f"{tmp}/{model.stem}-{backend}{k}")[:2])
            one, process = best["inference"][0], best["process"][0]
            for backend in ("ort", "jit"):
                wall, used = best[backend]
                print(f"| {model.stem.removeprefix('light_')} | {one:.3f}, {process:.3f} | {backend} | {wall:.2f} | {used:.2f} | {wall / (12 * one + 1):.2f} | "
                      f"{wall / (12 * process + 1):.2f} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, best of {rounds}")


def family(pid):
    pids = [pid]
    for p in pids:
        for task in Path(f"/proc/{p}/task").glob("*/children"):
            try:
                pids += map(int, task.read_text().split())
            except OSError:
                pass
    return pids


def peak_of(pid):
    """(name, VmHWM in MB), or None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    name, peak = re.search(r"Name:\s*(\S+)", text), re.search(r"VmHWM:\s*(\d+)", text)
    return (name.group(1), int(peak.group(1)) / 1024) if peak else None


def memory(gigabytes):
    with tempfile.TemporaryDirectory() as tmp:
        model = f"{tmp}/large.onnx"
        subprocess.run(["/usr/bin/python3", str(Path(__file__).with_name("make_model.py")), model, str(gigabytes)], check=True)
        started = time.time()
        child = subprocess.Popen([PLUMB, "analyze", model, "--backend", "ort:opt=all", "--save", "none", "-o", f"{tmp}/session"], stdout=subprocess.DEVNULL, cwd=ROOT)
        peaks = {}
        while child.poll() is None:
            for pid in family(child.pid):
                got = peak_of(pid)
                if got:
                    peaks[pid] = max(peaks.get(pid, (got[0], 0)), got, key=lambda x: x[1])
            time.sleep(0.05)
        seconds = time.time() - started
    own = peaks.pop(child.pid, ("plumb", 0))[1]
    other = max((p[1] for p in peaks.values()), default=0)
    print(f"| intermediate values | exit | s | plumb, peak MB | limit MB | ONNX Runtime's process, peak MB |\n|---|---|---|---|---|---|")
    print(f"| {gigabytes:g} GB | {child.returncode} | {seconds:.0f} | {own:.0f} | 1024 | {other:.0f} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", nargs="*", default=["speed", "memory"])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--gigabytes", type=float, default=4)
    a = p.parse_args()
    if "speed" in a.what:
        speed(a.rounds)
    if "cnns" in a.what:
        cnns(a.rounds)
    if "memory" in a.what:
        memory(a.gigabytes)


if __name__ == "__main__":
    main()

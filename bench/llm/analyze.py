#!/usr/bin/python3
"""`plumb analyze` of a decoder on ONNX Runtime, prompt 16: CPU time, peak memory of all its processes, linears recorded.

Usage: bench/llm/analyze.py [--size 1b] [--kind int4,fp16] [--keep FOLDER]

Goals: time at most 12 plain inferences of ONNX Runtime and 10 s; memory at most ONNX Runtime's own (a process that loads the model and runs
it) and 1.5 times the weights; every MatMul and MatMulNBits among the sync points. Time is CPU time over all processes on one thread
each, since the clock says little on a busy machine; the clock is printed beside it. Memory is the sum of the proportional sets (PSS), sampled.
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import make_decoder  # noqa: E402
import run as run_bench  # noqa: E402


def tree(pid):
    """The process and all below it."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            below = f.read().split()
    except OSError:
        return []
    return [pid] + [p for child in below for p in tree(int(child))]


def memory(pid):
    """Bytes of the proportional sets of a tree of processes."""
    total = 0
    for p in tree(pid):
        try:
            with open(f"/proc/{p}/smaps_rollup") as f:
                total += next(int(line.split()[1]) for line in f if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            pass
    return total


def watched(command, env=None):
    """CPU seconds and peak bytes of a command with all its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, universal_newlines=True)
    peak = 0
    while p.poll() is None:
        peak = max(peak, memory(p.pid))
        time.sleep(0.05)
    out = p.stdout.read()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak, out, p.returncode


def report(size, kind, folder, driver, env):
    model, inputs = os.path.join(folder, "model.onnx"), os.path.join(folder, "prompt16")
    files = [f"{f[:-4]}={os.path.join(inputs, f)}" for f in sorted(os.listdir(inputs))]
    _, ort_peak, out, _ = watched([driver, model, f"ort:lib={run_bench.ORT_LIB},threads=1", "3", *files], env)
    inference = float(out.split()[1]) / 1e3
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as session:
        start = time.time()
        command = [os.environ.get("PLUMB", os.path.join(ROOT, "build", "plumb")), "analyze", model, "--backend", f"ort:lib={run_bench.ORT_LIB},threads=1",
                   "--threads", "1", "--save", "suspects", "-o", session + "/s", "-q"]
        cpu, peak, _, code = watched(command + [x for f in files for x in ("--input", f)])
        wall = time.time() - start
        with open(session + "/s/session.json") as f:
            result = json.load(f)
        disk = int(subprocess.run(["du", "-sb", session], stdout=subprocess.PIPE, universal_newlines=True).stdout.split()[0])
    weights = os.path.getsize(model + ".data")
    points = {n for p in result["sync_points"] for n in [p.get("node", "")]}
    linears = [p for p in result["sync_points"] if p.get("op") in ("MatMul", "MatMulNBits")]
    print(f"{size} {kind}: exit {code}; CPU {cpu:.1f} s of {12 * inference + 10:.1f} (inference {inference:.3f}), clock {wall:.0f} s at load "
          f"{os.getloadavg()[0]:.0f}; memory {peak / 1e6:.0f} MB of {(ort_peak + 1.5 * weights) / 1e6:.0f} (ONNX Runtime {ort_peak / 1e6:.0f}); "
          f"{len(linears)} linears among {len(points)} nodes; session {disk / 1e6:.1f} MB", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", default="1b")
    p.add_argument("--kind", default="int4,fp16")
    p.add_argument("--keep", help="folder for the models, kept")
    args = p.parse_args()
    work = args.keep or tempfile.mkdtemp()
    os.makedirs(work, exist_ok=True)
    try:
        driver, env = run_bench.build(work, cpu_time=True)
        for kind in args.kind.split(","):
            folder = os.path.join(work, f"{args.size}-{kind}")
            if not os.path.exists(os.path.join(folder, "model.onnx")):
                make_decoder.make(args.size, kind, folder)
            report(args.size, kind, folder, driver, env)
    finally:
        if not args.keep:
            shutil.rmtree(work)


if __name__ == "__main__":
    main()

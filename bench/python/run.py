#!/usr/bin/python3
"""What Python adds: `plumb.analyze` against `plumb analyze` on resnet50 (random weights), and one call of plumb.run on a small model.

    bench/python/run.py [--rounds N] [--model FILE] [--backend SPEC]

CPU seconds with children, best of the rounds, alternating: the clock says little on a busy machine. Of the CLI the whole process counts, of
Python the call and the printed table; what Python takes to start and to import numpy is told beside it. For plumb.run: CPU time of a call beyond the run itself, which the result tells (`times`), over 1,000 calls.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))

EXPORT = """
import sys, warnings
warnings.filterwarnings("ignore")
import torch, torchvision
torch.manual_seed(0)
net = torchvision.models.resnet50(weights=None).eval()
torch.onnx.export(net, (torch.zeros(1, 3, 224, 224),), sys.argv[1])
"""
ANALYZE = """
import os, sys, plumb
def cpu():
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system
plumb.version()
before = cpu()
r = plumb.analyze(sys.argv[1], backend=sys.argv[2], output=sys.argv[3], save="none")
str(r)
print(cpu() - before)
"""
CALLS = '''
import time, numpy as np, plumb
model = plumb.Model("""<ir_version: 8, opset_import: ["" : 13]>
g (float[2,3] x) => (float[2,3] y) { h = Relu(x) y = Neg(h) }""")
x = np.ones((2, 3), "f4")
for _ in range(100):
    plumb.run(model, x)
wall, cpu, inside = time.perf_counter(), time.process_time(), 0.0
for _ in range(1000):
    inside += plumb.run(model, x).times["first"]
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(f"{(wall - inside):.3f} {cpu:.3f} {inside:.3f}")
'''


def cpu_of(command, env):
    """CPU seconds of a process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(f"{command}: {done.stderr[-400:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--backend", default="ort")
    options = parser.parse_args()
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PLUMB_REPRO_LEVEL": "0", "ORT_DISABLE_TELEMETRY": "1"}
    with tempfile.TemporaryDirectory(prefix="plumb-bench-") as folder:
        model = options.model
        if model is None:
            model = Path(folder) / "resnet50.onnx"
            subprocess.run([sys.executable, "-c", EXPORT, str(model)], check=True)
        best = {"cli": float("inf"), "call": float("inf"), "python": float("inf")}
        for i in range(options.rounds):
            cli, _ = cpu_of([PLUMB, "analyze", model, "--backend", options.backend, "--save", "none", "-q", "-o", f"{folder}/cli{i}"], env)
            python, call = cpu_of([sys.executable, "-c", ANALYZE, model, options.backend, f"{folder}/python{i}"], env)
            best = {"cli": min(best["cli"], cli), "call": min(best["call"], float(call)), "python": min(best["python"], python)}
        print(f"analyze of {model.stem} on {options.backend}: CLI {best['cli']:.2f} s, plumb.analyze {best['call']:.2f} s of CPU, ratio "
              f"{best['call'] / best['cli']:.3f}; Python's process {best['python']:.2f} s")
        calls = [tuple(map(float, cpu_of([sys.executable, "-c", CALLS], env)[1].split())) for _ in range(options.rounds)]
        beyond, cpu, inside = (min(c[k] for c in calls) for k in range(3))
        print(f"1000 calls of plumb.run: {beyond:.2f} ms each by the clock beyond the run, {cpu:.2f} ms of this process's CPU; the run itself {inside:.3f} ms")


if __name__ == "__main__":
    main()

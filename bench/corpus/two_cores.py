#!/usr/bin/python3
"""Are two cores 1.85 times as fast as one? On a quiet machine, in some 4 minutes:

  bench/corpus/two_cores.py [N]     N small models (600) on ort:threads=1, in turns with --jobs 1 pinned to CPU 0 and --jobs 2 on CPUs 0 and 1, three rounds

Prints wall time, CPU time and the ratio of the best of each, and the load before it started: above .3 the figure says little. Also the CPU time of as many single runs
(`plumb run --strict-accuracy`), for the line "at most 1.15 times". Exit 1: below 1.85, or above 1.15."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
ENV = dict(os.environ, ORT_DISABLE_TELEMETRY="1")
ROUNDS, FASTER, DEARER = 3, 1.85, 1.15


def measured(command):
    """Wall and CPU seconds."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(list(map(str, command)), env=ENV, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(n):
    load = os.getloadavg()[0]
    print(f"load {load:.2f}" + (": not quiet, the figures say little" if load > 0.3 else ""))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "m"
        folder.mkdir()
        for i in range(n):
            (folder / f"m{i:05}.onnxtxt").write_text('<ir_version: 8, opset_import: ["" : 17]>\n'
                                                     f"g (float[4,{i % 50 + 8}] x) => (float[4,{i % 50 + 8}] y) {{ t = Sigmoid(x) u = Mul(x, t) y = Softmax(u) }}\n")
        times = {1: [], 2: []}
        for k in range(ROUNDS):
            for jobs, cpus in ((1, "0"), (2, "0,1")):
                wall, cpu = measured(["taskset", "-c", cpus, PLUMB, "corpus", folder, "--backend", "ort:threads=1", "-o", f"{name}/o{k}{jobs}", "--jobs", jobs, "-q"])
                times[jobs].append((wall, cpu))
                print(f"round {k + 1}, {jobs} core{'s' if jobs > 1 else ''}: {wall:.1f} s, {cpu:.1f} s of CPU", flush=True)
        single = sum(measured(["taskset", "-c", "0", PLUMB, "run", m, "--strict-accuracy", "--backend", "ort:threads=1", "--threads", "1", "-q"])[1] for m in sorted(folder.iterdir())[:n // 4]) * 4
    faster = min(times[1])[0] / min(times[2])[0]
    dearer = min(cpu for _, cpu in times[1]) / single
    print(f"two cores are {faster:.2f} times as fast (asked: {FASTER}); CPU {dearer:.2f} of single runs, a quarter of which were run (asked: at most {DEARER})")
    return 0 if faster >= FASTER and dearer <= DEARER else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 600))

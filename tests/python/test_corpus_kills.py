#!/usr/bin/python3
"""`plumb corpus` is killed with SIGKILL at random moments and resumed until it is done: no item is lost, none is counted twice, and the
result has the same bytes as that of a run nobody disturbed. TAP. 6 kills, --full: 200. --seed N chooses other moments."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
KILLS = 200 if "--full" in sys.argv else 6
SEED = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1
BODIES = ("t = Relu(x) y = Add(t, t)", "t = Sigmoid(x) u = Relu(t) y = Mul(u, t)", "t = Sigmoid(x) y = Mul(t, t)", "y = Tanh(x)",
          "t = Exp(x) y = Relu(t)", "t = Neg(x) y = Abs(t)")
BACKENDS = ("jit", "jit:inject=accuracy@Relu")
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "CI_NODE", "TEST_SHARD", "JOB_COMPLETION"))}


def models(folder):
    folder.mkdir()
    for i, body in enumerate(BODIES):
        (folder / f"m{i}.onnxtxt").write_text(f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[2,3] x) => (float[2,3] y) {{ {body} }}\n')


def command(out, *more):
    return [PLUMB, "corpus", "m", *(w for b in BACKENDS for w in ("--backend", b)), "-o", out, "--jobs", "2", "--deaths", "0", "-q", *more]


def check(tmp, out, undisturbed):
    """None, or what is wrong."""
    items = json.loads((tmp / out / "items.json").read_text())["items"]
    done, steps = [], []
    for line in (tmp / out / "parts/1-of-1.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["t"] == "done":
            done.append(row["key"])
        if row["t"] == "part":
            steps.append((row["key"], row["n"]))
    if sorted(done) != sorted(i["key"] for i in items):
        return f"{len(items)} items, {len(done)} done, {len(set(done))} of them distinct"
    if len(steps) != len(set(steps)):
        return "a finished step was done again"
    if (tmp / out / "corpus.json").read_bytes() != undisturbed:
        return "corpus.json is not that of the undisturbed run"
    return None


def main():
    rng = random.Random(SEED)
    print("1..1")
    with tempfile.TemporaryDirectory() as name:
        tmp = Path(name)
        models(tmp / "m")
        begin = time.monotonic()
        first = subprocess.run(command("whole"), cwd=tmp, env=ENV, capture_output=True, text=True)
        length = time.monotonic() - begin
        if first.returncode != 1:
            print(f"not ok 1 - kills\n# exit {first.returncode}, expected 1: {first.stderr.strip()}")
            return 1
        undisturbed = (tmp / "whole/corpus.json").read_bytes()
        kills = runs = hits = 0
        why = None
        while kills < KILLS and why is None:
            out, resume = f"o{runs}", ()
            runs += 1
            for attempt in range(1000):
                run = subprocess.Popen(command(out, *resume), cwd=tmp, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                # The more attempts a run took, the more time it gets: each must end.
                kill = kills < KILLS
                try:
                    _, said = run.communicate(timeout=rng.uniform(0, length) * (1 + attempt / 8) if kill else 300)
                except subprocess.TimeoutExpired:
                    run.send_signal(signal.SIGKILL)
                    _, said = run.communicate()
                    kills += 1
                if run.returncode != -signal.SIGKILL:
                    break
                journal = tmp / out / "parts/1-of-1.jsonl"
                hits += journal.exists() and journal.read_text().count('"t":"start"') > journal.read_text().count('"t":"done"') + journal.read_text().count('"t":"part"')
                resume = ("--resume",)
            why = f"exit {run.returncode}, expected 1: {said.strip()}" if run.returncode != 1 else check(tmp, out, undisturbed)
        print(f"{'not ' if why else ''}ok 1 - {kills} kills in {runs} runs of {len(BODIES) * len(BACKENDS)} items, {hits} with items in flight")
        if why:
            print(f"# {why} (--seed {SEED}, run {runs})")
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())

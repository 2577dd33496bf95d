#!/usr/bin/python3
"""Does anything grow faster than the number of items? Journals of N items are written without running anything, then finished (`plumb corpus --merge`):
reading, grouping, corpus.json, text, page and difference, with CPU time and peak memory for N and 4 N.

  bench/corpus/large.py [N]            default 2,500 (and 10,000); every second item fails, each third failure with a cause of its own
  bench/corpus/large.py run [N]        for real: N (10,000) small models on ort:threads=1; time, CPU, peak memory of the parent, every item once

PLUMB is build/plumb unless set."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))


def measured(*args, exits=(0, 1)):
    """CPU seconds and peak MB of one plumb; only of itself, not of its children."""
    pid = os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", f"exec {' '.join(args)} >/dev/null 2>&1")
    _, status, used = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in exits:
        sys.exit(f"{' '.join(args)}: exit {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def bug(i):
    own = i % 6 == 0
    return {"kind": "divergence", "op": f"Op{i if own else i % 7}", "attrs": "", "dtypes": "float>float", "pass": "" if i % 4 else "Fusion", "message": "",
            "ops": f"Op{i if own else i % 7}"}


def write(folder, n):
    (folder / "parts").mkdir(parents=True)
    (folder / "items").mkdir()
    items = [{"key": f"m{i}-{i:016x}", "model": f"models/m{i:06}.onnx", "backend": "jit", "data": "", "seed": 0} for i in range(n)]
    (folder / "items.json").write_text('{"plumb_corpus_items":1,"items":[\n' + ",\n".join(json.dumps(x) for x in items) + "\n]}\n")
    with (folder / "parts/1-of-1.jsonl").open("w") as f:
        f.write('{"t":"open","pid":1}\n')
        for i, x in enumerate(items):
            result = {"status": "agree", "step": "accuracy", "reason": "", "check": "pass", "nodes": 3}
            if i % 2 == 0:
                result = {"status": "diverged", "step": "analyze", "reason": f"Op{i} is off", "check": "fail_accuracy", "nodes": 3, "bug": bug(i), "blamed": "y", "version": "1",
                          "session": False, "repro": False}
            f.write(json.dumps({"t": "start", "key": x["key"]}) + "\n" + json.dumps({"t": "done", "key": x["key"], "seconds": 0.1, "result": result}) + "\n")


def grow(n):
    with tempfile.TemporaryDirectory() as name:
        times = {}
        for size in (n, 4 * n):
            out = Path(name) / f"o{size}"
            write(out, size)
            steps = {"finish": ("corpus", "--merge", str(out)), "baseline": ("corpus", "--merge", str(out), "--baseline", str(out / "corpus.json")),
                     "page": ("report", str(out), "-o", f"{name}/{size}.html"), "diff": ("corpus", "--diff", str(out), str(out))}
            for step, args in steps.items():
                times[step, size] = measured(PLUMB, *args)
        wrong = []
        for step in ("finish", "baseline", "page", "diff"):
            (a, _), (b, memory) = times[step, n], times[step, 4 * n]
            print(f"{step:9} {n} items {a:.3f} s, {4 * n} items {b:.3f} s ({b / a:.1f} times), {memory:.0f} MB")
            if b > 10 * a and b > 0.2:
                wrong.append(step)
    print("grows faster than the items: " + ", ".join(wrong) if wrong else "nothing grows faster than the items")
    return 1 if wrong else 0


def part(folder, n):
    """The first n models, in a folder beside it."""
    small = folder.parent / f"m{n}"
    small.mkdir()
    for model in sorted(folder.iterdir())[:n]:
        os.link(model, small / model.name)
    return small


def really(n):
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name) / "m", Path(name) / "o"
        folder.mkdir()
        for i in range(n):
            (folder / f"m{i:05}.onnxtxt").write_text('<ir_version: 8, opset_import: ["" : 17]>\n'
                                                     f"g (float[4,{i % 50 + 8}] x) => (float[4,{i % 50 + 8}] y) {{ t = Sigmoid(x) u = Mul(x, t) y = Softmax(u) }}\n")
        begin = time.monotonic()
        done = subprocess.run(["/usr/bin/time", "-f", "%M", PLUMB, "corpus", str(folder), "--backend", "ort:threads=1", "-o", str(out), "-q"], text=True, capture_output=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        keys = [json.loads(line)["key"] for line in (out / "parts/1-of-1.jsonl").read_text().splitlines() if '"t":"done"' in line]
        print(done.stdout.splitlines()[0])
        print(f"exit {done.returncode}, {time.monotonic() - begin:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU, largest process {int(done.stderr.split()[-1]) / 1024:.0f} MB, "
              f"{len(keys)} items done, {len(set(keys))} distinct")
        agree = json.loads((out / "corpus.json").read_text())["summary"]["agree"]
        plan = [measured(PLUMB, "corpus", str(folder if k == 1 else part(folder, n // k)), "--backend", "ort:threads=1", "--dry-run")[1] for k in (4, 1)]
        print(f"reading the list: {plan[0]:.0f} MB for {n // 4} models, {plan[1]:.0f} MB for {n}")
        return 0 if done.returncode == 0 and len(keys) == len(set(keys)) == agree == n and plan[1] < plan[0] + 40 else 1


if __name__ == "__main__":
    rest = sys.argv[1:]
    if rest[:1] == ["run"]:
        sys.exit(really(int(rest[1]) if rest[1:] else 10000))
    sys.exit(grow(int(rest[0]) if rest else 2500))

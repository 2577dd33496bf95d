#!/usr/bin/python3
"""A corpus with known answers: how well are failures grouped, and what does it cost?

  bench/corpus/run.py groups [OUT]     every graph of ../shared/conformance/ort-bugs-open x the ONNX Runtimes of tools/fetch-ort x 2 levels
                                       (both pinned by hash): each known bug must be one group, and no group two bugs. Exit 1 if not.
  bench/corpus/run.py onnx [OUT]       Debian's libonnx-testdata x 2 versions: at least 1,500 items; prints the table
  bench/corpus/run.py cost [N]         N small models (200): CPU time of `plumb corpus` against that of as many `plumb run --strict-accuracy`,
                                       one and two jobs, peak memory of the scheduler

PLUMB is build/plumb unless set. Figures: bench/corpus/README.md."""

import collections
import json
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
BUGS = Path(os.environ.get("CONFORMANCE", ROOT.parent / "shared/conformance")) / "ort-bugs-open.tar.zst"
DATA = Path("/usr/share/libonnx-testdata/data")
LEVELS = ("off", "basic", "extended", "all")


def library(version):
    return ROOT / f".cache/ort-{version}/libonnxruntime.so.1"


def versions():
    found = sorted((p.parent.name[4:] for p in ROOT.glob(".cache/ort-*/libonnxruntime.so.1")), key=lambda v: [int(n) for n in v.split(".")])
    return [v for v in found if library(v).exists()]


def backends(which, levels):
    return [w for v in which for level in levels for w in ("--backend", f"ort:lib={library(v)},opt={level}")]


def run(models, specs, out, *more):
    begin = time.monotonic()
    done = subprocess.run([PLUMB, "corpus", str(models), *specs, "-o", str(out), *more], env=dict(os.environ, ORT_DISABLE_TELEMETRY="1"))
    print(f"exit {done.returncode}, {time.monotonic() - begin:.0f} s")
    return json.loads((Path(out) / "corpus.json").read_text())


def expected(folder):
    """What is known of each graph: (case, version, level) -> ok, BAD..., ERR..., SHAPE."""
    known = {}
    for case in Path(folder).iterdir():
        if (case / "INFO.txt").exists():
            for m in re.finditer(r"^\s+(\d+\.\d+\.\d+): (\S+)$", (case / "INFO.txt").read_text(), re.M):
                known.update({(case.name, m[1], LEVELS[i]): s for i, s in enumerate(m[2].split("/"))})
    return known


def groups(out):
    if len(versions()) < 6:
        sys.exit(f"{len(versions())} versions of ONNX Runtime in .cache, at least 6 are required: tools/fetch-ort all")
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(["tar", "--zstd", "-xf", str(BUGS), "-C", tmp], check=True)
        models = Path(tmp) / "ort-bugs-open"
        result = run(models, backends(versions(), ("basic", "all")), out)
        known = expected(models)
    wrong, judged = [], 0
    in_group, of_bug = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    for case in result["cases"]:
        name = case["model"].split("/")[0]
        key = (name, re.search(r"ort-([\d.]+)/", case["backend"])[1], re.search(r"opt=(\w+)", case["backend"])[1])
        if key not in known:
            continue
        judged += 1
        bad = case["status"] not in ("agree", "skipped")
        if bad != (known[key] != "ok"):
            wrong.append(f"{key}: {known[key]}, but {case['status']}")
        if bad:  # an opset that a version cannot load is no bug of the graph
            bug = name.split("-")[0] + (" (cannot load)" if "Load model" in case["reason"] else "")
            in_group[case["group"]][bug] += 1
            of_bug[bug][case["group"]] += 1
    for bug, found in sorted(of_bug.items()):
        print(f"{bug:24} {sum(found.values()):4} failures in {len(found)} group{'s' if len(found) > 1 else ''}, {max(found.values()) / sum(found.values()):.0%} in one")
        if max(found.values()) < 0.95 * sum(found.values()):
            wrong.append(f"{bug} is in {len(found)} groups")
    wrong += [f"group {g} mixes {dict(found)}" for g, found in in_group.items() if len(found) > 1]
    print(f"{judged} items with a known answer, {len(of_bug)} causes, {len(in_group)} groups")
    print("\n".join(wrong) or "every known bug is one group, none mixes two")
    return 1 if wrong else 0


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cost(n):
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp) / "m"
        folder.mkdir()
        for i in range(n):
            (folder / f"m{i}.onnxtxt").write_text('<ir_version: 8, opset_import: ["" : 17]>\n'
                                                  f"g (float[4,{i % 50 + 8}] x) => (float[4,{i % 50 + 8}] y) {{ t = Sigmoid(x) u = Mul(x, t) y = Softmax(u) }}\n")
        env = dict(os.environ, ORT_DISABLE_TELEMETRY="1")
        before = cpu()
        for model in sorted(folder.iterdir()):
            subprocess.run([PLUMB, "run", str(model), "--strict-accuracy", "--backend", "ort:threads=1", "--threads", "1", "-q"], env=env,
                           stdout=subprocess.DEVNULL, check=True)
        single = cpu() - before
        print(f"{n} models: {single:.1f} s of CPU as single runs")
        for jobs in (1, 2):
            before, begin = cpu(), time.monotonic()
            done = subprocess.run(["/usr/bin/time", "-f", "%M kB", PLUMB, "corpus", str(folder), "--backend", "ort:threads=1", "-o", f"{tmp}/o{jobs}",
                                   "--jobs", str(jobs), "-q"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
            used = cpu() - before
            print(f"corpus, {jobs} job{'s' if jobs > 1 else ''}: {used:.1f} s of CPU ({used / single:.2f}), {time.monotonic() - begin:.1f} s; largest process "
                  f"{done.stderr.strip().splitlines()[-1]}")
    return 0


def main():
    what, rest = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if what == "groups":
        return groups(rest[0] if rest else tempfile.mkdtemp() + "/out")
    if what == "onnx":
        run(DATA, backends(versions()[-2:], ("all",)), rest[0] if rest else tempfile.mkdtemp() + "/out", "--max-queries", "40", "--timeout", "120")
        return 0
    if what == "cost":
        return cost(int(rest[0]) if rest else 200)
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())

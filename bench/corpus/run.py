#!/usr/bin/python3
"""A corpus with known answers: how well are failures grouped, and what does it cost?

  bench/corpus/run.py groups [WORK [STEP [JOBS]]]
                                       the models of make.py (every STEP-th of the ONNX data; 3) x 6 ONNX Runtimes of tools/fetch-ort x 2 levels, and three
                                       faults planted in jit: each known bug must be one group, no group two bugs. Then again with one version fixed: its bug,
                                       and no other, must be shown as fixed. Goes on with what is in WORK. Exit 1 if not.
  bench/corpus/run.py judge OUT MODELS the same check of an output that is there
  bench/corpus/run.py onnx [OUT]       Debian's libonnx-testdata x 2 versions: at least 1,500 items; prints the table
  bench/corpus/run.py cost [N]         the same as two_cores.py [N]: CPU time against single runs, two cores against one

PLUMB is build/plumb unless set. Figures: bench/corpus/README.md."""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import make
import two_cores

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
DATA = Path("/usr/share/libonnx-testdata/data")
SIX = ("1.12.1", "1.16.3", "1.19.2", "1.22.0", "1.24.3", "1.30.0")
PLANTED = ("offset@Relu", "zero@Softmax", "scale@Add")
LEVELS = ("off", "basic", "extended", "all")


def library(version):
    return ROOT / f".cache/ort-{version}/libonnxruntime.so.1"


def versions():
    found = sorted((p.parent.name[4:] for p in ROOT.glob(".cache/ort-*/libonnxruntime.so.1")), key=lambda v: [int(n) for n in v.split(".")])
    return [v for v in found if library(v).exists()]


def backends(which, levels, folder=ROOT / ".cache"):
    return [w for v in which for level in levels for w in ("--backend", f"ort:lib={folder}/ort-{v}/libonnxruntime.so.1,opt={level}")]


def run(models, specs, out, *more):
    begin = time.monotonic()
    done = subprocess.run([PLUMB, "corpus", *map(str, (models, *specs, "-o", out, *more))], env=dict(os.environ, ORT_DISABLE_TELEMETRY="1"))
    print(f"exit {done.returncode}, {time.monotonic() - begin:.0f} s")
    return json.loads((Path(out) / "corpus.json").read_text())


def expected(folder):
    """What is known of each graph: case -> {(version, level): ok, BAD…, ERR…, SHAPE}. All forms of a graph share it."""
    known = {}
    for info in Path(folder).glob("*/INFO.txt"):
        case = known.setdefault(info.parent.name.rsplit("-", 1)[0], {})
        for m in re.finditer(r"^\s+(\d+\.\d+\.\d+): (\S+)$", info.read_text(), re.M):
            case.update({(m[1], LEVELS[i]): s for i, s in enumerate(m[2].split("/"))})
    return known


def bug_of(case, known):
    """The known cause of a failed item: a planted fault, or the issue that its graph was rebuilt from; None = not known."""
    planted = re.match(r"jit:inject=(\S+)", case["backend"])
    if planted:
        return planted[1]
    name = case["model"].split("/")[-2]
    if not case["model"].startswith("bugs/") or name.rsplit("-", 1)[0] not in known:
        return None
    return name.split("-")[0] + (" (cannot load)" if "Load model" in case["reason"] else "")  # an opset that a version does not have


def expected_of(case, known):
    """What is known of an item of bugs/: ok, BAD…, ERR…, SHAPE; None = nothing."""
    found = re.search(r"ort-([\d.]+)/.*opt=(\w+)", case["backend"])
    return known.get(case["model"].split("/")[-2].rsplit("-", 1)[0], {}).get(found.groups()) if found and case["model"].startswith("bugs/") else None


def judge(result, known):
    """Prints the table and returns what is wrong: verdicts that are not as known, bugs in several groups, groups of several bugs."""
    wrong, judged = [], 0
    in_group, of_bug = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    for case in result["cases"]:
        bad, truth = case["status"] not in ("agree", "skipped"), expected_of(case, known)
        if case["status"] == "missing":
            continue
        judged += truth is not None
        if truth is not None and bad != (truth != "ok"):
            wrong.append(f"{case['model']} on {case['backend'].split('ort-')[-1]}: {truth}, but {case['status']}")
        if bad and bug_of(case, known):
            in_group[case["group"]][bug_of(case, known)] += 1
            of_bug[bug_of(case, known)][case["group"]] += 1
    for bug, found in sorted(of_bug.items()):
        print(f"{bug:24} {sum(found.values()):4} failures in {len(found)} group{'s' if len(found) > 1 else ''}, {max(found.values()) / sum(found.values()):.0%} in one")
        if max(found.values()) < 0.95 * sum(found.values()):
            wrong.append(f"{bug} is in {len(found)} groups: {dict(found)}")
    wrong += [f"group {g} mixes {dict(found)}" for g, found in in_group.items() if len(found) > 1]
    print(f"{len(result['cases'])} items, {judged} with a known verdict; {sum(map(len, of_bug.values()))} groups of {len(of_bug)} known causes; {len(result['groups'])} groups in all")
    return wrong


def link_libraries(folder, which):
    """WORK/libs/ort-VERSION leads to .cache, so that a version can be "fixed" without changing the name of its backend."""
    for version, real in which.items():
        link = folder / f"ort-{version}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(library(real).resolve().parent)
    return folder


def lost(first, again, known):
    """Bugs with a failure in the first run and none in the second: what a fix of a version must show as fixed."""
    def bugs(result):
        return {bug_of(c, known) for c in result["cases"] if c["group"] and bug_of(c, known)}
    return bugs(first) - bugs(again)


def judge_fix(first, again, known):
    """The groups of bugs that have no failure any more are fixed; of those that still have one none is fixed or new."""
    gone = lost(first, again, known)
    bug_of_group = {c["group"]: bug_of(c, known) for c in first["cases"] if c["group"]}
    wrong = []
    for group in again["gone"]:
        bug = bug_of_group.get(group["id"])
        print(f"{group['state']:8} {group['name'][:110]}: {bug or 'cause not known'}")
        if (bug in gone) != (group["state"] == "fixed") and bug:
            wrong.append(f"{bug} is {group['state']}")
    shown = {bug_of_group.get(g["id"]) for g in again["gone"] if g["state"] == "fixed"}
    wrong += [f"{bug} has no failure any more, but is not shown as fixed" for bug in sorted(gone - shown)]
    wrong += [f"group {g['id']} is new: {g['name'][:110]}" for g in again["groups"] if g["state"] == "new"]
    print("without a failure since the fix:", ", ".join(sorted(gone)) or "none")
    return wrong


def groups(work, step, jobs):
    """All that make.py makes x 6 versions x 2 levels, and three planted faults; then again with 22177 fixed: 1.19.2 is the only one that has it."""
    missing = [v for v in SIX if not library(v).exists()]
    if missing:
        sys.exit(f"no ONNX Runtime {', '.join(missing)} in .cache: tools/fetch-ort all")
    work = Path(work)
    models = work / "models"
    if not models.exists():
        make.make(models, step=step)
    specs = backends(SIX, ("basic", "all"), work / "libs") + [w for p in PLANTED for w in ("--backend", f"jit:inject={p}")]
    options = ("--max-queries", "40", "--timeout", "120", "--jobs", jobs)
    found = []
    for out, lib_of in (("out", {}), ("fixed", {"1.19.2": "1.22.0"})):
        link_libraries(work / "libs", {**{v: v for v in SIX}, **lib_of})
        more = ("--baseline", work / "out") if found else ()
        found.append(run(models, specs, work / out, *options, *more, *(("--resume",) if (work / out).exists() else ())))
    known = expected(models / "bugs")
    wrong = judge(found[0], known) + judge_fix(*found, known)
    print("\n".join(wrong) or "every known bug is one group, none mixes two, the fixed one is shown as fixed")
    return 1 if wrong else 0


def main():
    what, rest = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if what == "groups":
        return groups(*(rest + [tempfile.mkdtemp(), "3", "2"][len(rest):])[:3])
    if what == "judge" and len(rest) == 2:
        wrong = judge(json.loads((Path(rest[0]) / "corpus.json").read_text()), expected(Path(rest[1]) / "bugs"))
        print("\n".join(wrong) or "every known bug is one group, none mixes two")
        return 1 if wrong else 0
    if what == "onnx":
        run(DATA, backends(versions()[-2:], ("all",)), rest[0] if rest else tempfile.mkdtemp() + "/out", "--max-queries", "40", "--timeout", "120")
        return 0
    if what == "cost":
        return two_cores.main(int(rest[0]) if rest else 600)
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())

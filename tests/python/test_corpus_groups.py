#!/usr/bin/python3
"""Planted faults in a corpus: each is one group, no group has two, and one that is mended is shown as fixed. TAP.
bench/corpus/run.py groups is the same with known bugs of six versions of ONNX Runtime; --full runs a small form of it here."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tap import Skip, main

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
sys.path.insert(0, str(ROOT / "bench/corpus"))
import run as bench  # noqa: E402

FULL = "--full" in sys.argv
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "CI_NODE", "TEST_SHARD", "JOB_COMPLETION"))}
BODIES = {"head": "t = Relu(x) u = Mul(t, x) y = Softmax<axis = 1>(u)", "sum": "t = Add(x, x) y = Softmax<axis = 1>(t)", "deep": "a = Tanh(x) t = Relu(a) u = Add(t, a) y = Neg(u)",
          "clean": "t = Tanh(x) y = Neg(t)"}


def corpus(folder, out, backends, *more, exits):
    done = subprocess.run([PLUMB, "corpus", "m", *(w for b in backends for w in ("--backend", b)), "-o", out, *more, "-q"], cwd=folder, env=ENV, text=True, capture_output=True)
    assert done.returncode in exits, f"exit {done.returncode}: {done.stderr}"
    return json.loads((folder / out / "corpus.json").read_text())


def test_planted_faults_are_one_group_each(folder):
    (folder / "m").mkdir()
    for name, body in BODIES.items():
        (folder / f"m/{name}.onnxtxt").write_text(f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[3,4] x) => (float[3,4] y) {{ {body} }}\n')
    faults = [f"jit:inject={p}" for p in bench.PLANTED]
    result = corpus(folder, "all", faults, exits=(1,))
    wrong = bench.judge(result, {})
    assert not wrong, wrong
    failed = {(c["model"].split(".")[0], c["backend"][11:]) for c in result["cases"] if c["status"] == "diverged"}
    assert failed == {("head", "offset@Relu"), ("deep", "offset@Relu"), ("head", "zero@Softmax"), ("sum", "zero@Softmax"), ("sum", "scale@Add"), ("deep", "scale@Add")}, failed
    assert {(g["bug"]["op"], g["cases"], g["confirmed"]) for g in result["groups"]} == {(op, 2, 2) for op in ("Relu", "Softmax", "Add")}, result["groups"]
    mended = corpus(folder, "mended", ["jit", *faults[1:]], "--baseline", "all", exits=(0,))
    assert {g["bug"]["op"]: g["state"] for g in mended["groups"]} == {"Softmax": "known", "Add": "known"}, mended["groups"]
    assert [(g["name"].split()[2], g["state"]) for g in mended["gone"]] == [("Relu", "fixed")], mended["gone"]


def test_two_faults_of_one_operator_are_two_groups(folder):
    """They fail on each other's repro, by other numbers. One fault on two backends stays one group: threads change nothing."""
    (folder / "m").mkdir()
    for name, body in {"a": "y = Sigmoid(x)", "b": "t = Neg(x) y = Sigmoid(t)"}.items():
        (folder / f"m/{name}.onnxtxt").write_text(f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[3,4] x) => (float[3,4] y) {{ {body} }}\n')
    faults = ["jit:inject=offset@Sigmoid", "jit:inject=sign@Sigmoid", "jit:inject=sign@Sigmoid,threads=2", "jit:inject=nan@Sigmoid"]
    result = corpus(folder, "out", faults, exits=(1,))
    groups = {}
    for c in result["cases"]:
        assert c["status"] == "diverged", c
        groups.setdefault(c["group"], set()).add(c["backend"].split("=")[1].split("@")[0])
    assert sorted(map(sorted, groups.values())) == [["nan"], ["offset"], ["sign"]], groups


def test_known_bugs_of_onnx_runtime_are_one_group_each(folder):
    if not FULL:
        raise Skip("only with --full")
    versions = [v for v in bench.SIX if bench.library(v).exists()][-3:]
    if len(versions) < 3 or not bench.make.BUGS.exists():
        raise Skip("requires tools/fetch-ort all and ../shared/conformance")
    bench.make.make_bugs(folder / "m/bugs", bench.make.FORMS[:2])
    specs = bench.backends(versions, ("basic", "all"))[1::2]
    result = corpus(folder, "out", specs, "--max-queries", "40", exits=(1,))
    wrong = bench.judge(result, bench.expected(folder / "m/bugs"))
    assert not wrong, wrong
    return f"{len(result['cases'])} items"


if __name__ == "__main__":
    sys.exit(main(globals()))

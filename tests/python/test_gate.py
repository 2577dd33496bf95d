"""examples/ci_gate.sh and the workflow of docs/ci.md, end to end, in failure and in success. Prints TAP."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
from tap import main  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
GATE = ROOT / "examples/ci_gate.sh"
MODEL = ROOT / "examples/classifier.onnxtxt"
BAD = "jit:inject=scale@Erf"


def gate(folder, *args, code):
    done = subprocess.run([GATE, *map(str, args)], cwd=folder, env=dict(os.environ, PLUMB=PLUMB), capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"exit {done.returncode}, expected {code}: {(done.stdout + done.stderr)[-500:]}"
    return done, ElementTree.parse(folder / "plumb-gate.xml").getroot()


def count(root, what):
    return sum(int(suite.get(what, "0")) for suite in root.iter("testsuite"))


def test_success_writes_the_report_and_no_session(folder):
    _, report = gate(folder, MODEL, "jit", "--dim", "batch=4", code=0)
    assert count(report, "failures") == 0 and count(report, "tests") > 0
    assert not (folder / "plumb-session").exists()


def test_failure_names_the_operation_each_time(folder):
    np.save(folder / "x.npy", np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8))
    for session in ("plumb-session", "plumb-session-2"):  # the second run finds the first one's session
        done, report = gate(folder, MODEL, BAD, "--input", "x=x.npy", code=1)
        assert count(report, "failures") > 0
        assert "Erf" in done.stdout and "::error" in done.stdout, done.stdout
        assert (folder / session / "session.json").exists(), session


def test_reference_inputs_and_dims_reach_analyze(folder):
    """A stand-in for plumb writes down what it was called with."""
    said = folder / "plumb"
    said.write_text('#!/bin/sh\nprintf "%s\\n" "$*" >>calls\n[ "$1" = analyze ] || exit 1\n')
    said.chmod(0o755)
    subprocess.run([GATE, "m.onnx", "ort", "--reference", "float model.onnx", "--backward", "--grad-seed", "1", "--dim", "batch=8", "--input", "x=x.npy",
                    "--runs=3", "--seed", "2"], cwd=folder, env=dict(os.environ, PLUMB=str(said)), check=False)
    run, analyze = (folder / "calls").read_text().splitlines()
    assert run == ("run m.onnx --accuracy --backend ort --format junit --reference float model.onnx --backward --grad-seed 1 --dim batch=8 --input x=x.npy "
                   "--runs=3 --seed 2"), run
    assert analyze == ("analyze m.onnx --backend ort --format github -o plumb-session --reference float model.onnx --dim batch=8 --input x=x.npy "
                       "--seed 2"), analyze


def test_a_reference_model_is_used(folder):
    """The int8 model against its float model: analyze must judge by it, too."""
    int8 = ROOT / "examples/quantised/classifier_int8.onnxtxt"
    done, report = gate(folder, int8, "jit", "--reference", MODEL, "--dim", "batch=8", code=1)
    assert count(report, "failures") > 0 and "::error" in done.stdout, done.stdout


def test_bad_usage_is_an_error_in_the_report(folder):
    _, report = gate(folder, MODEL, "jti", code=2)
    assert count(report, "errors") == 1


def workflow():
    """The lines of `run: |` in docs/ci.md, as GitHub runs them."""
    page = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
    block = re.search(r"^( +)run: \|\n((?:\1  .*\n)+)", page, re.MULTILINE)
    return "\n".join(line.strip() for line in block[2].splitlines())


def run_workflow(folder, backend):
    script = workflow()
    assert "--backend ort" in script and "gate.xml" in script, script
    subprocess.run([PLUMB, "convert", MODEL, "model.onnx"], cwd=folder, check=True)
    (folder / "bin").mkdir()
    (folder / "bin/plumb").symlink_to(PLUMB)
    env = dict(os.environ, PATH=f"{folder}/bin{os.pathsep}{os.environ['PATH']}")
    done = subprocess.run(["bash", "-e", "-c", script.replace("--backend ort", f"--backend {backend}")], cwd=folder, env=env, capture_output=True, text=True,
                          timeout=300)
    return done, ElementTree.parse(folder / "gate.xml").getroot()


def test_workflow_in_success(folder):
    done, report = run_workflow(folder, "jit")
    assert done.returncode == 0 and count(report, "failures") == 0, done.stderr


def test_workflow_in_failure(folder):
    done, report = run_workflow(folder, BAD)
    assert done.returncode == 1 and count(report, "failures") > 0, (done.returncode, done.stderr)
    assert "Erf" in done.stdout, done.stdout


if __name__ == "__main__":
    sys.exit(main(globals()))

"""The checks and the runner themselves: each must fail on what it is there to find. Prints TAP."""

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import tap

ROOT = Path(__file__).resolve().parent.parent.parent


def load(path):
    loader = importlib.machinery.SourceFileLoader("under_test", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("under_test", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


RUN = load(ROOT / "tests/run")


def check_layers(files):
    with tempfile.TemporaryDirectory() as tmp:
        for name, text in files.items():
            path = Path(tmp, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([ROOT / "tools/check-layers", tmp], capture_output=True, text=True)
        return done.returncode, done.stdout


def test_layers__accepts_upward_includes():
    assert check_layers({"graph/g.c": '#include "graph/g.h"\n#include <stdio.h>\n#include "base/buf.h"\n',
                         "cli/c.c": '#include "plumb.h"\n#include "ops/op.h"\n'}) == (0, "")


def test_layers__rejects_what_points_down():
    code, out = check_layers({"tensor/t.c": '#include "base/buf.h"\n  # include "graph/graph.h"\n'})
    assert code == 1 and "t.c:2:" in out and "graph stands below tensor" in out, out


def test_layers__rejects_foreign_internals_relative_paths_and_twins():
    for text in ('#include "base/pool_int.h"\n', '#include "../base/buf.h"\n', '#include "buf.h"\n',
                 '#include "nowhere/x.h"\n'):
        assert check_layers({"tensor/t.c": text})[0] == 1, text
    assert check_layers({"base/x.c": "", "tensor/x.c": ""})[0] == 1
    assert check_layers({"elsewhere/x.c": ""})[0] == 1


def test_tap__knows_both_ways_to_skip():
    plan, results = RUN.parse_tap("1..4\nok 1 - a\nnot ok 2 - b\n# why\nnot ok 3 # SKIP c\n"
                                  "ok 4 - d # SKIP no torch\n")
    assert plan == 4
    assert [r[:2] for r in results] == [["pass", "a"], ["fail", "b"], ["skip", "c"], ["skip", "d"]]
    assert "why" in results[1][2] and results[3][2] == "no torch"


def test_tap__ignores_other_lines():
    assert RUN.parse_tap("okay\nnothing ok\n# not ok - group\n") == (None, [])


def test_glob__star_stays_in_its_line():
    assert RUN.glob_matches("[1] took * ms\n", "[1] took 12 ms\n")
    assert not RUN.glob_matches("a*b\n", "a\nb\n")
    assert not RUN.glob_matches("a\n", "a\nb\n")
    assert not RUN.glob_matches("a.c\n", "abc\n")


def test_glob__dots_are_any_number_of_lines():
    for text in ("a\nz\n", "a\n1\n2\nz\n"):
        assert RUN.glob_matches("a\n...\nz\n", text)
    assert not RUN.glob_matches("a\n...\nz\n", "a\n1\n")


def test_runner__counts_a_crash_and_missing_tests():
    class Opts:
        filter, verbose = None, False

    def count(script):
        report = RUN.Report(Opts)
        report.add = lambda status, *rest: report.counts.__setitem__(status, report.counts[status] + 1)
        RUN.run_tap(report, "s", "l", ["bash", "-c", script], {}, 10)
        return report.counts

    assert count("echo 1..1; echo ok 1 - a") == {"pass": 1, "fail": 0, "skip": 0}
    assert count("echo 1..2; echo ok 1 - a; kill -SEGV $$") == {"pass": 1, "fail": 1, "skip": 0}
    assert count("echo 1..2; echo ok 1 - a") == {"pass": 1, "fail": 1, "skip": 0}
    assert count("echo ok 1 - a; exit 3") == {"pass": 1, "fail": 1, "skip": 0}
    assert count("echo hello")["fail"] == 1


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

"""The checks and the runner themselves: each must fail on what it is there to find. Prints TAP."""

import importlib.machinery
import importlib.util
import shutil
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
                         "view/v.c": '#include "plumb.h"\n#include "ops/op.h"\n',
                         "cli/c.c": '#include "plumb.h"\n#include "cli/c.h"\n'}) == (0, "")


def test_layers__the_cli_sees_the_public_header_only():
    assert check_layers({"cli/c.c": '#include "ops/op.h"\n'})[0] == 1


def test_layers__rejects_what_points_down():
    code, out = check_layers({"tensor/t.c": '#include "base/buf.h"\n  # include "graph/graph.h"\n'})
    assert code == 1 and "t.c:2:" in out and "graph stands below tensor" in out, out


def test_layers__escape_sequences_of_terminals_are_the_clis():
    assert check_layers({"cli/c.c": 'const char *red = "\\033[31m";\n'})[0] == 0
    for text in ('"\\033[31m"', '"\\x1b[0m"', '"\\e[1m"'):
        code, out = check_layers({"report/r.c": f"const char *red = {text};\n"})
        assert code == 1 and "r.c:1:" in out, (text, out)


def test_layers__rejects_foreign_internals_relative_paths_and_twins():
    for text in ('#include "base/pool_int.h"\n', '#include "../base/buf.h"\n', '#include "buf.h"\n',
                 '#include "nowhere/x.h"\n'):
        assert check_layers({"tensor/t.c": text})[0] == 1, text
    assert check_layers({"base/x.c": "", "tensor/x.c": ""})[0] == 1
    assert check_layers({"elsewhere/x.c": ""})[0] == 1
    assert check_layers({"tensor/t.inc": '#include "graph/graph.h"\n'})[0] == 1


def plant_rooms(root, edits):
    """Copies what check-rooms reads, edits it, and returns what the check says of the copy."""
    for top in ("src", "include"):
        shutil.copytree(ROOT / top, root / top)
    for top in ("docs", "tests", "tools", "web", "examples", "bench"):
        (root / top).symlink_to(ROOT / top)
    for name, edit in edits.items():
        path = root / name
        text = path.read_text() if path.exists() else ""
        new = edit(text)
        assert new != text, f"{name}: nothing planted"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new)
    done = subprocess.run([ROOT / "tools/check-rooms", root], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_rooms__finds_what_stands_elsewhere():
    def swap(old, new):
        return lambda text: text.replace(old, new)

    def append(text):
        return lambda old: old + text
    rule = "pl_status {}(pl_{} *c) {{\n    return c == NULL ? PL_E_INTERNAL : PL_OK;\n}}\n"
    with tempfile.TemporaryDirectory() as tmp:
        code, out = plant_rooms(Path(tmp), {
            # A rule of another family, which a macro defines there; one in a file that is not for gradients; one in the contract.
            "src/ops/math/einsum.c": swap(".emit = pl_emit_einsum", ".emit = pl_emit_softplus"),
            "src/ops/nn/linear_attention.c": swap(".grad = pl_linear_attention_grad", ".grad = pl_planted_grad"),
            "src/ops/nn/rnn_read.c": append(rule.format("pl_planted_grad", "grad")),
            "src/ops/text/text.c": swap(".bound = PL_BOUND_EXACT", ".bound = pl_planted_bound"),
            "src/ops/bound.c": append(rule.format("pl_planted_bound", "bound")),
            "src/ops/train/loss.c": swap(".emit = pl_emit_nll_loss", ".emit = pl_nowhere_emit"),
            "src/ops/tensor/sort.c": append('#include "ops/math/reduce.h"\n'),
            "src/ops/lib/join.c": append("pl_status pl_emit_celu(pl_emit *c);\n"),
            "src/ops/emit.c": append('#include "ops/lib/move.h"\n'),
            "src/ops/signal/orphan_grad.c": append("/* Nothing. */\n"),
            "src/base/long.h": append("\n" * 801),
            "src/pair/README.md": append("`gone_away.c`\n"),
            "src/view/cellar/dark.c": append("/* Nothing. */\n"),
            # Ways round the door: a header, another name of open, a blank before the parenthesis; programs, libraries, system calls.
            "src/view/back_door.h": append('static int a(void) { return fopen64 ("x", "r") != 0; }\n'),
            "src/pair/side_door.c": append("int b(void) { return system(\"x\") + (int)syscall(2, 0) + (dlopen(0, 0) == 0); }\n"),
            "ARCHITECTURE.md": append((ROOT / "ARCHITECTURE.md").read_text() + "\n`src/attic/`: flows/old_prepare.c\n"),
        })
    assert code == 1, out
    for want in ("einsum.c: Einsum: .emit = pl_emit_softplus stands in src/ops/nn/activation_emit.c: move it to src/ops/math",
                 "linear_attention.c: LinearAttention: .grad = pl_planted_grad stands in src/ops/nn/rnn_read.c: move it to a file called X_grad.c",
                 ".bound = pl_planted_bound stands in src/ops/bound.c: move it to src/ops/text",
                 ".emit = pl_nowhere_emit: not defined",
                 'sort.c: includes "ops/math/reduce.h" of another family',
                 "join.c: uses pl_emit_celu of src/ops/nn/activation_emit.c",
                 "emit.c: includes \"ops/lib/move.h\": the contract",
                 "orphan_grad.c: no orphan.c beside it",
                 "src/base/long.h: 801 lines", "src/base/README.md: does not name long.h",
                 "names gone_away.c", "src/view/README.md: does not name cellar/", "src/view/cellar: no README.md",
                 "back_door.h:1: fopen64(): files are opened by", "side_door.c:1: system(): starts", "side_door.c:1: syscall(): starts",
                 "side_door.c:1: dlopen(): starts",
                 "ARCHITECTURE.md: names flows/old_prepare.c", "ARCHITECTURE.md: names src/attic,"):
        assert want in out, f"{want!r} is missing in:\n{out}"


def test_rooms__accepts_the_tree():
    done = subprocess.run([ROOT / "tools/check-rooms"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout

def test_campaign__the_table_has_what_was_counted():
    with tempfile.TemporaryDirectory() as tmp:
        page = Path(tmp) / "campaign.md"
        page.write_text((ROOT / "bench/campaign.md").read_text())
        subprocess.run([ROOT / "tests/campaign/run", "--table", "--write", page], check=True)
        rows = [set(l for l in p.read_text().splitlines() if l.startswith("|")) for p in (page, ROOT / "bench/campaign.md")]
    assert rows[0] == rows[1], f"tests/campaign/run --table: {sorted(rows[0] ^ rows[1])}"


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

"""One table of sync-point columns (src/session/columns.def): session.json, reading it back, the CSV, the debugger's page and the
documentation have its columns, no more and no less. Prints TAP."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import tap

ROOT = Path(__file__).resolve().parent.parent.parent
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
ROWS = re.findall(r"(?m)^PL_COLUMN\((\w+), (\w+), \w+, (\w+), (\w+), (\w+),", (ROOT / "src/session/columns.def").read_text())


def run(*words, code=0):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    assert done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def session(folder):
    run(PLUMB, "analyze", ROOT / "tests/cli/net.onnxtxt", "--backend", "jit:inject=scale@Tanh", "-q", "-o", folder / "s", code=1)
    return folder / "s"


def test_json__has_the_columns_in_order(folder):
    wanted = [name for name, _, use, _, _ in ROWS if use != "NO" and name != "detail"]
    points = json.loads((session(folder) / "session.json").read_text())["sync_points"]
    assert len(points) > 2 and all(list(p) == wanted for p in points), list(points[0])


def test_json__keeps_every_column_when_read_back(folder):
    s = session(folder)
    again = json.loads(run(PLUMB, "report", s, "--format", "json"))
    assert again["sync_points"] == json.loads((s / "session.json").read_text())["sync_points"]


def test_json__checks_every_column(folder):
    """A column of the wrong type is refused by its name: the reader misses none."""
    s = session(folder)
    text = (s / "session.json").read_text()
    wrong = {"TEXT": 7, "NUMBER": "many", "INTEGER": -1, "FLAG": "yes", "NAME": "nobody", "OWN": 7}
    tried = 0
    for name, kind, use, _, _ in ROWS:
        if use == "NO" or name == "detail":  # worked out on demand, never read
            continue
        data = json.loads(text)
        data["sync_points"][1][name] = wrong[kind]
        data["user_metrics"] = [{"name": "mine", "unit": "", "higher_is_better": True}]  # of which metrics are read
        (s / "session.json").write_text(json.dumps(data))
        done = subprocess.run([PLUMB, "report", s, "--format", "json"], capture_output=True, text=True)
        assert done.returncode == 2 and f"'{name}' is not" in done.stderr, (name, done.returncode, done.stderr)
        tried += 1
    assert tried > 25
    return f"{tried} columns"


def test_csv__has_the_columns(folder):
    lines = list(csv.reader(run(PLUMB, "report", session(folder), "--format", "csv").splitlines()))
    data = json.loads((folder / "s/session.json").read_text())
    metrics = list(data["sync_points"][-1]["metrics"])
    wanted = []
    for name, _, _, use, _ in ROWS:
        wanted += metrics if name == "metrics" and use == "OWN" else [name] if use == "YES" else []
    assert lines[0] == wanted + [name for name, _, _, use, _ in ROWS if use == "LAST"], lines[0]
    assert all(len(line) == len(lines[0]) for line in lines)


def test_page__has_the_columns(folder):
    run(PLUMB, "report", session(folder), "-o", folder / "r.html")
    found = re.search(r'"columns":(\[[^]]*\]),"points":\[(\[.*?\])\s*[,\]]', (folder / "r.html").read_text())
    assert json.loads(found[1]) == [name for name, _, _, _, use in ROWS if use != "NO"], found[1]


def test_documentation__lists_the_columns():
    text = (ROOT / "docs/formats/session.md").read_text().split("<!-- columns: ")[1].split("<!-- end of columns -->")[0]
    listed = re.findall(r"(?m)^\| `(\w+)` \| (yes)? ?\| (yes)? ?\| (yes)? ?\|", text)
    assert listed == [(n, *("" if use == "NO" else "yes" for use in uses)) for n, _, *uses in ROWS], listed


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

"""PyTorch's own minifier on the planted compiler bugs, beside plumb.watch: prints a Markdown table. Needs torch 2.

    tests/python/torch2 trixie -- minifier_table.py [-k NAME]

The minifier is used as its documentation says: repro_after="dynamo", level 4 for wrong results, 2 for errors, 3 for a crash, then the
launcher, then the script that it leaves. Each step is a process of its own with a limit of LIMIT seconds, backends are registered by
name, and forward only is asked for, as plumb.watch checks.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]
import planted_backends as planted  # noqa: E402
import plumb  # noqa: E402

LIMIT = 90
SHOWN = {"mul": " * ", "add": " + ", "sub": " - "}  # how fx writes them
IMPORTS = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import torch, torch._dynamo, torch._dynamo.debug_utils, planted_backends
for _b, *_ in planted_backends.BUGS:
    torch._dynamo.register_backend(_b, name=_b.__name__)
"""
START = """
torch._dynamo.debug_utils.extra_imports = IMPORTS
torch._dynamo.config.repro_after = "dynamo"
torch._dynamo.config.repro_level = {level}
torch._dynamo.config.repro_forward_only = True
torch._dynamo.config.debug_dir_root = "debug"
net, x = planted_backends.net()
with torch.no_grad():
    torch.compile(net, backend={name!r})(x)
"""


def run(folder, *command):
    """(exit code or "hangs", what it printed last)"""
    try:
        done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "hangs", ""
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1][:120]


def n_nodes(script):
    """Assignments in the forward of a repro."""
    text = Path(script).read_text()
    body = re.search(r"def forward\(.*?\n(.*?)\n\s*return ", text, re.S)
    return len(re.findall(r"^\s+\w+ = ", body[1], re.M)) if body else 0


def pytorch(name, kind, op):
    """One row of PyTorch's: (found, nodes, does its script fail)."""
    folder = Path(tempfile.mkdtemp(prefix="plumb-minifier-"))
    try:
        level = {"error": 2, "timeout": 2, "crash": 3}.get(kind, 4)
        (folder / "start.py").write_text(IMPORTS + f"IMPORTS = {IMPORTS!r}\n" + START.format(level=level, name=name))
        code, line = run(folder, "start.py")
        launchers = sorted((folder / "debug").rglob("minifier_launcher.py"))
        if not launchers:
            return {0: "no alarm"}.get(code, "hangs" if code == "hangs" else f"no launcher: {line}"), "", ""
        code, line = run(folder, str(launchers[-1]))
        script = folder / "repro.py"
        if not script.exists():
            found = sorted((folder / "debug").rglob("repro.py"))
            script = found[-1] if found else None
        if script is None or not script.exists():
            return "found", "", "the minifier hangs" if code == "hangs" else f"no repro: {line}"
        code, line = run(folder, str(script))
        named = SHOWN.get(op, op) in script.read_text().split("def forward")[-1]
        return "found", f"{n_nodes(script)}{'' if named else ', without the operation'}", {0: "no"}.get(code, str(code) if code == "hangs" else "yes")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ours(backend, kind, op, at, folder):
    """One row of plumb's, through torch.compile."""
    graphs = []

    def keep(gm, inputs, **more):
        graphs.append(planted.find(gm, op, at))
        return watched(gm, inputs, **more)
    options = {"timeout": {"timeout": 5}, "crash": {"isolate": True}}.get(kind, {})
    watched = plumb.watch(backend, 4, folder=folder, **options)
    torch._dynamo.reset()
    net, x = planted.net()
    try:
        with torch.no_grad():
            torch.compile(net, backend=keep)(x)
    except plumb.CompileError as e:
        right = e.kind == kind and graphs and e.node == graphs[0]
        return e.node if right else f"{e.kind} {e.node}, expected {kind} {graphs[:1]}", str(e.nodes), "yes" if e.verified else "no", right
    return "no alarm", "", "", False


def main():
    only = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory(prefix="plumb-test-") as folder:
        for backend, kind, op, at in planted.BUGS:
            name = backend.__name__
            if only not in name:
                continue
            mine = ours(backend, kind, op, at, folder)
            theirs = pytorch(name, kind, op) if "--ours" not in sys.argv else ("", "", "")
            wrong += not mine[3] or int(mine[1] or 9) > 2 or mine[2] != "yes"
            rows.append((name, kind, *mine[:3], *theirs))
            print("|", " | ".join(rows[-1]), "|", flush=True)
    print(f"torch {torch.__version__}: {len(rows)} bugs, {wrong} not as they should be with plumb")
    return 1 if wrong else 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    os.environ["PYTHONWARNINGS"] = "ignore"
    print("| bug | kind | plumb: node | nodes | its script fails | PyTorch: found | nodes | its script fails |\n|---|---|---|---|---|---|---|---|")
    sys.exit(main())

"""PyTorch's own minifier on the planted compiler bugs, beside plumb.watch: prints a Markdown table. Needs torch 2.

    tests/python/torch2 trixie -- minifier_table.py [-k NAME]

The minifier is used as its documentation says: repro_after="dynamo", level 4 for wrong results, 2 for errors, 3 for a crash, then the
launcher, then the script that it leaves. Each step is a child of its own with a limit of LIMIT seconds, backends are registered by
name, and forward only is asked for, as plumb.watch checks.
"""

import json
import os
import re
import runpy
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import torch
import torch._dynamo  # so that children have it
import torch._dynamo.debug_utils
import torch._dynamo.repro.after_dynamo  # noqa: F401

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]
import planted_backends as planted  # noqa: E402
import plumb  # noqa: E402

LIMIT = 240  # a busy machine
SHOWN = {"mul": " * ", "add": " + ", "sub": " - "}  # how fx writes them
IMPORTS = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import torch, torch._dynamo, torch._dynamo.debug_utils, torch._dynamo.repro.after_dynamo, planted_backends
for _b, *_ in planted_backends.BUGS:
    torch._dynamo.register_backend(_b, name=_b.__name__)
"""
START = """
torch._dynamo.debug_utils.extra_imports = torch._dynamo.repro.after_dynamo.extra_imports = IMPORTS
torch._dynamo.config.repro_after = "dynamo"
torch._dynamo.config.repro_level = {level}
torch._dynamo.config.repro_forward_only = True
torch._dynamo.config.debug_dir_root = "debug"
net, x = planted_backends.net()
with torch.no_grad():
    torch.compile(net, backend={name!r})(x)
"""


def forked(folder, work, limit):
    """(exit code, minus a signal, or "hangs"; what it printed last) of a child that has torch already: importing it takes longer than the rest."""
    log = Path(folder) / "log"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(folder)
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            work()
            code = 0
        except SystemExit as e:
            if isinstance(e.code, str):
                print(e.code, file=sys.stderr)
            code = e.code if isinstance(e.code, int) else 1 if e.code else 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            line = (log.read_text(errors="replace").strip().splitlines() or [""])[-1][:120] if log.exists() else ""
            return os.waitstatus_to_exitcode(status), line
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs", ""


def run(folder, script, kind):
    """A script, as `python3 SCRIPT` runs it."""
    def work():
        sys.argv = [str(Path(folder) / script)]
        runpy.run_path(sys.argv[0], run_name="__main__")
    return forked(folder, work, 40 if kind == "timeout" else LIMIT)


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
        code, line = run(folder, "start.py", kind)
        launchers = sorted((folder / "debug").rglob("minifier_launcher.py"))
        if not launchers:
            return {0: "no alarm"}.get(code, "hangs" if code == "hangs" else f"no launcher: {line}"), "", ""
        code, line = run(folder, launchers[-1], kind)
        script = folder / "repro.py"
        if not script.exists():
            found = sorted((folder / "debug").rglob("repro.py"))
            script = found[-1] if found else None
        if script is None or not script.exists():
            return "found", "", "the minifier hangs" if code == "hangs" else f"no repro: {line}"
        code, line = run(folder, script, kind)
        named = SHOWN.get(op, op) in script.read_text().split("def forward")[-1]
        return "found", f"{n_nodes(script)}{'' if named else ', without the operation'}", {0: "no"}.get(code, str(code) if code == "hangs" else "yes")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def watched_once(backend, kind, op, at, folder):
    """In a child: writes what plumb.watch found through torch.compile to found.json."""
    names = []
    options = {"timeout": {"timeout": 20}, "crash": {"isolate": True}}.get(kind, {})
    watched = plumb.watch(backend, 4, folder=str(folder), verify=False, **options)

    def keep(gm, inputs, **more):
        names.append(planted.find(gm, op, at))
        return watched(gm, inputs, **more)
    net, x = planted.net()
    try:
        with torch.no_grad():
            torch.compile(net, backend=keep)(x)
    except plumb.CompileError as e:
        Path("found.json").write_text(json.dumps([e.kind, e.node, e.nodes, e.repro, names[0]]))


def ours(backend, kind, op, at):
    """One row of plumb's: (node, nodes, does its script fail, is all of it right)."""
    folder = Path(tempfile.mkdtemp(prefix="plumb-minifier-"))
    try:
        forked(folder, lambda: watched_once(backend, kind, op, at, folder), 2 * LIMIT)
        if not (folder / "found.json").exists():
            return "no alarm", "", "", False
        found, node, nodes, repro, wanted = json.loads((folder / "found.json").read_text())
        code, _ = run(repro, "repro.py", kind)
        fails = code == {"timeout": "hangs", "crash": -signal.SIGSEGV}.get(kind, 1)
        right = (found, node) == (kind, wanted)
        return node if right else f"{found} {node}, expected {kind} {wanted}", str(nodes), "yes" if fails else f"no: {code}", right
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    only = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
    rows, wrong = [], 0
    for backend, kind, op, at in planted.BUGS:
        name = backend.__name__
        if only not in name:
            continue
        mine = ours(backend, kind, op, at)
        theirs = pytorch(name, kind, op) if "--ours" not in sys.argv else ("", "", "")
        wrong += not mine[3] or int(mine[1] or 9) > 2 or mine[2] != "yes"
        rows.append((name, kind, *mine[:3], *theirs))
        print("|", " | ".join(rows[-1]), "|", flush=True)
    print(f"torch {torch.__version__}: {len(rows)} bugs, {wrong} not as they should be with plumb")
    return 1 if wrong else 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONWARNINGS"] = "ignore"
    print("| bug | kind | plumb: node | nodes | its script fails | PyTorch: found | nodes | its script fails |\n|---|---|---|---|---|---|---|---|", flush=True)
    sys.exit(main())

"""examples/notebook/plumb.ipynb: its cells run, and its sessions draw themselves; by nbconvert where it is installed. Prints TAP."""

import ast
import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import Skip  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples/notebook/plumb.ipynb"
sys.path.insert(0, str(ROOT / "python"))


def cells():
    return [c for c in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]


def check(outputs):
    """outputs: a text and the HTML (or None) of each cell."""
    text = "\n".join(t for t, _ in outputs)
    html = [h for _, h in outputs if h]
    assert "Sigmoid s offset" in text and "4 nodes reduced to 1 verified: True" in text, text
    assert "model [('clamp_', 'dropped')]" in text, text
    drawn = [h for h in html if "DIVERGED" in h]
    assert len(drawn) == 2 and all("<table" in h for h in drawn), [h[:80] for h in html]
    assert "<svg" in drawn[0] and "Sigmoid" in drawn[0] and "culprit" in drawn[0]
    # h, s and y are compared (jit fuses Mul and Neg); s reads h, y reads s and h: three edges.
    assert drawn[0].count("<path ") == 3 and drawn[0].count("<rect ") == 3, drawn[0]
    assert any("dataframe" in h for h in html), "pandas did not draw its table"


def test_cells(folder):
    """As a notebook does: what a cell ends with is shown."""
    if importlib.util.find_spec("pandas") is None:
        raise Skip("pandas is not installed (tools/setup test)")
    names, outputs, before = {"__name__": "__main__"}, [], os.getcwd()
    os.chdir(folder)
    try:
        for cell in cells():
            assert not cell["outputs"], "the notebook is kept without outputs"
            outputs.append(run_cell("".join(cell["source"]), names))
    finally:
        os.chdir(before)
    check(outputs)
    return f"{len(outputs)} cells"


def run_cell(source, names):
    import linecache
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    file = f"<cell {len(linecache.cache)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(tree, file, "exec"), names)
        shown = None if last is None else eval(compile(ast.Expression(last.value), file, "eval"), names)
    return printed.getvalue(), shown._repr_html_() if hasattr(shown, "_repr_html_") else None


def test_nbconvert(folder):
    if importlib.util.find_spec("nbconvert") is None or importlib.util.find_spec("ipykernel") is None:
        raise Skip("nbconvert or ipykernel is not installed (tools/setup test)")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "HOME": str(folder), "JUPYTER_DATA_DIR": str(folder / "data"),
           "IPYTHONDIR": str(folder / "ipython"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", str(folder),
                           "--output", "done.ipynb", str(NOTEBOOK)], capture_output=True, text=True, env=env, cwd=folder, timeout=600)
    assert done.returncode == 0, done.stderr[-1500:]
    outputs = []
    for cell in json.loads((folder / "done.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        text = "".join("".join(o.get("text", "")) for o in cell["outputs"] if o["output_type"] == "stream")
        html = ["".join(o["data"]["text/html"]) for o in cell["outputs"] if "text/html" in o.get("data", {})]
        outputs.append((text, html[0] if html else None))
    check(outputs)
    return f"{len(outputs)} cells"


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

"""The table of exporter_traps.py is true, recordings name the calls that the exporter lost, and analyze accuses the right party. Prints TAP.

Truth is torch's own output against the exported model on ONNX Runtime and on plumb's interpreter: where both differ from torch
the model is wrong, where ONNX Runtime alone does, the runtime."""

import json
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import onnx
import torch

sys.dont_write_bytecode = True
from test_pytorch_side import main, record, run  # noqa: E402
from torch_versions import TORCH2  # noqa: E402
from exporter_traps import TRAPS  # noqa: E402
from tap import Skip  # noqa: E402

PLUMB = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
WRONG = 1e-4  # of the largest element; fp32 rounding of these modules stays below 1e-6


def outputs(trap):
    torch.manual_seed(1)
    net, inputs = trap.make().eval(), trap.inputs()
    with torch.no_grad():
        made = net(*inputs)
    return [t.numpy() for t in (made if isinstance(made, tuple) else (made,))]


def worst(got, want):
    if got.shape != want.shape:
        return np.inf
    return float(np.abs(got.astype(np.float64) - want).max() / max(np.abs(want).max(), 1e-9))


def recorded(folder, trap):
    """As record() does, with the seed of the table."""
    torch.manual_seed(1)
    net, inputs = trap.make().eval(), trap.inputs()
    traced = trap.trace() if trap.trace else None
    return record(folder, net, inputs, trap.name, export_inputs=traced, **trap.options)


def fault(folder, trap, result):
    graph = onnx.load(result.onnx_path).graph
    inputs = [f"--input={i.name}={result.path}" for i in graph.input]
    wrong = {}
    for backend in ("eager", "ort"):
        out = folder / f"{trap.name}-{backend}.npz"
        run("run", result.onnx_path, *inputs, "--backend", backend, "-o", out)
        got = np.load(out)
        wrong[backend] = max(worst(got[o.name], y) for o, y in zip(graph.output, outputs(trap))) > WRONG
    return {(False, False): "none", (True, True): "model", (False, True): "runtime"}.get(
        (wrong["eager"], wrong["ort"]), "plumb's interpreter")


def test_table_is_true(folder):
    if TORCH2:
        raise Skip("the table is that of torch 1.13's exporter")
    bad, counts = [], {}
    for trap in TRAPS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result, file = recorded(folder, trap)
        found = fault(folder, trap, result)
        counts[found] = counts.get(found, 0) + 1
        if found != trap.at_fault:
            bad.append(f"{trap.name}: {found} is at fault, the table says {trap.at_fault}")
        rows = [(r["status"], r.get("line")) for r in result.lost_calls]
        if trap.lost and (trap.lost, trap.line()) not in rows:
            bad.append(f"{trap.name}: no {trap.lost} call at line {trap.line()}: {rows}")
        if not trap.lost and rows:
            bad.append(f"{trap.name}: nothing is lost, found {rows}")
        lines = {r["torch"].get("line") for r in file.values} | {line for _, line in rows}
        if trap.line() is not None and trap.line() not in lines:
            bad.append(f"{trap.name}: neither a record nor a lost call has line {trap.line()}")
    assert len(TRAPS) >= 40 and not bad, "; ".join(bad)
    return f"{len(TRAPS)} modules: " + ", ".join(f"{k} {n}" for k, n in sorted(counts.items()))


def test_dropped_calls_say_what_they_affect(folder):
    """For each dropped call the nearest values of the graph that should have been other ones."""
    if TORCH2:
        raise Skip("the table is that of torch 1.13's exporter")
    for trap in (t for t in TRAPS if t.lost == "dropped"):
        result, _ = recorded(folder, trap)
        rows = [r for r in result.lost_calls if r["status"] == "dropped"]
        assert len(rows) == 1 and rows[0]["in_place"] and not rows[0]["no_effect"], (trap.name, rows)
        outputs_of = [o.name for o in onnx.load(result.onnx_path).graph.output]
        assert rows[0]["affects"] and set(rows[0]["affects"]) <= set(result.mapped), (trap.name, rows)
        assert trap.name == "AliasReadLater" or rows[0]["affects"] == outputs_of, (trap.name, rows)


def analyzed(folder, trap, result):
    """what `plumb analyze --reference run.safetensors` says: the document and its text"""
    done = subprocess.run([PLUMB, "analyze", result.onnx_path, "--backend", "ort", "--reference", result.path, "--skip-search", "--json", "-o",
                           folder / f"{trap.name}-session"], capture_output=True, text=True, check=False)
    assert done.stdout, (trap.name, done.returncode, done.stderr[-400:])
    return done.returncode, json.loads(done.stdout)


def lines_named(document):
    """lines of exporter_traps.py in the reason and in the value that diverges first"""
    texts = [document["reason"]] + [p.get("source") or "" for p in document["sync_points"] if p["value"] == document["first_divergence"]]
    return {int(n) for t in texts for n in re.findall(r"exporter_traps\.py:(\d+)", t)}


def wrong_verdict(folder, trap):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, _ = recorded(folder, trap)
    code, document = analyzed(folder, trap, result)
    if document["at_fault"] != trap.at_fault or code != (trap.at_fault != "none"):
        return f"{trap.name}: at fault {document['at_fault']}, exit {code}; expected {trap.at_fault}: {document['reason'][:200]}"
    if trap.at_fault != "none" and trap.line() is not None and trap.line() not in lines_named(document):
        return f"{trap.name}: line {trap.line()} is not named ({lines_named(document)}): {document['reason'][:300]}"
    return None


def wrong_by_measurement(folder, trap, counts):
    """Torch 2's exporter loses other calls: who is wrong is measured, not looked up. None = the verdict is right."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result, _ = recorded(folder, trap)
    except Exception as e:  # noqa: BLE001 - torch refuses to export it, or plumb to record it: no verdict at all
        counts["not exported"] = counts.get("not exported", 0) + 1
        return f"{trap.name}: {type(e).__name__}: {str(e)[:200]}" if "plumb" in type(e).__module__ else None
    truth = fault(folder, trap, result)
    counts[truth] = counts.get(truth, 0) + 1
    code, document = analyzed(folder, trap, result)
    if document["at_fault"] != truth or code != (truth != "none"):
        return f"{trap.name}: at fault {document['at_fault']}, exit {code}; measured {truth}: {document['reason'][:200]}"
    if truth == trap.at_fault != "none" and trap.line() is not None and trap.line() not in lines_named(document):
        return f"{trap.name}: line {trap.line()} is not named ({lines_named(document)}): {document['reason'][:300]}"
    return None


def test_verdict_by_measurement(folder):
    """The same modules with torch 2 (tests/python/torch2 trixie exporter_traps); with torch 1.13 test_verdict has the table."""
    if not TORCH2:
        raise Skip("torch 1.13 has a table")
    counts = {}
    bad = [why for why in (wrong_by_measurement(folder, t, counts) for t in TRAPS) if why]
    told = ", ".join(f"{k} {n}" for k, n in sorted(counts.items()))
    assert not bad, f"{told}\n" + "\n".join(bad)
    assert sum(n for k, n in counts.items() if k != "not exported") >= 40, told
    return f"{len(TRAPS)} modules: {told}"


def test_verdict(folder):
    """The right party is accused, and the PyTorch line is the right one; a part of the modules without --full."""
    if TORCH2:
        raise Skip("the table is that of torch 1.13's exporter")
    traps = TRAPS if "--full" in sys.argv else TRAPS[::5]
    bad = [why for why in (wrong_verdict(folder, t) for t in traps) if why]
    assert not bad, "\n".join(bad)
    return f"{len(traps)} of {len(TRAPS)} modules"


if __name__ == "__main__":
    sys.exit(main(globals()))

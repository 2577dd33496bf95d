"""The gradient cases of ../shared/conformance/onnx-grad-open: `plumb convert --backward=joint`, then `plumb run` of the
result on eager, against what PyTorch found in float64. Prints TAP.

A case is a model, its inputs, one incoming gradient for each output and the gradient of each float input. The joint
graph's inputs are the model's, then d_NAME for each float output; its outputs are the model's, then d_NAME for each
float input. Tolerance: 1e-9 + 1e-7 |wanted|, of the README of the cases.
Other folders of the same kind: PLUMB_GRAD_CASES=DIR; another backend: PLUMB_GRAD_BACKEND=SPEC. `-k TEXT` picks cases, `-v` tells how far off each is."""

import os
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
ROOT = Path(__file__).resolve().parent.parent.parent
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
BACKEND = os.environ.get("PLUMB_GRAD_BACKEND", "eager")
ABSOLUTE, RELATIVE = 1e-9, 1e-7
DTYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """Protobuf fields: number, value (int or bytes)."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
        else:
            n = {1: 8, 5: 4}[key & 7]
            value, at = data[at:at + n], at + n
        yield key >> 3, value


def read_tensor(path):
    """A TensorProto with raw_data or double_data."""
    dims, dtype, raw, doubles = [], 0, None, []
    for number, value in fields(Path(path).read_bytes()):
        if number == 1 and isinstance(value, int):
            dims.append(value)
        elif number == 1:
            at = 0
            while at < len(value):
                d, at = varint(value, at)
                dims.append(d)
        elif number == 2:
            dtype = value
        elif number == 9:
            raw = value
        elif number == 10:
            doubles += struct.unpack(f"<{len(value) // 8}d", value)
    data = np.frombuffer(raw, DTYPES[dtype]) if raw is not None else np.array(doubles, DTYPES[dtype])
    return data.reshape(dims)


def names_of(model):
    """Names of the graph's inputs and outputs in order, initializers apart."""
    graph = next(v for n, v in fields(Path(model).read_bytes()) if n == 7)
    text = {}
    for number, value in fields(graph):
        if number in (11, 12):
            text.setdefault(number, []).append(next(v for n, v in fields(value) if n == 1).decode())
    return text.get(11, []), text.get(12, [])


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(c) for c in command[1:3])}: exit {done.returncode}: {done.stderr.strip()[-400:]}")


def numbered(folder, kind):
    found = {}
    for path in folder.glob(f"{kind}_*.pb"):
        found[int(path.stem.split("_")[1])] = path
    return found


def check(case):
    """How far off the worst element is, in units of the tolerance, and where."""
    data = case / "test_data_set_0"
    inputs, outputs = names_of(case / "model.onnx")
    with tempfile.TemporaryDirectory() as tmp:
        joint, out = Path(tmp, "joint.onnx"), Path(tmp, "out.npz")
        run(PLUMB, "convert", case / "model.onnx", joint, "--backward=joint")
        command = [PLUMB, "run", joint, "-o", out, "--backend", BACKEND]
        for i, path in numbered(data, "input").items():
            command += ["-i", f"{inputs[i]}={path}"]
        for i, path in numbered(data, "cotangent").items():
            command += ["-i", f"d_{outputs[i]}={path}"]
        run(*command)
        got = dict(np.load(out))
    wanted = {outputs[i]: path for i, path in numbered(data, "output").items()}
    wanted |= {f"d_{inputs[i]}": path for i, path in numbered(data, "grad").items()}
    worst, where = 0.0, ""
    for name, path in wanted.items():
        want = read_tensor(path)
        if name not in got:
            raise RuntimeError(f"the joint graph has no output {name}")
        if got[name].shape != want.shape:
            raise RuntimeError(f"{name} has shape {got[name].shape}, expected {want.shape}")
        if want.size == 0:
            continue
        if want.dtype.kind != "f":
            off = np.where(got[name] == want, 0.0, np.inf)
        else:
            off = np.abs(got[name].astype("f8") - want) / (ABSOLUTE + RELATIVE * np.abs(want))
            off = np.where(np.isnan(off), np.inf, off)
            off = np.where(np.isnan(want) & np.isnan(got[name]), 0.0, off)
        if off.max() > worst:
            worst, where = float(off.max()), name
    return worst, where


def cases_dir():
    given = os.environ.get("PLUMB_GRAD_CASES")
    if given:
        return Path(given)
    archive = ROOT.parent / "shared/conformance/onnx-grad-open.tar.zst"
    if not archive.exists():
        return None
    import test_tools  # the runner unpacks it once
    return test_tools.RUN.unpack(archive)


def main():
    args = sys.argv[1:]
    text = args[args.index("-k") + 1] if "-k" in args else ""
    folder = cases_dir()
    if folder is None:
        print("1..1\nok 1 - gradients # SKIP ../shared/conformance is not beside this clone")
        return 0
    cases = sorted(p.parent for p in folder.glob("*/model.onnx") if text in p.parent.name)

    def attempt(case):
        try:
            return check(case)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as e:
            return None, str(e)

    failed = 0
    print(f"1..{len(cases)}")
    with ThreadPoolExecutor(2) as pool:
        for i, (case, (worst, where)) in enumerate(zip(cases, pool.map(attempt, cases)), 1):
            good = worst is not None and worst <= 1
            failed += not good
            print(f"{'ok' if good else 'not ok'} {i} - {case.name}")
            if worst is None:
                print(f"# {where}")
            elif not good or "-v" in args:
                print(f"# {where}: {worst:.3g} of the tolerance")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())

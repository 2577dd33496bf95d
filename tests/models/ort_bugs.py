#!/usr/bin/python3
"""Run the graphs on which released versions of ONNX Runtime compute wrong values, on each version and level, through plumb.

Usage: tests/models/ort_bugs.py [--plumb FILE] [--data DIR] [--versions V,V] [--check] [NAME...]

Data: ort-bugs-open of ../shared/conformance (or --data), one folder per case with model.onnx, test_data_set_0 and INFO.txt.
Versions: those that tools/fetch-ort has fetched. Prints a table of max |ort - eager| per version and level 0/1/2/99: "ok", the
difference, "n of N" for integers, "shape", or "error". --check compares with what INFO.txt says was measured and exits 1 where
plumb finds something else. `eager` itself is compared with the expected output first.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, numpy_helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LEVELS = ("off", "basic", "extended", "all")


def read_pb(path):
    tensor = TensorProto()
    with open(path, "rb") as f:
        tensor.ParseFromString(f.read())
    return numpy_helper.to_array(tensor)


def run(plumb, backend, case, out):
    """(arrays of the outputs in order, None) or (None, message)."""
    data = os.path.join(case, "test_data_set_0")
    command = [plumb, "run", os.path.join(case, "model.onnx"), "--inputs", data, "--json", "-o", out, "--timeout", "60"]
    done = subprocess.run(command + (["--backend", backend] if backend else []), text=True, capture_output=True)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    arrays = []
    for entry in json.loads(done.stdout)["outputs"]:
        file = entry["file"] if os.path.exists(entry["file"]) else os.path.join(out, entry["file"])
        arrays.append(np.load(file))
    return arrays, None


def differ(got, want):
    """"ok", or how two lists of arrays differ."""
    for a, b in zip(got, want):
        if a.shape != b.shape:
            return f"shape {list(a.shape)}"
        if b.dtype.kind in "biu":
            n = np.count_nonzero(a != b)
            if n and b.dtype.kind == "b":
                return f"{n} of {b.size}"
            if n:
                return f"{np.abs(a.astype(np.int64) - b.astype(np.int64)).max():g}"
            continue
        with np.errstate(invalid="ignore"):
            far = np.abs(a.astype(np.float64) - b.astype(np.float64))
        far[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
        if not np.all(far <= 1e-5 + 1e-3 * np.abs(np.where(np.isfinite(b), b, 0))):
            return f"{np.nan_to_num(far, nan=np.inf, posinf=np.inf).max():.3g}"
    return "ok"


def measured(case):
    """{version: [kind per level]} of INFO.txt; kinds are ok, BAD, SHAPE, ERR."""
    with open(os.path.join(case, "INFO.txt"), encoding="utf-8") as f:
        text = f.read()
    table = {}
    for version, cells in re.findall(r"^  (1\.\d+\.\d+): (\S+)$", text, re.M):
        table[version] = [re.match("[A-Za-z]+", cell).group() for cell in cells.split("/")]
    return table


def kind(cell):
    return "ok" if cell == "ok" else "ERR" if cell == "error" else "SHAPE" if cell.startswith("shape") else "BAD"


def check_case(args, name, versions, tmp):
    """Prints the rows of a case; returns the number of cells that are not as INFO.txt says."""
    case, wrong = os.path.join(args.data, name), 0
    data = os.path.join(case, "test_data_set_0")
    expected = [read_pb(os.path.join(data, f)) for f in sorted(os.listdir(data)) if f.startswith("output_")]
    eager, why = run(args.plumb, None, case, os.path.join(tmp, name))
    verdict = why if eager is None else differ(eager, expected)
    print(f"{name}: eager against the expected values: {verdict}")
    if eager is None:
        return 1
    wrong += verdict != "ok"
    info, messages = measured(case), set()
    for version, lib in versions:
        cells = []
        for level in LEVELS:
            backend = f"ort:opt={level},threads=1,lib={lib}"
            got, why = run(args.plumb, backend, case, os.path.join(tmp, f"{name}-{version}-{level}"))
            if why and "returned output" in why:
                cells.append("shape")
            else:
                cells.append("error" if got is None else differ(got, eager))
            if why:
                messages.add(why)
        odd = version in info and [kind(c) for c in cells] != info[version]
        wrong += odd
        print(f"  {version:7} " + " ".join(f"{c:12}" for c in cells) + (f"  INFO.txt: {'/'.join(info[version])}" if odd else ""))
    for message in sorted(messages):
        print(f"    {message[:300]}")
    return wrong


def fetched(wanted=None):
    """(version, library) of those that are there, oldest first."""
    cache = os.path.join(ROOT, ".cache")
    found = [d[4:] for d in os.listdir(cache) if re.fullmatch(r"ort-1\.\d+\.\d+", d)] if os.path.isdir(cache) else []
    found.sort(key=lambda v: [int(part) for part in v.split(".")])
    libs = [(v, os.path.join(cache, "ort-" + v, "libonnxruntime.so.1")) for v in found if wanted is None or v in wanted]
    return [(v, lib) for v, lib in libs if os.path.exists(lib)]


def cases(data):
    return sorted(n for n in os.listdir(data) if os.path.isdir(os.path.join(data, n)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plumb", default=os.path.join(ROOT, "build", "plumb"))
    parser.add_argument("--data", default=os.path.join(ROOT, ".cache", "conformance", "ort-bugs-open"))
    parser.add_argument("--versions")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    versions = fetched(args.versions.split(",") if args.versions else None)
    names = args.names or cases(args.data)
    wrong = 0
    print("case: version, then levels off basic extended all")
    with tempfile.TemporaryDirectory() as tmp:
        for name in names:
            wrong += check_case(args, name, versions, tmp)
    print(f"{wrong} not as measured before")
    return 1 if args.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())

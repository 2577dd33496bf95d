#!/usr/bin/python3
"""Real defects of released ONNX Runtime versions (../shared/conformance/ort-bugs-open.tar.zst): on the versions and levels that
are wrong `plumb analyze` names the right node or fused group and --bisect the optimiser; on the others it says agree. TAP.
Without --full only the first and the last level that differ, per version. Versions come from tools/fetch-ort; absent ones are skipped."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
DATA = ROOT.parent / "shared/conformance/ort-bugs-open.tar.zst"
LEVELS = ("off", "basic", "extended", "all")
FULL = "--full" in sys.argv
# case: operators of which one must be named (with its group), optimisers of which one must be found (1.18 and later can tell;
# none where it is wrong without optimisation)
RIGHT = {
    "12498": (("Conv", "Add"), ()),
    "22177": (("Pad", "AveragePool"), ("Pad_Fusion",)),
    "24158": (("Relu", "Clip"), ("FuseReluClip",)),
    "24681": (("AveragePool",), ()),
    "27455": (("Add", "LayerNormalization"), ("SkipLayerNormFusion",)),
    "28089": (("Cast",), ()),
    "28448": (("Resize", "QuantizeLinear", "DequantizeLinear"), ("QDQSelectorActionTransformer", "QDQPropagationTransformer")),
    "31980": (("Mul", "Div", "ReduceMean", "Pow"), ("SimplifiedLayerNormFusion",)),
    "32228": (("MatMul", "Gemm", "Transpose", "Add"), ("GemmTransposeFusion", "MatMulAddFusion")),
    "8787": (("Cast",), ()),
}


def library(version):
    return ROOT / f".cache/ort-{version}/libonnxruntime.so.1"


def read_cases(folder):
    """(case folder, version, level, ok | BAD… | SHAPE | ERR)"""
    for case in sorted(p for p in Path(folder).glob("*/*") if p.is_dir() and (p / "INFO.txt").exists()):
        for m in re.finditer(r"^\s+(\d+\.\d+\.\d+): (\S+)$", (case / "INFO.txt").read_text(), re.M):
            states = m[2].split("/")
            for i, state in enumerate(states):
                edge = i in (0, len(states) - 1) or (state == "ok") != (states[i - 1] == "ok")
                if FULL or edge:
                    yield case, m[1], LEVELS[i], state


def judge(case, version, level, state):
    """None, or what is wrong."""
    number = case.name.split("-")[0]
    ops, passes = RIGHT[number]
    bisect = state != "ok" and level == "all"
    with tempfile.TemporaryDirectory() as tmp:
        done = subprocess.run([PLUMB, "analyze", str(case / "model.onnx"), "--inputs", str(case / "test_data_set_0"), "--backend",
                               f"ort:opt={level},lib={library(version)}", "--json", "--save", "none", "-o", f"{tmp}/s",
                               *(["--bisect"] if bisect else [])], capture_output=True, text=True, timeout=300)
    expected = 0 if state == "ok" else 3 if state.startswith("ERR") else 1
    if done.returncode != expected:
        return f"exit {done.returncode}, expected {expected}: {done.stderr.strip() or json.loads(done.stdout)['reason']}"
    got = json.loads(done.stdout)
    if state == "ok":
        return None if got["verdict"] == "agree" and not got["blame"] else f"verdict {got['verdict']}, {len(got['blame'])} blamed"
    if len(got["blame"]) != 1:
        return f"{len(got['blame'])} groups are blamed: {[b['op'] for b in got['blame']]}"
    if got["blame"][0]["op"] not in ops:
        return f"{got['blame'][0]['op']} is blamed, expected one of {ops}"
    can = tuple(map(int, version.split("."))) >= (1, 18, 0)
    if bisect and passes and can and got["bisect"]["pass"] not in passes:
        return f"bisect found '{got['bisect']['pass']}', expected one of {passes}"
    return None


def main():
    if not DATA.exists():
        print("1..1\nok 1 - ort bugs # SKIP ../shared/conformance/ort-bugs-open.tar.zst is not there")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as tmp, concurrent.futures.ThreadPoolExecutor(2) as pool:
        subprocess.run(["tar", "--zstd", "-xf", str(DATA), "-C", tmp], check=True)
        cases = list(read_cases(tmp))
        jobs = [pool.submit(judge, *c) if library(c[1]).exists() else None for c in cases]
        print(f"1..{len(cases)}")
        for i, ((case, version, level, state), job) in enumerate(zip(cases, jobs), 1):
            name = f"{case.name} {version} {level} {state.split('(')[0]}"
            why = job.result() if job else None
            failed += why is not None
            if job is None:
                print(f"ok {i} - {name} # SKIP version {version} is not in .cache (tools/fetch-ort {version})")
            else:
                print(f"{'not ' if why else ''}ok {i} - {name}" + (f"\n# {why}" if why else ""), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a situation of test_green_audit.py is, and the ways in which an answer reaches plumb."""

import json
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List

import numpy as np
import onnx

from green_models import write_npy, write_npz, write_safetensors, write_set


@dataclass
class Situation:
    name: str
    make: Callable[[Path], List[str]]   # writes its files into the folder and returns plumb's arguments
    red: bool = True
    generated: bool = True
    codes: tuple = ()                   # allowed exit codes; () = 1, 2, 3 when red, 0 when clean
    told: bool = False                  # a dump may agree in another type or layout, when the verdict itself says so

    def judge(self, done):
        """What is wrong with the answer; None when nothing is."""
        words = f"exit {done.returncode}: {(done.stdout[-300:] + done.stderr[-400:]).strip()}"
        if self.told and done.returncode == 0:
            return None if any(w in done.stdout.split("\n")[0] for w in ("in another type", "in another layout")) else f"not told: {words}"
        allowed = self.codes or ((1, 2, 3) if self.red else (0,))
        if done.returncode not in allowed:
            return words
        if self.red and claims_green(done.stdout):
            return f"the document is green: {words}"
        return None


def claims_green(text):
    """JSON or JUnit that says nothing is wrong"""
    if text.lstrip().startswith("{"):
        try:
            document = json.loads(text)
        except ValueError:
            return False
        return document.get("verdict") == "agree" or document.get("status") == "pass"
    return text.lstrip().startswith("<?xml") and 'failures="0" errors="0"' in text


# ---- files ----

def save_model(folder, model):
    onnx.save(model.onnx, str(folder / "model.onnx"))
    return "model.onnx"


def save_inputs(folder, model, sample=0, name="in"):
    write_set(folder / name, model, model.samples[sample], {})
    return name


ENGINE = """#!/bin/sh
# Knows its answers by the inputs.
for d in "{here}"/known/*; do
    if cmp -s "$d/key" "$1/test_data_set_0/input_0.pb"; then cp "$d"/output_*.pb "$1/test_data_set_0/"; exit 0; fi
done
cp "{here}"/known/0/output_*.pb "$1/test_data_set_0/"
"""


def engine(folder, model, answers, name="engine"):
    """A runtime whose answers to sample 0, 1, … are given: --backend cmd:… Inputs it does not know get the first."""
    here = folder / name
    for k, outputs in enumerate(answers):
        write_set(here / "known" / str(k), model, model.samples[k], outputs)
        (here / "known" / str(k) / "key").write_bytes((here / "known" / str(k) / "input_0.pb").read_bytes())
    program = here / "run"
    program.write_text(ENGINE.format(here=here))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"cmd:{program}"


def recording(folder, name, values, kind):
    if kind == "safetensors":
        return write_safetensors(folder / f"{name}.safetensors", values)
    if kind == "npz":
        return write_npz(folder / f"{name}.npz", values)
    return write_npy(folder / name, values)


def storable(values):
    """what npz and safetensors can hold"""
    return {k: v for k, v in values.items() if v.dtype != object}


# ---- commands that look at a runtime's answers ----

def with_engine(model, wrong, command, sample=0):
    """`wrong`: the outputs that the runtime gives (dict)"""
    def make(folder):
        spec, path, given = engine(folder, model, [wrong] if sample == 0 else [model.answers(0), wrong]), save_model(folder, model), save_inputs(folder, model, sample)
        return command(folder, model, path, given, spec)
    return make


def accuracy(*more):
    return lambda folder, model, path, given, spec: ["run", path, "--inputs", given, "--accuracy", "--backend", spec, *more]


def analyze(*more):
    return lambda folder, model, path, given, spec: ["analyze", path, "--inputs", given, "--backend", spec, "--skip-search", "-o", "session", *more]


def query(*more):
    return lambda folder, model, path, given, spec: ["minify", path, "--inputs", given, "--backend", spec, "--query", "--accuracy", *more]


def suite(folder, model, path, given, spec):
    """plumb test: the expected outputs are right, the backend is not"""
    (folder / "case").mkdir()
    (folder / path).rename(folder / "case" / "model.onnx")
    write_set(folder / "case" / "test_data_set_0", model, model.samples[0], model.answers(0))
    return ["test", "case", "--backend", spec]


def expected_wrong(model, wrong, backend="eager"):
    """plumb test: the backend is right, what is expected is not"""
    def make(folder):
        (folder / "case").mkdir()
        onnx.save(model.onnx, str(folder / "case" / "model.onnx"))
        write_set(folder / "case" / "test_data_set_0", model, model.samples[0], wrong)
        return ["test", "case", "--backend", backend]
    return make


def two_recordings(a, b, kind_a="npz", kind_b="npz", more=()):
    def make(folder):
        return ["compare", recording(folder, "a", storable(a), kind_a), recording(folder, "b", storable(b), kind_b), "--no-session", *more]
    return make


def recording_and_model(model, values, kind="npz", more=(), swap=False):
    def make(folder):
        sides = [recording(folder, "a", storable(values), kind), save_model(folder, model)]
        return ["compare", *(reversed(sides) if swap else sides), "--no-session", *more]
    return make


def truth(model, values, command, backend="ort", more=()):
    """a recording is the reference of a real runtime"""
    def make(folder):
        path, file = save_model(folder, model), recording(folder, "truth", storable(values), "safetensors")
        rest = ["-o", "session"] if command == "analyze" else ["--accuracy"]
        return [command, path, "--backend", backend, "--reference", file, *rest, *more]
    return make


def noise(value, seed, ulps=1):
    """the answer as another correct runtime may give it"""
    if value.dtype.kind != "f" or value.size == 0:
        return value
    r = np.random.RandomState(seed)
    up = np.nextafter(value, np.where(r.rand(*value.shape) < 0.5, -np.inf, np.inf).astype(value.dtype))
    return np.where(np.isfinite(value) & (r.rand(*value.shape) < 0.5), up, value).astype(value.dtype)

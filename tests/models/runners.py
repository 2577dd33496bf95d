"""Runs one model on ONNX Runtime (tests/models/ort_run.c) or on plumb, each in a process of its own; both print the same JSON."""
import json
import os
import platform
import subprocess

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ORT_VERSION = "1.27.0"
ORT_ARCH = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
ORT_LIB = os.path.join(ROOT, ".cache", "ort-" + ORT_VERSION, "package", "bin", "napi-v6", "linux", ORT_ARCH, "libonnxruntime.so.1")
ORT_RUN = os.path.join(ROOT, ".cache", "ort_run")


# The CPU that the oracle sees: PLUMB_TEST_CPU=Haswell is one without VNNI, in qemu.
EMULATOR = ["qemu-x86_64", "-cpu", os.environ["PLUMB_TEST_CPU"]] if os.environ.get("PLUMB_TEST_CPU") else []


def clips_products():
    """Does ONNX Runtime clip pairs of u8 x s8 products at 16 bits here? So do x86 CPUs without VNNI; no CPU of qemu 7.2 has it."""
    if platform.machine() != "x86_64":
        return False
    with open("/proc/cpuinfo") as f:
        flags = next((line.split() for line in f if line.startswith("flags")), [])
    return bool(EMULATOR) or not {"avx512_vnni", "avx_vnni"} & set(flags)


class Failed(Exception):
    """A run that did not end in a result; the text says why."""


def ort_prepare():
    """Compile ort_run if its source is newer; raise Failed if the oracle cannot be had."""
    if not os.path.exists(ORT_LIB):
        raise Failed(f"no ONNX Runtime: {os.path.relpath(ORT_LIB, ROOT)} is missing (tools/setup fetches it)")
    source = os.path.join(HERE, "ort_run.c")
    if os.path.exists(ORT_RUN) and os.path.getmtime(ORT_RUN) > os.path.getmtime(source):
        return
    part = f"{ORT_RUN}.{os.getpid()}"
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", source, "-o", part, "-ldl"]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode:
        raise Failed("cannot compile ort_run.c: " + done.stderr.strip())
    os.replace(part, ORT_RUN)


def execute(command, timeout=600):
    """Run a command that prints one JSON document; return it."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, timeout=timeout)
    except FileNotFoundError:
        raise Failed(f"{command[0]} does not exist")
    except subprocess.TimeoutExpired:
        raise Failed(f"no result within {timeout} s: {' '.join(command[:3])}")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["nothing on stderr"]
        end = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
        raise Failed(f"{os.path.basename(command[0])}: {end}: {lines[-1]}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as e:
        raise Failed(f"{os.path.basename(command[0])}: stdout is not JSON: {e}")


def _input_args(files):
    return [part for name, file in files.items() for part in ("--input", f"{name}={file}")]


def ort(model, files, out=None, opt=0, threads=1, repeat=1):
    command = [*EMULATOR, ORT_RUN, ORT_LIB, model, "--opt", str(opt), "--threads", str(threads), "--repeat", str(repeat)]
    return execute(command + _input_args(files) + (["-o", out] if out else []))


def plumb(program, model, files, out=None, fp64=False, threads=1, repeat=1, backend="eager"):
    command = [program, "run", model, "--json", "--threads", str(threads), "--backend", backend] + _input_args(files)
    command += ["--repeat", str(repeat)] if repeat > 1 else []
    return execute(command + (["--fp64"] if fp64 else []) + (["-o", out] if out else []))


def save_inputs(folder, arrays):
    """Write the arrays as npy; return {input name: file}. Files are numbered, since a name may be anything."""
    os.makedirs(folder, exist_ok=True)
    files = {}
    for i, (name, array) in enumerate(arrays.items()):
        files[name] = os.path.join(folder, f"input_{i}.npy")
        np.save(files[name], array)
    return files


def load_outputs(report, folder):
    """{output name: array} of a run that wrote its outputs into the folder."""
    arrays = {}
    for entry in report.get("outputs", []):
        file = entry["file"]
        file = file if os.path.exists(file) else os.path.join(folder, file)
        arrays[entry["name"]] = np.load(file)
    return arrays

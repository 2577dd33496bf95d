#!/usr/bin/python3
"""jit against ONNX Runtime at full optimisation: models and single kernels on 16 MB, interleaved, best of all rounds.

Usage: bench/jit/run.py [--threads N] [--rounds N] [--wall] [--load] [--avx2] [NAME...]

Builds bench_backend.c against build/libplumb.a. With one thread CPU time is measured (other work on the machine moves
wall time by a factor; CPU time by a few percent), with more or --wall the wall clock. ratio = jit / ort: below 1 jit is faster.
--load: instead of running them, how long models take to be ready (compile and first run, less a run): ORT's session, jit from
its cache, and jit with the C compiler (always the wall clock: the compiler is another process).
--avx2: both as on a CPU without AVX-512: PLUMB_CPU=avx2 for plumb, and a copy of ONNX Runtime that asks tests/cpu/hide_avx512.c what the CPU is.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "models"))
sys.path.insert(0, os.path.join(ROOT, "tests", "cpu"))
from hidden import build_answer, copy_without_cpuid  # noqa: E402
from runners import ORT_LIB, ORT_RUN, execute, ort_prepare  # noqa: E402

TORCH = os.path.join(ROOT, ".cache", "models", "torch")
MODELS = {"resnet18": 8, "mobilenet_v3_small": 40, "efficientnet_b0": 10, "vit_b_16": 2, "encoder": 1000}  # name: runs a round
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
WIDE = "float[4096,1024]"
KERNELS = {
    "relu": f"g ({WIDE} x) => ({WIDE} y) {{ y = Relu(x) }}",
    "softmax": f"g ({WIDE} x) => ({WIDE} y) {{ y = Softmax(x) }}",
    "silu": f"g ({WIDE} x) => ({WIDE} y) {{ s = Sigmoid(x) y = Mul(x, s) }}",
    "gelu": f"g ({WIDE} x) => ({WIDE} y) <float r = {{1.4142135}}, float one = {{1}}, float half = {{0.5}}> "
            "{ d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }",
    "layernorm": f"g ({WIDE} x, float[1024] s, float[1024] b) => ({WIDE} y) {{ y = LayerNormalization(x, s, b) }}",
    "mish": f"g ({WIDE} x) => ({WIDE} y) {{ s = Softplus(x) t = Tanh(s) y = Mul(x, t) }}",
    "rope": "g (float[4096,16,64] x, float[4096,1,64] c, float[4096,1,64] s) => (float[4096,16,64] y) <int64[2] half = {32,32}> "
            "{ a, b = Split<axis=2>(x, half) n = Neg(b) r = Concat<axis=2>(n, a) p = Mul(x, c) q = Mul(r, s) y = Add(p, q) }",
    # 20 operations. chain: the mix of the reference (2 exp, 3 divisions, 1 root, the rest cheap); chain-heavy has a Tanh more.
    "chain": f"g ({WIDE} x, {WIDE} z) => ({WIDE} y) <float one = {{1}}, float half = {{0.5}}, float two = {{2}}> "
             "{ a = Add(x, z) b = Mul(a, x) c = Sigmoid(b) d = Sub(c, half) e = Abs(d) f = Add(e, one) g1 = Sqrt(f) h = Div(a, g1) "
             "i = Min(h, two) j = Mul(i, two) k = Add(j, x) l = Max(k, z) m = Neg(l) n = Exp(m) o = Add(n, one) p = Div(l, o) "
             "q = Mul(p, half) r = Sub(q, z) t = Relu(r) y = Add(t, x) }",
    "chain-mish": f"g ({WIDE} x, {WIDE} z) => ({WIDE} y) <float one = {{1}}, float half = {{0.5}}, float two = {{2}}> "
             "{ a = Add(x, z) b = Softplus(a) c = Tanh(b) d = Mul(a, c) e = Abs(d) f = Add(e, one) g1 = Sqrt(f) h = Div(a, g1) "
             "i = Min(h, two) j = Mul(i, two) k = Add(j, x) l = Max(k, z) m = Neg(l) n = Sigmoid(m) o = Mul(n, l) p = Div(o, f) "
             "q = Mul(p, half) r = Sub(q, z) t = Relu(r) y = Add(t, x) }",
    "chain-heavy": f"g ({WIDE} x, {WIDE} z) => ({WIDE} y) <float one = {{1}}, float half = {{0.5}}, float two = {{2}}> "
             "{ a = Add(x, z) b = Mul(a, x) c = Sigmoid(b) d = Sub(c, half) e = Abs(d) f = Add(e, one) g1 = Sqrt(f) h = Div(a, g1) "
             "i = Tanh(h) j = Mul(i, two) k = Add(j, x) l = Max(k, z) m = Neg(l) n = Exp(m) o = Add(n, one) p = Div(l, o) "
             "q = Mul(p, half) r = Sub(q, z) t = Relu(r) y = Add(t, x) }",
}
CLOCK = """#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t c, struct timespec *t) {
    return (int)syscall(SYS_clock_gettime, c == CLOCK_MONOTONIC ? CLOCK_PROCESS_CPUTIME_ID : c, t);
}
"""


def prepare(folder):
    """Build the driver and the clock that counts CPU time."""
    libs = "-lm -ldl -lpthread -lz".split()
    driver, clock = os.path.join(folder, "bench_backend"), os.path.join(folder, "clock.so")
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", f"-I{ROOT}/src", f"-I{ROOT}/include", f"{HERE}/bench_backend.c",
                    f"{ROOT}/build/libplumb.a", "-o", driver, *libs], check=True)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-xc", "-", "-o", clock], input=CLOCK, text=True, check=True)
    return driver, clock


def case(name, folder):
    """Model, inputs and runs in a round."""
    if name in MODELS:
        return os.path.join(TORCH, name + ".onnx"), {"x": os.path.join(TORCH, name + ".in.x.npy")}, MODELS[name]
    text, model = os.path.join(folder, name + ".onnxtxt"), os.path.join(folder, name + ".onnx")
    with open(text, "w") as f:
        f.write(HEAD + KERNELS[name] + "\n")
    subprocess.run([f"{ROOT}/build/plumb", "convert", text, model], check=True)
    rng, files = np.random.default_rng(1), {}
    for part in KERNELS[name].split("(", 1)[1].split(")", 1)[0].split(", "):
        shape, value = part.split()
        files[value] = os.path.join(folder, f"{name}_{value}.npy")
        np.save(files[value], rng.standard_normal([int(d) for d in shape[6:-1].split(",")]).astype(np.float32))
    return model, files, 10


def ready_ms(driver, model, spec, inputs, env=None):
    """Compile and first run, less one run."""
    out = subprocess.run([driver, model, spec, "3", *inputs], text=True, capture_output=True, check=True, env=env).stdout.split()
    return float(out[0]) - float(out[1])


def bench_load(name, folder, driver, threads, rounds):
    """One line: ORT's session load, jit from the cache, jit from nothing."""
    model, files, _ = case(name, folder)
    inputs = [f"{k}={f}" for k, f in files.items()]
    wall = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    ort, cached, cold = [], [], []
    for i in range(rounds):
        wall["XDG_CACHE_HOME"] = os.path.join(folder, f"cache_{name}_{i}")  # empty
        ort.append(ready_ms(driver, model, f"ort:opt=all,threads={threads}", inputs))
        cold.append(ready_ms(driver, model, f"jit:threads={threads}", inputs, wall))
        cached.append(ready_ms(driver, model, f"jit:threads={threads}", inputs))
    print(f"{name:20} load: ort {min(ort):7.1f} ms  jit {min(cached):7.1f} ms  ratio {min(cached) / min(ort):.3f}  jit cold {min(cold):7.1f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--avx2", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    ort_prepare()
    os.environ["PLUMB_ORT_LIB"] = ORT_LIB
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        driver, clock = prepare(folder)
        if args.threads == 1 and not args.wall:
            os.environ["LD_PRELOAD"] = clock
        library, preload = ORT_LIB, os.environ.get("LD_PRELOAD", "")
        if args.avx2:
            os.environ["PLUMB_CPU"] = "avx2"
            library = os.path.join(folder, "libonnxruntime.so.1")
            assert copy_without_cpuid(ORT_LIB, library) > 0, "no cpuid instruction found"
            preload = f"{build_answer(os.path.join(folder, 'hide.so'))} {preload}".strip()
        for name in (args.names or MODELS) if args.load else []:
            bench_load(name, folder, driver, args.threads, args.rounds)
        for name in [] if args.load else args.names or [*MODELS, *KERNELS]:
            model, files, runs = case(name, folder)
            inputs = [f"{k}={f}" for k, f in files.items()]
            ort, jit = math.inf, math.inf
            for _ in range(args.rounds):
                flags = [part for one in inputs for part in ("--input", one)]
                command = ["env", f"LD_PRELOAD={preload}", ORT_RUN, library, model, "--opt", "99", "--threads", str(args.threads), "--repeat", str(runs)]
                result = execute([*command, *flags])
                ort = min(ort, result.get("timing", result)["best_ms"])
                line = subprocess.run([driver, model, f"jit:threads={args.threads}", str(runs), *inputs], text=True,
                                      capture_output=True, check=True).stdout
                jit = min(jit, float(line.split()[1]))
            ratios.append(jit / ort)
            print(f"{name:20} ort {ort:9.3f} ms  jit {jit:9.3f} ms  ratio {jit / ort:.3f}", flush=True)
    if not args.load:
        print(f"geometric mean of ratios {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")


if __name__ == "__main__":
    main()

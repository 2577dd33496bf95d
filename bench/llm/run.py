#!/usr/bin/python3
"""eager and jit against ONNX Runtime on decoders: prefill of 128 tokens and one decode step, time and peak memory.

Usage: bench/llm/run.py [--size 125m|1b] [--kind fp32,fp16,int4,int4-8] [--threads N] [--rounds N] [--repeat N] [--keep FOLDER]

Processes alternate: ONNX Runtime at full optimisation, eager, jit, each loads the model and runs it --repeat times (the first run apart).
With one thread CPU time counts (other work on the machine moves the clock by a factor), with more the clock; the best of all rounds.
ratio: over ONNX Runtime; goals are 1.5 for eager and 1.0 for jit. memory: peak resident of the process, and over the bytes of the weights.
"""
import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "models")]
import make_decoder  # noqa: E402
from runners import ORT_LIB  # noqa: E402


def build(folder, cpu_time):
    """The driver of bench/jit, and the environment in which it counts CPU time."""
    spec = importlib.util.spec_from_file_location("jit_bench", os.path.join(ROOT, "bench", "jit", "run.py"))
    jit_bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(jit_bench)
    driver, clock = jit_bench.prepare(folder)
    return driver, dict(os.environ, LD_PRELOAD=clock) if cpu_time else dict(os.environ)


def run(command, env):
    """stdout, and the peak resident bytes of a process."""
    with tempfile.TemporaryFile("w+") as out:
        p = subprocess.Popen(command, env=env, stdout=out)
        _, status, usage = os.wait4(p.pid, 0)
        out.seek(0)
        if status != 0:
            sys.exit(f"{' '.join(command[:3])}: status {status}")
        return out.read(), usage.ru_maxrss * 1024


def measure(model, case, args, driver, env):
    folder = os.path.join(os.path.dirname(model), case)
    files = [f"{f[:-4]}={os.path.join(folder, f)}" for f in sorted(os.listdir(folder))]
    best, peak = {}, {}
    for _ in range(args.rounds):
        for name in args.backends:
            spec = f"ort:lib={ORT_LIB},threads={args.threads}" if name == "ort" else f"{name}:threads={args.threads}"
            out, n = run([driver, model, spec, str(args.repeat), *files], env)
            best[name] = min(best.get(name, 1e30), float(out.split()[1]))
            peak[name] = max(peak.get(name, 0), n)
    return best, peak


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", default="125m")
    p.add_argument("--kind", default="fp32,fp16,int4,int4-8")
    p.add_argument("--case", default="prompt128,decode")
    p.add_argument("--backends", type=lambda s: s.split(","), default=["ort", "eager", "jit"])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--keep", help="folder for the models, kept")
    args = p.parse_args()
    work = args.keep or tempfile.mkdtemp()
    os.makedirs(work, exist_ok=True)
    try:
        driver, env = build(work, cpu_time=args.threads == 1)
        print(f"load {os.getloadavg()[0]:.1f}, threads {args.threads}; ms: {'CPU' if args.threads == 1 else 'clock'}, best of "
              f"{args.rounds} x {args.repeat}")
        for kind in args.kind.split(","):
            folder = os.path.join(work, f"{args.size}-{kind}")
            model = os.path.join(folder, "model.onnx")
            if not os.path.exists(model):
                make_decoder.make(args.size, kind, folder)
            weights = os.path.getsize(model + ".data")
            for case in args.case.split(","):
                best, peak = measure(model, case, args, driver, env)
                for name in args.backends:
                    ratio = f"{best[name] / best['ort']:5.2f}" if "ort" in best else ""
                    print(f"{args.size} {kind:7} {case:10} {name:6} {best[name]:10.1f} ms  ratio {ratio}  memory {peak[name] / 1e6:7.0f} MB "
                          f"= {peak[name] / weights:.2f} of the weights", flush=True)
    finally:
        if not args.keep:
            shutil.rmtree(work)


if __name__ == "__main__":
    main()

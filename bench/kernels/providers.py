#!/usr/bin/python3
"""Whole models on eager with each provider of kernels: the table in bench/kernels/README.md.

Usage: bench/kernels/providers.py [--plumb FILE] [--rounds N] [MODEL.onnx…]   (default: the torch exports of .cache/models)

Providers take turns, so that what else the machine does hits all of them; best of all runs, in ms, at one thread and at two.
"""
import argparse, json, os, pathlib, subprocess, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROVIDERS = ("own", "blas", "onednn")


def best_ms(plumb, model, kernels, threads, seconds):
    env = {**os.environ, "PLUMB_KERNELS": kernels}
    with tempfile.TemporaryDirectory() as out:
        cmd = [plumb, "run", model, "--threads", str(threads), "--seed", "1", "--json", "-o", f"{out}/o", "--repeat"]
        first = json.loads(subprocess.run([*cmd, "2"], env=env, check=True, capture_output=True, text=True).stdout)
        n = max(3, min(200, int(1000 * seconds / first["timing"]["best_ms"])))
    with tempfile.TemporaryDirectory() as out:
        cmd[-2] = f"{out}/o"
        return json.loads(subprocess.run([*cmd, str(n)], env=env, check=True, capture_output=True, text=True).stdout)["timing"]["best_ms"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--plumb", default=ROOT / "build/plumb")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("models", nargs="*")
    o = p.parse_args()
    names = ("resnet18", "mobilenet_v3_small", "efficientnet_b0", "vit_b_16", "encoder", "recurrent", "qdq")
    models = o.models or [ROOT / f".cache/models/torch/{n}.onnx" for n in names]
    print(f"{'ms, 1 thread / 2 threads':<24}" + "".join(f"{k:>18}" for k in PROVIDERS))
    for model in models:
        best = {}
        for _ in range(o.rounds):
            for threads in (1, 2):
                for k in PROVIDERS:
                    t = best_ms(o.plumb, model, k, threads, 0.5)
                    best[k, threads] = min(t, best.get((k, threads), t))
        print(f"{pathlib.Path(model).stem:<24}" + "".join(f"{best[k, 1]:>9.2f} /{best[k, 2]:>7.2f}" for k in PROVIDERS), flush=True)


main()

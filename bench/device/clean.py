#!/usr/bin/python3
"""Clean models on a device and in the browser: 20 seeds each must agree under the precision profile.

  bench/device/clean.py [--seeds N] [--backend SPEC]... [--model NAME]... [--write]

resnet18, mobilenet, vit, encoder, LSTM and a small decoder; images of 64 x 64, since the device here is a software driver. One `plumb analyze` has all
seeds of a model on a backend as its samples. Every entry of blame is a false alarm, except Erf of a WebGPU shader, which is a real bug
(bench/device/repros/erf-webgpu) and is counted apart. Results are lines of JSON in build/device/clean.jsonl; what is there is not run again.
--write: bench/device/clean.md. Exit 1 on a false alarm or a failure."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[2]
TORCH = ROOT / ".cache/models/torch"
OUT = ROOT / "build/device"
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
BACKENDS = ("ort:providers=WebGPU", "web:wasm", "web:webgpu")


def smaller(name, to):
    """A convolutional network for images of another size; only its input says which it is."""
    m = onnx.load(TORCH / f"{name}.onnx")
    for d in m.graph.input[0].type.tensor_type.shape.dim[2:]:
        d.dim_value = 64
    del m.graph.value_info[:]
    onnx.save(m, to)


def vit(to):
    import torch
    from torchvision.models import VisionTransformer
    torch.manual_seed(5)
    net = VisionTransformer(image_size=64, patch_size=16, num_layers=4, num_heads=4, hidden_dim=128, mlp_dim=256, num_classes=10).eval()
    torch.nn.init.normal_(net.heads.head.weight, std=0.05)
    torch.onnx.export(net, torch.randn(1, 3, 64, 64), str(to), opset_version=17, input_names=["x"], output_names=["y"])


def decoder(to):
    sys.path.insert(0, str(ROOT / "tests/python"))
    import decoders
    onnx.save(decoders.model("old", "fp32", 2, 1), to)


def images(rng):
    return {"x": rng.standard_normal((1, 3, 64, 64), np.float32)}


def decoder_inputs(rng):
    m, n, past = onnx.load(OUT / "decoder.onnx"), 6, 4
    out = {}
    for v in m.graph.input:
        dims = [d.dim_value or None for d in v.type.tensor_type.shape.dim]
        if v.name == "input_ids":
            out[v.name] = rng.integers(0, 96, (1, n))
        elif v.name == "attention_mask":
            out[v.name] = np.ones((1, n + past), np.int64)
        elif v.name == "position_ids":
            out[v.name] = np.arange(past, past + n, dtype=np.int64)[None]
        else:  # a cache: batch, heads, positions, size
            shape = [1 if i == 0 else past if d is None else d for i, d in enumerate(dims)]
            out[v.name] = rng.standard_normal(shape, np.float32)
    return out


MODELS = {
    "resnet18": (lambda to: smaller("resnet18", to), images),
    "mobilenet": (lambda to: smaller("mobilenet_v3_small", to), images),
    "vit": (vit, images),
    "encoder": (lambda to: to.write_bytes((TORCH / "encoder.onnx").read_bytes()), lambda rng: {"x": rng.standard_normal((2, 20, 64), np.float32)}),
    "lstm": (lambda to: to.write_bytes((TORCH / "recurrent.onnx").read_bytes()), lambda rng: {"ids": rng.integers(0, 10, (2, 13))}),
    "decoder": (decoder, decoder_inputs),
}


def make(name):
    path = OUT / f"{name}.onnx"
    if not path.exists():
        OUT.mkdir(parents=True, exist_ok=True)
        MODELS[name][0](path)
    return path


def measure(name, backend, seeds, limit):
    """One line of the journal."""
    path = make(name)
    with tempfile.TemporaryDirectory(dir=OUT) as tmp:
        args = []
        for seed in range(seeds):
            file = f"{tmp}/{seed}.npz"
            np.savez(file, **MODELS[name][1](np.random.default_rng(seed)))
            args += ["--inputs", file]
        begun = time.monotonic()
        done = subprocess.run([PLUMB, "analyze", str(path), "--backend", backend, *args, "--json", "--save", "none", "--repro-level",
                               "0", "-o", f"{tmp}/s"], capture_output=True, text=True, timeout=limit, check=False)
    out = dict(model=name, backend=backend, seeds=seeds, seconds=round(time.monotonic() - begun, 1), exit=done.returncode)
    if done.returncode not in (0, 1):
        return out | dict(error=done.stderr.strip()[-300:])
    r = json.loads(done.stdout)
    erf = [b for b in r["blame"] if b["op"] == "Erf" and "webgpu" in backend.lower()]
    q = [p["q"] for p in r["sync_points"] if isinstance(p["q"], (int, float)) and p["value"] not in {b["value"] for b in erf}]
    return out | dict(verdict=r["verdict"], values=len(r["sync_points"]), unverified=sum(p["verdict"] == "unverified" for p in r["sync_points"]),
                      max_q=max(q, default=0), erf=[b["q"] for b in erf], alarms=[[b["op"], b["value"], b["q"]] for b in r["blame"] if b not in erf],
                      profile=r["a"].get("precision_profile", ""), observer_effect=r["observer_effect"],
                      cpu=sorted({o for p in r["a"].get("placement", []) if p["place"] == "CPU" for o in p["ops"]}), reason=r["reason"][:200])


def write_page(rows):
    text = ["# Clean models on a device and in the browser", "",
            f"`bench/device/clean.py --write`: {rows[0]['seeds']} seeds per line, images of 64 x 64. q: the largest local error in units of its bound, under the profile; "
            "blame begins at 4. Erf: entries of blame that name ONNX Runtime's shader of Erf (a real bug, repros/erf-webgpu), with their largest q. "
            "CPU: operators that fell back to it.", "",
            "| model | backend | profile | values | largest q | false alarms | Erf | CPU | s |", "|---|---|---|--:|--:|--:|---|---|--:|"]
    for r in rows:
        if "error" in r:
            text.append(f"| {r['model']} | `{r['backend']}` | | | | failed: {r['error'][:120]} | | | {r['seconds']:.0f} |")
            continue
        erf = f"{len(r['erf'])}, q {max(r['erf']):.0f}" if r["erf"] else ""
        text.append(f"| {r['model']} | `{r['backend']}` | {r['profile']} | {r['values']} | {r['max_q']:.2f} | {len(r['alarms'])} | {erf} | {', '.join(r['cpu'])} | {r['seconds']:.0f} |")
    bad = [f"- {r['model']} on `{r['backend']}`: {a}" for r in rows for a in r.get("alarms", [])]
    (ROOT / "bench/device/clean.md").write_text("\n".join(text + (["", "False alarms:", ""] + bad if bad else [])) + "\n", encoding="utf-8")


def is_bad(r):
    return "error" in r or bool(r["alarms"]) or (r["verdict"] != "agree" and not r["erf"])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=int, default=20)
    p.add_argument("--backend", action="append")
    p.add_argument("--model", action="append", choices=sorted(MODELS))
    p.add_argument("--timeout", type=float, default=3600)
    p.add_argument("--write", action="store_true")
    o = p.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    journal, rows = OUT / "clean.jsonl", []
    done = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    for name in o.model or MODELS:
        for backend in o.backend or BACKENDS:
            row = next((r for r in done if (r["model"], r["backend"], r["seeds"]) == (name, backend, o.seeds) and "error" not in r), None)
            if row is None:
                try:
                    row = measure(name, backend, o.seeds, o.timeout)
                except subprocess.TimeoutExpired:
                    row = dict(model=name, backend=backend, seeds=o.seeds, seconds=o.timeout, exit=-1, error="too long")
                with journal.open("a") as f:
                    f.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
            rows.append(row)
    if o.write:
        write_page(rows)
    return 1 if any(map(is_bad, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())

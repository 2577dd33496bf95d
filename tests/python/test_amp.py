#!/usr/bin/python3
"""Mixed precision and the gate, on whole networks. Prints TAP; `-k NAME` picks networks.

bf16: the error of `--amp bf16` against float32, by relative RMSE, is no larger than that of PyTorch's own CPU autocast, but for
the uncertainty of an RMSE of so few numbers.
fp16: the model of `convert --amp fp16` stays within its error bounds: `analyze` on it finds no operation further off than
rounding explains, and the gate against the float32 reference passes. The gate: clean pairs pass (exit 0), every planted
accuracy fault that changes an output by more than 1e-4 fails it (exit 1)."""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16")  # else oneDNN of this torch may lack bf16 kernels

import numpy as np  # noqa: E402
import torch  # noqa: E402

import nets  # noqa: E402

NETS = ["resnet18", "mobilenet_v3_small", "encoder", "lstm", "gru", "attention", "vit_block", "unet", "activations"]
# What PyTorch 1.13 itself cannot run under CPU autocast: mixed types in ConvTranspose2d, no Mish in bfloat16.
NO_AUTOCAST = ["unet", "activations"]
CLEAN = ["eager", "jit", "ort"]


def tuple_of(y):
    return y if isinstance(y, tuple) else (y,)


class Case:
    def __init__(self, name, folder):
        self.folder = Path(folder)
        self.net, self.x = nets.make(name)
        self.model = self.folder / "net.onnx"
        self.outputs = nets.export(self.net, self.x, self.model)
        np.save(self.folder / "x.npy", self.x.numpy())
        self.input = ["-i", f"x={self.folder}/x.npy"]

    def bf16(self):
        """Over several inputs: one small output is too few numbers to compare two roundings by."""
        want, auto, ours = ([[] for _ in self.outputs] for _ in range(3))
        for seed in range(1 if self.x.numel() > 10000 else 12):
            torch.manual_seed(100 + seed)
            x = torch.randn_like(self.x)
            np.save(self.folder / "s.npy", x.numpy())
            # Gradients on: the fast path of nn.TransformerEncoder would go round autocast.
            for i, y in enumerate(tuple_of(self.net(x))):
                want[i].append(y.detach().numpy())
            with torch.autocast("cpu", dtype=torch.bfloat16):
                for i, y in enumerate(tuple_of(self.net(x))):
                    auto[i].append(y.detach().float().numpy())
            out = self.folder / f"bf16-{seed}.npz"
            nets.plumb("run", self.model, "-i", f"x={self.folder}/s.npy", "--eval", "--amp", "bf16", "-o", out)
            got = np.load(out)
            for i, name in enumerate(self.outputs):
                ours[i].append(got[name])
        notes = []
        for name, w, a, o in zip(self.outputs, want, auto, ours):
            mine, theirs = nets.rmse(o, w), nets.rmse(a, w)
            notes.append(f"{name} {mine:.3g}, PyTorch {theirs:.3g}")
            # Both are estimates from n random roundings: each RMSE is known to 1/sqrt(2n), three of which are given.
            if not mine <= theirs * (1 + 3 / np.sqrt(2 * np.size(w))):
                raise RuntimeError(notes[-1])
        return "; ".join(notes)

    def fp16(self):
        half = self.folder / "half.onnx"
        nets.plumb("convert", self.model, half, "--eval", "--amp", "fp16")
        done = nets.plumb("analyze", half, *self.input, "--backend", "eager", "--json", "-o", self.folder / "session")
        session = json.loads(done.stdout)
        if session["verdict"] != "agree":
            raise RuntimeError(session["reason"])
        nets.plumb("run", self.model, *self.input, "--accuracy", "--amp", "fp16")
        nets.plumb("run", self.model, *self.input, "--accuracy", "--amp", "fp16", "--reference-amp", "--backend", "jit")
        q = [p["q"] for p in session["sync_points"] if isinstance(p["q"], (int, float))]
        return f"{len(q)} values, largest q {max(q, default=0):.2g}"

    def clean(self, spec):
        nets.plumb("run", self.model, *self.input, "--accuracy", "--backend", spec)

    def faults(self):
        info = json.loads(nets.plumb("info", self.model, "--json").stdout)
        ops = sorted({key.rsplit("-", 1)[0] for key in info["ops"]} & set(FAULTY))
        if not ops:
            raise RuntimeError("no operator to plant a fault in")
        clean, missed, unseen = self.out("eager"), [], []
        for op in ops:
            spec = f"jit:inject=accuracy@{op}:1"
            if max(nets.rmse(v, clean[k]) for k, v in self.out(spec).items()) < 1e-4:
                unseen.append(op)  # a constant that LayerNormalization takes away again, say
                continue
            done = nets.plumb("run", self.model, *self.input, "--accuracy", "--backend", spec, codes=(0, 1))
            if done.returncode != 1 or "AccuracyError" not in done.stderr:
                missed.append(op)
        if missed or len(unseen) == len(ops):
            raise RuntimeError(f"passed in spite of a fault in {missed}; without effect in {unseen}")
        return f"{len(ops) - len(unseen)} operators" + (f"; without effect in {unseen}" if unseen else "")

    def out(self, spec):
        path = self.folder / "out.npz"
        path.unlink(missing_ok=True)
        nets.plumb("run", self.model, *self.input, "--backend", spec, "-o", path)
        return dict(np.load(path))


# Computing ones; where the fault cannot be planted `run` says so with exit 2, which is not among the codes.
FAULTY = ["Conv", "Gemm", "MatMul", "Relu", "Sigmoid", "Tanh", "Erf", "HardSwish", "LSTM", "GRU", "ConvTranspose", "GlobalAveragePool",
          "Clip", "Elu", "Selu", "Softplus", "LogSoftmax"]


def main():
    only = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
    tap = nets.Tap()
    for name in NETS:
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            case = Case(name, folder)
            if name not in NO_AUTOCAST:
                tap.check(f"{name} bf16 against PyTorch's autocast", case.bf16)
            tap.check(f"{name} fp16 within its bounds", case.fp16)
            for spec in CLEAN:
                tap.check(f"{name} gate passes on {spec}", lambda spec=spec: case.clean(spec))
            tap.check(f"{name} gate fails on planted faults", case.faults)
    return tap.end()


if __name__ == "__main__":
    torch.set_num_threads(2)
    sys.exit(main())

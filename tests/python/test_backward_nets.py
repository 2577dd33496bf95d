#!/usr/bin/python3
"""Gradients of whole networks: the joint graph of `convert --backward=joint` against PyTorch's autograd, with a random
gradient for every output, for inputs and parameters. In fp64 (exported in double, so that its constants are): 1e-9 + 1e-7 |g|. In float32: no further from the fp64
gradient than 4 times PyTorch's own float32, plus 2e-6 of its size. Then `run --backward --accuracy` on jit and ort: the
same graphs agree with eager. Prints TAP; `-k NAME` picks networks."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import nets

ABSOLUTE, RELATIVE = 1e-9, 1e-7
NOISE, FLOOR = 4, 2e-6
BACKENDS = ["jit", "ort"]
LONG = ["resnet18", "gru"]  # half of the time; mobilenet and lstm have the same operators


def selu(_, x):
    """With the constants of ONNX Selu-6, which are floats."""
    alpha, gamma = float(np.float32(1.67326319217681884765625)), float(np.float32(1.05070102214813232421875))
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


def hardsigmoid(_, x):
    """With alpha as the attribute of ONNX HardSigmoid-6 has it."""
    return torch.clamp(x * float(np.float32(1 / 6)) + 0.5, 0, 1)


ORACLES = {torch.nn.SELU: selu, torch.nn.Hardsigmoid: hardsigmoid}


def autograd(net, x, seeds, dtype):
    """Gradients of sum(seed * output) by name: the input, then parameters."""
    net = net.to(dtype)
    x = x.to(dtype).requires_grad_(True)
    net.zero_grad()
    y = net(x)
    y = y if isinstance(y, tuple) else (y,)
    sum((a * torch.from_numpy(s).to(dtype)).sum() for a, s in zip(y, seeds)).backward()
    grads = {"x": x.grad}
    for name, p in net.named_parameters():
        grads[name] = torch.zeros_like(p) if p.grad is None else p.grad
    return {k: v.detach().clone().double().numpy() for k, v in grads.items()}


class Case:
    def __init__(self, name, folder):
        self.folder = Path(folder)
        self.net, self.x = nets.make(name)
        self.model = self.folder / "net.onnx"
        self.joint, self.joint64 = self.folder / "joint.onnx", self.folder / "joint64.onnx"
        self.outputs = nets.export(self.net, self.x, self.model)
        rng = np.random.default_rng(3)
        with torch.no_grad():
            y = self.net(self.x)
        y = y if isinstance(y, tuple) else (y,)
        self.seeds = [rng.standard_normal(a.shape).astype(np.float32) for a in y]
        np.save(self.folder / "x.npy", self.x.numpy())
        for o, s in zip(self.outputs, self.seeds):
            np.save(self.folder / f"d_{o}.npy", s)
            np.save(self.folder / f"d_{o}64.npy", s.astype(np.float64))
        np.save(self.folder / "x64.npy", self.x.double().numpy())
        nets.plumb("convert", self.model, self.joint, "--backward=joint")
        nets.export(self.net.double(), self.x.double(), self.folder / "net64.onnx")
        nets.plumb("convert", self.folder / "net64.onnx", self.joint64, "--backward=joint")
        plain = {kind: kind.forward for kind in ORACLES}
        for kind, forward in ORACLES.items():
            kind.forward = forward
        self.want = autograd(self.net, self.x, self.seeds, torch.float64)
        for kind, forward in plain.items():
            kind.forward = forward
        self.torch32 = autograd(self.net, self.x, self.seeds, torch.float32)

    def run(self, joint, suffix=""):
        out = self.folder / "out.npz"
        out.unlink(missing_ok=True)
        inputs = ["-i", f"x={self.folder}/x{suffix}.npy"]
        for o in self.outputs:
            inputs += ["-i", f"d_{o}={self.folder}/d_{o}{suffix}.npy"]
        nets.plumb("run", joint, *inputs, "-o", out)
        got = dict(np.load(out))
        missing = [k for k in self.want if f"d_{k}" not in got and np.abs(self.want[k]).max() > 0]
        if missing:
            raise RuntimeError(f"no gradient for {missing[:5]}")
        return {k: got.get(f"d_{k}", np.zeros_like(w)) for k, w in self.want.items()}

    def fp64(self):
        worst, where = 0.0, ""
        for k, got in self.run(self.joint64, "64").items():
            want = self.want[k]
            off = float((np.abs(got - want) / (ABSOLUTE + RELATIVE * np.abs(want))).max())
            if not off <= worst:
                worst, where = off, k
        if not worst <= 1:
            raise RuntimeError(f"d_{where} is off by {worst:.3g} times the tolerance")
        return f"{len(self.want)} gradients, worst {worst:.2g} of the tolerance"

    def fp32(self):
        worst, where = 0.0, ""
        for k, got in self.run(self.joint).items():
            want = self.want[k]
            size = np.sqrt(np.mean(want ** 2)) or 1.0
            allowed = NOISE * nets.rmse(self.torch32[k], want) + FLOOR
            off = np.sqrt(np.mean((got - want) ** 2)) / size / allowed
            if not off <= worst:
                worst, where = off, k
        if not worst <= 1:
            raise RuntimeError(f"d_{where} is off by {worst:.3g} times what is allowed")
        return f"worst {worst:.2g} of what is allowed"

    def backend(self, spec):
        done = nets.plumb("run", self.model, "--accuracy", "--backward", "--grad-seed", 5, "--backend", spec, codes=(0, 1, 2, 3))
        if done.returncode != 0:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()[:500]}")
        same = done.stdout.count("\nsame ")
        if same < len(self.want):
            raise RuntimeError(f"only {same} outputs and gradients were compared")
        return f"{same} outputs and gradients"


def main():
    only = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
    tap = nets.Tap()
    for name in nets.NETS:
        if only not in name:
            continue
        if name in LONG and not only and "--full" not in sys.argv:
            tap.skip(name, "minutes: only with --full")
            continue
        with tempfile.TemporaryDirectory() as folder:
            case = []
            tap.check(f"{name} joint graph", lambda: case.append(Case(name, folder)))
            if not case:
                continue
            tap.check(f"{name} fp64 against autograd", case[0].fp64)
            tap.check(f"{name} fp32 against autograd", case[0].fp32)
            for spec in BACKENDS:
                tap.check(f"{name} on {spec}", lambda spec=spec: case[0].backend(spec))
    return tap.end()


if __name__ == "__main__":
    torch.set_num_threads(2)
    sys.exit(main())

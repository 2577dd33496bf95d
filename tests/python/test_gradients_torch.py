"""Gradients of whole networks against PyTorch's autograd: each module is exported, `plumb convert --backward=joint` makes the
graph with gradients, and every input and parameter gradient is compared, in float64 on eager. Prints TAP.

Tolerance: 1e-7 of the largest element of the gradient: constants of operators (epsilon, alpha) are floats in ONNX. `-k TEXT`
picks networks, `-v` tells how far off each is; PLUMB_GRAD_BACKEND=SPEC runs another backend."""

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
BACKEND = os.environ.get("PLUMB_GRAD_BACKEND", "eager")
TOLERANCE = 1e-7

try:
    import torch
    from torch import nn
    from torch_versions import OLD_EXPORTER
except ImportError:
    print("1..1\nok 1 - networks # SKIP no torch")
    sys.exit(0)

F = nn.functional


class Activations(nn.Module):
    """An MLP with every activation."""

    KINDS = [nn.ReLU(), nn.LeakyReLU(0.25), nn.ELU(0.5), nn.SELU(), nn.GELU(), nn.Sigmoid(), nn.Tanh(), nn.Softplus(),
             nn.Softsign(), nn.Hardswish(), nn.Hardsigmoid(), nn.SiLU(), nn.Mish(), nn.PReLU(), nn.Softmax(-1), nn.LogSigmoid()]

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in self.KINDS)
        self.kinds = nn.ModuleList(self.KINDS)

    def forward(self, x):
        for layer, kind in zip(self.layers, self.kinds):
            x = x + kind(layer(x))
        return x


class Residual(nn.Module):
    """A small residual network: convolutions, batch normalisation, pools."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.n1, self.n2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.c1, self.c2 = nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.Conv2d(8, 8, 3, 1, 1, groups=2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        x = F.relu(x + self.n2(self.c2(F.relu(self.n1(self.c1(x))))))
        return F.log_softmax(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), -1)


class Mobile(nn.Module):
    """An inverted residual with depthwise convolution and squeeze-and-excitation."""

    def __init__(self):
        super().__init__()
        self.expand, self.depth = nn.Conv2d(4, 12, 1), nn.Conv2d(12, 12, 5, 1, 2, groups=12)
        self.squeeze, self.excite = nn.Conv2d(12, 4, 1), nn.Conv2d(4, 12, 1)
        self.project, self.norm = nn.Conv2d(12, 4, 1), nn.GroupNorm(2, 4)

    def forward(self, x):
        y = F.hardswish(self.depth(F.hardswish(self.expand(x))))
        y = y * F.hardsigmoid(self.excite(F.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        return x + self.norm(self.project(y))


class Unet(nn.Module):
    """Down and up again: ConvTranspose, interpolation, skip connections by concatenation."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 4, 3, 1, 1), nn.Conv2d(4, 8, 3, 1, 1)
        self.up, self.c = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 2, 3, 1, 1)
        self.norm = nn.InstanceNorm2d(4, affine=True)

    def forward(self, x):
        a = F.leaky_relu(self.norm(self.a(x)))
        b = F.elu(self.b(F.avg_pool2d(a, 2)))
        y = self.c(torch.cat([self.up(b), a], 1))
        return F.interpolate(F.pad(y, (1, 1, 2, 0), "reflect"), scale_factor=2, mode="nearest")


class Attention(nn.Module):
    """Multi-head attention written out, with a causal mask."""

    def __init__(self, n=12, heads=3):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(n, 3 * n), nn.Linear(n, n), heads

    def forward(self, x):
        b, t, n = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (z.reshape(b, t, self.heads, n // self.heads).transpose(1, 2) for z in (q, k, v))
        w = q @ k.transpose(-1, -2) / (n // self.heads) ** 0.5
        mask = torch.tril(torch.ones(t, t, dtype=torch.bool))
        w = w.masked_fill(~mask, float("-1e9")).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(b, t, n))


class Vit(nn.Module):
    """Patches, a class token, one block."""

    def __init__(self, n=12):
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, n, 4, 4), nn.Parameter(torch.randn(1, 1, n))
        self.place = nn.Parameter(torch.randn(1, 5, n))
        self.n1, self.n2, self.attention = nn.LayerNorm(n), nn.LayerNorm(n), Attention(n)
        self.mlp, self.head = nn.Sequential(nn.Linear(n, 20), nn.GELU(), nn.Linear(20, n)), nn.Linear(n, 4)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        x = x + self.attention(self.n1(x))
        return self.head((x + self.mlp(self.n2(x)))[:, 0])


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, bidirectional=True, batch_first=True)
        self.gru, self.rnn = nn.GRU(10, 4), nn.RNN(4, 3)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        y, _ = self.gru(y.transpose(0, 1))
        y, _ = self.rnn(y)
        return y, h, c


class Embedding(nn.Module):
    """Indices, scatters, cumulative sums, sorting."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 5)

    def forward(self, x):
        rows = self.table(torch.tensor([[1, 3, 3], [0, 6, 1]]))
        top, at = x.topk(2, -1)
        picked = torch.gather(x, 1, torch.tensor([[0, 2, 2], [4, 1, 0]]))
        spread = torch.zeros_like(x).scatter_add(1, torch.tensor([[0, 0, 1], [2, 2, 2]]), picked)
        return rows.sum(1) * x + spread.cumsum(1), top, x.flip(1)[:, ::2].clamp(-0.5, 0.5)


NETWORKS = {
    "activations": (Activations, [(3, 6)]), "residual": (Residual, [(2, 3, 16, 16)]), "mobile": (Mobile, [(1, 4, 7, 7)]),
    "unet": (Unet, [(1, 2, 8, 8)]), "attention": (Attention, [(2, 5, 12)]), "vit": (Vit, [(2, 3, 8, 8)]),
    # In a Sequential: torch 2 makes a tensor of the layer's own argument is_causal=False, and then refuses it.
    "encoder": (lambda: nn.Sequential(nn.TransformerEncoderLayer(12, 3, 20, 0.0, "gelu", batch_first=True)), [(2, 5, 12)]),
    "recurrent": (Recurrent, [(2, 6, 4)]), "embedding": (Embedding, [(2, 5)]),
}


def export(module, inputs, n_outputs, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs), str(path), opset_version=17, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.PRESERVE, input_names=[f"x{i}" for i in range(len(inputs))],
                          output_names=[f"y{i}" for i in range(n_outputs)], **OLD_EXPORTER)


def check(name):
    """The largest difference, relative to the largest element of its gradient, and of which."""
    torch.manual_seed(3)
    make, shapes = NETWORKS[name]
    module = make().double()
    for part in module.modules():  # statistics that are not 0 and 1
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.uniform_(-0.2, 0.2)
            part.running_var.uniform_(0.5, 1.5)
    module.eval()
    for p in module.parameters():  # the exporter merges equal ones
        p.data.add_(0.1 * torch.randn_like(p))
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    outputs = module.train(False)(*inputs)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    incoming = [torch.randn_like(o) for o in outputs]
    torch.autograd.backward(outputs, incoming)
    wanted = {f"d_x{i}": x.grad for i, x in enumerate(inputs)}
    wanted |= {f"d_{n}": p.grad for n, p in module.named_parameters()}
    wanted |= {f"y{i}": o.detach() for i, o in enumerate(outputs)}
    with tempfile.TemporaryDirectory() as tmp:
        export(module, [x.detach() for x in inputs], len(outputs), Path(tmp, "model.onnx"))
        command = [PLUMB, "run", f"{tmp}/joint.onnx", "-o", f"{tmp}/out.npz", "--backend", BACKEND]
        for i, x in enumerate(inputs):
            np.save(f"{tmp}/x{i}.npy", x.detach().numpy())
            command += ["-i", f"x{i}={tmp}/x{i}.npy"]
        for i, d in enumerate(incoming):
            np.save(f"{tmp}/d{i}.npy", d.numpy())
            command += ["-i", f"d_y{i}={tmp}/d{i}.npy"]
        for step in ([PLUMB, "convert", f"{tmp}/model.onnx", f"{tmp}/joint.onnx", "--backward=joint"], command):
            done = subprocess.run(step, capture_output=True, text=True, timeout=300)
            if done.returncode != 0:
                raise RuntimeError(f"{step[1]}: {done.stderr.strip()[-300:]}")
        got = dict(np.load(f"{tmp}/out.npz"))
    worst, where, found = 0.0, "", 0
    for key, value in wanted.items():
        if key not in got:
            continue  # the exporter packs weights of recurrent layers: other names, not compared
        found += 1
        want = value.numpy()
        off = np.abs(got[key] - want).max() / max(np.abs(want).max(), 1e-3)
        if not off <= worst:
            worst, where = float(off), key
    if found < len(inputs) + len(outputs):
        raise RuntimeError(f"only {found} of {len(wanted)} gradients were found")
    return worst, f"{where} ({found} of {len(wanted)} compared)"


def main():
    args = sys.argv[1:]
    text = args[args.index("-k") + 1] if "-k" in args else ""
    names = [n for n in NETWORKS if text in n]
    print(f"1..{len(names)}")
    failed = 0
    for i, name in enumerate(names, 1):
        try:
            worst, where = check(name)
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            worst, where = np.inf, str(e)
        good = worst <= TOLERANCE
        failed += not good
        print(f"{'ok' if good else 'not ok'} {i} - {name}")
        if not good or "-v" in args:
            print(f"# {where}: {worst:.3g}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

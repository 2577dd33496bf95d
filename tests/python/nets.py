"""Small networks for test_amp.py and test_backward_nets.py, exported to ONNX with the names of their parameters kept."""

import os
import subprocess
import warnings
from pathlib import Path

import numpy as np
import torch
import torchvision
from torch import nn
from torch_versions import OLD_EXPORTER

ROOT = Path(__file__).resolve().parent.parent.parent
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))


class Activations(nn.Module):
    """An MLP that goes through every activation of torch.nn that ONNX can say. Not LogSigmoid: its export, Log(Sigmoid(x)), makes
    the absolute error of ONNX Runtime's Sigmoid a relative one. Not CELU: Celu-12 takes float32 only, and a double is cast."""

    kinds = [nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Hardtanh,
             nn.Hardsigmoid, nn.Hardswish, nn.SiLU, nn.Mish, nn.ReLU6, nn.PReLU, nn.Tanhshrink, nn.Softshrink]

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(12, 12) for _ in self.kinds)
        self.acts = nn.ModuleList(kind() for kind in self.kinds)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        for layer, act in zip(self.layers, self.acts):
            x = x + act(layer(x))
        return torch.log_softmax(self.head(x), -1)


class AttentionBlock(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, w = 2, 10, 32
        q, k, v = self.qkv(self.norm(x)).reshape(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) * (w // self.heads) ** -0.5, -1)
        return x + self.out((a @ v).transpose(1, 2).reshape(b, n, w))


class VitBlock(nn.Module):
    """Patches by a convolution, a class token, attention, an MLP."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 32) * 0.5)
        self.place = nn.Parameter(torch.randn(1, 10, 32) * 0.2)
        self.attention = AttentionBlock()
        self.norm = nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.head = nn.Linear(32, 7)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(2, 1, 32), x], 1) + self.place
        x = self.attention(x)
        x = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return self.head(x[:, 0])


class UNet(nn.Module):
    """Down by MaxPool, up by ConvTranspose, a skip; GroupNorm and BatchNorm."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.na = nn.BatchNorm2d(8)
        self.b = nn.Conv2d(8, 16, 3, padding=1)
        self.nb = nn.GroupNorm(4, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.c = nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x):
        a = torch.relu(self.na(self.a(x)))
        b = torch.relu(self.nb(self.b(nn.functional.max_pool2d(a, 2))))
        return self.c(torch.cat([a, self.up(b)], 1))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(10, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.head(y)


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(10, 12, batch_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        y, h = self.gru(x)
        return self.head(y), h


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"), 2)


def image_net(make, size):
    def build():
        net = make(weights=None)
        for m in net.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.momentum = 1.0
        net.train()
        with torch.no_grad():
            net(torch.randn(16, 3, size, size))
        return net
    return build


# name: (maker, shape of the input)
NETS = {
    "activations": (Activations, (6, 12)),
    "attention": (AttentionBlock, (2, 10, 32)),
    "vit_block": (VitBlock, (2, 3, 12, 12)),
    "unet": (UNet, (2, 3, 12, 12)),
    "encoder": (encoder, (2, 10, 32)),
    "lstm": (Lstm, (3, 7, 10)),
    "gru": (Gru, (3, 7, 10)),
    "resnet18": (image_net(torchvision.models.resnet18, 64), (2, 3, 64, 64)),
    "mobilenet_v3_small": (image_net(torchvision.models.mobilenet_v3_small, 64), (1, 3, 64, 64)),
}


def make(name):
    """The network in eval mode and its input, the same in every run."""
    torch.manual_seed(7)
    build, shape = NETS[name]
    net = build().eval()
    for m in net.modules():  # attributes of ONNX are floats
        for key in ("eps", "negative_slope", "lambd"):
            if isinstance(getattr(m, key, None), float):
                setattr(m, key, float(np.float32(getattr(m, key))))
    with torch.no_grad():
        for p in net.parameters():  # equal ones (norms, biases, copied layers) would be exported as one
            p += 0.05 * torch.randn_like(p) * (1 if p.dim() < 2 else p.abs())
    return net, torch.randn(*shape)


def export(net, x, path):
    """Parameters keep their names: nothing is folded or fused."""
    with torch.no_grad():
        y = net(x)
    n = len(y) if isinstance(y, tuple) else 1
    names = [f"y{i}" for i in range(n)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (x,), str(path), input_names=["x"], output_names=names, opset_version=17,
                          do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE, **OLD_EXPORTER)
    return names


def plumb(*args, codes=(0,)):
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=300)
    if done.returncode not in codes:
        raise RuntimeError(f"plumb {args[0]}: exit {done.returncode}: {done.stderr.strip()[-400:]}")
    return done


def rmse(a, b):
    """RMS of the difference, relative to the rms of b."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    size = np.sqrt(np.mean(b * b)) if b.size else 1.0
    return float(np.sqrt(np.mean((a - b) ** 2)) / (size if size > 0 else 1.0)) if b.size else 0.0


class Tap:
    """Prints TAP; `check` runs one test."""

    def __init__(self):
        self.n = self.bad = 0

    def check(self, name, fn):
        self.n += 1
        try:
            note = fn() or ""
            print(f"ok {self.n} {name}{' # ' + note if note else ''}", flush=True)
        except Exception as e:  # pylint: disable=broad-except
            self.bad += 1
            print(f"not ok {self.n} {name}: {str(e)[:600]}", flush=True)

    def skip(self, name, why):
        self.n += 1
        print(f"ok {self.n} {name} # SKIP {why}", flush=True)

    def end(self):
        print(f"1..{self.n}")
        return 1 if self.bad else 0

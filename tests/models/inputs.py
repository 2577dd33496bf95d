"""The cases that tests/models/run and bench/run.py execute: which model, with which inputs.

Inputs are seeded by the name of the case and look like what the model was made for (images with structure, audio with
tones, states within their range): on white noise many of these nets saturate and their outputs show nothing.
"""
import os
import zlib
from dataclasses import dataclass
from typing import Callable

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.path.join(ROOT, ".cache", "models")


@dataclass
class Case:
    name: str
    group: str  # ci or full
    model: str  # file in .cache/models, without .onnx
    make: Callable  # rng -> {input name: array}
    quantised: bool = False  # values are rounded to int8 on the way: not an fp32 net

    @property
    def path(self):
        return os.path.join(CACHE, self.model + ".onnx")

    def inputs(self):
        return self.make(np.random.default_rng(zlib.crc32(self.name.encode())))

    def torch_outputs(self):
        """What torch computed for a torch export: {output name: array}, empty for other models."""
        folder, base = os.path.split(os.path.join(CACHE, self.model))
        return _load(folder, base + ".out.") if self.model.startswith("torch/") else {}


def _load(folder, prefix):
    files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {f[len(prefix):-4]: np.load(os.path.join(folder, f)) for f in files if f.startswith(prefix) and f.endswith(".npy")}


def image(rng, shape, low=-1.0, high=1.0):
    """Waves of a few frequencies, a hard-edged box and a little noise, in [low, high]."""
    h, w = shape[-2:]
    y, x = np.mgrid[0:h, 0:w] / max(h, w)
    out = np.empty(shape)
    for plane in out.reshape(-1, h, w):
        f = rng.uniform(2, 25, (4, 2))
        plane[:] = sum(np.sin(2 * np.pi * (a * x + b * y) + rng.uniform(0, 6)) for a, b in f) / 4
        plane[h // 4:h // 2, w // 5:w // 2] = rng.uniform(-1, 1)
        plane += 0.1 * rng.standard_normal((h, w))
    return (low + (np.clip(out, -1, 1) + 1) / 2 * (high - low)).astype(np.float32)


def text(rng, shape, low=-2.0, high=2.5):
    """Dark strokes on light ground, in rows, like print: a text detector answers to nothing else."""
    h, w = shape[-2:]
    page = np.full((h, w), 0.95)
    for top in range(24, h - 40, 56):
        size = int(rng.integers(18, 30))
        for left in range(20, w - 40, size):
            if rng.random() < 0.15:
                continue  # a gap between words
            for _ in range(3):
                x, y = left + int(rng.integers(0, size - 6)), top + int(rng.integers(0, size // 2))
                page[y:top + size, x:x + 3] = 0.05
                page[y:y + 3, x:left + size - 4] = 0.05
    out = np.broadcast_to(page + 0.02 * rng.standard_normal((h, w)), shape)
    return (low + np.clip(out, 0, 1) * (high - low)).astype(np.float32)


def audio(rng, shape, scale=0.3):
    """A gliding tone with overtones and a syllable-like envelope, at 16 kHz."""
    t = np.arange(shape[-1]) / 16000
    tone = sum(np.sin(2 * np.pi * k * (140 + 40 * np.sin(3 * t)) * t) / k for k in range(1, 6))
    wave = tone * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t)) + 0.05 * rng.standard_normal(shape)
    return (scale / 2 * wave).astype(np.float32)


def normal(rng, shape, scale=1.0, mean=0.0):
    return (mean + scale * rng.standard_normal(shape)).astype(np.float32)


def _image(name, *shape, low=-1.0, high=1.0):
    return lambda rng: {name: image(rng, shape, low, high)}


def _features(name, *shape, scale=4.0):
    return lambda rng: {name: normal(rng, shape, scale)}


def _silero_legacy(rng):
    return {"input": audio(rng, (1, 1536)), "sr": np.array(16000, np.int64),
            "h": normal(rng, (2, 1, 64), 0.3), "c": normal(rng, (2, 1, 64), 0.3)}


def _silero(rate, samples):
    return lambda rng: {"input": audio(rng, (1, samples)), "state": normal(rng, (2, 1, 128), 0.3),
                        "sr": np.array(rate, np.int64)}


def _moonshine_decoder(past):
    """past 0: the first step, with empty caches and use_cache_branch false; else a later step with filled caches."""
    def make(rng):
        encoded = 40
        out = {"input_ids": rng.integers(1, 32768, (1, 1)), "encoder_hidden_states": normal(rng, (1, encoded, 288))}
        for layer in range(6):
            for side, length in (("decoder", past), ("encoder", encoded if past else 0)):
                for part in ("key", "value"):
                    out[f"past_key_values.{layer}.{side}.{part}"] = normal(rng, (1, 8, length, 36))
        out["use_cache_branch"] = np.array([past > 0])
        return out
    return make


def _torch(name, group="ci", quantised=False):
    folder = os.path.join(CACHE, "torch")
    return Case(name, group, "torch/" + name, lambda rng: _load(folder, name + ".in."), quantised)


CASES = [
    Case("silero_legacy", "ci", "silero_legacy", _silero_legacy),
    Case("silero_v5", "ci", "silero_v5", _silero(16000, 576)),
    Case("silero_v5_8k", "ci", "silero_v5", _silero(8000, 288)),  # the other branch of its Ifs
    Case("silero_v6", "ci", "silero_v6", _silero(16000, 576)),
    Case("ppocr_det", "ci", "ppocr_det", lambda rng: {"x": text(rng, (1, 3, 320, 416))}),
    Case("ppocr_cls", "ci", "ppocr_cls", _image("x", 2, 3, 48, 192)),
    Case("oww_mel", "ci", "oww_mel", lambda rng: {"input": audio(rng, (1, 12400), 10000.0)}),  # int16 range
    Case("oww_embedding", "ci", "oww_embedding", lambda rng: {"input_1": normal(rng, (1, 76, 32, 1), 1.0, 2.0)}),
    Case("oww_alexa", "ci", "oww_alexa", _features("onnx::Flatten_0", 1, 16, 96)),
    Case("oww_hey_jarvis", "ci", "oww_hey_jarvis", _features("x.1", 1, 16, 96)),
    Case("oww_hey_mycroft", "ci", "oww_hey_mycroft", _features("onnx::Flatten_0", 1, 16, 96, scale=0.0125)),
    Case("oww_hey_rhasspy", "ci", "oww_hey_rhasspy", _features("onnx::Flatten_0", 1, 16, 96)),
    Case("oww_timer", "ci", "oww_timer", _features("onnx::Flatten_0", 1, 34, 96)),
    Case("oww_weather", "ci", "oww_weather", _features("onnx::Flatten_0", 1, 22, 96)),
    Case("retinaface_v1", "ci", "retinaface_v1", _image("data", 1, 3, 512, 512, low=0, high=255)),
    Case("retinaface_v2", "ci", "retinaface_v2", _image("data", 1, 3, 640, 640, low=0, high=255)),
    Case("moonshine_enc", "ci", "moonshine_enc", lambda rng: {"input_values": audio(rng, (1, 16000))}, quantised=True),
    Case("ppocr_rec_ch", "full", "ppocr_rec_ch", _image("x", 1, 3, 48, 320)),
    Case("ppocr_rec_en", "full", "ppocr_rec_en", _image("x", 1, 3, 48, 320)),
    Case("ppocr_rec_ja", "full", "ppocr_rec_ja", _image("x", 1, 3, 48, 320)),
    Case("ppocr_rec_latin", "full", "ppocr_rec_latin", _image("x", 1, 3, 48, 320)),
    Case("ddddocr_det", "full", "ddddocr_det", _image("images", 1, 3, 416, 416, low=0, high=255)),
    Case("ddddocr", "full", "ddddocr", _image("input1", 1, 1, 64, 200)),
    Case("ddddocr_int8", "full", "ddddocr_int8", _image("input1", 1, 1, 64, 200), quantised=True),
    Case("moonshine_dec_first", "full", "moonshine_dec", _moonshine_decoder(0), quantised=True),
    Case("moonshine_dec_cached", "full", "moonshine_dec", _moonshine_decoder(3), quantised=True),
    _torch("resnet18"),
    _torch("mobilenet_v3_small"),
    _torch("efficientnet_b0"),
    _torch("vit_b_16", "full"),
    _torch("encoder"),
    _torch("recurrent"),
    _torch("qdq", quantised=True),
    _torch("control"),
]

"""What kind of error attention has: scale, mask, window, rotary row, cache position, order of heads. Prints TAP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

sys.dont_write_bytecode = True
import decoders  # noqa: E402
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
PROMPT = "5,2,7,1,3,11"
# fault, style, position, what the kind must say
CASES = [("attention scale", "genai", 0, "attention scale: 1.1"), ("attention scale", "opset23", 0, "attention scale: 1.1"),
         ("window", "genai", 8, "attention window: the last 8 keys"), ("mask off by one", "opset23", 8, "attention mask: key 8 is not seen"),
         ("rotary row", "genai", 9, "rotary embedding of position 9"), ("rotary row", "genai", 3, "rotary embedding of position 3")]


def first(model, reference, backend, folder):
    r = subprocess.run([PLUMB, "generate", str(model), "--json", "--backend", backend, "--reference-model", str(reference), "--prompt-ids", PROMPT,
                        "--steps", "6", "--save", "none", "-o", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert r.returncode == 1, (r.returncode, r.stderr[-300:])
    return json.loads(r.stdout)["blame"][0]


def test_kinds(folder):
    wrong = []
    for kind in ("fp32", "fp16", "int4"):
        for n, (fault, style, at, text) in enumerate(CASES):
            if kind not in decoders.FAULTS[fault][2]:
                continue
            good, bad, where = decoders.planted(fault, style, kind, 1, at, 6, 2, seed=n)
            onnx.save(good, str(folder / "good.onnx"))
            onnx.save(bad, str(folder / "bad.onnx"))
            for backend in ("ort", "eager"):
                b = first(folder / "bad.onnx", folder / "good.onnx", backend, folder / f"out-{len(list(folder.iterdir()))}")
                if b["layer"] != 1 or not b["kind"].startswith(text):
                    wrong.append(f"{fault} {style} {kind} {backend}: {b['op']}: {b['kind']}")
    assert not wrong, "\n".join(wrong)


def record(folder, name):
    model = folder / "m.onnx"
    onnx.save(decoders.model("genai", "fp32", 2), str(model))
    past = np.random.default_rng(0).standard_normal((1, decoders.KV, 5, decoders.SIZE)).astype(np.float32)
    np.savez(str(folder / "feed.npz"), input_ids=np.array([[4, 9, 7]]), attention_mask=np.ones((1, 8), np.int64),
             **{f"past_key_values.{i}.{w}": past * (i + 1) for i in range(2) for w in ("key", "value")})
    subprocess.run([PLUMB, "record", str(model), "--inputs", str(folder / "feed.npz"), "--backend", "eager", "-o", str(folder / name)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return model, folder / name


def changed(path, value, function):
    """A recording with one value changed: an engine that made this mistake there and went on."""
    raw = path.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + n])
    begin, end = header[value]["data_offsets"]
    data = np.frombuffer(raw[8 + n + begin:8 + n + end], np.float32).reshape(header[value]["shape"]).copy()
    data = function(data)
    header.pop("__metadata__")  # its hashes are of the old values
    text = json.dumps(header).encode()
    out = path.with_name("changed.safetensors")
    body = bytearray(raw[8 + n:])
    body[begin:end] = np.ascontiguousarray(data).tobytes()
    out.write_bytes(len(text).to_bytes(8, "little") + text + bytes(body))
    return out


def test_kinds_of_recordings(folder):
    def heads(x):
        return x.reshape(1, 3, decoders.HEADS, decoders.SIZE)[:, :, [1, 0, 2, 3]].reshape(x.shape)

    cases = [("model.layers.1.attn/attended", heads, "heads in another order"),
             ("present.1.key", lambda x: np.concatenate([x[:, :, 1:], x[:, :, :1]], 2), "cache:"),
             ("present.0.value", lambda x: x * (np.arange(8) != 6)[:, None], "cache: position 6")]
    model, recording = record(folder, "r.safetensors")
    for n, (value, function, text) in enumerate(cases):
        bad = changed(recording, value, function)
        r = subprocess.run([PLUMB, "compare", str(bad), str(model), "--inputs", str(folder / "feed.npz"), "--json", "-o", str(folder / f"s{n}")],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        assert r.returncode == 1, r.stderr[-300:]
        kinds = [b["kind"] for b in json.loads(r.stdout)["blame"]]
        assert any(k.startswith(text) for k in kinds), (value, kinds)


if __name__ == "__main__":
    sys.exit(tap.main(dict(globals())))

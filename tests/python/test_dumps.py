"""Dumps of other engines as recordings. The writers are made again here after their published source: SGLang's dumper
(python/sglang/srt/debug_utils/dumper.py), msprobe (its documented dump.json) and llama-perplexity (tools/perplexity/perplexity.cpp, log_softmax). Prints TAP."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

sys.dont_write_bytecode = True
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
sys.path.insert(0, str(ROOT / "python"))
import plumb  # noqa: E402


# ---- SGLang ----

def sglang(folder, entries, old=False):
    """entries: (step, rank, name, tensor, tags); a file each, with one dump_index for each rank, as the dumper counts."""
    folder.mkdir(exist_ok=True)
    counts = {}
    for step, rank, name, value, tags in entries:
        counts[rank] = counts.get(rank, 0) + 1
        full = {"forward_pass_id" if old else "step": step, "rank": rank, "dump_index": counts[rank], "name": name}
        full.update({} if old else {"recompute_status": "disabled"}, **tags)
        file = "___".join(f"{k}={v}" for k, v in full.items()) + ".pt"
        meta = {**full, "world_size": 2, "sglang_parallel_info": {"tp_rank": rank, "tp_size": 2}, "dims": None}
        torch.save(value if old else {"value": value, "meta": meta}, folder / file)
    return folder


def test_sglang(folder):
    x = torch.randn(2, 6)
    for old in (False, True):
        made = sglang(folder / f"one{old}", [(0, 0, "hidden_states", x, {"layer_id": 3}), (0, 0, "logits", x.half(), {}),
                                             (1, 0, "hidden_states", x + 1, {"layer_id": 3}), (1, 0, "logits", x + 2, {})], old)
        found = plumb.load(made)
        assert list(found) == ["layer_id=3/hidden_states", "logits", "layer_id=3/hidden_states#1", "logits#1"], list(found)
        assert np.array_equal(found["layer_id=3/hidden_states"], x.numpy()) and np.array_equal(found["logits#1"], (x + 2).numpy())
        assert found["logits"].dtype == np.float16
    nested = sglang(folder / "nested", [(0, 0, "cache", {"k": x, "v": [x + 1, x + 2]}, {})])
    assert list(plumb.load(nested)) == ["cache.k", "cache.v.0", "cache.v.1"], list(plumb.load(nested))


def test_sglang_ranks(folder):
    """Eleven layers on two ranks, so that names and steps are not in the order of their letters; one rank's layer 10 is wrong."""
    values = [torch.randn(1, 8) for _ in range(11)]
    entries = [(0, r, "mlp_out", v[:, 4 * r:4 * r + 4].contiguous() * (1.5 if (r, i) == (1, 10) else 1), {"layer_id": i})
               for i, v in enumerate(values) for r in (0, 1)]
    made = sglang(folder / "ranks", entries)
    np.savez(folder / "b.npz", **{f"layers.{i}.mlp": v.numpy() for i, v in enumerate(values)})
    (folder / "m.json").write_text(json.dumps({"plumb.map": 1, "shards": [
        {"a": "rank{tp}/layer_id={l}/mlp_out", "b": "layers.{l}.mlp", "rule": "concat 1 over tp"}]}))
    done = subprocess.run([PLUMB, "compare", made, folder / "b.npz", "--map", folder / "m.json", "--json"], capture_output=True, text=True)
    found = json.loads(done.stdout)
    wrong = [p["value"] for p in found["sync_points"] if p["class"] != "exact"]
    assert done.returncode == 1 and len(found["sync_points"]) == 22 and wrong == ["rank1/layer_id=10/mlp_out"], (wrong, done.stderr)


# ---- msprobe ----

def msprobe(folder, calls, suffix):
    """calls: name -> (inputs, outputs). dump.json as msprobe's DataWriter leaves it for task "tensor", level L1."""
    (folder / "dump_tensor_data").mkdir(parents=True)

    def entry(name, t):
        file = f"{name}.{suffix}"
        path = folder / "dump_tensor_data" / file
        torch.save(t, path) if suffix == "pt" else np.save(path, t.numpy())
        return {"type": "torch.Tensor", "dtype": str(t.dtype), "shape": list(t.shape), "Max": float(t.max()), "Min": float(t.min()),
                "Mean": float(t.mean()), "Norm": float(t.norm()), "requires_grad": False, "data_name": file}

    data = {call: {"input_args": [entry(f"{call}.input.{i}", t) for i, t in enumerate(ins)], "input_kwargs": {"p": {"type": "float", "value": .5}},
                   "output": [entry(f"{call}.output.{i}", t) for i, t in enumerate(outs)]} for call, (ins, outs) in calls.items()}
    (folder / "dump.json").write_text(json.dumps({"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": str(folder), "data": data}))
    return folder


def test_msprobe(folder):
    x, y = torch.randn(2, 3), torch.randn(2, 4)
    calls = {"Functional.linear.0.forward": ([x], [y]), "Functional.relu.0.forward": ([y], [y.relu()])}
    wanted = ["Functional.linear.0.forward.input.0", "Functional.linear.0.forward.output.0", "Functional.relu.0.forward.input.0",
              "Functional.relu.0.forward.output.0"]
    for suffix in ("pt", "npy"):
        found = plumb.load(msprobe(folder / suffix, calls, suffix))
        assert list(found) == wanted and np.array_equal(found[wanted[3]], y.relu().numpy()), list(found)
    for r in (0, 1):
        msprobe(folder / "step0" / f"rank{r}", calls, "pt")
    assert list(plumb.load(folder / "step0")) == [f"rank{r}/{n}" for r in (0, 1) for n in wanted]
    for text, why in (('{"data": {"a": {"output": [{"data_name": "../dump.json"}]}}}', ""), ('{"data": {"a": {"output": [{"Max": 1}]}}}', "only statistics"),
                      ('{"data": 3}', "'data' is missing"), ("[", "dump.json")):
        bad = folder / f"bad{len(text)}"
        bad.mkdir()
        (bad / "dump.json").write_text(text)
        done = subprocess.run([PLUMB, "compare", bad, folder / "pt"], capture_output=True, text=True)
        assert done.returncode in (2, 4) and why in done.stderr, (text, done.stderr)


# ---- llama-perplexity ----

def log_softmax(logits):
    """One row as perplexity.cpp writes it: the scale and the least log-probability, then codes of 16 bits."""
    top = logits.max()
    least = max(logits.min(), top - np.float32(16))
    total = np.log(np.exp((logits - top).astype(np.float64)).sum())
    lowest = np.float32(least - top - total)
    scale = np.float32((top - least) / np.float32(65535))
    codes = np.where(logits > least, np.rint((logits - least) / scale), 0).clip(0, 65535).astype("<u2")
    return struct.pack("<ff", scale, lowest) + codes.tobytes() + (b"\0\0" if len(codes) % 2 else b"")


def kl_base(path, n_ctx, n_vocab, n_chunk, seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, n_vocab, (n_chunk, n_ctx)).astype("<i4")
    logits = (rng.standard_normal((n_chunk, n_ctx - 1 - n_ctx // 2, n_vocab)) * 3).astype(np.float32)
    rows = b"".join(log_softmax(row) for chunk in logits for row in chunk)
    path.write_bytes(b"_logits_" + struct.pack("<iii", n_ctx, n_vocab, n_chunk) + tokens.tobytes() + rows)
    return tokens, logits


def test_llama_logits(folder):
    for n_vocab in (40, 41):
        tokens, logits = kl_base(folder / f"base{n_vocab}", 16, n_vocab, 3)
        found = plumb.load(folder / f"base{n_vocab}")
        assert list(found) == ["tokens", "log_probs"] and np.array_equal(found["tokens"], tokens)
        exact = logits.astype(np.float64)
        exact -= np.log(np.exp(exact).sum(-1, keepdims=True))
        kept = exact > exact.max(-1, keepdims=True) - 16
        assert found["log_probs"].shape == (3, 7, n_vocab)
        # a code is half a step off at most: 16 / 65535 / 2, and the rounding of floats near 16
        assert np.abs(found["log_probs"] - exact)[kept].max() < 16 / 65535 / 2 + 4e-6
    raw = (folder / "base41").read_bytes()
    for n in (20, 21, 100, len(raw) - 1):
        (folder / "cut").write_bytes(raw[:n])
        done = subprocess.run([PLUMB, "compare", folder / "cut", folder / "base41"], capture_output=True, text=True)
        assert done.returncode == 2 and "but the file has" in done.stderr, done.stderr
    (folder / "bad").write_bytes(raw[:8] + struct.pack("<iii", 2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1) + raw[20:])
    done = subprocess.run([PLUMB, "compare", folder / "bad", folder / "base41"], capture_output=True, text=True)
    assert done.returncode == 2 and "chunks" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

"""Dumps of other engines as recordings. The writers are made again here after their published source: SGLang's dumper
(python/sglang/srt/debug_utils/dumper.py), msprobe (msprobe/core/dump/data_dump/json_writer.py), llama-perplexity (tools/perplexity/perplexity.cpp, log_softmax),
Hugging Face's model debugger (transformers/model_debugging_utils.py), vLLM (vllm/v1/intermediates/intermediates_logging.py) and TensorRT-LLM (tensorrt_llm/runtime/
generation.py, dump_debug_buffers). Names and nesting were compared on 2026-11-20 with dumper.py at 00d35548, model_debugging_utils.py at 079c5888,
intermediates_logging.py at 3be9c3ee, and stored copies of dump_debug_buffers and of msprobe's get_save_file_path without a version. Prints TAP."""

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


def test_sglang_parallel_ranks_in_names(folder):
    """DUMPER_INCLUDE_PARALLEL_RANK_IN_FILENAME: the kinds of ranks are behind the caller's tags."""
    x = torch.randn(2, 3)
    made = sglang(folder / "d", [(0, r, "q", x + r, {"layer_id": 1, "pp_rank": 0, "tp_rank": r, "etp_rank": 0}) for r in (0, 1)])
    found = plumb.load(made)
    assert list(found) == ["rank0/layer_id=1/q", "rank1/layer_id=1/q"], list(found)
    assert np.array_equal(found["rank1/layer_id=1/q"], (x + 1).numpy())


# ---- Hugging Face's model debugger ----

class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up_proj, self.down_proj = torch.nn.Linear(4, 6), torch.nn.Linear(6, 4)

    def forward(self, x, scale=None):
        return self.down_proj(self.up_proj(x).relu()) * scale, x


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Part(), Part()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, scale=torch.tensor(.5))[0]
        return {"logits": x}


def save_safetensors(path, t):
    t = t.detach().contiguous()
    head = json.dumps({"data": {"dtype": {torch.float32: "F32", torch.float16: "F16"}[t.dtype], "shape": list(t.shape), "data_offsets": [0, t.numel() * t.element_size()]}})
    path.write_bytes(struct.pack("<Q", len(head)) + head.encode() + t.numpy().tobytes())


def hf_debug(folder, model, x, use_repr=False):
    """The files of the debugger: forward of every module wrapped, leaves with outputs, the top level with both."""
    folder.mkdir()
    name, calls = type(model).__name__, []

    def save(value, path):
        if isinstance(value, (list, tuple)):
            return [save(v, f"{path}_{i}") for i, v in enumerate(value)]
        if isinstance(value, dict):
            return {k: save(v, f"{path}_{k}") for k, v in value.items()}
        if not use_repr:
            save_safetensors(folder / f"{path}.safetensors", value)
        return {"shape": repr(value.shape), "dtype": repr(value.dtype), "value": ["tensor(...)"] if use_repr else f"./{path}.safetensors"}

    def wrap(module, path, top=False):
        forward = module.forward

        def wrapped(*args, **kwargs):
            ins = {k: v for k, v in (("args", args), ("kwargs", kwargs)) if len(v)}
            node = {"module_path": path, "inputs": save(ins, f"{name if top else path}_inputs")}
            out = forward(*args, **kwargs)
            if top or not list(module.named_children()):
                node["outputs"] = save(out, f"{name if top else path}_outputs")
            calls.append(node)
            return out
        module.forward = wrapped

    for path, module in model.named_modules():
        wrap(module, f"{name}.{path}" if path else f"{name} (top-level)", top=not path)
    with torch.no_grad():
        model(x)
    (folder / f"{name}_debug_tree_FULL_TENSORS.json").write_text(json.dumps({"module_path": name, "children": calls}))
    (folder / f"{name}_debug_tree_SUMMARY.json").write_text("{}")
    return folder


def test_hf_debug(folder):
    torch.manual_seed(1)
    model, x = Model(), torch.randn(2, 4)
    found = plumb.load(hf_debug(folder / "d", model, x))
    with torch.no_grad():
        up = torch.nn.functional.linear(x, model.layers[0].up_proj.weight, model.layers[0].up_proj.bias)
    assert np.array_equal(found["layers.0.up_proj"], up.numpy()), list(found)
    assert {"layers.1.down_proj", "layers.0.up_proj_inputs_args_0", "layers.0_inputs_kwargs_scale", "Model_inputs_args_0", "Model_outputs_logits"} <= set(found), list(found)
    done = subprocess.run([PLUMB, "compare", hf_debug(folder / "text", Model(), x, use_repr=True), folder / "d"], capture_output=True, text=True)
    assert done.returncode == 2 and "use_repr=False" in done.stderr, done.stderr


# ---- vLLM ----

def vllm(folder, calls, devices=("cuda_0",)):
    """calls: (module, inputs, outputs by device). Files and module_calls.txt of one step, as save_tensors and _log_module_call write them."""
    folder.mkdir(parents=True)
    counts = {}

    def save(value, path, device):
        if isinstance(value, torch.Tensor):
            torch.save(value, f"{path}_{device}.pt")
        elif isinstance(value, (list, tuple)):
            for i, v in enumerate(value):
                save(v, f"{path}_{i}", device)
        elif isinstance(value, dict):
            for k, v in value.items():
                save(v, f"{path}_{k}", device)

    for module, ins, outs in calls:
        n = counts[module] = counts.get(module, -1) + 1
        name = module + (f"_{n}" if n else "")
        (folder / name).mkdir()
        for k, device in enumerate(devices):
            with open(folder / "module_calls.txt", "a") as f:
                f.write(name + "\n")
            save(ins, folder / name / "inputs", device)
            save(outs[k], folder / name / "outputs", device)
    return folder


def test_vllm(folder):
    x = torch.randn(3, 8)
    calls = [("model.layers.10.mlp.up_proj", (x,), [x * 2]), ("model.layers.2.norm", (x, x), [(x + 1, x + 2)]), ("model.layers.10.mlp.up_proj", (x,), [x * 3])]
    for device in ("cuda_0", "cpu"):
        found = plumb.load(vllm(folder / device / "step_0", calls, (device,)))
        assert list(found) == ["model.layers.10.mlp.up_proj_inputs_0", "model.layers.10.mlp.up_proj", "model.layers.2.norm_inputs_0", "model.layers.2.norm_inputs_1",
                               "model.layers.2.norm_outputs_0", "model.layers.2.norm_outputs_1", "model.layers.10.mlp.up_proj_1_inputs_0",
                               "model.layers.10.mlp.up_proj_1"], list(found)
        assert np.array_equal(found["model.layers.10.mlp.up_proj_1"], (x * 3).numpy())
    two = vllm(folder / "two", [("m.up_proj", (x,), [x[:, :4].clone(), x[:, 4:].clone()])], ("cuda_0", "cuda_1"))
    found = plumb.load(two)
    assert {"rank0/m.up_proj", "rank1/m.up_proj"} <= set(found) and np.array_equal(found["rank1/m.up_proj"], x[:, 4:].numpy()), list(found)
    (two / "module_calls.txt").write_text("m.up_proj\n" * 300_000)  # a stranger's list: each file is opened once
    assert set(plumb.load(two)) == set(found)
    for i, text in enumerate(("../two\n", ".\n", "a/b\n", "a\0b\n")):
        bad = folder / f"bad{i}"
        bad.mkdir()
        (bad / "module_calls.txt").write_bytes(text.encode())
        done = subprocess.run([PLUMB, "compare", bad, two], capture_output=True, text=True)
        assert done.returncode == 2 and "no module" in done.stderr, (text, done.stderr)


# ---- TensorRT-LLM ----

def test_tensorrt_llm(folder):
    """The Python runtime: a folder for each rank, slashes in names become dots, a text beside each array."""
    x = np.random.default_rng(1).standard_normal((2, 6)).astype(np.float32)
    for rank in (0, 1):
        at = folder / "tllm_debug/PP_0" / f"TP_{rank}"
        at.mkdir(parents=True)
        np.save(at / "transformer.layers.0.mlp.inter.npy", x[:, 3 * rank:3 * rank + 3])
        np.savetxt(at / "transformer.layers.0.mlp.inter.txt", x[:, :3])
    found = plumb.load(folder / "tllm_debug/PP_0")
    assert list(found) == ["rank0/transformer.layers.0.mlp.inter", "rank1/transformer.layers.0.mlp.inter"], list(found)
    assert np.array_equal(found["rank1/transformer.layers.0.mlp.inter"], x[:, 3:])
    assert list(plumb.load(folder / "tllm_debug/PP_0/TP_1")) == ["transformer.layers.0.mlp.inter"]


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
    (folder / "pt/dump.json").rename(folder / "pt/debug.json")
    assert list(plumb.load(folder / "pt")) == wanted
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

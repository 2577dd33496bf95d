#!/usr/bin/python3
"""MatMulNBits with accuracy_level 4 (activations in 8 bits, what ONNX Runtime GenAI exports for CPUs): ONNX Runtime's own
kernels agree with the reference, faults are named first. tests/cpu/run does the same on a CPU without VNNI. Prints TAP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/models"))
sys.dont_write_bytecode = True
import decoders  # noqa: E402
import runners  # noqa: E402
import tap  # noqa: E402

PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
SHAPES = ((1, 0), (16, 0), (128, 0), (1, 16), (5, 7))  # tokens, tokens in the cache


def plumb(*args):
    if not os.path.exists(runners.ORT_LIB):
        raise tap.Skip("ONNX Runtime is missing (tools/setup test)")
    r = subprocess.run([PLUMB, *map(str, args), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert r.returncode in (0, 1), f"exit {r.returncode}: {r.stderr[-400:]}"
    return r.returncode, json.loads(r.stdout)


def analyze(folder, model, *args):
    return plumb("analyze", model, "--save", "none", "-o", folder / f"out-{len(list(folder.iterdir()))}", *args)


def feed(path, layers, tokens, past, seed):
    rng = np.random.default_rng(seed)
    values = {"input_ids": rng.integers(0, decoders.VOCAB, (1, tokens)), "attention_mask": np.ones((1, tokens + past), np.int64)}
    for layer in range(layers):
        for which in ("key", "value"):
            values[f"past_key_values.{layer}.{which}"] = rng.standard_normal((1, decoders.KV, past, decoders.SIZE)).astype(np.float32)
    np.savez(path, **values)
    return path


def clean_runs(folder, seeds, shapes=SHAPES):
    """What is wrong with each clean run, and how many there were."""
    wrong, n = [], 0
    for seed in seeds:
        model = folder / f"model-{seed}.onnx"
        onnx.save(decoders.model("genai", "int4-8", 2, seed), str(model))
        for tokens, past in shapes:
            inputs = feed(folder / f"feed-{seed}-{tokens}-{past}.npz", 2, tokens, past, seed)
            code, answer = analyze(folder, model, "--backend", "ort", "--inputs", inputs)
            gate, _ = plumb("run", model, "--backend", "ort", "--inputs", inputs, "--accuracy")
            n += 1
            if (code, gate) != (0, 0) or any(p["excuse"] for p in answer["sync_points"]):
                wrong.append(f"seed {seed}, {tokens} after {past}: analyze {code}, run {gate}: {answer['reason']}")
    return wrong, n


def test_clean_decoders_agree(folder):
    wrong, n = clean_runs(folder, range(4))
    assert not wrong, "\n".join(wrong)
    return f"{n} of {n} agree in analyze and run --accuracy, without an excuse"


# ---- the operator alone -------------------------------------------------------------------------

def operator(level, bits, block, k, zero, bias, half):
    rng = np.random.default_rng(k + block + bits)
    n, blocks = 24, -(-k // block)
    kind, dtype = (TensorProto.FLOAT16, np.float16) if half else (TensorProto.FLOAT, np.float32)
    w = [numpy_helper.from_array(rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8), "b"),
         numpy_helper.from_array((rng.random(n * blocks) * 0.01 + 0.01).astype(dtype), "s")]
    names = ["a", "b", "s"]
    if zero or bias:
        names.append("z" if zero else "")
        w += [numpy_helper.from_array(rng.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8), "z")] if zero else []
    if bias:
        names += ["", "c"]
        w.append(numpy_helper.from_array(rng.standard_normal(n).astype(dtype), "c"))
    node = helper.make_node("MatMulNBits", names, ["y"], name="product", domain="com.microsoft", K=k, N=n, bits=bits, block_size=block,
                            accuracy_level=level)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("a", kind, ["m", k])],
                              [helper.make_tensor_value_info("y", kind, ["m", n])], w)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])


# bits, block, K, zero points, bias, fp16
FORMS = [(4, 16, 64, False, False, False), (4, 32, 96, True, False, False), (4, 64, 128, False, True, False), (4, 128, 256, True, True, False),
         (4, 256, 256, False, False, False), (4, 32, 80, True, False, False), (4, 16, 20, False, False, False), (8, 32, 96, False, False, False),
         (8, 64, 128, True, False, False), (8, 128, 200, False, True, False), (4, 32, 96, True, False, True), (8, 32, 64, False, False, True)]


def check_forms(folder, forms, rows):
    """The largest q, and how many cases differ from accuracy_level 0: the rule is needed, without it the values are far off."""
    worst, told = 0.0, 0
    for i, form in enumerate(forms):
        model, plain = folder / f"{i}.onnx", folder / f"{i}-plain.onnx"
        onnx.save(operator(4, *form), str(model))
        onnx.save(operator(0, *form), str(plain))
        for m in rows:
            code, answer = analyze(folder, model, "--backend", "ort", "--dim", f"m={m}")
            point = answer["outputs"][0]
            assert code == 0 and not point["excuse"], f"{form}, {m} rows: {answer['reason']} {point['excuse']}"
            worst = max(worst, float(point["q"]))
            code, answer = analyze(folder, model, "--backend", "ort", "--dim", f"m={m}", "--reference", plain)
            told += answer["verdict"] == "diverged"
    return worst, told


def test_every_form_is_what_onnx_runtime_computes(folder):
    worst, told = check_forms(folder, FORMS, (1, 3, 40))
    fp32 = sum(3 for f in FORMS if not f[5])
    assert told >= fp32, f"only {told} of {fp32} differ from accuracy_level 0"
    return f"{3 * len(FORMS)} cases, q at most {worst:.2f}; {told} of them diverge from accuracy_level 0"


# ---- faults -------------------------------------------------------------------------------------

def scale(by):
    def plant(m, layer):
        decoders.change(m, f"model.layers.{layer}.mlp.up_proj.scales", lambda s: s.__setitem__(5, s[5] * by))
        return f"model.layers.{layer}.mlp.up_proj/MatMulNBits"
    return plant


def nibble(m, layer):
    decoders.change(m, f"model.layers.{layer}.mlp.down_proj.weight_Q4", lambda w: w.__setitem__((3, 1, 4), w[3, 1, 4] ^ 0x40))
    return f"model.layers.{layer}.mlp.down_proj/MatMulNBits"


def test_faults_are_named_first(folder):
    n = 0
    for plant in (scale(1.5), scale(1.05), nibble):
        for layer, backend in ((0, "ort"), (3, "ort"), (1, "eager")):
            clean = decoders.model("genai", "int4-8", 4, layer)
            bad = onnx.ModelProto()
            bad.CopyFrom(clean)
            node = plant(bad, layer)
            onnx.save(clean, str(folder / "good.onnx"))
            onnx.save(bad, str(folder / "bad.onnx"))
            inputs = feed(folder / "feed.npz", 4, 16, 0, layer)
            code, answer = analyze(folder, folder / "bad.onnx", "--backend", backend, "--reference", folder / "good.onnx", "--inputs", inputs)
            named = [b["node"] for b in answer["blame"]]
            assert code == 1 and named[:1] == [node], f"{node} on {backend}: {named}, {answer['reason']}"
            n += 1
    return f"{n} of {n}"


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

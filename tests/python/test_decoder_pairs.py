"""An int4 decoder against its float source of other structure and names: linears are paired by layer and role, and ranked by what each costs
the logits. Prints TAP. --full: the ranking over 29 linears instead of 15."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

sys.dont_write_bytecode = True
import decoders  # noqa: E402
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
LAYERS = 4 if "--full" in sys.argv else 2

# our names -> those of a scheme; what is not listed keeps its name
SCHEMES = {
    "Hugging Face": [(r"^mask/", "/model/rotary_emb/causal/"), (r"input_norm", "input_layernorm"), (r"post_norm", "post_attention_layernorm"),
                     (r"model\.layers\.(\d+)\.attn[./]", r"/model/layers.\1/self_attn/"), (r"model\.layers\.(\d+)\.", r"/model/layers.\1/"),
                     (r"(mlp|self_attn)\.", r"\1/"), (r"/out$", "_output_0")],
    "ggml": [(r"^mask/", "KQ_mask/"), (r"model\.layers\.(\d+)\.attn\.q_proj/.*", r"Qcur-\1"), (r"model\.layers\.(\d+)\.attn\.k_proj/.*", r"Kcur-\1"),
             (r"model\.layers\.(\d+)\.attn\.v_proj/.*", r"Vcur-\1"), (r"model\.layers\.(\d+)\.attn\.o_proj/.*", r"kqv_out-\1"),
             (r"model\.layers\.(\d+)\.mlp\.gate_proj/.*", r"ffn_gate-\1"), (r"model\.layers\.(\d+)\.mlp\.up_proj/.*", r"ffn_up-\1"),
             (r"model\.layers\.(\d+)\.mlp\.down_proj/.*", r"ffn_out-\1"), (r"model\.layers\.(\d+)\.(.*)", r"node/\2/\1")],
}


def renamed(m, rules):
    def other(name):
        for pattern, to in rules:
            name = re.sub(pattern, to, name)
        return name
    fixed = {v.name for v in list(m.graph.input) + list(m.graph.output) + list(m.graph.initializer)}
    for node in m.graph.node:
        node.name = other(node.name)
        for names in (node.input, node.output):
            names[:] = [n if n in fixed or n == "" else other(n) for n in names]
    return m


def feed(folder, model):
    """The inputs of a prompt of four tokens, as `plumb generate` makes them."""
    subprocess.run([PLUMB, "generate", str(model), "--backend", "ort", "--prompt-ids", "5,2,7,1", "--steps", "0", "--skip-analysis", "--save-step",
                    "0", "-o", str(folder / "feed")], stdout=subprocess.DEVNULL, check=True)
    return folder / "feed/feed-0"


def analysis(folder, name, scheme, layers):
    quantised, source = decoders.model("genai", "int4", layers), renamed(decoders.model("old", "fp32", layers), SCHEMES[scheme])
    onnx.save(quantised, str(folder / "int4.onnx"))
    onnx.save(source, str(folder / f"{name}.onnx"))
    inputs = feed(folder, folder / f"{name}.onnx")
    r = subprocess.run([PLUMB, "analyze", str(folder / "int4.onnx"), "--backend", "ort", "--reference", str(folder / f"{name}.onnx"), "--inputs",
                        str(inputs), "--json", "-o", str(folder / "s")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
    return quantised, source, inputs, json.loads(r.stdout)


def check_pairs(session, scheme, layers):
    linears = [p for p in session["sync_points"] if p["op"] == "MatMulNBits"]
    assert len(linears) == 7 * layers + 1, len(linears)
    wrong = []
    for p in linears:
        expected = p["value"]
        for pattern, to in SCHEMES[scheme]:
            expected = re.sub(pattern, to, expected.replace("MatMulNBits", "MatMul"))
        if p["counterpart"] != expected:
            wrong.append((p["value"], p["counterpart"], expected))
    assert not wrong, wrong
    return len(linears)


def test_pairs_hugging_face(folder):
    n = check_pairs(analysis(folder, "hf", "Hugging Face", 4)[3], "Hugging Face", 4)
    return f"{n} of 29 linears paired, none wrong"


def test_pairs_ggml(folder):
    n = check_pairs(analysis(folder, "ggml", "ggml", 2)[3], "ggml", 2)
    return f"{n} of 15 linears paired, none wrong"


def dequantised(quantised, name, k, n):
    weights = {w.name: numpy_helper.to_array(w) for w in quantised.graph.initializer if w.name.startswith(name + ".")}
    packed, scales = weights[name + ".weight_Q4"].reshape(n, k // 32, 16), weights[name + ".scales"].reshape(n, k // 32)
    codes = np.empty((n, k // 32, 32))
    codes[..., 0::2], codes[..., 1::2] = packed & 15, packed >> 4
    return ((codes - 8) * scales[..., None]).reshape(n, k).T.astype(np.float32)


def log_softmax(x):
    x = x.astype(np.float64) - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def logits(folder, model, inputs):
    onnx.save(model, str(folder / "one.onnx"))
    to = folder / f"run-{len(list(folder.glob('run-*')))}"
    subprocess.run([PLUMB, "run", str(folder / "one.onnx"), "--backend", "ort", "--inputs", str(inputs), "-o", str(to)], stdout=subprocess.DEVNULL,
                   check=True)
    path = next(p for p in to.rglob("*") if "logits" in p.name)
    return log_softmax(np.load(path) if path.suffix == ".npy" else numpy_helper.to_array(onnx.load_tensor(str(path))))


def ranks(values):
    r = np.empty(len(values))
    r[np.argsort(values)] = np.arange(len(values))
    return r


def test_sensitivity(folder):
    """The truth: each linear alone in int4, divergence of the logits from those of the float model."""
    quantised, source, inputs, session = analysis(folder, "hf", "Hugging Face", LAYERS)
    effect = {e["node"].replace("/MatMulNBits", ""): e["effect"] for e in session["blame"]}
    base, truth = logits(folder, source, inputs), {}
    for w in [w for w in source.graph.initializer if w.name.endswith("_proj.weight") or w.name == "lm_head.weight"]:
        one, name = onnx.ModelProto(), w.name[:-len(".weight")]
        one.CopyFrom(source)
        decoders.initializer(one, w.name).CopyFrom(numpy_helper.from_array(dequantised(quantised, name, *w.dims), w.name))
        got = logits(folder, one, inputs)
        truth[name] = (np.exp(base) * (base - got)).sum(-1).mean()
    assert set(truth) == set(effect) and len(truth) == 7 * LAYERS + 1, set(truth) ^ set(effect)
    names = sorted(truth)
    spearman = np.corrcoef(ranks([effect[n] for n in names]), ranks([truth[n] for n in names]))[0, 1]
    assert spearman > 0.9, spearman
    return f"Spearman {spearman:.3f} over {len(names)} linears"


if __name__ == "__main__":
    sys.exit(tap.main(dict(globals())))

"""A decoder of decoders.py as a GGUF: the same weights in F32, F16 or blocks.

    write(model, path, kind="F32", fault=None)    architecture llama, or qwen2 for a model with biases. fault: a function (tensors, metadata) that
                                                  changes both before they are written; tensors: name -> float array, metadata: key -> [kind, value]
    add_biases(model)                             biases of Q, K and V, as Qwen 2 has them
"""
import re

import decoders
import numpy as np
from gguf_files import ggml, gguf, quantised
from onnx import helper, numpy_helper

NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ2_XXS": 16,
           "IQ2_XS": 17, "IQ3_XXS": 18, "IQ1_S": 19, "IQ4_NL": 20, "IQ3_S": 21, "IQ2_S": 22, "IQ4_XS": 23, "IQ1_M": 29, "BF16": 30, "TQ1_0": 34, "TQ2_0": 35,
           "MXFP4": 39}
PARTS = {"input_norm": "attn_norm", "attn.q_proj": "attn_q", "attn.k_proj": "attn_k", "attn.v_proj": "attn_v", "attn.o_proj": "attn_output",
         "post_norm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def paired(rows, heads):
    """Rows of Q and K as the converter of llama.cpp stores them: the halves of a head side by side."""
    return rows.reshape(heads, 2, decoders.SIZE // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def add_biases(model, seed=5):
    rng, nodes = np.random.default_rng(seed), []
    for node in model.graph.node:
        nodes.append(node)
        name = re.fullmatch(r"(model\.layers\.\d+\.attn\.[qkv]_proj)/MatMul", node.name)
        if name is None:
            continue
        width = next(w.dims[1] for w in model.graph.initializer if w.name == node.input[1])
        model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(width).astype(np.float32), f"{name[1]}.bias"))
        value = node.output[0]
        node.output[0] = f"{value}/product"
        nodes.append(helper.make_node("Add", [node.output[0], f"{name[1]}.bias"], [value], name=f"{name[1]}/Add"))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def weights(model, permuted):
    """name in the GGUF -> floats, rows of outputs."""
    found = {}
    for w in model.graph.initializer:
        x = numpy_helper.to_array(w)
        part = re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.weight", w.name)
        if w.name == "embed.weight":
            found["token_embd.weight"] = x
        elif w.name == "lm_head.weight":
            found["output.weight"] = x.T
        elif w.name == "model.norm.weight":
            found["output_norm.weight"] = x
        elif part is not None:
            x = x.T if x.ndim == 2 else x
            if permuted and part[2] in ("attn.q_proj", "attn.k_proj"):
                x = paired(x, decoders.HEADS if "q_proj" in part[2] else decoders.KV)
            found[f"blk.{part[1]}.{PARTS[part[2]]}.weight"] = x
        bias = re.fullmatch(r"model\.layers\.(\d+)\.(.+)\.bias", w.name)
        if bias is not None:
            found[f"blk.{bias[1]}.{PARTS[bias[2]]}.bias"] = x
    return {n: np.array(x, np.float32, copy=True) for n, x in found.items()}


def write(model, path, kind="F32", fault=None):
    arch = "qwen2" if any(w.name.endswith("q_proj.bias") for w in model.graph.initializer) else "llama"
    tensors = weights(model, arch == "llama")
    layers = 1 + max(int(n.split(".")[1]) for n in tensors if n.startswith("blk."))
    metadata = {"general.architecture": ["text", arch], "general.name": ["text", "decoder"], f"{arch}.context_length": ["u32", 1024],
                f"{arch}.embedding_length": ["u32", decoders.HIDDEN], f"{arch}.block_count": ["u32", layers], f"{arch}.feed_forward_length": ["u32", decoders.MLP],
                f"{arch}.attention.head_count": ["u32", decoders.HEADS], f"{arch}.attention.head_count_kv": ["u32", decoders.KV], f"{arch}.vocab_size": ["u32", decoders.VOCAB],
                f"{arch}.rope.dimension_count": ["u32", decoders.SIZE], f"{arch}.rope.freq_base": ["f32", 10000.0],
                f"{arch}.attention.layer_norm_rms_epsilon": ["f32", 1e-5], "tokenizer.ggml.model": ["text", "no_vocab"]}
    if fault is not None:
        fault(tensors, metadata)
    number, lib, rows = NUMBERS[kind], ggml(), {}
    for name, x in tensors.items():
        if x.ndim == 1 or number == 0:
            rows[name] = (0, x.shape, x.tobytes())
        elif number == 1:
            rows[name] = (1, x.shape, x.astype(np.float16).tobytes())
        else:
            rows[name] = (number, x.shape, quantised(lib, number, x))
    return gguf(path, rows, [(k, kind_, v) for k, (kind_, v) in metadata.items()])

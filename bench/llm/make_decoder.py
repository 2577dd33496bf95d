#!/usr/bin/python3
"""Writes a decoder with random weights as ONNX Runtime GenAI exports them, weights in external data, and its inputs.

Usage: bench/llm/make_decoder.py SIZE KIND FOLDER

SIZE: 125m, 1b (1.1 billion weights, the shape of TinyLlama), 7b (the shape of Llama 2). KIND: fp32, fp16, int4 (MatMulNBits, block 32,
float elsewhere), int4-8 (the same with accuracy_level 4). FOLDER gets model.onnx, model.onnx.data and, for a prompt of 16, of 128 and
for one step after 127 tokens, the folders prompt16, prompt128, decode with a .npy for each input.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

# hidden, heads, key heads, layers, inner, vocabulary
SIZES = {"tiny": (256, 4, 2, 2, 512, 512), "125m": (768, 12, 12, 12, 2048, 32000), "1b": (2048, 32, 4, 22, 5632, 32000),
         "7b": (4096, 32, 32, 32, 11008, 32000)}
POSITIONS = 2304
NUMPY = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.UINT8: np.uint8, TensorProto.INT64: np.int64}


class Maker:
    def __init__(self, size, kind, folder, seed=0):
        self.hidden, self.heads, self.keys, self.layers, self.inner, self.vocabulary = SIZES[size]
        self.kind, self.folder = kind, folder
        self.size = self.hidden // self.heads
        self.float = TensorProto.FLOAT16 if kind == "fp16" else TensorProto.FLOAT
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.data = open(os.path.join(folder, "model.onnx.data"), "wb")

    def weight(self, name, kind, array):
        array = np.ascontiguousarray(array, NUMPY[kind])
        t = TensorProto(name=name, data_type=kind, dims=array.shape)
        if array.nbytes < 1024:
            t.raw_data = array.tobytes()
        else:
            self.data.write(b"\0" * (-self.data.tell() % 4096))
            t.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "model.onnx.data"), ("offset", self.data.tell()), ("length", array.nbytes)):
                t.external_data.add(key=key, value=str(value))
            array.tofile(self.data)
        self.weights.append(t)
        return name

    def normal(self, shape, deviation):
        return self.rng.standard_normal(shape, np.float32) * np.float32(deviation)

    def node(self, op, inputs, name, outputs=None, domain="", **attributes):
        outputs = outputs or [f"{name}/out"]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def linear(self, x, name, k, n):
        if not self.kind.startswith("int4"):
            return self.node("MatMul", [x, self.weight(f"{name}.weight", self.float, self.normal((k, n), k ** -0.5))], f"{name}/MatMul")
        codes = self.rng.integers(0, 256, (n, k // 32, 16), np.uint8)  # uniform codes: a deviation of 4.6 steps
        scales = np.full(n * k // 32, k ** -0.5 / 4.6, np.float32) * self.rng.uniform(0.8, 1.2, n * k // 32)
        return self.node("MatMulNBits", [x, self.weight(f"{name}.weight_Q4", TensorProto.UINT8, codes),
                                         self.weight(f"{name}.scales", self.float, scales)], f"{name}/MatMulNBits",
                         domain="com.microsoft", K=k, N=n, bits=4, block_size=32, **({"accuracy_level": 4} if self.kind == "int4-8" else {}))

    def norm(self, x, name):
        gain = self.weight(f"{name}.weight", self.float, 1 + self.normal(self.hidden, 0.1))
        return self.node("SimplifiedLayerNormalization", [x, gain], f"{name}/SimplifiedLayerNormalization", axis=-1, epsilon=1e-5, stash_type=1)

    def attention(self, q, k, v, layer, name):
        past = [f"past_key_values.{layer}.{x}" for x in ("key", "value")]
        present = [f"present.{layer}.{x}" for x in ("key", "value")]
        for i, o in zip(past, present):
            self.inputs.append(helper.make_tensor_value_info(i, self.float, ["batch", self.keys, "past", self.size]))
            self.outputs.append(helper.make_tensor_value_info(o, self.float, ["batch", self.keys, "total", self.size]))
        return self.node("GroupQueryAttention", [q, k, v, *past, "seqlens_k", "total_length", "cos_cache", "sin_cache"],
                         f"{name}/GroupQueryAttention", [f"{name}/attended", *present], "com.microsoft", num_heads=self.heads,
                         kv_num_heads=self.keys, do_rotary=1, scale=float(self.size ** -0.5))

    def head(self):
        for name, last in (("input_ids", "length"), ("attention_mask", "total")):
            self.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", last]))
        one = self.weight("one", TensorProto.INT64, [1])
        last = self.node("Sub", [self.node("ReduceSum", ["attention_mask", one], "mask/ReduceSum", keepdims=0), one], "mask/Sub")
        self.node("Cast", [last], "mask/Cast", ["seqlens_k"], to=TensorProto.INT32)
        total = self.node("Gather", [self.node("Shape", ["attention_mask"], "mask/Shape"), self.weight("index1", TensorProto.INT64, np.asarray(1))],
                          "mask/Gather")
        self.node("Cast", [total], "mask/Cast_total", ["total_length"], to=TensorProto.INT32)
        angle = np.arange(POSITIONS)[:, None] / 10000 ** (np.arange(self.size // 2) / (self.size // 2))
        self.weight("cos_cache", self.float, np.cos(angle))
        self.weight("sin_cache", self.float, np.sin(angle))

    def build(self):
        self.head()
        x = self.node("Gather", [self.weight("embed.weight", self.float, self.normal((self.vocabulary, self.hidden), 1)), "input_ids"],
                      "model.embed/Gather")
        for layer in range(self.layers):
            at = f"model.layers.{layer}"
            h = self.norm(x, f"{at}.input_norm")
            q, k, v = [self.linear(h, f"{at}.attn.{w}_proj", self.hidden, n * self.size)
                       for w, n in (("q", self.heads), ("k", self.keys), ("v", self.keys))]
            y = self.linear(self.attention(q, k, v, layer, f"{at}.attn"), f"{at}.attn.o_proj", self.hidden, self.hidden)
            x = self.node("Add", [x, y], f"{at}.attn/residual")
            h = self.norm(x, f"{at}.post_norm")
            gate = self.linear(h, f"{at}.mlp.gate_proj", self.hidden, self.inner)
            gate = self.node("Mul", [gate, self.node("Sigmoid", [gate], f"{at}.mlp/Sigmoid")], f"{at}.mlp/silu")
            up = self.node("Mul", [gate, self.linear(h, f"{at}.mlp.up_proj", self.hidden, self.inner)], f"{at}.mlp/Mul")
            x = self.node("Add", [x, self.linear(up, f"{at}.mlp.down_proj", self.inner, self.hidden)], f"{at}.mlp/residual")
        self.linear(self.norm(x, "model.norm"), "lm_head", self.hidden, self.vocabulary)
        self.nodes[-1].output[0] = "logits"
        self.data.close()
        logits = helper.make_tensor_value_info("logits", self.float, ["batch", "length", self.vocabulary])
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, [logits] + self.outputs, self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        with open(os.path.join(self.folder, "model.onnx"), "wb") as f:
            f.write(helper.make_model(graph, ir_version=10, opset_imports=opsets).SerializeToString())

    def feeds(self, name, length, past):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        rng = np.random.default_rng(1)
        np.save(os.path.join(folder, "input_ids.npy"), rng.integers(0, self.vocabulary, (1, length)))
        np.save(os.path.join(folder, "attention_mask.npy"), np.ones((1, past + length), np.int64))
        for layer in range(self.layers):
            for x in ("key", "value"):
                state = rng.standard_normal((1, self.keys, past, self.size)).astype(NUMPY[self.float])
                np.save(os.path.join(folder, f"past_key_values.{layer}.{x}.npy"), state)


def make(size, kind, folder):
    os.makedirs(folder, exist_ok=True)
    m = Maker(size, kind, folder)
    m.build()
    for name, length, past in (("prompt16", 16, 0), ("prompt128", 128, 0), ("decode", 1, 127)):
        m.feeds(name, length, past)
    return os.path.join(folder, "model.onnx")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in SIZES:
        sys.exit(__doc__.strip())
    print(make(*sys.argv[1:]))

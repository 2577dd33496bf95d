"""Small decoders with random weights, and faults planted in them.

    model(style, kind, ...)   an onnx.ModelProto: style "genai" (GroupQueryAttention with rotary inside, as ONNX Runtime
                              GenAI exports it), "opset23" (Attention, RMSNormalization) or "old" (plain operators, as
                              Optimum exports them); kind "fp32", "fp16", "int4" (MatMulNBits, block 32) or
                              "int4-8" (the same with accuracy_level 4: activations in 8 bits)
    FAULTS                    name -> function (model, layer, at) that plants it in place and returns Where: the step at
                              which it first shows after a prompt of `prompt` tokens, its layer, the operators that may be
                              named. The clean model is the reference.

Weights are scaled so that activations stay near 1 through all layers. Values depend on the seed only."""

import contextlib
from dataclasses import dataclass
from typing import Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, KV, SIZE, MLP, VOCAB, POSITIONS = 64, 4, 2, 16, 96, 96, 1088


@contextlib.contextmanager
def sizes(hidden, size, mlp):
    """Other sizes, of models that are made within."""
    global HIDDEN, SIZE, MLP
    before = HIDDEN, SIZE, MLP
    HIDDEN, SIZE, MLP = hidden, size, mlp
    try:
        yield
    finally:
        HIDDEN, SIZE, MLP = before


@dataclass
class Where:
    step: int
    layer: int  # -1: any
    ops: Tuple[str, ...]


class Maker:
    def __init__(self, style, kind, layers, seed, one_table):
        self.style, self.kind, self.layers, self.one_table = style, kind, layers, one_table
        self.rng = np.random.default_rng(seed)
        self.float = np.float16 if kind == "fp16" else np.float32
        self.type = TensorProto.FLOAT16 if kind == "fp16" else TensorProto.FLOAT
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, name, outputs=None, domain="", **attributes):
        outputs = outputs or [f"{name}/out"]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def linear(self, x, name, k, n):
        w = (self.rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32)
        if not self.kind.startswith("int4"):
            return self.node("MatMul", [x, self.weight(f"{name}.weight", w.astype(self.float))], f"{name}/MatMul")
        blocks = w.T.reshape(n, k // 32, 32)
        scale = np.abs(blocks).max(2) / 7
        codes = np.clip(np.rint(blocks / scale[..., None]) + 8, 0, 15).astype(np.uint8)
        packed = (codes[..., 0::2] | (codes[..., 1::2] << 4)).astype(np.uint8)
        return self.node("MatMulNBits", [x, self.weight(f"{name}.weight_Q4", packed),
                                         self.weight(f"{name}.scales", scale.astype(np.float32).reshape(-1))],
                         f"{name}/MatMulNBits", domain="com.microsoft", K=k, N=n, bits=4, block_size=32,
                         **({"accuracy_level": 4} if self.kind == "int4-8" else {}))

    def norm(self, x, name):
        gain = self.weight(f"{name}.weight", (1 + 0.1 * self.rng.standard_normal(HIDDEN)).astype(self.float))
        if self.style == "opset23":
            return self.node("RMSNormalization", [x, gain], f"{name}/RMSNormalization", axis=-1, epsilon=1e-5)
        return self.node("SimplifiedLayerNormalization", [x, gain], f"{name}/SimplifiedLayerNormalization", axis=-1,
                         epsilon=1e-5, stash_type=1)

    def tables(self, layer):
        """cos and sin of every position, (POSITIONS, SIZE / 2)."""
        suffix = "" if self.one_table else f".{layer}"
        names = [f"cos_cache{suffix}", f"sin_cache{suffix}"]
        if names[0] not in [w.name for w in self.weights]:
            angle = np.arange(POSITIONS)[:, None] / 10000 ** (np.arange(SIZE // 2) / (SIZE // 2))
            self.weight(names[0], np.cos(angle).astype(self.float))
            self.weight(names[1], np.sin(angle).astype(self.float))
        return names

    def ints(self, name, values):
        if name not in [w.name for w in self.weights]:
            self.weight(name, np.asarray(values, np.int64))
        return name

    def rotated(self, x, heads, layer, name):
        """(batch, length, heads * SIZE) to (batch, heads, length, SIZE), rotated by position."""
        cos, sin = self.tables(layer)
        shape = self.ints(f"shape{heads}", [0, -1, heads, SIZE])
        x = self.node("Transpose", [self.node("Reshape", [x, shape], f"{name}/Reshape")], f"{name}/Transpose",
                      perm=[0, 2, 1, 3])
        axis = self.ints("one", [1])
        c, s = [self.node("Unsqueeze", [self.node("Gather", [t, "position_ids"], f"{name}/Gather_{w}"), axis],
                          f"{name}/Unsqueeze_{w}") for t, w in ((cos, "cos"), (sin, "sin"))]
        a, b = f"{name}/first", f"{name}/second"
        self.node("Split", [x, self.ints("halves", [SIZE // 2, SIZE // 2])], f"{name}/Split", [a, b], axis=3)
        left = self.node("Sub", [self.node("Mul", [a, c], f"{name}/ac"), self.node("Mul", [b, s], f"{name}/bs")], f"{name}/Sub")
        right = self.node("Add", [self.node("Mul", [b, c], f"{name}/bc"), self.node("Mul", [a, s], f"{name}/as")], f"{name}/Add")
        return self.node("Concat", [left, right], f"{name}/Concat", axis=3)

    def attention(self, q, k, v, layer, name):
        past = [f"past_key_values.{layer}.{x}" for x in ("key", "value")]
        present = [f"present.{layer}.{x}" for x in ("key", "value")]
        for i, o in zip(past, present):
            self.inputs.append(helper.make_tensor_value_info(i, self.type, ["batch", KV, "past", SIZE]))
            self.outputs.append(helper.make_tensor_value_info(o, self.type, ["batch", KV, "total", SIZE]))
        if self.style == "genai":
            return self.node("GroupQueryAttention", [q, k, v, *past, "seqlens_k", "total_length", *self.tables(layer)],
                             f"{name}/GroupQueryAttention", [f"{name}/attended", *present], "com.microsoft",
                             num_heads=HEADS, kv_num_heads=KV, do_rotary=1, scale=float(SIZE ** -0.5))
        q, k = self.rotated(q, HEADS, layer, f"{name}/q_rotary"), self.rotated(k, KV, layer, f"{name}/k_rotary")
        v = self.node("Transpose", [self.node("Reshape", [v, self.ints(f"shape{KV}", [0, -1, KV, SIZE])], f"{name}/v/Reshape")],
                      f"{name}/v/Transpose", perm=[0, 2, 1, 3])
        if self.style == "opset23":
            y = self.node("Attention", [q, k, v, "attention_mask", *past], f"{name}/Attention",
                          [f"{name}/attended", *present], scale=float(SIZE ** -0.5))
        else:
            y = self.plain_attention(q, k, v, past, present, name)
        y = self.node("Transpose", [y], f"{name}/Transpose", perm=[0, 2, 1, 3])
        return self.node("Reshape", [y, self.ints("flat", [0, -1, HEADS * SIZE])], f"{name}/Reshape")

    def plain_attention(self, q, k, v, past, present, name):
        k = self.node("Concat", [past[0], k], f"{name}/k/Concat", [present[0]], axis=2)
        v = self.node("Concat", [past[1], v], f"{name}/v/Concat", [present[1]], axis=2)
        grouped = []
        for x, w in ((k, "k"), (v, "v")):  # every key head serves HEADS / KV heads
            x = self.node("Unsqueeze", [x, self.ints("two", [2])], f"{name}/{w}/Unsqueeze")
            x = self.node("Expand", [x, self.ints("repeat", [1, 1, HEADS // KV, 1, 1])], f"{name}/{w}/Expand")
            grouped.append(self.node("Reshape", [x, self.ints("heads", [0, HEADS, -1, SIZE])], f"{name}/{w}/Group"))
        kt = self.node("Transpose", [grouped[0]], f"{name}/k/Transpose", perm=[0, 1, 3, 2])
        scale = self.weight(f"{name}.scale", np.asarray(SIZE ** -0.5, self.float))
        scores = self.node("Mul", [self.node("MatMul", [q, kt], f"{name}/qk/MatMul"), scale], f"{name}/qk/Mul")
        scores = self.node("Add", [scores, "mask"], f"{name}/qk/Add")
        return self.node("MatMul", [self.node("Softmax", [scores], f"{name}/Softmax", axis=-1), grouped[1]], f"{name}/pv/MatMul")

    def head(self):
        """Inputs other than state, and what all layers share."""
        ids = [("input_ids", TensorProto.INT64, ["batch", "length"])]
        if self.style == "opset23":
            ids.append(("attention_mask", self.type, ["batch", 1, "length", "total"]))
        else:
            ids.append(("attention_mask", TensorProto.INT64, ["batch", "total"]))
        if self.style != "genai":
            ids.append(("position_ids", TensorProto.INT64, ["batch", "length"]))
        self.inputs += [helper.make_tensor_value_info(*i) for i in ids]
        if self.style == "genai":
            last = self.node("Sub", [self.node("ReduceSum", ["attention_mask", self.ints("one", [1])], "mask/ReduceSum", keepdims=0),
                                     self.ints("one", [1])], "mask/Sub")
            self.node("Cast", [last], "mask/Cast", ["seqlens_k"], to=TensorProto.INT32)
            total = self.node("Gather", [self.node("Shape", ["attention_mask"], "mask/Shape"),
                                         self.weight("index1", np.asarray(1, np.int64))], "mask/Gather")
            self.node("Cast", [total], "mask/Cast_total", ["total_length"], to=TensorProto.INT32)
        if self.style == "old":
            self.causal_mask()

    def causal_mask(self):
        """0 where key j is a token at or before the query's position, the lowest float elsewhere."""
        total = self.node("Shape", ["attention_mask"], "mask/Shape", start=1, end=2)
        keys = self.node("Range", [self.weight("zero", np.asarray(0, np.int64)),
                                   self.node("Squeeze", [total], "mask/Squeeze"), self.weight("step", np.asarray(1, np.int64))],
                         "mask/Range")
        # padding on the left moves positions: positions of keys are counted by the mask itself
        counted = self.node("Sub", [self.node("CumSum", ["attention_mask", self.weight("axis1", np.asarray(1, np.int32))],
                                              "mask/CumSum"), self.ints("one", [1])], "mask/positions")
        keys = self.node("Mul", [keys, self.ints("nothing", [0])], "mask/zeros")
        counted = self.node("Add", [counted, keys], "mask/counted")
        at = self.node("Unsqueeze", [counted, self.ints("one_two", [1, 2])], "mask/keys")
        queries = self.node("Unsqueeze", ["position_ids", self.ints("one_three", [1, 3])], "mask/queries")
        seen = self.node("LessOrEqual", [at, queries], "mask/LessOrEqual")
        real = self.node("Cast", [self.node("Unsqueeze", ["attention_mask", "one_two"], "mask/real")], "mask/Cast", to=TensorProto.BOOL)
        allowed = self.node("And", [seen, real], "mask/And")
        lowest = np.float16(-65504) if self.kind == "fp16" else np.float32(-3e38)
        self.node("Where", [allowed, self.weight("shown", np.asarray(0, self.float)),
                            self.weight("hidden", np.asarray(lowest, self.float))], "mask/Where", ["mask"])

    def build(self):
        self.head()
        x = self.node("Gather", [self.weight("embed.weight", self.rng.standard_normal((VOCAB, HIDDEN)).astype(self.float)),
                                 "input_ids"], "model.embed/Gather")
        for layer in range(self.layers):
            at = f"model.layers.{layer}"
            h = self.norm(x, f"{at}.input_norm")
            q, k, v = [self.linear(h, f"{at}.attn.{w}_proj", HIDDEN, n * SIZE) for w, n in (("q", HEADS), ("k", KV), ("v", KV))]
            y = self.linear(self.attention(q, k, v, layer, f"{at}.attn"), f"{at}.attn.o_proj", HEADS * SIZE, HIDDEN)
            x = self.node("Add", [x, y], f"{at}.attn/residual")
            h = self.norm(x, f"{at}.post_norm")
            gate = self.linear(h, f"{at}.mlp.gate_proj", HIDDEN, MLP)
            gate = self.node("Mul", [gate, self.node("Sigmoid", [gate], f"{at}.mlp/Sigmoid")], f"{at}.mlp/silu")
            up = self.node("Mul", [gate, self.linear(h, f"{at}.mlp.up_proj", HIDDEN, MLP)], f"{at}.mlp/Mul")
            x = self.node("Add", [x, self.linear(up, f"{at}.mlp.down_proj", MLP, HIDDEN)], f"{at}.mlp/residual")
        self.linear(self.norm(x, "model.norm"), "lm_head", HIDDEN, VOCAB)
        self.nodes[-1].output[0] = "logits"
        logits = helper.make_tensor_value_info("logits", self.type, ["batch", "length", VOCAB])
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, [logits] + self.outputs, self.weights)
        opsets = [helper.make_opsetid("", 23 if self.style == "opset23" else 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, ir_version=10, opset_imports=opsets)


def model(style="genai", kind="fp32", layers=4, seed=0, one_table=False):
    return Maker(style, kind, layers, seed, one_table).build()


# ---- faults ---------------------------------------------------------------------------------------

def initializer(m, name):
    return next(w for w in m.graph.initializer if w.name == name)


def change(m, name, function):
    w = initializer(m, name)
    array = numpy_helper.to_array(w).copy()
    function(array)
    w.CopyFrom(numpy_helper.from_array(array, name))


def find(m, name):
    return next(n for n in m.graph.node if n.name == name)


def set_attribute(node, name, value):
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept + [helper.make_attribute(name, value)])


def attention_ops(style):
    return {"genai": ("GroupQueryAttention",), "opset23": ("Attention",), "old": ("Mul", "MatMul", "Add", "Softmax")}[style]


def step_of(position, prompt):
    """The step in which the token at this position is processed."""
    return 0 if position < prompt else position - prompt + 1


def rotary_row(m, style, layer, at, prompt):
    change(m, f"cos_cache.{layer}", lambda c: c.__setitem__(at, c[at] * 0.8 + 0.05))
    return Where(step_of(at, prompt), layer, ("GroupQueryAttention",) if style == "genai" else ("Gather", "Unsqueeze", "Mul"))


def attention_scale(m, style, layer, at, prompt):
    if style == "old":
        change(m, f"model.layers.{layer}.attn.scale", lambda s: s.__imul__(1.1))
    else:
        node = find(m, f"model.layers.{layer}.attn/{attention_ops(style)[0]}")
        set_attribute(node, "scale", float(SIZE ** -0.5 * 1.1))
    return Where(0, layer, attention_ops(style))


def window(m, style, layer, at, prompt):
    """Only the last `at` keys are seen: shows when there are more."""
    set_attribute(find(m, f"model.layers.{layer}.attn/GroupQueryAttention"), "local_window_size", at)
    return Where(step_of(at, prompt), layer, ("GroupQueryAttention",))


def insert_after(m, producer, value, nodes):
    """nodes read `value` + '/right' and make `value`: what the producer makes gets that name."""
    at = next(i for i, n in enumerate(m.graph.node) if n.name == producer)
    node = m.graph.node[at]
    node.output[:] = [value + "/right" if o == value else o for o in node.output]
    rest = list(m.graph.node[at + 1:])
    del m.graph.node[at + 1:]
    m.graph.node.extend(nodes + rest)


def cache_producer(style, layer, which):
    at = f"model.layers.{layer}.attn"
    return {"genai": f"{at}/GroupQueryAttention", "opset23": f"{at}/Attention", "old": f"{at}/{which[0]}/Concat"}[style]


def late(m, name, at):
    """A condition that holds when more than `at` tokens have been seen."""
    m.graph.initializer.extend([numpy_helper.from_array(np.asarray([at], np.int64), f"{name}/at")])
    axis = 3 if [i for i in m.graph.input if i.name == "attention_mask"][0].type.tensor_type.shape.dim.__len__() == 4 else 1
    return [helper.make_node("Shape", ["attention_mask"], [f"{name}/total"], name=f"{name}/Shape", start=axis, end=axis + 1),
            helper.make_node("Greater", [f"{name}/total", f"{name}/at"], [f"{name}/late"], name=f"{name}/Greater")]


def cache_shifted(m, style, layer, at, prompt):
    """From more than `at` tokens on, the keys of one layer are stored one place off."""
    value, name = f"present.{layer}.key", f"model.layers.{layer}.fault"
    for n, v in (("a", [1]), ("b", [1 << 40]), ("c", [0]), ("x", [2])):
        m.graph.initializer.extend([numpy_helper.from_array(np.asarray(v, np.int64), f"{name}/{n}")])
    nodes = late(m, name, at) + [
        helper.make_node("Slice", [value + "/right", f"{name}/a", f"{name}/b", f"{name}/x"], [f"{name}/tail"], name=f"{name}/tail"),
        helper.make_node("Slice", [value + "/right", f"{name}/c", f"{name}/a", f"{name}/x"], [f"{name}/first"], name=f"{name}/first"),
        helper.make_node("Concat", [f"{name}/tail", f"{name}/first"], [f"{name}/rolled"], name=f"{name}/Concat", axis=2),
        helper.make_node("Where", [f"{name}/late", f"{name}/rolled", value + "/right"], [value], name=f"{name}/Where")]
    insert_after(m, cache_producer(style, layer, "key"), value, nodes)
    return Where(step_of(at, prompt), layer, ("Where",))  # the planted operation itself


def stale_slot(m, style, layer, at, prompt):
    """The value at position `at` of one layer's cache is not written: zero from then on."""
    value, name = f"present.{layer}.value", f"model.layers.{layer}.fault"
    keep = np.ones((1, 1, POSITIONS, 1), np.float32)
    keep[:, :, at] = 0
    kind = m.graph.output[0].type.tensor_type.elem_type
    keep = keep.astype(np.float16 if kind == TensorProto.FLOAT16 else np.float32)
    for n, v in (("keep", keep), ("c", np.asarray([0], np.int64)), ("x", np.asarray([2], np.int64))):
        m.graph.initializer.extend([numpy_helper.from_array(v, f"{name}/{n}")])
    nodes = late(m, name, at)[:1] + [
        helper.make_node("Slice", [f"{name}/keep", f"{name}/c", f"{name}/total", f"{name}/x"], [f"{name}/kept"], name=f"{name}/Slice"),
        helper.make_node("Mul", [value + "/right", f"{name}/kept"], [value], name=f"{name}/Mul")]
    insert_after(m, cache_producer(style, layer, "value"), value, nodes)
    return Where(step_of(at, prompt), layer, ("Mul",))  # the planted operation itself


def last_place_lost(m, style, layer, at, prompt):
    """The last place of one layer's cache is not written, wherever the tokens end: a copied cache loses its newest value, one with room does not."""
    value, name = f"present.{layer}.value", f"model.layers.{layer}.fault"
    for n, v in (("zero", np.asarray(0, np.int64)), ("one", np.asarray(1, np.int64)), ("axes", np.asarray([0, 1, 3], np.int64)),
                 ("flat", np.asarray([], np.int64))):
        m.graph.initializer.extend([numpy_helper.from_array(v, f"{name}/{n}")])
    kind = m.graph.output[0].type.tensor_type.elem_type
    node = lambda op, i, o, **a: helper.make_node(op, [f"{name}/{x}" if "/" not in x else x for x in i], [f"{name}/{o}"], name=f"{name}/{o}", **a)
    nodes = [node("Shape", [value + "/right"], "places", start=2, end=3), node("Reshape", ["places", "flat"], "n"),
             node("Range", ["zero", "n", "one"], "each"), node("Sub", ["n", "one"], "last"), node("Less", ["each", "last"], "before"),
             node("Cast", ["before"], "keep", to=kind), node("Unsqueeze", ["keep", "axes"], "kept"),
             helper.make_node("Mul", [value + "/right", f"{name}/kept"], [value], name=f"{name}/Mul")]
    insert_after(m, cache_producer(style, layer, "value"), value, nodes)
    return Where(0, layer, ("Mul",))


def mask_off(m, style, layer, at, prompt):
    """One layer does not see the key at position `at`, once it is in the past (old, opset23)."""
    name = f"fault.{layer}"
    kind = m.graph.output[0].type.tensor_type.elem_type
    dtype = np.float16 if kind == TensorProto.FLOAT16 else np.float32
    table = np.zeros((1, 1, 1, POSITIONS), dtype)
    table[..., at] = -60000
    for n, v in (("table", table), ("c", np.asarray([0], np.int64)), ("x", np.asarray([3], np.int64))):
        m.graph.initializer.extend([numpy_helper.from_array(v, f"{name}/{n}")])
    source = "mask" if style == "old" else "attention_mask"
    node = find(m, f"model.layers.{layer}.attn/" + ("qk/Add" if style == "old" else "Attention"))
    node.input[:] = [f"{name}/mask" if i == source else i for i in node.input]
    # the query at that position itself is not to lose its only key when it is the first
    nodes = late(m, name, at + 1) + [
        helper.make_node("Slice", [f"{name}/table", f"{name}/c", f"{name}/total", f"{name}/x"], [f"{name}/row"], name=f"{name}/Slice"),
        helper.make_node("Add", [source, f"{name}/row"], [f"{name}/added"], name=f"{name}/Add"),
        helper.make_node("Where", [f"{name}/late", f"{name}/added", source], [f"{name}/mask"], name=f"{name}/Where")]
    first = next(i for i, n in enumerate(m.graph.node) if n.name == f"model.layers.{layer}.attn.q_proj/MatMul" or
                 n.name == f"model.layers.{layer}.attn.q_proj/MatMulNBits")
    rest = list(m.graph.node[first:])
    del m.graph.node[first:]
    m.graph.node.extend(nodes + rest)
    return Where(0 if at + 1 < prompt else at + 2 - prompt, layer, ("Attention", "Softmax", "Add"))


def block_scale(m, style, layer, at, prompt):
    change(m, f"model.layers.{layer}.mlp.up_proj.scales", lambda s: s.__setitem__(at % s.size, s[at % s.size] * 1.5))
    return Where(0, layer, ("MatMulNBits",))


def one_weight(m, style, layer, at, prompt):
    change(m, f"model.layers.{layer}.mlp.down_proj.weight", lambda w: w.__setitem__((at % MLP, at % HIDDEN), w[at % MLP, at % HIDDEN] + 0.5))
    return Where(0, layer, ("MatMul",))


def epsilon(m, style, layer, at, prompt):
    op = "RMSNormalization" if style == "opset23" else "SimplifiedLayerNormalization"
    set_attribute(find(m, f"model.layers.{layer}.post_norm/{op}"), "epsilon", 0.05)
    return Where(0, layer, (op,))


def position_after_prefill(m, style, layer, at, prompt):
    """Positions are one too high in every step that has a past (old, opset23)."""
    name = "fault.position"
    for n, v in (("zero", [0]), ("two", [2])):
        m.graph.initializer.extend([numpy_helper.from_array(np.asarray(v, np.int64), f"{name}/{n}")])
    nodes = [helper.make_node("Shape", ["past_key_values.0.key"], [f"{name}/past"], name=f"{name}/Shape", start=2, end=3),
             helper.make_node("Greater", [f"{name}/past", f"{name}/zero"], [f"{name}/some"], name=f"{name}/Greater"),
             helper.make_node("Cast", [f"{name}/some"], [f"{name}/one"], name=f"{name}/Cast", to=TensorProto.INT64),
             helper.make_node("Add", ["position_ids", f"{name}/one"], [f"{name}/ids"], name=f"{name}/Add")]
    for n in m.graph.node:
        if n.op_type == "Gather" and "rotary" in n.name:
            n.input[:] = [f"{name}/ids" if i == "position_ids" else i for i in n.input]
    rest = list(m.graph.node)
    del m.graph.node[:]
    m.graph.node.extend(nodes + rest)
    return Where(1, -1, ("Gather", "Unsqueeze"))  # in every layer: the one with the largest effect is first


def overflow(m, style, layer, at, prompt):
    """From more than `at` tokens on, a sum of one layer is scaled up and down again: beyond the largest half float in between."""
    value, name = f"model.layers.{layer}.attn/residual/out", f"model.layers.{layer}.fault"
    for n, v in (("large", 6e4), ("one", 1)):
        m.graph.initializer.extend([numpy_helper.from_array(np.asarray([v], np.float16), f"{name}/{n}")])
    nodes = late(m, name, at) + [
        helper.make_node("Where", [f"{name}/late", f"{name}/large", f"{name}/one"], [f"{name}/factor"], name=f"{name}/Where"),
        helper.make_node("Mul", [value + "/right", f"{name}/factor"], [f"{name}/scaled"], name=f"{name}/Mul"),
        helper.make_node("Div", [f"{name}/scaled", f"{name}/factor"], [value], name=f"{name}/Div")]
    insert_after(m, f"model.layers.{layer}.attn/residual", value, nodes)
    return Where(step_of(at, prompt), layer, ("Mul", "Div"))  # ONNX Runtime may run the two as one


# name -> (function, styles that have it, kinds of weights)
FAULTS = {
    "rotary row": (rotary_row, ("genai", "opset23", "old"), ("fp32", "fp16", "int4")),
    "attention scale": (attention_scale, ("genai", "opset23", "old"), ("fp32", "fp16", "int4")),
    "window": (window, ("genai",), ("fp32", "int4")),
    "cache shifted": (cache_shifted, ("genai", "opset23", "old"), ("fp32", "fp16", "int4")),
    "stale slot": (stale_slot, ("genai", "opset23", "old"), ("fp32", "fp16", "int4")),
    "mask off by one": (mask_off, ("opset23", "old"), ("fp32", "int4")),
    "block scale": (block_scale, ("genai", "opset23", "old"), ("int4",)),
    "one weight": (one_weight, ("genai", "opset23", "old"), ("fp32", "fp16")),
    "epsilon": (epsilon, ("genai", "opset23"), ("fp32", "int4")),
    "position after prefill": (position_after_prefill, ("opset23", "old"), ("fp32", "int4")),
    "overflow": (overflow, ("genai", "opset23", "old"), ("fp16",)),
}


def planted(fault, style, kind, layer, at, prompt, layers=4, seed=0):
    """(clean, bad, where)"""
    clean = model(style, kind, layers, seed)
    bad = onnx.ModelProto()
    bad.CopyFrom(clean)
    return clean, bad, FAULTS[fault][0](bad, style, layer, at, prompt)

"""Two small classifiers that were trained (a CNN, a transformer), and the quantiser: QDQ, QOperator and dynamic models as ONNX Runtime's own
quantiser writes them, per tensor or per channel. Plain numpy and onnx.

The float models have what makes real ones hard to quantise: channels of very different size. Training does not make them in a minute, so they
are put in by moving a factor from one weight to the next, which leaves what the model computes as it is.
"""

import io
import warnings

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

CLASSES = 10


def images(n, seed):
    """Smooth patterns, one for each class, shifted, faded, and under noise; x, labels."""
    base = np.random.default_rng(7).standard_normal((CLASSES, 3, 5, 5))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    big = np.kron(base, np.ones((4, 4)))[:, :, 2:18, 2:18]
    x = np.stack([np.roll(big[c], rng.integers(-2, 3, 2), (1, 2)) * rng.uniform(0.5, 1.5) for c in labels])
    return (x + 0.9 * rng.standard_normal(x.shape)).astype(np.float32), labels


def sequences(n, seed):
    """Words of four tokens, twice in noise: which one is it? What the float model knows must not be luck: it gets nearly all of them."""
    words = np.random.default_rng(8).integers(0, 24, (CLASSES, 4))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    x = rng.integers(0, 24, (n, 16))
    for i, c in enumerate(labels):
        for at in (rng.integers(0, 5), rng.integers(8, 13)):
            x[i, at:at + 4] = words[c]
    return x.astype(np.int64), labels


class Cnn(nn.Module):
    def __init__(self, width=12, blocks=4):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
        for i in range(blocks):
            layers += [nn.Conv2d(width, width, 3, padding=1, groups=width, stride=2 if i == 1 else 1), nn.ReLU(),
                       nn.Conv2d(width, width, 1), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width * 4, CLASSES)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(self.body(x), 4)
        return self.head(x.flatten(1))


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads, self.width = heads, width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        shape = (-1, 16, self.heads, self.width // self.heads)
        q, k, v = (f(h).reshape(shape).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = torch.softmax(q @ k.transpose(-1, -2) * (self.width // self.heads) ** -0.5, -1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(-1, 16, self.width))
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, width=32, blocks=2):
        super().__init__()
        self.words = nn.Embedding(24, width)
        self.place = nn.Parameter(torch.randn(1, 16, width) * 0.1)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.blocks(self.words(x) + self.place).mean(1))


def train(net, data, steps):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name, p in net.named_parameters():  # all of them: the net was made before the seed
        if p.dim() > 1:
            nn.init.kaiming_uniform_(p, a=1)
        elif name.endswith("bias"):
            nn.init.zeros_(p)
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    x, y = data(4096, 1)
    rng = np.random.default_rng(0)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * (1 - step / steps)
        pick = rng.integers(0, len(x), 64)
        loss = nn.functional.cross_entropy(net(torch.from_numpy(x[pick])), torch.from_numpy(y[pick]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval()


def factors(n, spread, seed):
    return torch.from_numpy(np.exp(np.random.default_rng(seed).uniform(-spread, spread, n)).astype(np.float32))


def unbalance_cnn(net):
    """Channels behind the second, the fifth and the eighth convolution get sizes of their own; the next one takes them back."""
    convs = [m for m in net.body if isinstance(m, nn.Conv2d)]
    with torch.no_grad():
        for i, spread in ((1, 3.5), (4, 3.0), (7, 3.0)):
            f = factors(convs[i].out_channels, spread, i)
            convs[i].weight *= f[:, None, None, None]
            convs[i].bias *= f
            take = convs[i + 1].weight
            take /= f[:, None, None, None] if convs[i + 1].groups > 1 else f[None, :, None, None]


def unbalance_transformer(net):
    """A few channels of a LayerNorm are outliers, as in large language models; and the middle of one MLP."""
    with torch.no_grad():
        block = net.blocks[0]
        f = torch.ones(32)
        f[[3, 17]] = 300.0
        block.norm2.weight *= f
        block.norm2.bias *= f
        block.up.weight /= f[None, :]
        f = factors(64, 3.5, 3)
        block = net.blocks[1]
        block.up.weight *= f[:, None]
        block.up.bias *= f
        block.down.weight /= f[None, :]


def export(net, x):
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, torch.from_numpy(x), out, opset_version=13, input_names=["x"], output_names=["logits"],
                          dynamic_axes={"x": {0: "n"}, "logits": {0: "n"}})
    return onnx.load_from_string(out.getvalue())


def cnn(steps=200):
    net = train(Cnn(), images, steps)
    unbalance_cnn(net)
    return export(net, images(2, 3)[0])


def transformer(steps=200):
    net = train(Transformer(), sequences, steps)
    unbalance_transformer(net)
    return export(net, sequences(2, 3)[0])


# ---- the quantiser ----

def weight_codes(w, axis):
    """int8, symmetric, as ONNX Runtime does; axis None = per tensor."""
    over = None if axis is None else tuple(i for i in range(w.ndim) if i != axis)
    largest = np.maximum(np.abs(w).max(axis=over, keepdims=axis is not None), 1e-12)
    scale = (largest / 127).astype(np.float32)
    codes = np.clip(np.rint(w / scale), -127, 127).astype(np.int8)
    return codes, scale.reshape(-1) if axis is not None else np.float32(scale)


def code_range(low, high):
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    scale = np.float32(max(high - low, 1e-12) / 255)
    return scale, np.uint8(np.clip(np.rint(-low / scale), 0, 255))


class Quantiser:
    def __init__(self, model, ranges=None, per_channel=False, form="qdq"):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.graph = self.model.graph
        self.weights = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self.ranges, self.per_channel, self.form = ranges, per_channel, form
        self.nodes, self.made = [], {}

    def constant(self, name, array):
        if name not in self.made:
            self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
            self.made[name] = name
        return name

    def add(self, op, inputs, outputs, name, **attributes):
        self.nodes.append(helper.make_node(op, inputs, outputs, name, **attributes))
        return outputs[0]

    def weight(self, name, axis):
        codes, scale = weight_codes(self.weights[name], axis if self.per_channel else None)
        zero = np.zeros(np.shape(scale), np.int8)
        return (self.constant(f"{name}_quantized", codes), self.constant(f"{name}_scale", scale),
                self.constant(f"{name}_zero_point", zero), scale)

    def parameters(self, value):
        scale, zero = code_range(*self.ranges[value])
        return self.constant(f"{value}_scale", scale), self.constant(f"{value}_zero_point", zero), scale

    def codes(self, value):
        """The value as uint8, made once."""
        scale, zero, number = self.parameters(value)
        key = f"{value}_quantized"
        if key not in self.made:
            self.made[key] = self.add("QuantizeLinear", [value, scale, zero], [key], f"{value}_QuantizeLinear")
        return key, scale, zero, number

    def back(self, value):
        """The value through its codes and back, made once."""
        name = f"{value}_DequantizeLinear_Output"
        if name not in self.made:
            codes, scale, zero, _ = self.codes(value)
            self.made[name] = self.add("DequantizeLinear", [codes, scale, zero], [name], f"{value}_DequantizeLinear")
        return name

    def is_product(self, node):
        return node.op_type in ("Conv", "MatMul", "Gemm")

    def product_qdq(self, node, axis):
        inputs = [self.back(node.input[0])]
        if node.input[1] in self.weights:
            codes, scale, zero, number = self.weight(node.input[1], axis)
            extra = {"axis": axis} if self.per_channel else {}
            inputs.append(self.add("DequantizeLinear", [codes, scale, zero], [f"{node.input[1]}_DequantizeLinear_Output"],
                                   f"{node.input[1]}_DequantizeLinear", **extra))
            if len(node.input) > 2:
                step = (self.parameters(node.input[0])[2] * number).astype(np.float32)
                bias = np.rint(self.weights[node.input[2]] / step).astype(np.int32)
                extra = {"axis": 0} if self.per_channel else {}
                inputs.append(self.add("DequantizeLinear", [self.constant(f"{node.input[2]}_quantized", bias),
                                                            self.constant(f"{node.input[2]}_quantized_scale", step),
                                                            self.constant(f"{node.input[2]}_quantized_zero_point", np.zeros(step.shape, np.int32))],
                                       [node.input[2] + "_DequantizeLinear_Output"], f"{node.input[2]}_DequantizeLinear", **extra))
        else:
            inputs.append(self.back(node.input[1]))
        node.input[:] = inputs
        self.nodes.append(node)

    def product_qoperator(self, node, axis):
        x, x_scale, x_zero, step = self.codes(node.input[0])
        out = node.output[0]
        y_scale, y_zero, _ = self.parameters(out)
        if node.input[1] in self.weights:
            w, w_scale, w_zero, number = self.weight(node.input[1], axis)
        else:
            w, w_scale, w_zero, number = self.codes(node.input[1])
        inputs = [x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Conv" and len(node.input) > 2:
            bias = np.rint(self.weights[node.input[2]] / (step * number)).astype(np.int32)
            inputs.append(self.constant(f"{node.input[2]}_quantized", bias))
        key = f"{out}_quantized"
        self.made[key] = self.add("QLinearConv" if node.op_type == "Conv" else "QLinearMatMul", inputs, [key], f"{node.name}_quant", **attributes)
        self.add("DequantizeLinear", [key, y_scale, y_zero], [out], f"{out}_DequantizeLinear")

    def product_dynamic(self, node, axis):
        x, out = node.input[0], node.output[0]
        codes, scale, zero = f"{x}_quantized", f"{x}_scale", f"{x}_zero_point"
        if codes not in self.made:
            self.made[codes] = self.add("DynamicQuantizeLinear", [x], [codes, scale, zero], f"{x}_QuantizeLinear")
        w, w_scale, w_zero, _ = self.weight(node.input[1], axis)
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        conv = node.op_type == "Conv"
        if self.per_channel and conv:
            w_scale = self.constant(f"{node.input[1]}_scale_shaped", weight_codes(self.weights[node.input[1]], 0)[1].reshape(1, -1, 1, 1))
        self.add("ConvInteger" if conv else "MatMulInteger", [codes, w, zero] + ([] if conv else [w_zero]), [f"{out}_output_quantized"],
                 f"{node.name}_quant", **attributes)
        self.add("Cast", [f"{out}_output_quantized"], [f"{out}_cast"], f"{node.name}_cast", to=TensorProto.FLOAT)
        self.add("Mul", [scale, w_scale], [f"{node.name}_scales_mul:0"], f"{node.name}_scales_mul")
        bias = len(node.input) > 2
        self.add("Mul", [f"{out}_cast", f"{node.name}_scales_mul:0"], [f"{out}_no_bias" if bias else out], f"{node.name}_output_scale_mul")
        if bias:
            b = self.constant(f"{node.input[2]}_shaped", self.weights[node.input[2]].reshape(1, -1, 1, 1))
            self.add("Add", [f"{out}_no_bias", b], [out], f"{node.name}_bias_add")

    def run(self, only=None):
        """only: names of outputs of the nodes to quantise; None = all products."""
        for node in list(self.graph.node):
            if not self.is_product(node) or (only is not None and node.output[0] not in only):
                self.nodes.append(node)
                continue
            axis = 0 if node.op_type == "Conv" else 1
            getattr(self, f"product_{self.form}")(node, axis)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        used = {i for n in self.graph.node for i in n.input}
        kept = [t for t in self.graph.initializer if t.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        return self.model


def gemm_as_matmul(model):
    """x W' + b as MatMul and Add, which all forms know."""
    weights = {t.name: t for t in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Gemm":
            nodes.append(node)
            continue
        w = numpy_helper.to_array(weights[node.input[1]]).T.copy()
        model.graph.initializer.append(numpy_helper.from_array(w, node.input[1] + "_t"))
        nodes.append(helper.make_node("MatMul", [node.input[0], node.input[1] + "_t"], [node.output[0] + "_product"], node.name + "_MatMul"))
        nodes.append(helper.make_node("Add", [node.output[0] + "_product", node.input[2]], [node.output[0]], node.name + "_Add"))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def layers(model):
    """Outputs of the products with weights: what can be quantised in every form."""
    weights = {t.name for t in model.graph.initializer}
    return [n.output[0] for n in model.graph.node if n.op_type in ("Conv", "MatMul", "Gemm") and n.input[1] in weights]


def quantise(model, form, per_channel, ranges=None, keep=()):
    only = [v for v in layers(model) if v not in keep]
    return Quantiser(model, ranges, per_channel, form).run(only)


def unsigned_weights(model):
    """int8 codes and zero points as uint8: the same numbers, which no CPU clips."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for t in out.graph.initializer:
        codes = numpy_helper.to_array(t)
        if codes.dtype == np.int8:
            t.CopyFrom(numpy_helper.from_array((codes.astype(np.int16) + 128).astype(np.uint8), t.name))
    for node in out.graph.node:
        if node.op_type == "ConvInteger" and len(node.input) == 3:
            node.input.append("zero_point_128")
    if any("zero_point_128" in n.input for n in out.graph.node):
        out.graph.initializer.append(numpy_helper.from_array(np.uint8(128), "zero_point_128"))
    return out

#!/usr/bin/python3
"""What 2,059 public models showed (../shared/reference/corpus.md): one small model of the same shape for each finding. TAP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, load, numpy_helper, save

from tap import Skip, main

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
LIBRARY = ROOT / ".cache/ort-1.27.0/libonnxruntime.so.1"
ORT = f"ort:lib={LIBRARY}"
F = TensorProto.FLOAT


def plumb(*args, cwd=None, exits=(0,), timeout=300):
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=timeout, cwd=cwd,
                          env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"})
    if done.returncode not in exits:
        raise AssertionError(f"plumb {' '.join(map(str, args))}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return done


def analyze(model, *args, exits=(0,)):
    done = plumb("analyze", model, "--json", "--save", "none", "-o", f"{model}.session-{len(list(model.parent.glob('*.session*')))}", *args, exits=exits)
    return json.loads(done.stdout)


def need_ort():
    if not LIBRARY.exists():
        raise Skip(f"{LIBRARY} is missing: tools/fetch-ort")


def array(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def value(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(path, nodes, inputs, outputs, init=(), opset=17, ir=8, domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(init))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, v) for d, v in domains]
    save(helper.make_model(graph, opset_imports=imports, ir_version=ir), str(path))
    return path


# ---- blocked layouts of ONNX Runtime ----

class OldExport:
    """As older exporters write: IR version 3, nodes without names, every initializer among the inputs; `light`: weights are made by
    ConstantOfShape, as in the light models of ONNX."""

    def __init__(self, light):
        self.light, self.nodes, self.init, self.rng = light, [], [], np.random.default_rng(0)

    def weight(self, name, shape, scale):
        if not self.light:
            self.init.append(array(name, (self.rng.standard_normal(shape) * scale).astype(np.float32)))
            return name
        self.init.append(array(name + "__SHAPE", np.array(shape, np.int64)))
        self.nodes.append(helper.make_node("ConstantOfShape", [name + "__SHAPE"], [name], value=helper.make_tensor("v", F, [1], [scale])))
        return name

    def op(self, op, inputs, **attrs):
        out = f"gpu_0/{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], **attrs))
        return out

    def conv(self, x, n_in, n_out, k=1):
        w = self.weight(f"w{len(self.nodes)}", [n_out, n_in, k, k], 1 / (n_in * k * k) ** 0.5)
        return self.op("Conv", [x, w], kernel_shape=[k, k], pads=[k // 2] * 4)

    def norm(self, x, n):
        base = f"bn{len(self.nodes)}"
        parts = [np.linspace(0.5, 1.5, n), np.linspace(-1, 1, n), np.linspace(-0.1, 0.1, n), np.linspace(0.5, 2, n)]
        self.init += [array(base + s, v.astype(np.float32)) for s, v in zip(("_s", "_b", "_rm", "_riv"), parts)]
        return self.op("BatchNormalization", [x] + [base + s for s in ("_s", "_b", "_rm", "_riv")])

    def save(self, path, out, shape):
        inputs = [value("data", [1, 3, 16, 16])]
        inputs += [value(t.name, list(t.dims), t.data_type) for t in self.init]
        return model_of(path, self.nodes, inputs, [value(out, shape)], self.init, opset=9, ir=3)


def residual(path, light):
    net = OldExport(light)
    x = net.op("Relu", [net.norm(net.conv("data", 3, 20, 3), 20)])
    for _ in range(3):
        y = net.op("Relu", [net.norm(net.conv(x, 20, 20, 3), 20)])
        y = net.norm(net.conv(y, 20, 20), 20)
        x = net.op("Relu", [net.op("Sum", [y, x])])
    return net.save(path, net.op("GlobalAveragePool", [x]), [1, 20, 1, 1])


def dense(path, light):
    net = OldExport(light)
    parts = [net.op("Relu", [net.conv("data", 3, 16, 3)])]
    for i in range(3):
        joined = net.op("Concat", parts, axis=1)
        n = 16 * (i + 1)
        parts.append(net.conv(net.op("Relu", [net.norm(joined, n)]), n, 16, 3))
    return net.save(path, net.op("GlobalAveragePool", [net.op("Concat", parts, axis=1)]), [1, 64, 1, 1])


def compared(session):
    return [p for p in session["sync_points"] if p["verdict"] in ("same", "within", "culprit", "inherited", "amplified")]


def test_blocked_layouts_are_mapped_back(folder):
    """Channels that fill no block, weights that are computed, BatchNormalization on its own, Concat of blocks."""
    need_ort()
    told = []
    for build in (residual, dense):
        for light in (False, True):
            model = build(folder / f"{build.__name__}-{light}.onnx", light)
            n_all = len(compared(analyze(model, "--backend", ORT)))
            n_extended = len(compared(analyze(model, "--backend", ORT + ",opt=extended")))
            told.append(f"{n_all} of {n_extended}")
            assert n_all >= n_extended - 3, (model.name, n_all, n_extended)  # Sum is part of the convolution before it
    return ", ".join(told)


# ---- operators that only the backend knows ----

def foreign_model(path, branch=False):
    """relu -> Inverse of com.microsoft, which plumb has no row for and ONNX Runtime runs -> MatMul; `branch`: an output beside it."""
    rng = np.random.default_rng(1)
    init = [array("w", (np.eye(4) * 3 + rng.standard_normal((4, 4)) * 0.1).astype(np.float32)), array("v", rng.standard_normal((4, 4)).astype(np.float32))]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
             helper.make_node("Inverse", ["h"], ["inv"], name="foreign", domain="com.microsoft"),
             helper.make_node("MatMul", ["inv", "v"], ["m"], name="second"), helper.make_node("Tanh", ["m"], ["y"], name="third")]
    outputs = [value("y", [4, 4])]
    if branch:
        nodes, outputs = [*nodes[:2], helper.make_node("Tanh", ["h"], ["z"], name="beside")], [value("z", [4, 4])]
    return model_of(path, nodes, [value("x", [4, 4])], outputs, init, domains=[("com.microsoft", 1)])


def test_foreign_operator_is_unverified_and_the_rest_is_analysed(folder):
    need_ort()
    model = foreign_model(folder / "m.onnx")
    got = analyze(model, "--backend", ORT, exits=(2,))
    verdicts = {p["value"]: p["verdict"] for p in got["sync_points"]}
    assert verdicts == {"h": "within", "inv": "unverified", "m": "within", "y": "unverified"}, verdicts
    assert got["verdict"] == "inconclusive" and "Inverse" in got["reason"], got["reason"]
    assert any("'Inverse' of domain 'com.microsoft' is not known" in n for n in got["notes"]), got["notes"]


def test_foreign_operator_whose_output_nobody_needs_does_not_matter(folder):
    need_ort()
    got = analyze(foreign_model(folder / "m.onnx", branch=True), "--backend", ORT)
    assert got["verdict"] == "agree", got["reason"]


def test_fault_after_a_foreign_operator_is_found(folder):
    """An engine that runs everything, the operator that plumb does not know too, and gets the last MatMul wrong."""
    model = foreign_model(folder / "m.onnx")
    (folder / "engine").write_text(ENGINE)
    (folder / "engine").chmod(0o755)
    got = analyze(model, "--backend", f"cmd:{folder}/engine", exits=(1,))
    assert got["verdict"] == "diverged" and [b["node"] for b in got["blame"]] == ["second"], (got["reason"], got["blame"])


ENGINE = """#!/usr/bin/python3
import sys
import numpy as np
from onnx import load, load_tensor, numpy_helper as nh
import json, struct
d = sys.argv[1]
m = load(d + "/model.onnx")
v = {t.name: nh.to_array(t) for t in m.graph.initializer}
v["x"] = nh.to_array(load_tensor(d + "/test_data_set_0/input_0.pb"))
v["h"] = (v["x"] @ v["w"]).astype(np.float32)
v["inv"] = np.linalg.inv(v["h"].astype(np.float64)).astype(np.float32)
v["m"] = (v["inv"] @ v["v"]).astype(np.float32) * np.float32(1.01)
v["y"] = np.tanh(v["m"])
for i, o in enumerate(m.graph.output):
    open(f"{d}/test_data_set_0/output_{i}.pb", "wb").write(nh.from_array(v[o.name], o.name).SerializeToString())
head, body = {}, b""
for n in ("h", "inv", "m", "y"):
    head[n] = {"dtype": "F32", "shape": list(v[n].shape), "data_offsets": [len(body), len(body) + v[n].nbytes]}
    body += v[n].tobytes()
text = json.dumps(head).encode()
open(d + "/intermediates.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
"""


def test_info_and_run_say_which_operator_is_foreign(folder):
    need_ort()
    model = foreign_model(folder / "m.onnx")
    told = json.loads(plumb("info", model, "--json").stdout)
    assert told["inferred"] and not told["ops"]["com.microsoft.Inverse-1"]["eager"], told["ops"]
    plumb("run", model, "--backend", ORT, "-o", folder / "out")
    plumb("record", model, "--backend", ORT, "-o", folder / "r.safetensors")
    refused = plumb("run", model, exits=(2,)).stderr
    assert "'Inverse' of domain 'com.microsoft'" in refused and "not known" in refused, refused


# ---- what runtimes accept ----

def test_missing_opset_import_and_unknown_attribute_are_warnings(folder):
    nodes = [helper.make_node("FastGelu", ["x"], ["h"], domain="com.microsoft"),
             helper.make_node("LayerNormalization", ["h", "g"], ["y"], epsion=1e-3, name="ln")]
    model = model_of(folder / "m.onnx", nodes, [value("x", [2, 8])], [value("y", [2, 8])], [array("g", np.ones(8, np.float32))])
    got = analyze(model, "--backend", "jit")
    assert got["verdict"] == "agree", got["reason"]
    notes = "; ".join(got["notes"])
    assert "unknown attribute 'epsion' is ignored; did you mean 'epsilon'?" in notes, notes
    assert "no opset is imported for domain 'com.microsoft'" in notes, notes
    plumb("convert", model, folder / "out.onnx")
    plumb("convert", model, folder / "out.onnxtxt")
    assert "com.microsoft\" :" not in (folder / "out.onnxtxt").read_text()
    plumb("run", folder / "out.onnx")
    plumb("run", folder / "out.onnxtxt")


# ---- culprits ----

def one_pass(path, offset):
    """Rows of a large mean: the variance of one pass in float32 has no digits left."""
    rng = np.random.default_rng(0)
    n = 16
    init = [array("g", np.ones(n, np.float32)), array("b", np.zeros(n, np.float32)), array("w", (rng.standard_normal((n, 3 * n)) * 0.1).astype(np.float32)),
            array("wb", np.zeros(3 * n, np.float32)), array("bias", (offset + rng.standard_normal(n) * 1e-3).astype(np.float32))]
    ms = {"domain": "com.microsoft"}
    nodes = [helper.make_node("Attention", ["x", "w", "wb"], ["att"], name="att", num_heads=2, **ms),
             helper.make_node("SkipLayerNormalization", ["att", "x", "g", "b", "bias"], ["y"], name="skip", epsilon=1e-12, **ms)]
    return model_of(path, nodes, [value("x", [1, 4, n])], [value("y", [1, 4, n])], init, domains=[("com.microsoft", 1)])


def test_variance_of_one_pass_is_a_culprit_when_nothing_is_left_of_it(folder):
    need_ort()
    for offset in (1000, 10000):
        got = analyze(one_pass(folder / f"{offset}.onnx", offset), "--backend", ORT, exits=(1,))
        assert [b["node"] for b in got["blame"]] == ["skip"], (offset, got["reason"])
    for offset in (0, 10):
        got = analyze(one_pass(folder / f"{offset}.onnx", offset), "--backend", ORT)
        assert got["verdict"] == "agree", (offset, got["reason"])


def masked(path, shows):
    """Attention with a mask that hides something; `shows`: its scores are an output."""
    outs = [value("y", [1, 2, 3, 4])] + ([value("qk", [1, 2, 3, 5])] if shows else [])
    node = helper.make_node("Attention", ["q", "k", "v", "m"], ["y", "", "", "qk"], qk_matmul_output_mode=2)
    mask = np.arange(15).reshape(3, 5) % 4 != 1
    return model_of(path, [node], [value("q", [1, 2, 3, 4]), value("k", [1, 2, 5, 4]), value("v", [1, 2, 5, 4])], outs, [array("m", mask)], 23, 10)


def test_lowest_number_for_minus_inf_names_its_operator(folder):
    """ONNX Runtime masks with the lowest float: harmless before Softmax, another answer as an output; never "no operation to blame"."""
    need_ort()
    got = analyze(masked(folder / "shown.onnx", True), "--backend", ORT, exits=(1,))
    assert [(b["value"], b["op"]) for b in got["blame"]] == [("qk", "Attention")] and "no operation to blame" not in got["reason"], got["reason"]
    assert "off by 0 " not in got["reason"], got["reason"]
    assert analyze(masked(folder / "hidden.onnx", False), "--backend", ORT)["verdict"] == "agree"


# ---- false alarms ----

def test_normalisation_folded_through_reshape_is_no_fault(folder):
    """ONNX Runtime folds it into the MatMul before Reshape and Transpose, which keep their names."""
    need_ort()
    rng = np.random.default_rng(0)
    init = [array("w", rng.standard_normal((8, 4)).astype(np.float32)), array("to3", np.array([2, 3, 4])), array("to4", np.array([2, 4, 3, 1]))]
    init += [array(n, rng.uniform(0.5, 1.5, 4).astype(np.float32)) for n in "sbmv"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["matmul_output"]), helper.make_node("Reshape", ["matmul_output", "to3"], ["r"]),
             helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1]), helper.make_node("Reshape", ["t", "to4"], ["r2"]),
             helper.make_node("BatchNormalization", ["r2", *"sbmv"], ["n"]), helper.make_node("Relu", ["n"], ["y"])]
    model = model_of(folder / "m.onnx", nodes, [value("x", [6, 8])], [value("y", [2, 4, 3, 1])], init, opset=15)
    got = analyze(model, "--backend", ORT)
    assert got["verdict"] == "agree", got["reason"]
    # one that is not folded is seen as before
    model = model_of(folder / "n.onnx", [helper.make_node("Neg", ["x"], ["h"]), helper.make_node("BatchNormalization", ["h", *"sbmv"], ["y"])],
                     [value("x", [2, 4, 3])], [value("y", [2, 4, 3])], init[3:], opset=15)
    got = analyze(model, "--backend", ORT + ",opt=basic")
    assert {p["value"] for p in compared(got)} == {"h", "y"}, got["sync_points"]


def test_codes_moved_before_a_reshape_are_no_fault(folder):
    """QuantizeLinear moves up over Reshape and leaves a pair behind: what is between has been through codes. Effect 0."""
    need_ort()
    rng = np.random.default_rng(0)
    byte, scale = np.uint8, np.float32
    init = [array("wf", rng.standard_normal((8, 3, 3, 3)).astype(np.float32)), array("shape", np.array([1, -1])), array("sp", scale(0.03)), array("zp", byte(120)),
            array("w2", rng.integers(-100, 100, (8, 5)).astype(np.int8)), array("sw", scale(0.01)), array("zw", np.int8(0)), array("so", scale(0.2)), array("zo", byte(128))]
    nodes = [helper.make_node("Conv", ["x", "wf"], ["c"]), helper.make_node("AveragePool", ["c"], ["p"], kernel_shape=[6, 6]),
             helper.make_node("Reshape", ["p", "shape"], ["r"]), helper.make_node("QuantizeLinear", ["r", "sp", "zp"], ["rq"]),
             helper.make_node("QLinearMatMul", ["rq", "sp", "zp", "w2", "sw", "zw", "so", "zo"], ["o"]), helper.make_node("DequantizeLinear", ["o", "so", "zo"], ["y"])]
    model = model_of(folder / "m.onnx", nodes, [value("x", [1, 3, 8, 8])], [value("y", [1, 5])], init, opset=13)
    for level in ("basic", "extended", "all"):
        got = analyze(model, "--backend", f"{ORT},opt={level}")
        assert got["verdict"] == "agree", (level, got["reason"])
        assert "p" in {p["value"] for p in compared(got)}, level  # what comes before the pair is still seen


# ---- generated inputs ----

def generated(model, name, *args):
    """The values that plumb makes for one input: the model hands them on."""
    folder = model.parent / f"run-{name}-{len(args)}"
    plumb("run", model, "-o", folder, *args)
    return np.load(folder / f"{name}_out.npy")


def test_generated_masks_lengths_and_exponents_fit_their_operator(folder):
    ms, i32, i64 = {"domain": "com.microsoft"}, TensorProto.INT32, TensorProto.INT64
    rng = np.random.default_rng(0)
    w = [array("w", (rng.standard_normal((16, 48)) * 0.1).astype(np.float32)), array("wb", np.zeros(48, np.float32))]
    nodes = [helper.make_node("Attention", ["x", "w", "wb", "hidden"], ["y"], num_heads=2, **ms), helper.make_node("Identity", ["hidden"], ["hidden_out"])]
    model = model_of(folder / "mask.onnx", nodes, [value("x", [3, 8, 16]), value("hidden", [3, 8], i32)], [value("y", [3, 8, 16]), value("hidden_out", [3, 8], i32)], w,
                     domains=[("com.microsoft", 1)])
    mask = generated(model, "hidden")
    assert set(np.unique(mask)) == {0, 1} and (mask[:, 0] == 1).all(), mask
    lengths = [helper.make_node("LSTM", ["x", "W", "R", "", "lens"], ["y"], hidden_size=4), helper.make_node("Identity", ["lens"], ["lens_out"])]
    weights = [array("W", rng.standard_normal((1, 16, 3)).astype(np.float32)), array("R", rng.standard_normal((1, 16, 4)).astype(np.float32))]
    model = model_of(folder / "lens.onnx", lengths, [value("x", [5, 6, 3]), value("lens", [6], i32)], [value("y", None), value("lens_out", [6], i32)], weights)
    lens = generated(model, "lens")
    assert lens.min() >= 1 and lens.max() <= 5 and len(set(lens)) > 1, lens
    power = [helper.make_node("Pow", ["x", "e"], ["y"]), helper.make_node("Identity", ["e"], ["e_out"])]
    model = model_of(folder / "pow.onnx", power, [value("x", [64], i32), value("e", [64], i32)], [value("y", [64], i32), value("e_out", [64], i32)])
    assert generated(model, "e").max() == 2
    # arithmetic before the mask hides anything: the name tells; others stay 0 to 9
    chain = [helper.make_node("Cast", ["attention_mask"], ["f"], to=F), helper.make_node("Sub", ["one", "f"], ["y"]), helper.make_node("Identity", ["attention_mask"], ["attention_mask_out"]),
             helper.make_node("Identity", ["other"], ["other_out"])]
    model = model_of(folder / "chain.onnx", chain, [value("attention_mask", [2, 32], i64), value("other", [64], i64)],
                     [value("y", [2, 32]), value("attention_mask_out", [2, 32], i64), value("other_out", [64], i64)], [array("one", np.float32(1))])
    assert set(np.unique(generated(model, "attention_mask"))) == {0, 1} and generated(model, "other").max() == 9
    assert generated(model, "attention_mask", "--range", "attention_mask=3:3").min() == 3


def test_generated_indices_fit_their_operator(folder):
    """Tuples of indices, classes, axes, counts, divisors, sizes: eager and ONNX Runtime run what is generated."""
    i64, i32 = TensorProto.INT64, TensorProto.INT32
    node, zeros = helper.make_node, lambda *s: np.zeros(s, np.float32)
    cases = {
        "GatherND": ([node("GatherND", ["x", "i"], ["y"])], [value("x", [4, 3]), value("i", [2, 2], i64)]),
        "GatherND of batches": ([node("GatherND", ["x", "i"], ["y"], batch_dims=1)], [value("x", [2, 3, 4]), value("i", [2, 1], i64)]),
        "ScatterND": ([node("ScatterND", ["x", "i", "u"], ["y"])], [value("x", [4, 3]), value("i", [2, 1], i64), value("u", [2, 3])]),
        "loss": ([node("SoftmaxCrossEntropyLoss", ["x", "i"], ["y"])], [value("x", [9, 3]), value("i", [9], i64)]),
        "RoiAlign": ([node("RoiAlign", ["x", "r", "i"], ["y"], output_height=2, output_width=2)], [value("x", [2, 1, 6, 6]), value("r", [5, 4]), value("i", [5], i64)]),
        "TopK": ([node("TopK", ["x", "i"], ["y", "k"])], [value("x", [2, 5]), value("i", [1], i64)]),
        "ReduceSum": ([node("ReduceSum", ["x", "i"], ["y"])], [value("x", [2, 3, 4]), value("i", [2], i64)]),
        "Unsqueeze": ([node("Unsqueeze", ["x", "i"], ["y"])], [value("x", [2, 3]), value("i", [2], i64)]),
        "CumSum": ([node("CumSum", ["x", "i"], ["y"])], [value("x", [2, 3]), value("i", [], i32)]),
        "Mod": ([node("Mod", ["x", "i"], ["y"])], [value("x", [99], i32), value("i", [99], i32)]),
        "Div": ([node("Div", ["x", "i"], ["y"])], [value("x", [99], i32), value("i", [99], i32)]),
        "Resize": ([node("Resize", ["x", "", "", "i"], ["y"])], [value("x", [1, 1, 3, 4]), value("i", [4], i64)]),
    }
    for name, (nodes, inputs) in cases.items():
        kind = i32 if name in ("Mod", "Div") else TensorProto.FLOAT
        model = model_of(folder / f"{name}.onnx", nodes, inputs, [value("y", None, kind)])
        for backend in ("eager", *(["ort"] if LIBRARY.exists() else [])):
            for seed in range(3):
                done = plumb("run", model, "--backend", backend, "--seed", seed, "-o", folder / f"{name}-{backend}-{seed}")
                assert done.returncode == 0, (name, backend, seed, done.stderr)


def test_generated_pages_fit_paged_attention(folder):
    """Sequences side by side that fill the query, past lengths with room, a block for one sequence only, a slot for one token only."""
    half, i32 = TensorProto.FLOAT16, TensorProto.INT32
    sizes = {"query": ([7, 32], half), "key": ([7, 16], half), "value": ([7, 16], half), "key_cache": ([12, 4, 2, 8], half), "value_cache": ([12, 4, 2, 8], half),
             "starts": ([4], i32), "past": ([3], i32), "table": ([3, 4], i32), "cos": ([14, 4], half), "sin": ([14, 4], half), "slots": ([7], i32)}
    node = helper.make_node("PagedAttention", [*list(sizes)[:10], "slots"], ["y", "k", "v"], domain="com.microsoft", num_heads=4, kv_num_heads=2, do_rotary=1)
    ints = ("starts", "past", "table", "slots")
    nodes = [node] + [helper.make_node("Identity", [n], [f"{n}_out"]) for n in ints]
    outputs = [value(n, None, half) for n in "ykv"] + [value(f"{n}_out", None, i32) for n in ints]
    model = model_of(folder / "paged.onnx", nodes, [value(n, *size) for n, size in sizes.items()], outputs, domains=[("com.microsoft", 1)])
    for seed in range(3):
        plumb("run", model, "--seed", seed, "-o", folder / f"paged-{seed}")
    assert generated(model, "starts").tolist() == [0, 2, 4, 7]
    past = generated(model, "past")
    assert 0 <= past.min() and past.max() <= 14 - 7, past
    assert generated(model, "table").ravel().tolist() == list(range(12)) and len(set(generated(model, "slots"))) == 7


def test_generated_sequences_are_not_empty(folder):
    """An empty sequence hides what is done to its items; ONNX Runtime cannot even make one."""
    seq = helper.make_tensor_sequence_value_info("s", F, [2, 3])
    model = model_of(folder / "m.onnx", [helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)], [seq], [value("y", [None, 3])])
    plumb("run", model, "-o", folder / "eager")
    assert np.load(folder / "eager/y.npy").shape == (4, 3)
    if LIBRARY.exists():
        assert analyze(model, "--backend", ORT)["verdict"] == "agree"


# ---- convert ----

def test_convert_loses_nothing_or_says_what(folder):
    nodes = [helper.make_node("Relu", ["x"], ["h"], doc_string="of the node"), helper.make_node("FastGelu", ["h"], ["g"], domain="com.microsoft"),
             helper.make_node("Add", ["g", "w"], ["y"])]
    w = array("w", np.ones(2, np.float32))
    w.doc_string = "of the tensor"
    x = helper.make_tensor_value_info("x", F, ["N", 2], "of the input", ["DATA_BATCH", "DATA_FEATURE"])
    x.type.denotation = "IMAGE"
    info = [helper.make_tensor_value_info("h", F, ["N", 2], "of the value"), value("gone", [3])]
    graph = helper.make_graph(nodes, "g", [x], [value("y", ["N", 2])], [w], "of the graph", info)
    note = graph.quantization_annotation.add(tensor_name="h")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, doc_string="of the model")
    made.training_info.add().algorithm.name = "training"
    save(made, str(folder / "in.onnx"))
    plumb("convert", folder / "in.onnx", folder / "out.onnx")
    back = load(str(folder / "out.onnx"))
    for m in (made, back):  # the order of declarations is free
        kept = sorted(m.graph.value_info, key=lambda v: v.name)
        del m.graph.value_info[:]
        m.graph.value_info.extend(kept)
    assert made == back, (made, back)
    plumb("convert", folder / "in.onnx", folder / "out.onnxtxt")
    told = (folder / "out.onnxtxt").read_text().splitlines()[-1]
    assert told.startswith("# not in the text form: 5 doc strings; denotations of 1 value; quantization_annotation"), told
    plumb("run", folder / "out.onnxtxt")


# ---- failures, messages ----

def test_large_models_leave_no_checkpoint_unasked(folder):
    big = array("w", np.zeros((70 << 20) // 1, np.float32)[: 68 << 20])
    model = model_of(folder / "m.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [1])], [value("y", None)], [big])
    said = plumb("run", model, "--backend", "cmd:/bin/false", "--repro-level", "2", cwd=folder, exits=(3,)).stderr
    assert "No checkpoint: the model has 0.3 GB of weights" in said, said
    assert not (folder / "plumb-debug").exists() and not (folder / "repro").exists()


def test_what_runtimes_accept_runs(folder):
    """Loop bodies whose iteration number and condition are declared with one element; bool to string."""
    i64, boolean = TensorProto.INT64, TensorProto.BOOL
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Gather", ["t", "i"], ["g"]), helper.make_node("Reshape", ["g", "two"], ["row"]),
                              helper.make_node("Add", ["s", "row"], ["s2"])], "body", [value("i", [1], i64), value("c", [1], boolean), value("s", [2])],
                             [value("c2", [1], boolean), value("s2", [2])], [array("t", np.arange(8, dtype=np.float32).reshape(4, 2)), array("two", np.array([2]))])
    init = [array("M", np.array([3])), array("C", np.array([True]))]
    model = model_of(folder / "loop.onnx", [helper.make_node("Loop", ["M", "C", "x"], ["y"], body=body)], [value("x", [2])], [value("y", [2])], init)
    for backend in ("eager", "jit"):
        plumb("run", model, "--backend", backend, "-o", folder / backend, "--fill", "zeros")
        assert np.load(folder / backend / "y.npy").tolist() == [6, 9], backend
    model = model_of(folder / "cast.onnx", [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)], [value("x", [2], boolean)], [value("y", [2], TensorProto.STRING)])
    plumb("run", model, "-o", folder / "text")


def test_sparse_indices_of_few_bits(folder):
    """As ONNX Runtime writes them into the model that it optimised."""
    path = model_of(folder / "sparse.onnx", [helper.make_node("Neg", ["s"], ["y"])], [], [value("y", [4])])
    model = load(str(path))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(array("s", np.float32([1.5, 2.5])), array("", np.int8([1, 3])), [4]))
    save(model, str(path))
    plumb("run", path, "-o", folder / "out")
    assert np.load(folder / "out/y.npy").tolist() == [0, -1.5, 0, -2.5]


def test_messages_say_what_is_wrong(folder):
    gather = model_of(folder / "g.onnx", [helper.make_node("Gather", ["x", "i"], ["y"])], [value("x", []), value("i", [], TensorProto.INT64)], [value("y", None)])
    assert "the input is a scalar (rank 0)" in plumb("run", gather, exits=(2,)).stderr
    squeeze = model_of(folder / "s.onnx", [helper.make_node("Squeeze", ["x"], ["y"], axes=1)], [value("x", [1])], [value("y", None)], opset=11)
    assert "attribute 'axes' has type int, expected ints" in plumb("run", squeeze, exits=(2,)).stderr
    names = model_of(folder / "n.onnx", [helper.make_node("Relu", ["x"], [f"y{i}"]) for i in range(20000)], [value("x", [1])], [value("y0", [1])])
    closed = subprocess.run(f"{PLUMB} info {names} --nodes | head -1", shell=True, capture_output=True, text=True, timeout=300)
    assert closed.stdout and not closed.stderr, closed.stderr
    rank = model_of(folder / "r.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", [1] * 17)], [value("y", None)])
    assert "more than 16 dims" in plumb("run", rank, exits=(2,)).stderr
    twice = model_of(folder / "t.onnx", [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])], [value("x", [1])], [value("y", None)])
    assert "value 'y' is defined twice" in plumb("run", twice, exits=(2,)).stderr


def test_random_operators_are_named(folder):
    need_ort()
    model = model_of(folder / "m.onnx", [helper.make_node("RandomNormalLike", ["x"], ["r"], name="noise"), helper.make_node("Add", ["x", "r"], ["y"])],
                     [value("x", [64])], [value("y", [64])])
    got = analyze(model, "--backend", ORT, exits=(1,))
    assert got["verdict"] == "nondeterministic" and "RandomNormalLike 'noise'" in got["reason"], got["reason"]


def test_inputs_that_eager_cannot_run_either_are_bad_inputs(folder):
    """Not the backend's failure: exit 2, with what to do."""
    need_ort()
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    model = model_of(folder / "m.onnx", nodes, [value("x", ["N", 3])], [value("y", [2, 3])], [array("s", np.array([2, 3]))])
    for command in (("analyze", model, "--backend", ORT, "-o", folder / "s"), ("run", model, "--backend", ORT), ("run", model, "--accuracy", "--backend", ORT),
                    ("record", model, "--backend", ORT, "-o", folder / "r.safetensors"), ("minify", model, "--backend", ORT, "-o", folder / "repro")):
        said = plumb(*command, cwd=folder, exits=(2,)).stderr
        assert "--dim" in said and "generated inputs" in said, (command[0], said)


if __name__ == "__main__":
    sys.exit(main(globals()))

"""Recordings of several ranks against one run: a decoder split by numpy into tensor-parallel ranks, clean and with faults. Prints TAP.

The model is ONNX, recorded by plumb's eager. The engine is numpy: columns of q, k, v and up are split, rows of o and down, so that
their products are partial sums, which an all-reduce adds. Every rank writes its own file, as vLLM and TensorRT-LLM do when asked to dump."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.dont_write_bytecode = True
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
LAYERS, HEADS, HEAD, STEPS = 3, 8, 8, 5
HIDDEN, INNER = HEADS * HEAD, 96
rng = np.random.default_rng(4)
SIZES = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "o": (HIDDEN, HIDDEN), "up": (HIDDEN, INNER), "down": (INNER, HIDDEN)}
WEIGHTS = {f"{n}{i}": (rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32) for i in range(LAYERS) for n, s in SIZES.items()}
X = rng.standard_normal((1, STEPS, HIDDEN)).astype(np.float32)


def model():
    nodes = []

    def node(op, inputs, output, **attrs):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attrs))
        return output

    h = "x"
    for i in range(LAYERS):
        p = f"/layers.{i}/"
        heads = []
        for n in "qkv":
            y = node("MatMul", [h, f"{n}{i}"], p + n)
            heads.append(node("Transpose", [node("Reshape", [y, "split"], p + n + "_r")], p + n + "_t", perm=[0, 2, 1, 3]))
        scores = node("MatMul", [heads[0], node("Transpose", [heads[1]], p + "kt", perm=[0, 1, 3, 2])], p + "scores")
        soft = node("Softmax", [node("Mul", [scores, "scale"], p + "scaled")], p + "soft", axis=-1)
        back = node("Transpose", [node("MatMul", [soft, heads[2]], p + "mixed")], p + "mixed_t", perm=[0, 2, 1, 3])
        o = node("MatMul", [node("Reshape", [back, "join"], p + "ctx"), f"o{i}"], p + "o")
        h = node("Add", [h, o], p + "h_attn")
        act = node("Relu", [node("MatMul", [h, f"up{i}"], p + "up")], p + "act")
        h = node("Add", [h, node("MatMul", [act, f"down{i}"], p + "down")], p + "h")
    fixed = {**WEIGHTS, "split": np.array([1, STEPS, HEADS, HEAD]), "join": np.array([1, STEPS, HIDDEN]), "scale": np.float32(HEAD ** -.5)}
    graph = helper.make_graph(nodes, "decoder", [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
                              [helper.make_tensor_value_info(h, TensorProto.FLOAT, X.shape)],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in fixed.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    return made


def columns(w, rank, n):
    return np.split(w, n, axis=1)[rank]


def rows(w, rank, n):
    return np.split(w, n, axis=0)[rank]


def engine(n, lost=None, swapped=None):
    """What each of n ranks records. lost=(layer, name, rank): its all-reduce misses rank 0's sum; swapped=(layer, rank): two heads of it."""
    seen = [{} for _ in range(n)]
    h = [X] * n

    def attention(q, k, v):
        q, k, v = (t.reshape(1, STEPS, -1, HEAD).transpose(0, 2, 1, 3) for t in (q, k, v))
        s = q @ k.transpose(0, 1, 3, 2) * np.float32(HEAD ** -.5)
        e = np.exp(s - s.max(-1, keepdims=True))
        return ((e / e.sum(-1, keepdims=True)) @ v).transpose(0, 2, 1, 3)

    def reduce(i, name, parts):
        total = [np.sum(parts, axis=0, dtype=np.float32)] * n
        if lost and lost[:2] == (i, name):
            total[lost[2]] = total[lost[2]] - parts[0]
        for r in range(n):
            seen[r][f"layers.{i}.{name}.partial"], seen[r][f"layers.{i}.{name}"] = parts[r], total[r]
        return total

    for i in range(LAYERS):
        parts = []
        for r in range(n):
            q, k, v = (h[r] @ columns(WEIGHTS[f"{w}{i}"], r, n) for w in "qkv")
            ctx = attention(q, k, v)
            if swapped == (i, r):
                ctx = ctx[:, :, [1, 0, *range(2, HEADS // n)]]
            ctx = ctx.reshape(1, STEPS, -1)
            parts.append(ctx @ rows(WEIGHTS[f"o{i}"], r, n))
            seen[r].update({f"layers.{i}.q": q, f"layers.{i}.k": k, f"layers.{i}.v": v, f"layers.{i}.ctx": ctx})
        h = [a + b for a, b in zip(h, reduce(i, "o", parts))]
        parts = []
        for r in range(n):
            seen[r][f"layers.{i}.h_attn"] = h[r]
            up = h[r] @ columns(WEIGHTS[f"up{i}"], r, n)
            seen[r][f"layers.{i}.up"], act = up, np.maximum(up, 0)
            parts.append(act @ rows(WEIGHTS[f"down{i}"], r, n))
        h = [a + b for a, b in zip(h, reduce(i, "down", parts))]
        for r in range(n):
            seen[r][f"layers.{i}.h"] = h[r]
    return seen


def write_map(path, side="a"):
    def rows_of(names, rule, more=""):
        return [{"a": f"rank{{tp}}/layers.{{l}}.{n}{more}", "b": f"/layers.{{l}}/{n}", "rule": rule} for n in names]
    shards = (rows_of(["q", "k", "v", "ctx", "up"], "concat 2 over tp") + rows_of(["o", "down"], "sum over tp", ".partial") +
              rows_of(["o", "down", "h_attn", "h"], "same over tp" if side == "a" else "pick 0 over tp"))
    if side == "b":
        shards = [{"a": s["b"], "b": s["a"], "rule": s["rule"]} for s in shards if not s["a"].endswith(".partial")]
    path.write_text(json.dumps({"plumb.map": 1, "shards": shards}))
    return path


def reference(folder):
    onnx.save(model(), folder / "m.onnx")
    np.save(folder / "x.npy", X)
    done = subprocess.run([PLUMB, "record", folder / "m.onnx", "--input", f"x={folder / 'x.npy'}", "-o", folder / "ref.safetensors"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "ref.safetensors"


def ranks(folder, seen, only=None):
    folder.mkdir()
    for r, values in enumerate(seen):
        if only is None or r in only:
            np.savez(folder / f"tp_rank_{r}.npz", **values)
    return folder


def compare(folder, a, b, name="m.json", *more):
    done = subprocess.run([PLUMB, "compare", a, b, "--map", folder / name, "-o", a.with_suffix(".session"), "--json", *more],
                          capture_output=True, text=True, timeout=300)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def test_clean(folder):
    ref = reference(folder)
    write_map(folder / "m.json")
    for n in (2, 4):
        code, found, why = compare(folder, ranks(folder / f"clean{n}", engine(n)), ref)
        assert code == 0, (why, found.get("reason"), found.get("first_divergence"))
        points = {p["value"]: p for p in found["sync_points"] if p["verdict"] != "unpaired"}
        wanted = {f"rank{r}/layers.{i}.{v}" for r in range(n) for i in range(LAYERS) for v in ("q", "k", "v", "ctx", "up", "o", "down", "h_attn", "h")}
        wanted |= {f"rank{{tp}}/layers.{i}.{v}.partial (sum)" for i in range(LAYERS) for v in ("o", "down")}
        assert set(points) == wanted, sorted(set(points) ^ wanted)[:5]
        assert all(p["counterpart"].startswith("/layers.") for p in points.values())
    return f"{len(wanted)} values of 4 ranks"


def first_wrong(found):
    """The values that are wrong, in the order of the reference, layer by layer."""
    return found["first_divergence"], [p for p in found["sync_points"] if p["value"] == found["first_divergence"]][0]


def test_an_all_reduce_that_misses_a_rank(folder):
    ref = reference(folder)
    write_map(folder / "m.json")
    for n, layer, name, rank in ((2, 1, "o", 1), (4, 1, "down", 2), (4, 0, "o", 3)):
        code, found, why = compare(folder, ranks(folder / f"lost{n}{layer}{rank}", engine(n, lost=(layer, name, rank))), ref)
        value, point = first_wrong(found)
        assert code == 1 and value == f"rank{rank}/layers.{layer}.{name}", (value, why)
        assert point["node"] == f"/layers.{layer}/{name}" and point["op"] == "MatMul", (point["node"], point["op"])
        good = {p["value"]: p["verdict"] for p in found["sync_points"]}
        assert good[f"rank{{tp}}/layers.{layer}.{name}.partial (sum)"] in ("same", "within"), "the partial sums are right"
        assert good[f"rank0/layers.{layer}.{name}"] in ("same", "within"), "rank 0 is right"


def test_a_swapped_head(folder):
    ref = reference(folder)
    write_map(folder / "m.json")
    for n, layer, rank in ((2, 2, 0), (4, 1, 3)):
        code, found, why = compare(folder, ranks(folder / f"swap{n}{layer}", engine(n, swapped=(layer, rank))), ref)
        value, point = first_wrong(found)
        assert code == 1 and value == f"rank{rank}/layers.{layer}.ctx", (value, why)
        assert point["node"] == f"/layers.{layer}/ctx", point["node"]


def test_ranks_as_the_reference(folder):
    """The ranks are B: parts are joined. Also as the reference of analyze, where the model is the one under test."""
    ref = reference(folder)
    write_map(folder / "m.json", side="b")
    good, bad = ranks(folder / "good", engine(4)), ranks(folder / "bad", engine(4, swapped=(1, 3)))
    a = folder / "a.safetensors"
    a.write_bytes(ref.read_bytes())
    done = subprocess.run([PLUMB, "compare", a, good, "--map", folder / "m.json", "--json"], capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout)
    joined = [p for p in found["sync_points"] if (p["counterpart"] or "").endswith("(joined)")]
    assert done.returncode == 0 and len(joined) == 5 * LAYERS, (done.stderr, len(joined))
    done = subprocess.run([PLUMB, "compare", a, bad, "--map", folder / "m.json", "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and json.loads(done.stdout)["first_divergence"] == "/layers.1/ctx"
    done = subprocess.run([PLUMB, "analyze", folder / "m.onnx", "--input", f"x={folder / 'x.npy'}", "--backend", "jit", "--reference", good,
                           "--map", folder / "m.json", "--json", "-o", folder / "s"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-400:]


def test_interleaved(folder):
    x = rng.standard_normal((2, 12)).astype(np.float32)
    (folder / "r").mkdir()
    for r in range(3):
        np.savez(folder / "r" / f"rank{r}.npz", y=x[:, r::3])
    np.savez(folder / "b.npz", y=x)
    (folder / "m.json").write_text(json.dumps({"plumb.map": 1, "shards": [{"a": "rank{tp}/y", "b": "y", "rule": "interleave 1 over tp"}]}))
    code, found, why = compare(folder, folder / "r", folder / "b.npz")
    assert code == 0 and [p["class"] for p in found["sync_points"]] == ["exact"] * 3, why


def test_maps_that_do_not_fit(folder):
    ref = reference(folder)
    a = ranks(folder / "a", engine(4), only=(0, 1, 3))
    for shard, words in (({"a": "rank{tp}/layers.{l}.q", "b": "/layers.{l}/q", "rule": "concat 2 over tp"}, ["shards 1", "has no rank 2"]),
                         ({"a": "rank{tp}/layers.{l}.q", "b": "/layers.{l}/q", "rule": "concat 2"}, ["unknown rule 'concat 2'", "sum over DIM"]),
                         ({"a": "rank0/layers.{l}.q", "b": "/layers.{l}/q", "rule": "sum over tp"}, ["must have {tp}"]),
                         ({"a": "rank{tp}/none", "b": "/layers.0/q", "rule": "sum over tp"}, ["no value fits 'rank{tp}/none'"]),
                         ({"a": "rank{tp}/layers.0.q", "b": "/layers.{l}/q", "rule": "sum over tp"}, ["has a number that"]),
                         ({"a": "rank{tp}/layers.0.q", "rule": "sum over tp"}, ["'a', 'b' or 'rule' is missing"])):
        (folder / "m.json").write_text(json.dumps({"plumb.map": 1, "shards": [shard]}))
        code, _, why = compare(folder, a, ref)
        assert code == 2 and all(w in why for w in words), (shard, why)
    # three of four ranks: the parts do not have the shape of the reference's
    three = ranks(folder / "three", engine(4), only=(0, 1, 2))
    (folder / "m.json").write_text(json.dumps({"plumb.map": 1, "shards": [{"a": "rank{tp}/layers.{l}.q", "b": "/layers.{l}/q", "rule": "concat 2 over tp"}]}))
    code, _, why = compare(folder, three, ref)
    assert code == 2 and "layout 'part 2,0,3' does not fit" in why, (code, why)
    np.savez(folder / "three" / "other_rank-1.npz", x=X)
    code, _, why = compare(folder, three, ref)
    assert code == 2 and "two files of rank 1" in why, why


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

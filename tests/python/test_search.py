#!/usr/bin/python3
"""com.microsoft BeamSearch and GreedySearch over a decoder with a cache. Greedy results by numpy; every option against ONNX Runtime 1.27, where it is
there. Another decoder on the other side is never green. TAP."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tap import Skip, main  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
LIBRARY = ROOT / ".cache/ort-1.27.0/libonnxruntime.so.1"
N = helper.make_node
WORDS, SIZE, EOS, PAD = 11, 4, 4, 0


def weights(seed):
    rng = np.random.default_rng(seed)
    w = lambda *s: (rng.standard_normal(s) * 1.2).astype(np.float32)  # noqa: E731
    return {"emb": w(WORDS, SIZE), "out": w(SIZE, WORDS), "pos": w(32, SIZE) * np.float32(.3), "wq": w(SIZE, SIZE), "wk": w(SIZE, SIZE), "wv": w(SIZE, SIZE)}


def decoder(w):
    """One layer of attention with one head."""
    constants = {**w, "axis1": np.array([1]), "axes02": np.array([0, 2]), "big": np.float32(1e4), "one": np.float32(1), "first": np.int64(0), "second": np.int64(1)}
    nodes = [N("Gather", ["emb", "input_ids"], ["e"]), N("Gather", ["pos", "position_ids"], ["p"]), N("Add", ["e", "p"], ["h"]),
             N("MatMul", ["h", "wq"], ["q"]), N("MatMul", ["h", "wk"], ["k"]), N("MatMul", ["h", "wv"], ["v"]),
             N("Unsqueeze", ["k", "axes02"], ["k5"]), N("Unsqueeze", ["v", "axes02"], ["v5"]), N("Concat", ["k5", "v5"], ["kv"], axis=0),
             N("Concat", ["past_0", "kv"], ["present_0"], axis=3), N("Gather", ["present_0", "first"], ["k4"], axis=0), N("Gather", ["present_0", "second"], ["v4"], axis=0),
             N("Squeeze", ["k4", "axis1"], ["keys"]), N("Squeeze", ["v4", "axis1"], ["values"]), N("Transpose", ["keys"], ["kt"], perm=[0, 2, 1]), N("MatMul", ["q", "kt"], ["s"]),
             N("Cast", ["attention_mask"], ["mf"], to=1), N("Sub", ["mf", "one"], ["mm"]), N("Mul", ["mm", "big"], ["mb"]), N("Unsqueeze", ["mb", "axis1"], ["mu"]),
             N("Add", ["s", "mu"], ["sm"]), N("Softmax", ["sm"], ["a"], axis=-1), N("MatMul", ["a", "values"], ["o"]), N("Add", ["o", "h"], ["h1"]), N("MatMul", ["h1", "out"], ["logits"])]
    info = helper.make_tensor_value_info
    return helper.make_graph(nodes, "decoder", [info("input_ids", T.INT32, ["B", "S"]), info("position_ids", T.INT32, ["B", "S"]), info("attention_mask", T.INT32, ["B", "T"]),
                                                info("past_0", T.FLOAT, [2, "B", 1, "P", SIZE])],
                             [info("logits", T.FLOAT, ["B", "S", WORDS]), info("present_0", T.FLOAT, [2, "B", 1, "T", SIZE])],
                             [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])


def model(path, seed, op, batch=2, longest=9, least=0, beams=3, kept=2, by_length=1.0, repetition=1.0, words=None, first=None, padded=False, early=0, ngram=0, **more):
    """Writes the model; its inputs."""
    rng = np.random.default_rng(seed + 1000)
    ids = rng.integers(1, WORDS, (batch, 3)).astype(np.int32)
    if padded:
        ids[0, 0] = PAD
    one = lambda v: np.array([v], np.float32 if isinstance(v, float) else np.int32)  # noqa: E731
    given = {"input_ids": ids, "max_length": one(longest), "min_length": one(least)}
    if op == "BeamSearch":
        given.update(num_beams=one(beams), num_return_sequences=one(kept), length_penalty=one(by_length))
    given["repetition_penalty"] = one(repetition)
    names = list(given) + ["vocab_mask" if words is not None else "", "prefix_vocab_mask" if first is not None else ""]
    given.update({k: v for k, v in (("vocab_mask", words), ("prefix_vocab_mask", first)) if v is not None})
    while not names[-1]:
        names.pop()
    outputs = {"sequences": T.INT32, **({"sequences_scores": T.FLOAT, "scores": T.FLOAT} if op == "BeamSearch" else {})}
    attributes = {"decoder": decoder(weights(seed)), "eos_token_id": EOS, "pad_token_id": PAD, "model_type": 0, "no_repeat_ngram_size": ngram, **more}
    if op == "BeamSearch":
        attributes["early_stopping"] = early
    info = helper.make_tensor_value_info
    graph = helper.make_graph([N(op, names, list(outputs), domain="com.microsoft", **attributes)], "g",
                              [info(k, T.FLOAT if v.dtype == np.float32 else T.INT32, v.shape) for k, v in given.items()], [info(k, t, None) for k, t in outputs.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)])
    made.ir_version = 8
    onnx.save(made, path)
    return given


def plumb(*args):
    done = subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=300, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def run(folder, given, backend):
    np.savez(folder / "in.npz", **given)
    (folder / "out.npz").unlink(missing_ok=True)
    code, _, err = plumb("run", folder / "m.onnx", "--backend", backend, "--inputs", folder / "in.npz", "-o", folder / "out.npz")
    assert code == 0, (backend, err)
    return dict(np.load(folder / "out.npz"))


def greedy(seed, ids, longest):
    """Without a cache, in double."""
    w = {k: v.astype(np.float64) for k, v in weights(seed).items()}
    tokens, ended = ids.tolist(), [False] * len(ids)
    while len(tokens[0]) < longest and not all(ended):
        for row, t in enumerate(tokens):
            h = w["emb"][t] + w["pos"][np.arange(len(t))]
            s = h[-1] @ w["wq"] @ (h @ w["wk"]).T
            a = np.exp(s - s.max())
            best = int((((a / a.sum()) @ (h @ w["wv"]) + h[-1]) @ w["out"]).argmax())
            ended[row] = ended[row] or best == EOS
            t.append(PAD if ended[row] else best)
    return [t + [PAD] * (longest - len(t)) for t in tokens]


def test_greedy_by_numpy(folder):
    for seed in range(4):
        given = model(folder / "m.onnx", seed, "GreedySearch")
        assert PAD not in given["input_ids"]
        got = run(folder, given, "eager")["sequences"].tolist()
        assert got == greedy(seed, given["input_ids"], 9), (seed, got)


def test_one_beam_is_greedy(folder):
    for seed in range(4):
        given = model(folder / "m.onnx", seed, "BeamSearch", beams=1, kept=1)
        got = run(folder, given, "eager")["sequences"][:, 0].tolist()
        assert got == greedy(seed, given["input_ids"], 9), (seed, got)


MASK = np.ones(WORDS, np.int32)
MASK[[2, 7]] = 0
FIRST = np.ones((2, WORDS), np.int32)
FIRST[0, [1, 3, 5]] = FIRST[1, [8, 9]] = 0
OPTIONS = ({}, {"beams": 1, "kept": 1}, {"beams": 4, "kept": 4, "longest": 14}, {"by_length": 2.0}, {"by_length": .3, "beams": 5, "kept": 3, "longest": 16}, {"repetition": 1.3},
           {"ngram": 2, "longest": 12}, {"words": MASK}, {"first": FIRST}, {"least": 7, "longest": 12}, {"early": 1, "longest": 16}, {"padded": True}, {"batch": 1, "beams": 2, "kept": 1},
           {"repetition": .8, "by_length": 1.5, "ngram": 3, "words": MASK, "least": 6, "longest": 15, "beams": 4})


def test_as_onnx_runtime(folder):
    if not LIBRARY.exists():
        raise Skip("ONNX Runtime 1.27 is not there")
    for op in ("BeamSearch", "GreedySearch"):
        for number, options in enumerate(OPTIONS):
            if op == "GreedySearch" and set(options) & {"beams", "by_length", "early"}:
                continue
            given = model(folder / "m.onnx", 100 * number, op, **options)
            mine, theirs = run(folder, given, "eager"), run(folder, given, "ort")
            assert np.array_equal(mine["sequences"], theirs["sequences"]), (op, options, mine["sequences"].tolist(), theirs["sequences"].tolist())
            for name in set(theirs) - {"sequences"}:
                assert np.allclose(mine[name], theirs[name], rtol=1e-4, atol=1e-4), (op, options, name)


def test_another_decoder_is_not_green(folder):
    given = model(folder / "m.onnx", 5, "BeamSearch")
    np.savez(folder / "in.npz", **given)
    backend = "ort" if LIBRARY.exists() else "jit"
    if backend == "ort":
        code, out, err = plumb("analyze", folder / "m.onnx", "--backend", backend, "--inputs", folder / "in.npz", "--json", "-o", folder / "same")
        assert code == 0 and json.loads(out)["verdict"] == "agree", (code, err)
    (folder / "m.onnx").rename(folder / "first.onnx")
    model(folder / "m.onnx", 6, "BeamSearch")
    code, out, err = plumb("analyze", folder / "first.onnx", "--backend", backend, "--reference", folder / "m.onnx", "--inputs", folder / "in.npz", "--json", "-o", folder / "other")
    assert code == 1 and json.loads(out)["verdict"] == "diverged", (code, err)


def test_other_decoders_are_refused(folder):
    given = model(folder / "m.onnx", 5, "BeamSearch", encoder=decoder(weights(5)))
    np.savez(folder / "in.npz", **given)
    code, _, err = plumb("run", folder / "m.onnx", "--inputs", folder / "in.npz", "-o", folder / "out")
    assert code == 2 and "only decoders like GPT-2" in err, (code, err)


if __name__ == "__main__":
    sys.exit(main(globals()))

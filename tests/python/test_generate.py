"""plumb generate: faults planted in decoders are named with their step and layer, clean decoders agree. Prints TAP.

By default 17 faults and 6 clean runs; --full: every fault x style x kind of weights x backend, 60 in decoders of 4 to 32 layers, and clean runs with prompts of 1, 16, 128 and 1,000 tokens and 3 seeds. decoders.py makes the models; the clean one is the reference."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

sys.dont_write_bytecode = True
import decoders  # noqa: E402
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
PROMPT = "5,2,7,1,3,11"
N_PROMPT = 6


def generate(model, *args, codes=(0, 1)):
    r = subprocess.run([PLUMB, "generate", str(model), "--json", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       universal_newlines=True, env=dict(os.environ, ORT_DISABLE_TELEMETRY="1"))
    assert r.returncode in codes, f"exit {r.returncode}: {r.stderr[-600:]}"
    return json.loads(r.stdout) if r.stdout else None


def save(folder, name, model):
    path = Path(folder) / name
    onnx.save(model, str(path))
    return path


def named(folder, fault, style, kind, backend, layer, at, seed=0, layers=4, steps=12, more=()):
    """None when the fault is named rightly, else what is wrong."""
    clean, bad, where = decoders.planted(fault, style, kind, layer, at, N_PROMPT, layers, seed)
    good, model = save(folder, "good.onnx", clean), save(folder, "bad.onnx", bad)
    out = Path(folder) / f"out-{len(list(Path(folder).iterdir()))}"
    r = generate(model, "--backend", backend, "--reference-model", good, "--prompt-ids", PROMPT, "--steps", str(steps), "-o", str(out),
                 "--save", "none", *more)
    if r["verdict"] != "diverged":
        return f"{r['verdict']}: {r['reason']}"
    blame = r["blame"][0] if r["blame"] else {"op": "", "layer": None}
    got = (r["first_divergent_step"], blame["layer"], blame["op"])
    ok = got[0] == where.step and (where.layer < 0 or got[1] == where.layer) and got[2] in where.ops
    return None if ok else f"step, layer, op {got}, expected {where}; {r['reason']}"


# ---- faults ----------------------------------------------------------------------------------------

# fault, style, weights, backend, layer, position: each fault, style, kind of weights and backend is there
SOME = [("rotary row", "genai", "fp32", "ort", 2, 9), ("rotary row", "old", "fp32", "eager", 3, 11),
        ("attention scale", "genai", "int4", "ort", 1, 0), ("attention scale", "opset23", "fp32", "eager", 2, 0),
        ("window", "genai", "fp32", "jit", 3, 8), ("cache shifted", "genai", "fp16", "ort", 2, 9),
        ("cache shifted", "old", "fp32", "eager", 1, 7), ("stale slot", "opset23", "fp32", "ort", 2, 10),
        ("mask off by one", "opset23", "int4", "eager", 1, 8), ("block scale", "genai", "int4", "ort", 3, 5),
        ("block scale", "old", "int4", "eager", 0, 5), ("one weight", "genai", "fp16", "eager", 1, 3),
        ("epsilon", "genai", "fp32", "ort", 2, 0), ("position after prefill", "opset23", "fp32", "eager", 0, 0),
        ("one weight", "genai", "fp32", "jit", 1, 10),  # jit shows only the sum after that product: the models' difference tells
        ("attention scale", "genai", "fp16", "ort", 1, 0), ("overflow", "genai", "fp16", "eager", 2, 9)]


def test_faults(folder):
    wrong = []
    for n, case in enumerate(SOME):
        inner = Path(folder) / str(n)
        inner.mkdir()
        why = named(inner, *case)
        if why is not None:
            wrong.append(f"{case}: {why}")
    assert not wrong, "\n".join(wrong)
    return f"{len(SOME)} of {len(SOME)} named with step, layer and operation"


def every_fault():
    """(fault, style, kind, backend, layer, position), two places each."""
    for fault, (_, styles, kinds) in decoders.FAULTS.items():
        for style in styles:
            for kind in kinds:
                for n, backend in enumerate(("ort", "eager", "jit")):
                    if backend == "jit" and (style != "genai" or kind == "fp16"):
                        continue  # a C compiler takes 10 s and more for each shape
                    if backend == "ort" and fault == "overflow":
                        continue  # it computes half floats in float here: nothing overflows
                    yield fault, style, kind, backend, (1 + n, 3 - n)[n % 2], 8 + n


def every(folder):
    cases, wrong = list(every_fault()), []
    for n, case in enumerate(cases):
        with tempfile.TemporaryDirectory(dir=str(folder)) as inner:
            try:
                why = named(inner, *case, seed=n)
            except AssertionError as e:
                why = str(e)
        if why is not None:
            wrong.append(f"{case}: {why}")
    print(f"# {len(cases) - len(wrong)} of {len(cases)} faults named")
    for w in wrong:
        print("#   " + w.replace("\n", " "))
    assert not wrong, f"{len(wrong)} of {len(cases)} not named"
    return f"{len(cases) - len(wrong)} of {len(cases)}"


def deep_faults():
    """60 faults in decoders of 4 to 32 layers: each of the eight kinds, every depth, on all backends."""
    kinds = ["mask off by one", "rotary row", "cache shifted", "block scale", "overflow", "attention scale", "stale slot",
             "position after prefill"]
    for n in range(60):
        fault, layers = kinds[n % 8], (4, 8, 16, 32)[(n // 8 + n) % 4]
        _, styles, weights = decoders.FAULTS[fault]
        style, kind = styles[n // 8 % len(styles)], weights[n // 16 % len(weights)]
        backend = ("ort", "eager", "jit")[n % 3]
        if backend == "jit" and (layers > 8 or kind == "fp16"):
            backend = "ort"  # a C compiler takes minutes for each shape
        if fault == "overflow":
            backend = "eager"  # ONNX Runtime computes half floats in float here: nothing overflows
        yield fault, style, kind, backend, (n * 7 + 1) % layers, 7 + n % 5, n, layers


def every_depth(folder):
    wrong, cases = [], list(deep_faults())
    for *case, seed, layers in cases:
        # the prompt in two chunks: the position is wrong from the second one on
        more = ("--chunk", "3") if case[0] == "position after prefill" else ()
        with tempfile.TemporaryDirectory(dir=str(folder)) as inner:
            try:
                why = named(inner, *case, seed=seed, layers=layers, more=more)
            except AssertionError as e:
                why = str(e)
        if why is not None:
            wrong.append(f"{case} of {layers} layers: {why}")
    print(f"# {len(cases) - len(wrong)} of {len(cases)} faults named")
    for w in wrong:
        print("#   " + w.replace("\n", " "))
    assert len(wrong) <= 2, f"{len(wrong)} of {len(cases)} not named"
    return f"{len(cases) - len(wrong)} of {len(cases)}"


# ---- clean decoders --------------------------------------------------------------------------------

def clean(folder, style, kind, backend, n_prompt, seed, steps=6):
    """None when it agrees. eager is held against ONNX Runtime: against itself there is nothing to say."""
    path = save(folder, "clean.onnx", decoders.model(style, kind, seed=seed))
    ids = np.random.default_rng(seed).integers(0, decoders.VOCAB, n_prompt)
    prompt = Path(folder) / "prompt.txt"
    prompt.write_text(" ".join(map(str, ids)))
    out = Path(folder) / f"clean-{len(list(Path(folder).iterdir()))}"
    r = generate(path, "--backend", backend, "--reference", "ort" if backend == "eager" else "eager", "--prompt-ids", str(prompt),
                 "--steps", str(steps), "-o", str(out), "--save", "none", codes=(0, 1, 2))
    return None if r["verdict"] == "agree" and r["steps"][0]["tokens"] == n_prompt else f"{r['verdict']}: {r['reason']}"


def test_clean(folder):
    wrong = []
    for n, (style, kind, backend) in enumerate((("genai", "fp32", "ort"), ("genai", "fp16", "ort"), ("genai", "int4", "ort"),
                                                ("opset23", "fp32", "ort"), ("genai", "fp32", "jit"), ("old", "int4", "ort"))):
        why = clean(folder, style, kind, backend, (1, 16, 5)[n % 3], n)
        if why is not None:
            wrong.append(f"{style} {kind} {backend}: {why}")
    assert not wrong, "\n".join(wrong)


def every_clean(folder):
    wrong, n = [], 0
    for kind in ("fp32", "fp16", "int4", "int4-8"):
        for n_prompt in (1, 16, 128, 1000):
            for seed in range(3):
                for style, backend in (("genai", "ort"), ("genai", "jit"), ("genai", "eager"), ("opset23", "ort"), ("old", "ort")):
                    if n_prompt == 1000 and style != "genai":
                        continue  # minutes each: every score of 1,000 x 1,000 is recorded
                    n += 1
                    with tempfile.TemporaryDirectory(dir=str(folder)) as inner:
                        why = clean(inner, style, kind, backend, n_prompt, seed)
                    if why is not None:
                        wrong.append(f"{style} {kind} {backend} prompt {n_prompt} seed {seed}: {why}")
    print(f"# {n - len(wrong)} of {n} clean runs agree")
    for w in wrong:
        print("#   " + w)
    assert not wrong, f"{len(wrong)} of {n} clean runs do not agree"
    return f"{n} runs"


# ---- tokens, ties, state ---------------------------------------------------------------------------

def tied(m, token, other, gap):
    """The logit of `other` becomes that of `token`, less `gap` of the last activation's first element."""
    def same(w):
        w[:, other] = w[:, token]
        w[0, other] += gap
    decoders.change(m, "lm_head.weight", same)
    return m


def test_tie(folder):
    """A free run that parts at a tie is told from one that parts by a fault."""
    base = decoders.model("genai", "fp32")
    first = generate(save(folder, "base.onnx", base), "--backend", "jit", "--prompt-ids", PROMPT, "--steps", "2", "--skip-analysis")
    token = first["steps"][0]["choice_b"]
    other = token + 1 if token + 1 < decoders.VOCAB else token - 1
    good, near, far = (onnx.ModelProto() for _ in range(3))
    for m in (good, near, far):
        m.CopyFrom(base)
    tied(good, token, other, 0)
    tied(near, token, other, 1e-6)
    tied(far, token, other, 1e-6)
    decoders.attention_scale(far, "genai", 1, 0, N_PROMPT)
    paths = [save(folder, n, m) for n, m in (("good.onnx", good), ("near.onnx", near), ("far.onnx", far))]
    flips = []
    for gap in (1e-6, -1e-6):  # one of the two signs moves the choice
        near.CopyFrom(base)
        tied(near, token, other, gap)
        onnx.save(near, str(paths[1]))
        r = generate(paths[1], "--backend", "ort", "--reference-model", paths[0], "--force", "none", "--prompt-ids", PROMPT, "--steps",
                     "8", "--skip-analysis")
        step = r["steps"][0]
        assert step["margin"] < 1e-4
        if step["flip"]:
            flips.append(r)
            assert step["tie"] and r["first_flip"] == 0 and len(r["steps"]) == 1, r  # it parts, and stops
            assert r["verdict"] == "agree", r["reason"]
    assert flips, "neither sign moved the choice"
    r = generate(paths[2], "--backend", "ort", "--reference-model", paths[0], "--prompt-ids", PROMPT, "--steps", "4", "-o",
                 str(Path(folder) / "far"), "--save", "none")
    assert r["verdict"] == "diverged" and r["blame"][0]["layer"] == 1, r["reason"]


def test_own_state(folder):
    """A cache that is spoilt at step 4 shows in the logits one step later: the state carried it."""
    clean_model, bad, where = decoders.planted("cache shifted", "genai", "fp32", 2, 9, N_PROMPT)
    good, model = save(folder, "good.onnx", clean_model), save(folder, "bad.onnx", bad)
    r = generate(model, "--backend", "eager", "--reference-model", good, "--prompt-ids", PROMPT, "--steps", "8", "--cache", "own",
                 "-o", str(Path(folder) / "own"), "--save", "none")
    assert r["first_divergent_step"] == where.step and r["blame"][0]["op"] == "Where", r["reason"]
    late = [s["step"] for s in r["steps"] if s["error"] > 1e-4]
    assert late and late[0] == where.step + 1 and r["steps"][where.step]["state_error"] > 0.1, late
    assert r["carried_by"] == "both" and r["cache"] == "own"


def test_tokens_by_hand(folder):
    """Steps are what a loop over numpy feeds: the same tokens as one run over the whole sequence."""
    path = save(folder, "m.onnx", decoders.model("genai", "fp32"))
    ids = Path(folder) / "ids.txt"
    ids.write_text("[9, 8, 7]\n6")
    r = generate(path, "--backend", "jit", "--prompt-ids", PROMPT, "--force", str(ids), "--skip-analysis")
    assert r["tokens"] == [int(t) for t in PROMPT.split(",")] + [9, 8, 7, 6] and r["prompt"] == N_PROMPT
    whole = generate(path, "--backend", "jit", "--prompt-ids", ",".join(map(str, r["tokens"])), "--steps", "0", "--skip-analysis")
    assert whole["steps"][0]["choice_b"] == r["steps"][-1]["choice_b"]
    chunked = generate(path, "--backend", "jit", "--prompt-ids", PROMPT, "--force", str(ids), "--chunk", "4", "--skip-analysis")
    assert [s["tokens"] for s in chunked["steps"][:3]] == [4, 2, 1]
    assert [s["choice_a"] for s in chunked["steps"][1:]] == [s["choice_a"] for s in r["steps"]]


def test_sampling(folder):
    """Drawn tokens: the same again, others with another seed, the greedy ones where the rule leaves one; a wrong rule is refused."""
    path = save(folder, "m.onnx", decoders.model("genai", "fp32"))

    def tokens(*rule):
        return generate(path, "--backend", "jit", "--prompt-ids", PROMPT, "--steps", "12", "--skip-analysis", *rule)["tokens"]

    one = tokens("--sample", "temperature=1.5,seed=1")
    assert one == tokens("--sample", "temperature=1.5,seed=1") and one != tokens("--sample", "temperature=1.5,seed=2")
    assert one != tokens() == tokens("--sample", "greedy") == tokens("--sample", "top-k=1,seed=9")


def test_save_step(folder):
    """The feed of a step goes to analyze, which says the same as generate."""
    clean_model, bad, where = decoders.planted("rotary row", "genai", "fp32", 2, 9, N_PROMPT)
    good, model = save(folder, "good.onnx", clean_model), save(folder, "bad.onnx", bad)
    out = Path(folder) / "out"
    r = generate(model, "--backend", "eager", "--reference-model", good, "--prompt-ids", PROMPT, "--steps", "6", "--skip-analysis",
                 "--save-step", str(where.step), "-o", str(out))
    assert r["feed"] == str(out / f"feed-{where.step}") and r["first_divergent_step"] == where.step
    a = subprocess.run([PLUMB, "analyze", str(model), "--reference", str(good), "--inputs", r["feed"], "--json", "-o",
                        str(Path(folder) / "s")], stdout=subprocess.PIPE, universal_newlines=True)
    blame = json.loads(a.stdout)["blame"]
    assert a.returncode == 1 and blame[0]["node"] == "model.layers.2.attn/GroupQueryAttention", a.stdout[:300]


# ---- self-tests ------------------------------------------------------------------------------------

def self_test(folder, model, backend="ort", names="all", codes=(0, 1)):
    r = generate(save(folder, "self.onnx", model), "--backend", backend, "--self-test", names, "--prompt-ids", PROMPT, codes=codes)
    return {t["name"]: t for t in r["self_tests"]}


def one_row(m):
    """The scores of layer 1 are divided by the batch: right for one row."""
    m.graph.initializer.extend([onnx.numpy_helper.from_array(np.float32(1), "fault/one")])
    nodes = [onnx.helper.make_node("Shape", ["input_ids"], ["fault/batch"], name="fault/Shape", start=0, end=1),
             onnx.helper.make_node("Cast", ["fault/batch"], ["fault/float"], name="fault/Cast", to=onnx.TensorProto.FLOAT),
             onnx.helper.make_node("Div", ["model.layers.1.attn/qk/Mul/right", "fault/float"], ["model.layers.1.attn/qk/Mul/out"], name="fault/Div")]
    decoders.insert_after(m, "model.layers.1.attn/qk/Mul", "model.layers.1.attn/qk/Mul/out", [])
    decoders.find(m, "model.layers.1.attn/qk/Mul").output[0] = "model.layers.1.attn/qk/Mul/right"
    at = next(i for i, n in enumerate(m.graph.node) if n.name == "model.layers.1.attn/qk/Mul") + 1
    rest = list(m.graph.node[at:])
    del m.graph.node[at:]
    m.graph.node.extend(nodes + rest)
    return "fault/"


def padding_seen(m):
    """Layer 2 sees every key: its mask hides nothing."""
    m.graph.initializer.extend([onnx.numpy_helper.from_array(np.float32(0), "fault/zero")])
    node = decoders.find(m, "model.layers.2.attn/qk/Add")
    node.input[1] = "fault/mask"
    at = next(i for i, n in enumerate(m.graph.node) if n.name == node.name)
    rest = list(m.graph.node[at:])
    del m.graph.node[at:]
    nodes = [onnx.helper.make_node("Mul", ["mask", "fault/zero"], ["fault/mask"], name="fault/Mul")]
    m.graph.node.extend(nodes + rest)
    return "model.layers.2.attn/Softmax"  # the first that is another number: it sums over padding


def test_self_tests(folder):
    """Clean models keep every rule; each planted fault breaks the rule that it must, and the operation is named."""
    for style, kind, backend in (("genai", "fp32", "ort"), ("genai", "int4", "eager"), ("old", "fp32", "eager"), ("opset23", "fp16", "ort")):
        found = self_test(folder, decoders.model(style, kind), backend)
        cache = found.pop("cache")  # the other exports append to what they get
        assert cache["status"] == ("pass" if style == "genai" else "skip"), (style, cache)
        assert {t["status"] for t in found.values()} == {"pass"} and len(found) == 4, (style, kind, backend, found)
    found = self_test(folder, decoders.model("old", "fp32"), "ort", "left-padding")
    assert found["left-padding"]["status"] == "pass", found
    bad = decoders.model("old", "fp32")
    decoders.position_after_prefill(bad, "old", 0, 0, N_PROMPT)
    found = self_test(folder, bad, "ort")
    for name in ("prefill", "chunks"):
        assert found[name]["status"] == "fail" and "layers.0.attn/q_rotary" in found[name]["node"], found[name]
    assert found["batch"]["status"] == "pass" and found["padding"]["status"] == "pass", found
    bad = decoders.model("genai", "fp32")
    decoders.last_place_lost(bad, "genai", 2, 0, N_PROMPT)
    found = self_test(folder, bad, "ort", "cache")
    assert found["cache"]["status"] == "fail" and found["cache"]["node"].startswith("model.layers.2.fault/"), found
    for fault, name in ((one_row, "batch"), (padding_seen, "padding"), (padding_seen, "left-padding")):
        bad = decoders.model("old", "fp32")
        planted = fault(bad)
        found = self_test(folder, bad, "ort", name)
        assert found[name]["status"] == "fail" and found[name]["node"].startswith(planted), (name, found)
    bad = decoders.model("opset23", "fp32")
    decoders.cache_shifted(bad, "opset23", 2, 3, N_PROMPT)
    found = self_test(folder, bad, "eager", "prefill")
    assert found["prefill"]["status"] == "fail" and "model.layers.2.fault/" in found["prefill"]["node"], found


# ---- Python ----------------------------------------------------------------------------------------

def test_python(folder):
    sys.path.insert(0, str(ROOT / "python"))
    import plumb
    clean_model, bad, where = decoders.planted("rotary row", "genai", "fp32", 2, 9, N_PROMPT)
    good = save(folder, "good.onnx", clean_model)
    g = plumb.generate(bad, backend="eager", reference_model=str(good), prompt=PROMPT, steps=6)
    assert not g and g.first_divergent_step == where.step and g.layer == 2 and g.op == "GroupQueryAttention", repr(g)
    assert g.steps[where.step].logits["kl"] > 0 and g.steps[where.step].analysis is not None
    assert any(a.step == where.step and a.verdict == "diverged" for a in g.analyses) and "DIVERGED" in str(g)
    rules = {i["input"]: i["rule"] for i in plumb.explain_inputs(clean_model)["inputs"]}
    assert rules["attention_mask"] == "mask" and rules["past_key_values.1.key"] == "state", rules
    assert plumb.generate(clean_model, backend="jit", self_test="batch").tests[0].status == "pass"


if __name__ == "__main__":
    names = dict(globals())
    if "--full" in sys.argv:
        names.update(test_every_fault=every, test_every_depth=every_depth, test_every_clean=every_clean)
    sys.exit(tap.main(names))

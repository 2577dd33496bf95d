"""llama.cpp recorded through its evaluation callback (examples/llama), a GGUF against an ONNX decoder of the same weights: every part paired, clean
runs agree, faults are named by layer and role. libllama is that of tools/fetch-llama. Prints TAP. --full: more seeds and types."""

import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

sys.dont_write_bytecode = True
import decoders  # noqa: E402
import gguf_decoder  # noqa: E402
import gguf_files  # noqa: E402
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
FULL = "--full" in sys.argv
LAYERS = 3
PROMPT = [5, 2, 7, 1, 9, 30, 11]
# role -> node of our decoders, and tensor of llama.cpp
ROLES = {"norm_in": ("input_norm/SimplifiedLayerNormalization", "attn_norm"), "q": ("attn.q_proj/MatMul", "Qcur"), "k": ("attn.k_proj/MatMul", "Kcur"),
         "v": ("attn.v_proj/MatMul", "Vcur"), "o": ("attn.o_proj/MatMul", "attn_out"), "norm_post": ("post_norm/SimplifiedLayerNormalization", "ffn_norm"),
         "gate": ("mlp.gate_proj/MatMul", "ffn_gate"), "up": ("mlp.up_proj/MatMul", "ffn_up"), "down": ("mlp.down_proj/MatMul", "ffn_out")}
# what llama.cpp quantises a model to, but for the ternary types: they are for weights that are ternary
KINDS = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "IQ3_S", "IQ3_XXS", "IQ2_S",
         "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S")
made = {}


def recorder(folder):
    """examples/llama, built once as its README says."""
    if "program" not in made:
        libraries = gguf_files.libraries()
        build = Path(PLUMB).resolve().parent
        made["folder"] = folder.parent / f"plumb-llama-{os.getpid()}"
        made["folder"].mkdir(exist_ok=True)
        program = made["folder"] / "record_llama"
        subprocess.run(["cc", "-O1", "-I" + str(ROOT / "include"), str(ROOT / "examples/llama/record_llama.c"), str(ROOT / "examples/llama/llama_abi.c"),
                        "-o", str(program), "-L" + str(build), "-lplumb", "-Wl,-rpath," + str(build), "-ldl"], check=True)
        made["program"], made["libraries"] = program, libraries
    return made["program"], made["libraries"]


def record(folder, gguf, *options, ids=PROMPT, steps=1):
    program, libraries = recorder(folder)
    out = folder / f"recorded-{gguf.stem}-{len(list(folder.iterdir()))}"
    done = subprocess.run([program, libraries, gguf, "-o", out, "--ids", ",".join(map(str, ids)), "--steps", str(steps), *options],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0, done.stderr
    made["said"] = done.stdout
    return out


def compare(a, b, *options):
    done = subprocess.run([PLUMB, "compare", a, b, "--no-session", "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def models(folder, seed=1, styles=("genai", "old"), **sizes):
    paths = []
    for style in styles:
        model = decoders.model(style, "fp32", LAYERS, seed=seed, **sizes)
        paths.append(folder / f"{style}-{seed}.onnx")
        onnx.save(model, str(paths[-1]))
    return model, paths


def culprits(session):
    return [(b["node"], b["kind"]) for b in session["blame"]]


def check_clean(session, what):
    assert session["verdict"] == "agree" and not session["blame"], (what, session["reason"], culprits(session)[:4])


# ---- what is recorded ----

def test_names(folder):
    """Distinct names, the same in every step; the graph; inputs as the usual exports have them."""
    model, _ = models(folder)
    out = record(folder, gguf_decoder.write(model, folder / "m.gguf"), steps=2)
    assert "changed" not in made["said"], made["said"]
    sys.path.insert(0, str(ROOT / "python"))
    import plumb
    steps = [plumb.load(out / f"step-{i}.safetensors") for i in range(3)]
    names = [list(s) for s in steps]
    assert names[0] == names[1] == names[2] and len(set(names[0])) == len(names[0]) and not any("#" in n for n in names[0])
    for name in ("Qcur-0", "Qcur_rope-0", "Kcur_rope-2", "kq_soft_max-1", "kqv_merged-1", "ffn_out-2", "result_norm", "logits"):
        assert name in names[0], (name, names[0])
    assert steps[0]["input_ids"].tolist() == [PROMPT] and steps[1]["position_ids"].tolist() == [[7]] and steps[2]["attention_mask"].shape == (1, 9)
    assert steps[0]["past_key_values.0.key"].shape == (1, 2, 0, 16) and steps[0]["Qcur_rope-0"].shape == (1, 4, 7, 16)
    for layer in range(LAYERS):
        for part in ("key", "value"):
            assert np.array_equal(steps[0][f"present.{layer}.{part}"], steps[1][f"past_key_values.{layer}.{part}"])
    raw = (out / "step-0.safetensors").read_bytes()
    meta = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    notes = json.loads(meta["plumb.provenance"])["notes"]
    assert "ffn_up-1 MUL_MAT f32 [1,1,7,96] = blk.1.ffn_up.weight:f32 ffn_norm-1:f32" in notes, notes[:500]
    return f"{len(names[0])} tensors a step"


def test_another_library_is_refused(folder):
    program, libraries = recorder(folder)
    (folder / "x.c").write_text("int llama_version(void) { return 0; }\n")
    for name in ("libggml-base.so", "libggml.v1.so", "libllama.v1.so"):
        subprocess.run(["cc", "-shared", "-fPIC", str(folder / "x.c"), "-o", str(folder / name)], check=True)
    for at, why in ((folder / "none", "has no libggml-base"), (folder, "has no function")):
        done = subprocess.run([program, at, "m.gguf", "-o", folder / "out", "--ids", "1"], stderr=subprocess.PIPE, universal_newlines=True)
        assert done.returncode == 2 and why in done.stderr, done.stderr
    # the same functions, but a struct that is eight bytes longer
    source = ROOT / "examples/llama/llama_abi.h"
    (folder / "llama_abi.h").write_text(source.read_text().replace("LLAMA_CONTEXT_BYTES = 160", "LLAMA_CONTEXT_BYTES = 168"))
    for name in ("record_llama.c", "llama_abi.c"):
        (folder / name).write_text((ROOT / "examples/llama" / name).read_text())
    build = Path(PLUMB).resolve().parent
    subprocess.run(["cc", "-I" + str(ROOT / "include"), str(folder / "record_llama.c"), str(folder / "llama_abi.c"), "-o", str(folder / "other"),
                    "-L" + str(build), "-lplumb", "-Wl,-rpath," + str(build), "-ldl"], check=True)
    done = subprocess.run([folder / "other", libraries, "m.gguf", "-o", folder / "out", "--ids", "1"], stderr=subprocess.PIPE, universal_newlines=True)
    if os.uname().machine == "x86_64":
        assert done.returncode == 2 and "another version" in done.stderr, done.stderr
    for ids, why in (("1,x", "is not a token id"), ("500", "vocabulary has")):
        model, _ = models(folder)
        done = subprocess.run([program, libraries, gguf_decoder.write(model, folder / "m.gguf"), "-o", folder / "out2", "--ids", ids],
                              stderr=subprocess.PIPE, universal_newlines=True)
        assert done.returncode == 2 and why in done.stderr, done.stderr


# ---- what llama.cpp does to activations ----

def test_rounding(folder):
    """GgmlRound against ggml's own quantisers, bit for bit but for ties of codes."""
    lib, rng = gguf_files.ggml(), np.random.default_rng(3)
    x = (rng.standard_normal((40, 512)) * 10.0 ** rng.integers(-3, 3, (40, 1))).astype(np.float32)
    x[0, :32] = 0
    for number, kind in ((8, "Q8_0"), (8, "Q8_1"), (15, "Q8_K"), (1, "F16")):
        if kind == "Q8_K":
            raw = (ctypes.c_char * (x.size // 256 * lib.ggml_type_size(15)))()
            lib.quantize_row_q8_K_ref(ctypes.c_void_p(x.ctypes.data), raw, ctypes.c_int64(x.size))
            wanted = gguf_files.expand(lib, 15, raw.raw).reshape(x.shape)
        else:
            wanted = x.astype(np.float16).astype(np.float32) if number == 1 else gguf_files.expand(lib, 8, gguf_files.quantised(lib, 8, x)).reshape(x.shape)
        node = onnx.helper.make_node("GgmlRound", ["x"], ["y"], domain="plumb", type=kind)
        more = 16 if kind == "Q8_1" else 0  # of its 16 blocks
        info = [onnx.helper.make_tensor_value_info(n, 1, (40, 512 + k)) for n, k in (("x", 0), ("y", more))]
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", info[:1], info[1:]), ir_version=9,
                                       opset_imports=[onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("plumb", 1)])
        onnx.save(model, str(folder / "m.onnx"))
        np.save(folder / "x.npy", x)
        subprocess.run([PLUMB, "run", folder / "m.onnx", "--input", f"x={folder / 'x.npy'}", "-o", folder / kind], stdout=subprocess.DEVNULL, check=True)
        path = next(p for p in (folder / kind).rglob("*") if p.name.startswith("y."))
        found = np.load(path) if path.suffix == ".npy" else onnx.numpy_helper.to_array(onnx.load_tensor(str(path)))
        if more:
            check_sums(lib, x, found[:, :512], found[:, 512:])
            found = found[:, :512]
        step = np.abs(x.reshape(40, -1, 256 if kind == "Q8_K" else 32)).max(2, keepdims=True) / 127
        other = (found != wanted).reshape(40, -1, step.shape[1] and 512 // step.shape[1])
        off = np.abs(found - wanted).reshape(other.shape)
        assert kind != "F16" or not other.any(), kind
        assert other.mean() < 1e-3 and (off <= step * 1.01).all(), (kind, other.mean())


def check_sums(lib, x, elements, more):
    """Q8_1: the elements of a block and what is behind them make the sum that ggml's quantiser writes (quantize_row_q8_1_ref), to its last bit but where
    a code is at a tie."""
    raw = (ctypes.c_char * (x.size // 32 * 36))()
    lib.quantize_row_q8_1_ref(ctypes.c_void_p(x.ctypes.data), raw, ctypes.c_int64(x.size))
    blocks = np.frombuffer(raw.raw, np.uint8).reshape(-1, 36)
    sums = blocks[:, 2:4].copy().view(np.float16)[:, 0].astype(np.float64)
    scale = blocks[:, :2].copy().view(np.float16)[:, 0].astype(np.float64)
    codes = blocks[:, 4:].view(np.int8).astype(np.float64)
    same = (elements.reshape(-1, 32) == codes * scale[:, None]).all(1)
    found = elements.reshape(-1, 32).astype(np.float64).sum(1) + more.reshape(-1)
    assert same.mean() > 0.98 and np.abs(more).max() > 0
    assert (np.abs(found - sums) <= 2.0 ** -22 * np.abs(sums) + 1e-12)[same].all(), np.abs(found - sums)[same].max()


# ---- clean runs ----

def sized(kind):
    """Rows of whole blocks: 256 elements where a block has as many."""
    return decoders.sizes(256, 64, 512) if kind[:2] == "IQ" and kind != "IQ4_NL" or kind.endswith("_K") else contextlib.nullcontext()


def test_clean_f32(folder):
    """Every part of every layer is paired with its own counterpart."""
    n = 0
    for seed in range(4 if FULL else 1):
        model, paths = models(folder, seed)
        out = record(folder, gguf_decoder.write(model, folder / f"m{seed}.gguf"), steps=2)
        for path in paths:
            for step in range(3):
                session = compare(out / f"step-{step}.safetensors", path)
                check_clean(session, (path.name, step))
                pairs = {p["value"]: p["counterpart"] for p in session["sync_points"]}
                for layer in range(LAYERS):
                    for role, (node, tensor) in ROLES.items():
                        wanted = f"model.layers.{layer}.{node}/out"
                        assert pairs.get(f"{tensor}-{layer}") == wanted, (role, layer, pairs.get(f"{tensor}-{layer}"), wanted)
                assert pairs["logits"] == "logits"
                n += 1
    return f"{n} steps, {len(ROLES)} parts of each of {LAYERS} layers paired"


def test_clean_quantised(folder):
    """With --weights the model runs on what llama.cpp ran on: what is left is rounding."""
    n = 0
    kinds = KINDS if FULL else ("F16", "Q8_0", "Q4_0", "Q4_1", "IQ4_NL", "Q2_K", "Q4_K", "Q6_K")
    for seed in range(4 if FULL else 1):
        for kind in kinds:
            with sized(kind):
                model, paths = models(folder, seed)
                gguf = gguf_decoder.write(model, folder / f"{kind}-{seed}.gguf", kind)
            out = record(folder, gguf)
            for path in paths:
                for step in range(2):
                    session = compare(out / f"step-{step}.safetensors", path, "--weights", gguf)
                    check_clean(session, (kind, seed, path.name, step))
                    assert any("0 differ by more than rounding" in note for note in session["notes"]), session["notes"]
                    n += 1
    return f"{n} steps, {len(kinds)} types"


def test_another_architecture(folder):
    """Qwen 2: biases, and rows of Q and K as Hugging Face has them. A bias that is off is named."""
    def wrong(tensors, metadata):
        tensors["blk.1.attn_k.bias"][7] += 1

    for style in ("genai", "old"):
        model = gguf_decoder.add_biases(decoders.model(style, "fp32", LAYERS, seed=2))
        onnx.save(model, str(folder / f"{style}.onnx"))
        for kind in ("F32", "Q4_0"):
            for fault in (None, wrong):
                gguf = gguf_decoder.write(model, folder / f"{style}-{kind}-{fault is None}.gguf", kind, fault)
                session = compare(record(folder, gguf, steps=0) / "step-0.safetensors", folder / f"{style}.onnx", "--weights", gguf)
                if fault is None:
                    check_clean(session, (style, kind))
                else:
                    named = [node for node, _ in culprits(session)]
                    assert named == ["model.layers.1.attn.k_proj/Add"], (style, kind, culprits(session)[:4])


def test_long_prompt(folder):
    """Rotations far from the first position, and codes that a last bit before them moves."""
    model, paths = models(folder)
    ids = [i * 7 % 96 for i in range(200)]
    for kind in ("F32", "Q4_0"):
        gguf = gguf_decoder.write(model, folder / f"{kind}.gguf", kind)
        out = record(folder, gguf, ids=ids)
        for path in paths:
            for step in range(2):
                check_clean(compare(out / f"step-{step}.safetensors", path, "--weights", gguf), (kind, path.name, step))


def test_cache_in_half(folder):
    """llama.cpp's own default: keys and values rounded in the cache, queries and scores before the products. Faults are seen as with a cache in float."""
    n = 0
    for seed in range(3 if FULL else 1):
        model, paths = models(folder, seed)
        for kind in ("F32", "Q8_0", "Q4_0", "Q4_1", "F16") if FULL else ("F32", "Q4_0"):
            for name in (None, *FAULTS):
                fault, wanted = FAULTS.get(name, (None, None))
                gguf = gguf_decoder.write(model, folder / f"{name}-{kind}-{seed}.gguf", kind, fault)
                out = record(folder, gguf, "--cache-type", "f16", steps=2 if name is None else 0)
                for path in paths:
                    for step in range(1 if name else 3):
                        session = compare(out / f"step-{step}.safetensors", path, "--weights", gguf)
                        assert any("keeps its cache in half" in note for note in session["notes"]), session["notes"]
                        named = [node for node, _ in culprits(session)]
                        n += 1
                        if name is None:
                            check_clean(session, (kind, seed, path.name, step))
                        else:
                            assert session["verdict"] == "diverged" and named, (name, kind, seed, path.name)
                            assert all(re.fullmatch(wanted, x) for x in named), (name, kind, seed, path.name, culprits(session)[:4])
    return f"{n} steps, {len(FAULTS)} faults"


# ---- faults ----

def scaled(tensors, metadata):
    tensors["blk.1.ffn_up.weight"] *= 1.5


def scaled_row(tensors, metadata):
    tensors["blk.2.attn_v.weight"][3] *= 2


def transposed(tensors, metadata):
    tensors["blk.0.attn_output.weight"] = np.ascontiguousarray(tensors["blk.0.attn_output.weight"].T)


def rotary_base(tensors, metadata):
    metadata["llama.rope.freq_base"][1] = 20000.0


def epsilon(tensors, metadata):
    metadata["llama.attention.layer_norm_rms_epsilon"][1] = 1e-2


def gain(tensors, metadata):
    tensors["blk.1.ffn_norm.weight"][5] *= 1.25


def swapped_rows(tensors, metadata):
    tensors["blk.1.ffn_gate.weight"][[3, 40]] = tensors["blk.1.ffn_gate.weight"][[40, 3]]


def halved_row(tensors, metadata):
    tensors["blk.0.ffn_down.weight"][9] /= 2


# what the node that is named first must be; all others must be, too, where a fault is in every layer
FAULTS = {"scaled": (scaled, r"model\.layers\.1\.mlp\.up_proj/MatMul"), "scaled_row": (scaled_row, r"model\.layers\.2\.attn\.v_proj/MatMul"),
          "transposed": (transposed, r"model\.layers\.0\.attn\.o_proj/MatMul"),
          "rotary_base": (rotary_base, r"model\.layers\.\d\.attn/(GroupQueryAttention|[qk]_rotary/.*|k/Concat|qk/MatMul)"),
          "epsilon": (epsilon, r"model\.(layers\.\d\.)?(input_|post_)?norm/.*"),
          "gain": (gain, r"model\.layers\.1\.post_norm/SimplifiedLayerNormalization"),
          "swapped_rows": (swapped_rows, r"model\.layers\.1\.mlp\.gate_proj/MatMul"), "halved_row": (halved_row, r"model\.layers\.0\.mlp\.down_proj/MatMul")}


def test_faults(folder):
    n = 0
    kinds = ("F32", *KINDS) if FULL else ("F32", "Q4_1", "Q2_K")
    for seed in range(2 if FULL else 1):
        for kind in kinds:
            for name, (fault, wanted) in FAULTS.items():
                if kind[:3] == "IQ1" and name == "halved_row":
                    continue  # one row in 1.5 bits: half its size is within what the type rounds (docs/howto/llama-cpp.md)
                with sized(kind):
                    model, paths = models(folder, seed)
                    gguf = gguf_decoder.write(model, folder / f"{name}-{kind}-{seed}.gguf", kind, fault)
                out = record(folder, gguf, steps=0)
                for path in paths:
                    session = compare(out / "step-0.safetensors", path, "--weights", gguf)
                    named = [node for node, _ in culprits(session)]
                    assert session["verdict"] == "diverged" and named and re.fullmatch(wanted, named[0]), (name, kind, seed, path.name, culprits(session)[:3])
                    n += 1
                    others = [x for x in named if not re.fullmatch(wanted, x)]
                    assert not others, (name, kind, seed, path.name, others)
    return f"{n} of {n} named, no innocents"


def test_weights_that_do_not_fit(folder):
    model, paths = models(folder, styles=("old",))
    gguf = gguf_decoder.write(model, folder / "m.gguf")
    out = record(folder, gguf, steps=0) / "step-0.safetensors"
    (folder / "text").write_text("no GGUF")
    np.savez(folder / "other.npz", x=np.zeros(3))
    foreign = gguf_files.gguf(folder / "foreign.gguf", {"a": (0, (3,), bytes(12))})
    for a, b, weights, why in ((out, paths[0], folder / "text", "not a GGUF file"), (out, paths[0], foreign, "by layer and role"),
                               (out, folder / "other.npz", gguf, "requires a recording and a model"), (paths[0], paths[0], gguf, "requires a recording and a model")):
        done = subprocess.run([PLUMB, "compare", a, b, "--no-session", "--weights", weights], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              universal_newlines=True)
        assert done.returncode == 2 and why in done.stderr, (why, done.stderr)


if __name__ == "__main__":
    sys.exit(tap.main(globals()))

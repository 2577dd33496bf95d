#!/usr/bin/python3
"""Debian's ONNX test data on the runtimes of devices and browsers: one page, by operator, with every failure classified.

Usage: bench/device/conformance.py [--results DIR] [--run] [BACKEND...]      (default: those of BACKENDS)

With --run, `plumb test` runs each backend and leaves DIR/NAME.json (some minutes each, and more on a busy machine). The page
bench/device/conformance.md is written from these files. A failure that no rule of RULES knows is listed as unclassified, and
the exit code is 1.
"""
import collections
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = "/usr/share/libonnx-testdata/data"
PAGE = os.path.join(ROOT, "bench", "device", "conformance.md")
BACKENDS = ("ort", "ort:providers=WebGPU", "web:wasm", "web:webgpu")

# (what the reason contains, class, explanation). The first that fits counts.
RULES = (
    (r"is not a registered function/op", "unsupported", "operators of ai.onnx.preview.training are in no inference build"),
    (r"requires f16 but the device does not support it", "unsupported",
     "SwiftShader has no `shader-f16`. The provider takes the node and fails when it runs, it does not leave it to the CPU"),
    (r"transformer_memcpy\.cc:\d+.*node_provider_type\.empty", "runtime bug",
     "the node has a kernel neither for WebGPU nor among the few CPU kernels of this build; instead of `not implemented`, an internal check "
     "fails. Repro: `bench/device/repros/bitshift-webgpu`"),
    (r"Could not find an implementation|Failed to find kernel", "unsupported",
     "no kernel for this type or opset in this build; the message names operator and version"),
    (r"unsupported data type: 16", "unsupported", "JavaScript has no bfloat16"),
    (r"layout == 1|[Bb]atchwise", "unsupported", "recurrent operators with layout=1"),
    (r"non-tensor typed value|does not take (seq|optional)|MLDataType for: (optional|seq)", "unsupported", "sequences and optionals as inputs and outputs"),
    (r"trainingMode is not supported|Only Conv2d or Conv1d|Indices output is not supported|column major storage_order"
     r"|is not supported yet|not implemented", "unsupported",
     "the WebGPU provider takes the node and refuses it when it runs; it does not leave it to the CPU, which has the kernel"),
    (r"test_(cast|castlike)_FLOAT_to_STRING.*difference", "format",
     "the same float, printed with 9 digits where the data has the shortest text; ONNX leaves the format open"),
    (r"test_maxunpool_export_with_output_shape.*difference", "runtime bug",
     "ONNX Runtime takes indices within `output_shape`, the data within the inferred shape; onnx#2398, onnxruntime#2193 (all providers)"),
    (r"test_resize_downsample_scales_(linear|cubic)_align_corners.*difference", "runtime bug",
     "length_resized is 2.4 in the data (`length_original * scale`) and 2 in ONNX Runtime (all providers); its own test list names it"),
    (r"test_blackmanwindow\w*_expanded.*difference", "precision",
     "`cos` of a shader is within 2^-11 absolute, as WGSL requires (4e-5 here); the window cancels it to small numbers"),
    (r"C API cannot create an empty", "unsupported", "empty sequences and optionals as inputs"),
    (r"string_normalizer\.cc", "environment", "StringNormalizer needs the locale en_US.UTF-8, which this machine does not have"),
    (r"castlike_\w*BFLOAT16\w* .*Invalid rank for input: like", "data", "the model declares another rank than the data has; ONNX Runtime checks that"),
    (r"only type and shape were compared", "random", "a random result"),
)


def file_of(results, backend):
    return os.path.join(results, re.sub(r"[:=]", "_", backend) + ".json")


def run_backend(backend, path):
    command = [os.environ.get("PLUMB", os.path.join(ROOT, "build", "plumb")), "test", *(f"{DATA}/{d}" for d in ("node", "pytorch-operator", "pytorch-converted", "simple")),
               "--backend", backend, "--timeout", "60", "--repro-level", "0", "--json", "-q"]
    with open(path, "w", encoding="utf-8") as out:
        done = subprocess.run(command, stdout=out)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit {done.returncode}")


def operator_of(path):
    """The type of the model's only operator; several are counted together."""
    import onnx
    if not os.path.isdir(path):
        return "(light models)"
    types = {n.op_type for n in onnx.load(os.path.join(path, "model.onnx"), load_external_data=False).graph.node}
    return types.pop() if len(types) == 1 else "(several)"


def classify(case):
    text = os.path.basename(case["path"]) + " " + case["reason"].replace("\n", " ")
    for pattern, kind, why in RULES:
        if re.search(pattern, text):
            return kind, why
    return "unclassified", case["reason"][:200].replace("\n", " ").replace("|", "/")


def outcome(case):
    if case["status"] == "pass":
        return "cpu" if case.get("cpu") else "pass"
    kind, _ = classify(case)
    return "skip" if case["status"] == "skip" and kind == "random" else "unsupported" if kind == "unsupported" else "fail"


WORDS = (("pass", "passed"), ("cpu", "passed, part of it on the CPU"), ("fail", "failed"), ("unsupported", "unsupported"), ("skip", "random"))


def totals(results, out):
    out.append("| backend | " + " | ".join(w for _, w in WORDS) + " |")
    out.append("|---|" + "--:|" * len(WORDS))
    for backend, cases in results.items():
        n = collections.Counter(outcome(c) for c in cases)
        out.append(f"| `{backend}` | " + " | ".join(str(n[k]) for k, _ in WORDS) + " |")


def failures(results, out):
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for backend, cases in results.items():
        for c in cases:
            if c["status"] != "pass" and classify(c)[0] != "random":
                groups[classify(c)][backend].append(os.path.basename(c["path"]).removeprefix("test_"))
    out.append("| class | what | cases, by backend |")
    out.append("|---|---|---|")
    for (kind, why), by in sorted(groups.items()):
        parts = [f"`{b}` {len(names)}: {', '.join(names[:6])}{', …' if len(names) > 6 else ''}" for b, names in by.items()]
        out.append(f"| {kind} | {why} | {'<br>'.join(parts)} |")
    return sum(len(n) for (kind, _), by in groups.items() if kind == "unclassified" for n in by.values())


def operators(results, out):
    rows = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    known = {}
    for backend, cases in results.items():
        for c in cases:
            op = known.setdefault(c["path"], None) or operator_of(c["path"])
            known[c["path"]] = op
            rows[op][backend][outcome(c)] += 1
    out.append("| operator | " + " | ".join(f"`{b}`" for b in results) + " |")
    out.append("|---|" + "---|" * len(results))
    letters = {"pass": "", "cpu": "C", "fail": "F", "unsupported": "U", "skip": "R"}
    for op in sorted(rows):
        cells = []
        for backend in results:
            n = rows[op][backend]
            cells.append(" ".join(f"{n[k]}{letters[k]}" for k, _ in WORDS if n[k]) or "-")
        out.append(f"| {op} | " + " | ".join(cells) + " |")


def main(args):
    folder, run, backends = os.path.join(ROOT, ".cache", "conformance"), False, []
    args = list(args)
    while args:
        a = args.pop(0)
        if a == "--results" and args:
            folder = args.pop(0)
        elif a == "--run":
            run = True
        elif a.startswith("-"):
            sys.exit(__doc__)
        else:
            backends.append(a)
    os.makedirs(folder, exist_ok=True)
    results = {}
    for backend in backends or BACKENDS:
        path = file_of(folder, backend)
        if run:
            run_backend(backend, path)
        with open(path, encoding="utf-8") as f:
            results[backend] = json.load(f)["cases"]
    out = ["# Debian's ONNX data on devices and in the browser", "",
           "Written by `bench/device/conformance.py --run`. `libonnx-testdata` 1.12.0; ONNX Runtime and onnxruntime-web 1.27.0; WebGPU on",
           "SwiftShader, the software driver of Chromium. Tolerance as ONNX's own runner: 1e-3 relative, 1e-7 absolute.", ""]
    totals(results, out)
    out += ["", "## Failures", "", "`runtime bug`: the runtime disagrees with ONNX, or fails where it should say what is missing. `precision`: within what the",
            "device's language allows. `format`: another text for the same number. `environment`, `data`: not the runtime.", ""]
    n_unknown = failures(results, out)
    out += ["", "## By operator", "", "A number alone: passed. C: passed, part of it on the CPU. F: failed. U: unsupported. R: random, not compared.", ""]
    operators(results, out)
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")
    print(f"{PAGE}: {', '.join(results)}; {n_unknown} unclassified")
    return 1 if n_unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

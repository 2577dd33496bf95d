#!/usr/bin/python3
"""Localisation benchmark of `plumb analyze`: plants faults and counts how often the planted node is named.

  bench/blame/run.py [cases|small|clean|report …] [--quick] [--jobs N] [--out DIR] [-k TEXT] [--seed N]

cases   every kind of fault x models x random nodes, planted (a) by the jit's --inject, (b) by changing one node of the model
        under test with the original as the reference, (c) by corrupt_plugin.c.
small   the smallest fault that is found, by class of operator, through (c).
clean   runs without a fault: backends, ONNX Runtime versions, levels and seeds. Any blame is a false alarm.
report  writes the tables into README.md. Without a word: all four.

Results are lines of JSON in DIR (build/blame); what is there already is not run again. Everything follows from --seed."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import onnx

import faults
import models

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
PATIENCE = int(os.environ.get("PLUMB_TEST_PATIENCE", "1"))  # as in tests/run
PLUGIN = os.environ.get("PLUMB_CORRUPT", str(Path(PLUMB).parent / "corrupt_plugin.so"))
INJECT = ("accuracy", "nan", "bf16", "offset", "scale", "sign", "transpose", "shift", "saturate", "channel", "tail", "zero",
          "one-element")
PLUGIN_KINDS = {"scale": 0.01, "offset": 0.05, "element": 0.5, "channel": 0.1, "noise": 0.05, "bf16": 0, "fp16": 0, "sign": 0,
                "zero": 0, "stale": 0, "nan": 0, "saturate": 0, "shift": 0, "tail": 0, "transpose": 0}
# What analyze may call each kind: the beginnings of its words.
NAMES = {
    "accuracy": ("offset",), "offset": ("offset",), "scale": ("scale",), "nan": ("NaN",), "bf16": ("low precision: bfloat16",),
    "fp16": ("low precision: float16",), "sign": ("sign",), "transpose": ("axes", "transposed", "the right elements"),
    "shift": ("shifted", "the right elements"), "saturate": ("saturated", "tail: saturated", "one channel: saturated"), "channel": ("one channel",), "tail": ("tail",),
    "zero": ("zero", "one channel: zero", "tail: zero"), "stale": ("stale", "tail: stale", "one channel: stale", "tail", "one channel"), "one-element": ("one element",),
    "element": ("one element",), "noise": ("other", "noise"),
}
# Errors that are always found at low precision: rms and largest error of the value's own size.
LIMITS = {"": (1e-4, 1e-3), "fp16": (1e-2, 3e-2), "bf16": (8e-2, 0.24)}


# ---- running ----

class Lab:
    def __init__(self, out, seed, jobs):
        self.out, self.seed, self.jobs = Path(out), seed, jobs
        self.out.mkdir(parents=True, exist_ok=True)
        self.models, self.missing = models.make(self.out / "models")
        self.protos, self.values, self.cpus, self.lock = {}, {}, None, threading.Lock()

    def has_ort(self):
        done = self.plumb("backends", "--json")
        return any(b["name"] == "ort" and b["available"] for b in json.loads(done.stdout))

    def clips(self, backend):
        """Does this backend run on an x86 CPU without VNNI? Then ONNX Runtime clips u8 x s8 products, and saying so is right."""
        with self.lock:
            if self.cpus is None:
                self.cpus = {b["name"]: b["cpu"].split() for b in json.loads(self.plumb("backends", "--json").stdout)}
        cpu = self.cpus["ort"] if backend.startswith("ort") else ()
        return "x86-64" in cpu and "vnni" not in cpu

    def true_blame(self, backend, blame):
        """The entries that a planted fault must explain."""
        return [b for b in blame if not (b["kind"].startswith("saturated products") and self.clips(backend))]

    def proto(self, name):
        with self.lock:
            if name not in self.protos:
                self.protos[name] = onnx.load(self.models[name].path)
            return self.protos[name]

    def plumb(self, *args, timeout=300):
        return subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=timeout * PATIENCE, cwd=ROOT)

    def analyze(self, path, backend, *args):
        with tempfile.TemporaryDirectory(dir=self.out) as tmp:
            # eager against eager would be one computation twice, which analyze refuses.
            other = ("--reference", "jit") if backend == "eager" else ()
            done = self.plumb("analyze", path, "--backend", backend, *other, "--json", "--save", "none", "--threads", 1, "-o",
                              f"{tmp}/session", *args)
        if done.returncode not in (0, 1, 3):
            raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()[:300]}")
        return json.loads(done.stdout)

    def record(self, path, backend, *args):
        """{value: array as double}; {} when the backend fails."""
        with tempfile.TemporaryDirectory(dir=self.out) as tmp:
            done = self.plumb("record", path, "--backend", backend, "-o", f"{tmp}/r.safetensors", "--threads", 1, *args)
            return read_safetensors(f"{tmp}/r.safetensors") if done.returncode == 0 else {}

    def shapes(self, name):
        """{value: (dtype, shape)} of a clean eager run."""
        with self.lock:
            if name not in self.values:
                e = self.models[name]
                got = self.analyze(e.path, "eager", "--skip-gold", "--skip-determinism", *e.args)
                self.values[name] = {p["value"]: (p["metadata"]["a"]["dtype"], p["metadata"]["a"]["shape"])
                                     for p in got["sync_points"]}
            return self.values[name]


TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I8": "i1", "U8": "u1", "I32": "<i4", "I64": "<i8", "BOOL": "?", "U16": "<u2",
         "I16": "<i2", "U32": "<u4", "U64": "<u8"}


def read_safetensors(path):
    data = Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    head, out = json.loads(data[8:8 + n]), {}
    for key, t in head.items():
        if key == "__metadata__":
            continue
        lo, hi = t["data_offsets"]
        raw = data[8 + n + lo:8 + n + hi]
        if t["dtype"] == "BF16":
            x = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        elif t["dtype"] in TYPES:
            x = np.frombuffer(raw, TYPES[t["dtype"]])
        else:
            continue
        out[key] = x.reshape(t["shape"]).astype(np.float64)
    return out


# ---- cases ----

def numeric(info):
    return info is not None and info[0] in ("float", "float16", "bfloat16", "int8", "uint8", "int32") and int(np.prod(info[1])) > 0


def pick_nodes(lab, name, rng, n, inject=False):
    """n nodes of the main graph with a numeric output, each operator type as likely as the others."""
    graph, info = lab.proto(name).graph, lab.shapes(name)
    by_op = {}
    for i, node in enumerate(graph.node):
        if node.op_type == "Constant" or not numeric(info.get(node.output[0])):
            continue
        if info[node.output[0]][0] == "int32" and node.op_type in ("Cast", "Shape", "Gather"):
            continue
        by_op.setdefault(node.op_type, []).append(i)
    ops = sorted(by_op)
    return [rng.choice(by_op[rng.choice(ops)]) for _ in range(n)]


def rng_of(*parts):
    return random.Random(":".join(map(str, parts)))


def list_cases(lab, quick):
    cases = []
    for name, e in lab.models.items():
        graph = lab.proto(name).graph
        heavy = name in ("mobilenet", "ppocr-cls")
        if quick and (heavy or name not in QUICK):
            continue
        for kind in INJECT:
            rng = rng_of(lab.seed, "a", name, kind)
            if quick and rng.random() > 0.2:
                continue
            for i in pick_nodes(lab, name, rng, 1):
                node = graph.node[i]
                nth = sum(n.op_type == node.op_type for n in graph.node[:i + 1])
                cases.append(dict(way="a", model=name, kind=kind, node=i, backend=f"jit:inject={kind}@{node.op_type}:{nth}"))
        for kind in faults.KINDS:
            backends = ("eager", "jit") if not e.ort else ("ort:opt=off", "ort:opt=all", "eager")
            for backend in backends:
                rng = rng_of(lab.seed, "b", name, kind, backend)
                ways = faults.candidates(lab.proto(name), kind)
                if not ways or (quick and rng.random() > 0.15):
                    continue
                ops = sorted({graph.node[i].op_type for i in ways})
                for _ in range(8):  # until one fits
                    op = rng.choice(ops)
                    i = rng.choice([k for k in ways if graph.node[k].op_type == op])
                    number = rng.randrange(1 << 30)
                    if faults.mutate(lab.proto(name), kind, i, random.Random(number)) is not None:
                        cases.append(dict(way="b", model=name, kind=kind, node=i, backend=backend, number=number))
                        break
        for kind, size in PLUGIN_KINDS.items():
            rng = rng_of(lab.seed, "c", name, kind)
            if quick and rng.random() > 0.2:
                continue
            i = pick_nodes(lab, name, rng, 1)[0]
            big = {"": 1, "fp16": 20, "bf16": 100}[e.low]
            spec = f"plugin:{PLUGIN},node={i},kind={kind},size={size * big if kind == 'scale' else size},seed={rng.randrange(999)}"
            if rng.random() < 0.3:
                spec += f",show={rng.randint(2, 4)}"
            cases.append(dict(way="c", model=name, kind=kind, node=i, backend=spec))
    for c in cases:
        text = json.dumps({k: v for k, v in c.items()} | {"backend": c["backend"].replace(PLUGIN, "corrupt")}, sort_keys=True)
        c["id"] = hashlib.sha1(f"{lab.seed} {text}".encode()).hexdigest()[:12]
    return cases


QUICK = ("cnn", "attention", "recurrent", "mixed", "dynamic", "qdq", "control", "mlp", "cnn-fp16", "mlp-bf16", "vision", "indices", "qlinear",
         "modern")


def holds(entry, planted):
    return bool(planted & {entry["value"], *entry["members"]})


def kind_right(case, kind, where, info):
    n = int(np.prod(info[1]))
    allowed = NAMES[case["kind"]]
    if any(kind.startswith(a) for a in allowed):
        return True
    # With so few elements, or channels of one element, several names say the same.
    if n <= 2:
        return not kind.startswith("other")
    rank, shape = len(info[1]), info[1]
    channel = n // shape[1 if rank > 1 and shape[1] > 1 else rank - 1]
    if kind.startswith("tail") and where.startswith("tail: last 1 of") and channel * shape[-1] == n:
        return case["kind"] == "channel"  # the last channel of an innermost axis
    if kind.startswith("one element"):
        return (case["kind"] == "channel" and channel == 1) or (case["kind"] == "tail" and n == max(shape) < 8)
    return case["kind"] == "stale" and n // 4 < 4


def score(lab, case, result, planted):
    blame = lab.true_blame(case["backend"], result["blame"])
    out = dict(verdict=result["verdict"], groups=len(blame))
    out["found"] = bool(blame) and holds(blame[0], planted)
    out["innocent"] = sum(not holds(b, planted) for b in blame)
    if blame:
        top = blame[0]
        out.update(named=top["value"], op=top["op"], said=top["kind"], where=top["where"], q=top["q"], size=len(top["members"]))
        own = lab.shapes(case["model"]).get(top["value"])
        seen = {p["value"] for p in result["sync_points"]}
        meant = own and (own[0].endswith(("float", "float16")) or case["kind"] not in ("nan", "bf16", "fp16"))  # codes have none of these
        if out["found"] and top["value"] in planted & seen and len(top["members"]) == 1 and case["kind"] in NAMES and meant:
            out["kind_right"] = kind_right(case, top["kind"], top["where"], own)
    if result["verdict"] == "failed":
        out["reason"] = result["reason"][:200]
    return out


def nearest(graph, planted, recorded):
    """The recorded values in which a fault of the planted ones shows first: they, or what is computed from them without
    another recorded value between."""
    seen, out, names = set(planted), set(), set(recorded)
    for node in graph.node:  # in topological order
        used = set(node.input) | {n for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for n in outer_names(a.g)}
        if used & (seen - names) or seen & set(node.output):
            seen |= {o for o in node.output if o}
    out = seen & names
    return out or names


def outer_names(graph):
    return {i for n in graph.node for i in n.input} | {o.name for o in graph.output}


def difference(clean, faulty, names):
    """(rms, largest) relative difference over the named values, of the one that differs most, and how many differ."""
    worst, most, changed = 0.0, 0.0, 0
    for key in names:
        if key not in clean or key not in faulty:
            continue
        x, y = faulty[key], clean[key]
        if x.shape != y.shape:
            return 1.0, 1.0, 1
        if x.size == 0 or np.array_equal(x, y, equal_nan=True):
            continue
        changed += 1
        rms = np.sqrt(np.nanmean(y**2)) or 1.0
        with np.errstate(all="ignore"):
            off = np.abs(x - y)
            if not np.array_equal(np.isfinite(x), np.isfinite(y)):
                return float("inf"), float("inf"), changed
            off = off[np.isfinite(off)]
            worst = max(worst, float(np.sqrt((off**2).mean()) / rms))
            most = max(most, float(off.max() / rms))
    return worst, most, changed


def look_closer(lab, case, path, entry, planted, recorded):
    """Why was it not found? Runs of both, without plumb's judgement: invisible when no recorded value differs, small when the
    first that does is off by less than replay always finds."""
    if case["way"] == "b":
        clean = lab.record(entry.path, "eager:fp64", *entry.args)
        faulty = lab.record(path, "eager:fp64", *entry.args)
    else:
        # Only the recorded values: a backend shows the same ones with and without the fault.
        base = "jit" if case["way"] == "a" else re.sub(r",kind=[^,]*", "", case["backend"])
        clean = lab.record(entry.path, base, *entry.args)
        faulty = lab.record(entry.path, case["backend"], *entry.args)
    if not clean or not faulty:
        return dict(cause="no recording")
    tiny = 1e-6 if case["way"] == "b" else 0
    if difference(clean, faulty, recorded)[1] <= tiny:
        return dict(cause="invisible")
    rms, most, _ = difference(clean, faulty, nearest(lab.proto(case["model"]).graph, planted, recorded))
    limit = LIMITS[entry.low]
    cause = "small" if rms < limit[0] and most < limit[1] else "missed"
    return dict(cause=cause, difference=[rms, most])


def run_case(lab, case):
    entry = lab.models[case["model"]]
    node = lab.proto(case["model"]).graph.node[case["node"]]
    planted, path, extra = {o for o in node.output if o}, entry.path, []
    with tempfile.TemporaryDirectory(dir=lab.out) as tmp:
        if case["way"] == "b":
            model, names = faults.mutate(lab.proto(case["model"]), case["kind"], case["node"], random.Random(case["number"]))
            planted, path = set(names), Path(tmp) / "changed.onnx"
            onnx.save(model, path)
            extra = ["--reference", entry.path]
        out = {k: case[k] for k in ("id", "way", "model", "kind", "node")}
        out |= dict(backend=case["backend"].replace(PLUGIN, "corrupt"), planted=node.op_type, value=node.output[0])
        try:
            result = lab.analyze(path, case["backend"], *extra, *entry.args)
        except (RuntimeError, subprocess.TimeoutExpired, ValueError) as e:
            return out | dict(error=str(e)[:300])
        out |= score(lab, case, result, planted)
        if not out["found"] and result["verdict"] != "failed":
            out |= look_closer(lab, case, path, entry, planted, {p["value"] for p in result["sync_points"]})
    return out


def run_all(lab, file, cases, fn, say):
    """Runs what is not in the file yet, appends; returns all results."""
    path = lab.out / file
    done = {}
    if path.exists():
        for line in path.read_text().splitlines():
            r = json.loads(line)
            if "error" not in r:
                done[r["id"]] = r
    todo = [c for c in cases if c["id"] not in done]
    with concurrent.futures.ThreadPoolExecutor(lab.jobs) as pool, path.open("a") as f:
        for k, r in enumerate(pool.map(lambda c: fn(lab, c), todo)):
            done[r["id"]] = r
            f.write(json.dumps(r) + "\n")
            f.flush()
            say(k + 1, len(todo), r)
    return [done[c["id"]] for c in cases]


def outcome(r):
    if "error" in r:
        return "error"
    if r["verdict"] == "failed":
        return "failed"
    return "found" if r["found"] else r.get("cause", "missed")


# ---- the smallest faults ----

CLASSES = {
    "+ - * / and exact ops": ("Add", "Sub", "Mul", "Div", "Relu", "LeakyRelu", "Clip", "MaxPool", "Transpose", "Concat", "Max", "Abs", "Neg",
                              "Slice", "Gather", "Pad", "Where", "Reshape"),
    "transcendental": ("Sigmoid", "Tanh", "Exp", "Log", "Sin", "Cos", "Erf", "Sqrt", "Softmax", "Softplus", "Elu", "Pow", "LogSoftmax", "Reciprocal",
                       "HardSwish", "HardSigmoid", "Softsign"),
    "reductions": ("ReduceMean", "ReduceSum", "GlobalAveragePool", "AveragePool", "ReduceL2", "CumSum", "ReduceLogSumExp"),
    "dot products": ("Conv", "Gemm", "MatMul", "ConvTranspose"),
    "norms": ("BatchNormalization", "LayerNormalization", "InstanceNormalization", "LpNormalization"),
    "RNN": ("LSTM", "GRU", "RNN"),
}
SIZES = (1e-2, 1e-3, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7)
ELEMENT_SIZES = (1e-2, 1e-3, 1e-4, 1e-5)
LOW_SIZES = (3e-1, 1e-1, 3e-2, 1e-2, 3e-3)


def list_sites(lab, quick):
    sites, per = [], 3 if quick else 24
    pools = {c: [] for c in CLASSES}
    low = {"fp16": [], "bf16": []}
    fused = []
    for name, e in lab.models.items():
        if name in ("ppocr-cls", "mobilenet"):
            continue
        info = lab.shapes(name)
        for i, node in enumerate(lab.proto(name).graph.node):
            got = info.get(node.output[0])
            if got is None or got[0] not in ("float", "float16", "bfloat16") or int(np.prod(got[1])) < 2:
                continue
            if e.low:
                low[e.low].append((name, i))
                continue
            for c, ops in CLASSES.items():
                if node.op_type in ops:
                    pools[c].append((name, i))
                    fused.append((name, i))
    for c, pool in pools.items():
        rng = rng_of(lab.seed, "small", c)
        sites += [dict(cls=c, model=m, node=i, show=0) for m, i in rng.sample(pool, min(per, len(pool)))]
    rng = rng_of(lab.seed, "small", "fused")
    # The recipe corrupts recorded values: the last ones of their segments. Those inside have their own row.
    for cls, inside in (("fused segments", False), ("inside fused segments", True)):
        pool = [(m, i) for m, i in fused if inside == (i % 3 != 0) and i > 2]
        sites += [dict(cls=cls, model=m, node=i, show=3) for m, i in rng.sample(pool, min(per, len(pool)))]
    for p in low:
        sites += [dict(cls=p, model=m, node=i, show=0) for m, i in rng.sample(low[p], min(per, len(low[p])))]
    for s in sites:
        s["id"] = hashlib.sha1(json.dumps([lab.seed, s], sort_keys=True).encode()).hexdigest()[:12]
    return sites


def run_site(lab, site):
    entry = lab.models[site["model"]]
    node = lab.proto(site["model"]).graph.node[site["node"]]
    planted, found = {o for o in node.output if o}, {}
    sizes = LOW_SIZES if entry.low else None
    ladders = {"scale": sizes or SIZES, "offset": sizes or ELEMENT_SIZES, "element": sizes or ELEMENT_SIZES,
               "channel": sizes or ELEMENT_SIZES, "bf16": (0,), "fp16": (0,)}
    if entry.low:
        ladders = {k: ladders[k] for k in ("scale", "element", "channel")}
    for kind, ladder in ladders.items():
        row = {}
        for size in ladder:  # from large to small; what is lost once stays lost
            spec = f"plugin:{PLUGIN},node={site['node']},kind={kind},size={size},seed={site['node']}"
            spec += f",show={site['show']}" if site["show"] else ""
            result = lab.analyze(entry.path, spec, "--skip-gold", "--skip-determinism", *entry.args)
            right = bool(result["blame"]) and holds(result["blame"][0], planted)
            row[str(size)] = right
            if not right:
                if size == ladder[0]:  # nothing to see there?
                    clean = re.sub(r",kind=[^,]*", "", spec)
                    both = [lab.record(entry.path, s, *entry.args) for s in (clean, spec)]
                    if difference(*both, both[0])[1] < 1e-6:
                        row = None
                break
        found[kind] = row
    return site | dict(op=node.op_type, found=found)


# ---- clean runs ----

def list_clean(lab, quick):
    runs = []
    for name, e in lab.models.items():
        if quick and name not in QUICK:
            continue
        specs = ["eager", "jit"]
        if e.ort:
            specs += ["ort:opt=all"] if quick else [f"ort:opt={o}" for o in ("off", "basic", "extended", "all")]
        for spec in specs:
            runs.append(dict(model=name, backend=spec, seed=0))
        if quick:
            continue
        heavy = name in ("ppocr-cls", "mobilenet", "oww-embedding", "oww-embedding-fp16")
        for seed in range(1, 4 if heavy else 21):
            runs.append(dict(model=name, backend="jit", seed=seed))
            if e.ort:
                runs.append(dict(model=name, backend="ort:opt=all", seed=seed))
        for lib in sorted((ROOT / ".cache").glob("ort-[0-9]*/libonnxruntime.so*")):
            if not e.ort or lib.parent.name == "ort-1.27.0":
                continue
            for level in ("off", "all"):
                runs.append(dict(model=name, backend=f"ort:opt={level},lib={lib}", seed=0))
    for r in runs:
        text = json.dumps([lab.seed, r["model"], r["backend"].replace(str(ROOT), ""), r["seed"]])
        r["id"] = hashlib.sha1(text.encode()).hexdigest()[:12]
    return runs


def run_clean(lab, run):
    entry = lab.models[run["model"]]
    out = dict(run, backend=run["backend"].replace(f"{ROOT}/", ""))
    try:
        r = lab.analyze(entry.path, run["backend"], "--seed", run["seed"], *entry.args)
    except (RuntimeError, subprocess.TimeoutExpired, ValueError) as e:
        return out | dict(error=str(e)[:300])
    qs = [(p["q"], p["op"], p["value"]) for p in r["sync_points"] if isinstance(p["q"], (int, float))]
    left = lab.true_blame(run["backend"], r["blame"])
    verdict = "agree" if r["verdict"] == "diverged" and r["blame"] and not left else r["verdict"]  # the CPU clips, and nothing else is wrong
    return out | dict(verdict=verdict, reason=r["reason"].replace(f"{ROOT}/", "")[:200], blame=[(b["op"], b["value"], b["kind"]) for b in left],
                      values=len(r["sync_points"]), q=max(qs, default=None), unreplayed=r["coverage"]["unreplayed"],
                      excuses=sorted({p["excuse"] for p in r["sync_points"] if p["excuse"]}))


# ---- report ----

def share(a, b):
    return f"{a}/{b} ({100 * a / b:.1f} %)" if b else "-"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, r)) + " |" for r in rows])


def tally(results):
    n = {k: 0 for k in ("found", "missed", "invisible", "small", "failed", "error", "no recording")}
    for r in results:
        n[outcome(r)] += 1
    visible = n["found"] + n["missed"] + n["no recording"]
    kinds = [r["kind_right"] for r in results if "kind_right" in r]
    innocent = sum(r.get("innocent", 0) > 0 for r in results)
    return [share(n["found"], visible), n["missed"] + n["no recording"], innocent, share(sum(kinds), len(kinds)), n["invisible"], n["small"],
            n["failed"] + n["error"]]


HEAD = ["", "cases", "named first, of visible", "missed", "with an innocent named", "kind right", "invisible", "below the limit", "did not run"]


def report_cases(results):
    out = []
    for title, key in (("way", lambda r: f"({r['way']})"), ("fault", lambda r: f"({r['way']}) {r['kind']}"), ("model", lambda r: r["model"]),
                       ("backend", lambda r: r["backend"].split(",")[0].split("=")[0] if r["way"] != "b" else r["backend"])):
        groups = {}
        for r in results:
            groups.setdefault(key(r), []).append(r)
        rows = [[name, len(g), *tally(g)] for name, g in sorted(groups.items())]
        if title == "way":
            rows.append(["all", len(results), *tally(results)])
        out.append(f"By {title}\n\n" + table(HEAD, rows))
    bad = [r for r in results if outcome(r) in ("missed", "no recording", "error") or r.get("innocent")]
    rows = [[r["id"], r["model"], r["backend"], f"{r['kind']} at {r['planted']} `{r['value']}`", outcome(r), r.get("named", r.get("error", ""))]
            for r in bad]
    if rows:
        out.append("Not right\n\n" + table(["case", "model", "backend", "planted", "outcome", "named"], rows))
    return "\n\n".join(out)


def report_small(sites):
    out = []
    for kind, sizes in (("scale", SIZES), ("element", ELEMENT_SIZES), ("channel", ELEMENT_SIZES), ("offset", ELEMENT_SIZES)):
        rows = []
        for cls in (*CLASSES, "fused segments", "inside fused segments"):
            got = [s["found"][kind] for s in sites if s["cls"] == cls and s["found"].get(kind)]
            if got:
                rows.append([cls, len(got), *[f"{100 * sum(g.get(str(x), False) for g in got) / len(got):.0f}" for x in sizes]])
        out.append(f"{kind}, % found at size\n\n" + table(["", "sites", *[f"{x:g}" for x in sizes]], rows))
    rows = []
    for p in ("fp16", "bf16"):
        for kind in ("scale", "element", "channel"):
            got = [s["found"][kind] for s in sites if s["cls"] == p and s["found"].get(kind)]
            if got:
                rows.append([f"{p} models, {kind}", len(got), *[f"{100 * sum(g.get(str(x), False) for g in got) / len(got):.0f}"
                                                                for x in LOW_SIZES]])
    if rows:
        out.append("low precision, % found at size\n\n" + table(["", "sites", *[f"{x:g}" for x in LOW_SIZES]], rows))
    for kind in ("bf16", "fp16"):
        got = [s["found"][kind] for s in sites if s["found"].get(kind)]
        if got:
            out.append(f"- float values rounded to {kind}: {share(sum(g['0'] for g in got), len(got))}")
    return "\n\n".join(out)


def report_clean(runs):
    groups = {}
    for r in runs:
        spec = r["backend"]
        version = re.search(r"ort-([0-9.]+)", spec)
        key = spec.split(",")[0] + (f" {version.group(1)}" if version else " 1.27.0" if spec.startswith("ort") else "")
        groups.setdefault(key, []).append(r)
    rows = []
    for key, g in sorted(groups.items()):
        ran = [r for r in g if "error" not in r and r["verdict"] != "failed"]
        q = max((r["q"] for r in ran if r["q"]), default=None)
        rows.append([key, len(g), len(g) - len(ran), sum(r["values"] for r in ran), sum(bool(r["blame"]) for r in ran),
                     sum(r["verdict"] != "agree" for r in ran), f"{q[0]:.2f} ({q[1]})" if q else "-"])
    bad = [f"- {r['model']} on {r['backend']}, seed {r['seed']}: {r.get('error') or r['reason']}" for r in runs
           if "error" in r or r["verdict"] not in ("agree",)]
    return table(["backend", "runs", "did not run", "values", "false alarms", "not agree", "largest q"], rows) + \
        ("\n\nNot clean, or did not run:\n" + "\n".join(bad) if bad else "")


def write_report(lab, parts):
    path = Path(__file__).resolve().parent / "README.md"
    text = path.read_text()
    for name, body in parts.items():
        text = re.sub(rf"<!-- {name}:begin -->.*?<!-- {name}:end -->",
                      lambda m, n=name, b=body: f"<!-- {n}:begin -->\n{b}\n<!-- {n}:end -->", text, flags=re.S)
    path.write_text(text)


# ---- main ----

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", nargs="*", default=["cases", "small", "clean", "report"])
    p.add_argument("--quick", action="store_true")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--out", default=str(ROOT / "build/blame"))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("-k", default="")
    a = p.parse_args()
    lab = Lab(a.out, a.seed, a.jobs)
    for name in lab.missing:
        print(f"# model {name} is not there", file=sys.stderr)

    def say(k, n, r):
        text = outcome(r) if "way" in r else r.get("verdict", r.get("error", "done"))
        if text not in ("found", "agree", "done", "invisible") or r.get("innocent") or r.get("kind_right") is False:
            print(f"{k}/{n} {text} {json.dumps(r)}", flush=True)
        elif k % 50 == 0:
            print(f"{k}/{n}", flush=True)

    parts, files = {}, {"cases": (list_cases, run_case, report_cases), "small": (list_sites, run_site, report_small),
                        "clean": (list_clean, run_clean, report_clean)}
    for what, (lister, runner, reporter) in files.items():
        if what not in a.what and "report" not in a.what:
            continue
        todo = [c for c in lister(lab, a.quick) if a.k in json.dumps(c)]
        parts[what] = reporter(run_all(lab, f"{what}.jsonl", todo if what in a.what else [c for c in todo], runner, say))
        print(parts[what])
    if "report" in a.what and not a.k and not a.quick:
        write_report(lab, parts)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Planted faults on a device: a model with one fault runs there, the original is the reference.

  bench/device/planted.py [--faults N] [--seed K] [--backend SPEC] [--large] [--seconds S] [--write]

Models of bench/blame. The fault follows one node: its result times 1 + x, one channel times 1 + x, plus x times its rms, or one element plus x times the rms. x is the
size that replay always finds on a CPU (blame.md 3.3; SIZES below), times what the precision profile allows at this value: the quotient of its q under `ieee` and
under the profile in a clean run on the device. --large: the faults of bench/blame instead (a weight, a channel, an attribute, another operator).

Found: the first entry of blame holds the changed node. Innocents: entries that do not hold it, except Erf of a WebGPU shader, a real bug (bench/device/repros/erf-webgpu),
counted apart. Invisible (large ones only): fp64 runs of both models agree. Results are lines of JSON in build/device; what is there is not run again.
--write: figures into bench/device/planted.md. Exit 1 when less than 98 % of the visible ones are found or an innocent is named.
"""
import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/blame"))
import faults  # noqa: E402
import run as bench  # noqa: E402

PAGE = ROOT / "bench/device/planted.md"
OUT = ROOT / "build/device"
HEAVY = ("mobilenet", "ppocr-cls")
# blame.md 3.3: the smallest size that is found at every site, for the result times 1 + x by class of operator, and for the others
SCALES = {"+ - * / and exact ops": 3e-7, "transcendental": 1e-6, "reductions": 3e-6, "dot products": 1e-4, "norms": 1e-4, "RNN": 1e-4}
FUSED = 3e-5
OTHERS = {"channel": 1e-4, "offset": 1e-3, "element": 1e-3}
CLASS_OF = {op: c for c, ops in bench.CLASSES.items() for op in ops}


class DeviceLab(bench.Lab):
    n_erf = 0

    def true_blame(self, backend, blame):
        kept = [b for b in super().true_blame(backend, blame) if b["op"] != "Erf"]
        self.n_erf += len(blame) - len(kept)
        return kept


# ---- sites ----

def clean_runs(lab, name, backend):
    """{value: (q under the profile, q under ieee, verdict, shape)} of float values in a clean run on the device."""
    e, both = lab.models[name], []
    for profile in ((), ("--precision-profile", "ieee")):
        got = lab.analyze(e.path, backend, *profile, *e.args)
        both.append({p["value"]: p for p in got["sync_points"]})
    out = {}
    for value, p in both[0].items():
        a, other = p["metadata"]["a"], both[1].get(value)
        if other is not None and a["dtype"] == "float" and isinstance(p["q"], (int, float)) and isinstance(other["q"], (int, float)):
            out[value] = (p["q"], other["q"], p["verdict"], a["shape"])
    return out


def depends(graph):
    """Values that depend on an input of the graph."""
    made = {t.name for t in graph.initializer}
    seen = {i.name for i in graph.input if i.name not in made}
    for node in graph.node:
        if seen & (set(node.input) | {n for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for n in bench.outer_names(a.g)}):
            seen |= set(node.output)
    return seen


def segment_ops(graph, value, recorded):
    """Operators between a value and the recorded values before it."""
    made, ops, todo = {o: n for n in graph.node for o in n.output}, [], [value]
    while todo:
        node = made.get(todo.pop())
        if node is None:
            continue
        ops.append(node.op_type)
        todo += [i for i in node.input if i not in recorded]
    return [op for op in ops if op != "Constant"]


def size_of(kind, ops):
    if kind != "scale":
        return OTHERS[kind]
    sizes = [SCALES[CLASS_OF.get(op, "+ - * / and exact ops")] for op in ops]
    return max(sizes + [FUSED] if len(ops) > 1 else sizes)


def find_sites(lab, name, backend):
    """{operator: [site]} of values that a fault can follow."""
    graph, clean = lab.proto(name).graph, clean_runs(lab, name, backend)
    values, moving, out = lab.record(lab.models[name].path, "eager", *lab.models[name].args), depends(graph), {}
    for i, node in enumerate(graph.node):
        v = node.output[0]
        if v not in clean or v not in moving or node.op_type not in CLASS_OF or node.op_type == "Erf":
            continue
        q, q_ieee, verdict, shape = clean[v]
        x = values.get(v)
        if verdict == "culprit" or x is None or x.size < 2 or not np.isfinite(x).all() or not x.any():
            continue
        factor = max(1.0, q_ieee / q) if q > 0 else 1.0
        out.setdefault(node.op_type, []).append(dict(node=i, factor=factor, shape=shape, ops=segment_ops(graph, v, clean)))
    return out


def plans(lab, seed, n, backend):
    """n different faults in turn over the float models that ONNX Runtime runs."""
    rng, out, known, seen, tries = random.Random(f"device {seed}"), [], {}, set(), 0
    names = [m for m, e in lab.models.items() if e.ort and e.low == "" and m not in HEAVY]
    while len(out) < n and names and tries < 50 * n:
        name = names[tries % len(names)]
        tries += 1
        if name not in known:
            known[name] = find_sites(lab, name, backend)
        if not known[name]:
            continue
        site = rng.choice(known[name][rng.choice(sorted(known[name]))])
        kind = rng.choice(("scale", "scale", "channel", "offset", "element"))
        size = size_of(kind, site["ops"]) * site["factor"]
        if size > 0.5:  # the profile promises next to nothing here
            continue
        number = rng.randrange(1 << 30)
        if (name, kind, site["node"]) in seen:
            continue
        seen.add((name, kind, site["node"]))
        out.append(dict(model=name, kind=kind, node=site["node"], size=size, factor=site["factor"], backend=backend, number=number))
    return out


def large_plans(lab, seed, n, backend):
    rng, out, tries = random.Random(f"device {seed}"), [], 0
    names = [m for m, e in lab.models.items() if e.ort and e.low == "" and m not in HEAVY]
    while len(out) < n and names and tries < 50 * n:
        tries += 1
        name, kind = names[tries % len(names)], rng.choice(sorted(faults.KINDS))
        ways = faults.candidates(lab.proto(name), kind)
        if not ways:
            continue
        node, number = rng.choice(ways), rng.randrange(1 << 30)
        if faults.mutate(lab.proto(name), kind, node, random.Random(number)) is not None:
            out.append(dict(way="b", model=name, kind=kind, node=node, backend=backend, number=number, id=str(len(out))))
    return out


# ---- a small fault ----

def fault_tensor(kind, size, x, rng):
    """(operator, constant) that follow the value x."""
    if kind == "scale":
        return "Mul", np.array(1 + size, np.float32)
    rms = float(np.sqrt((x**2).mean()))
    if kind == "offset":
        return "Add", np.array(size * rms, np.float32)
    if kind == "element":
        t = np.zeros(x.shape, np.float32)
        t.flat[rng.randrange(x.size)] = size * rms
        return "Add", t
    axis = 1 if x.ndim > 1 and x.shape[1] > 1 else x.ndim - 1
    others = tuple(k for k in range(x.ndim) if k != axis)
    strong = np.flatnonzero(np.abs(x).max(axis=others) >= 0.1 * np.abs(x).max())
    t = np.ones([n if k == axis else 1 for k, n in enumerate(x.shape)], np.float32)
    t.flat[rng.choice(list(strong))] += np.float32(size)
    return "Mul", t


def plant(model, case, x):
    m = onnx.ModelProto()
    m.CopyFrom(model)
    node = m.graph.node[case["node"]]
    value = node.output[0]
    op, t = fault_tensor(case["kind"], case["size"], x, random.Random(case["number"]))
    node.output[0] = f"{value}_before_fault"
    m.graph.initializer.append(numpy_helper.from_array(t, f"{value}_fault"))
    m.graph.node.insert(case["node"] + 1, helper.make_node(op, [node.output[0], f"{value}_fault"], [value], f"{value}_planted"))
    return m, value


def run_small(lab, case):
    entry, proto = lab.models[case["model"]], lab.proto(case["model"])
    node = proto.graph.node[case["node"]]
    out = case | dict(planted=node.op_type, value=node.output[0])
    with tempfile.TemporaryDirectory(dir=lab.out) as tmp:
        x = lab.record(entry.path, "eager", *entry.args)[node.output[0]]
        model, value = plant(proto, case, x)
        onnx.save(model, f"{tmp}/changed.onnx")
        try:
            result = lab.analyze(f"{tmp}/changed.onnx", case["backend"], "--reference", entry.path, *entry.args)
        except (RuntimeError, subprocess.TimeoutExpired, ValueError) as e:
            return out | dict(error=str(e)[:300])
        blame = lab.true_blame(case["backend"], result["blame"])
        out |= dict(verdict=result["verdict"], found=bool(blame) and bench.holds(blame[0], {value}), n_erf=len(result["blame"]) - len(blame),
                    innocent=sum(not bench.holds(b, {value}) for b in blame), named=blame[0]["value"] if blame else "", q=blame[0]["q"] if blame else
                    next((p["q"] for p in result["sync_points"] if p["value"] == value), None))
        if out["innocent"]:
            out["innocents"] = [[b["op"], b["value"], b["members"], b["q"]] for b in blame if not bench.holds(b, {value})]
    return out


def run_large(lab, case):
    before = lab.n_erf
    r = bench.run_case(lab, case)
    if r["planted"] == "Erf" and r.get("verdict") == "diverged":  # hidden by the shader's own bug
        r["found"] = True
    return r | dict(n_erf=lab.n_erf - before)


# ---- all of them ----

def measure(lab, cases, large, seconds, say, journal=None):
    """[(case, outcome, innocents)] within the time; what the journal has is not run again."""
    out, end, known = [], time.monotonic() + seconds, {}
    if journal is not None and journal.exists():
        known = {r["key"]: r for r in map(json.loads, journal.read_text().splitlines())}
    for case in cases:
        key = hashlib.sha1(json.dumps([case["model"], case["kind"], case["node"], case["number"], case["backend"], large]).encode()).hexdigest()[:12]
        r = known.get(key)
        if r is None:
            if time.monotonic() > end:
                break
            r = (run_large if large else run_small)(lab, case) | dict(key=key)
            if journal is not None and "error" not in r:
                with journal.open("a") as f:
                    f.write(json.dumps(r) + "\n")
        what = bench.outcome(r)
        out.append((r, what, r.get("innocent", 0)))
        say(r, what)
    return out


def has_device(lab, backend):
    done = lab.plumb("run", ROOT / "examples/classifier.onnxtxt", "--save", "none", "--repro-level", 0, "--backend", backend)
    return done.returncode == 0, done.stderr.strip()


def summary(results):
    n = {}
    for _, what, _ in results:
        n[what] = n.get(what, 0) + 1
    visible = sum(v for k, v in n.items() if k not in ("invisible", "small", "failed"))
    return n, visible, sum(i for _, _, i in results)


def group_of(r):
    return r["kind"] if "size" not in r else f"{r['kind']}, {CLASS_OF[r['planted']]}" if r["kind"] == "scale" else r["kind"]


def part(results, command):
    n, visible, innocents = summary(results)
    groups = {}
    for r, what, _ in results:
        row = groups.setdefault(group_of(r), [0, 0, [], []])
        row[0] += what not in ("invisible", "small", "failed")
        row[1] += what == "found"
        row[2].append(r.get("size", 0))
        row[3].append(r.get("factor", 1))
    text = [f"`{command}`: {len(results)} faults, " + ", ".join(f"{v} {k}" for k, v in sorted(n.items())) + f". Visible {visible}, named first {n.get('found', 0)}; "
            f"**innocents named: {innocents}**; Erf, a real bug of the shader, named beside them {sum(r.get('n_erf', 0) for r, _, _ in results)} times.", "",
            "| fault | visible | named first | x (median, largest) | what the profile allows: times (median, largest) |", "|---|--:|--:|---|---|"]
    text += [f"| {k} | {a} | {b} | " + (f"{np.median(s):.2g}, {max(s):.2g} | {np.median(f):.3g}, {max(f):.3g} |" if max(s) else " | |") for k, (a, b, s, f) in sorted(groups.items())]
    bad = [f"- {r['model']} {r['kind']} at {r['planted']} `{r['value']}`" + (f", x {r['size']:.2g}" if "size" in r else "") +
           f": {what}; {r.get('named') or r.get('error', 'nobody')} was named, q {r.get('q')}, {i} innocent"
           for r, what, i in results if i or what not in ("found", "invisible", "small")]
    return text + (["", "Not found, or not alone:", ""] + bad if bad else []) + [""]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--faults", type=int, default=200)
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--backend", default="ort:providers=WebGPU")
    p.add_argument("--large", action="store_true")
    p.add_argument("--write", action="store_true")
    o = p.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="plumb-device-") as tmp:
        lab = DeviceLab(tmp, o.seed, 1)

        def say(r, what):
            print(f"{what:10} {r['model']} {r['kind']} {r['planted']} {r['value']} x {r.get('size', 0):.2g} q {r.get('q')} innocent {r.get('innocent', 0)} "
                  f"{r.get('innocents', '')} {r.get('error', '')}", flush=True)

        make = large_plans if o.large else plans
        results = measure(lab, make(lab, o.seed, o.faults, o.backend), o.large, o.seconds, say, OUT / f"planted{'-large' if o.large else ''}.jsonl")
        n, visible, innocents = summary(results)
        print(f"{len(results)} faults, {visible} visible: {n}; {innocents} innocents")
    name = "large" if o.large else "small"
    text = part(results, f"bench/device/planted.py --seed {o.seed}{' --large' if o.large else ''} --backend {o.backend}")
    (OUT / f"planted-{name}.md").write_text("\n".join(text), encoding="utf-8")
    if o.write:
        parts = [(OUT / f"planted-{k}.md").read_text(encoding="utf-8") for k in ("small", "large") if (OUT / f"planted-{k}.md").exists()]
        PAGE.write_text("# Planted faults on a device\n\nSmall ones have the sizes of blame.md 3.3 times what the profile allows; large ones are those of bench/blame. Where the last column is 1, "
                        "the profile costs nothing at that value; how small a fault may be: smallest.md. One run on one build.\n\n" +
                        "\n".join(parts).rstrip() + "\n", encoding="utf-8")
    return 0 if visible and n.get("found", 0) >= 0.98 * visible and innocents == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

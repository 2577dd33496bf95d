#!/usr/bin/python3
"""Planted faults on WebGPU: a model with one changed node or weight runs on the device, the original is the reference.

  bench/device/planted.py [--faults N] [--seconds S] [--seed K] [--backend SPEC] [--write]

Uses the models and faults of bench/blame. A fault counts as found when the first entry of blame holds the changed node, and every
entry that does not hold it is an innocent, except Erf of a WebGPU shader, which is a real bug (bench/device/repros/erf-webgpu) and
is counted apart. Invisible: fp64 runs of both models agree. Small: below what replay always finds on a CPU (bench/blame) times what
the profile allows. --write: figures into bench/device/planted.md. Exit 1 when less than 98 % are found or an innocent is named.
"""
import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/blame"))
import faults  # noqa: E402
import run as bench  # noqa: E402

PAGE = ROOT / "bench/device/planted.md"
HEAVY = ("mobilenet", "ppocr-cls")


def plans(lab, seed, n, backend):
    """n faults in turn over the float models that ONNX Runtime runs and the kinds that fit them."""
    rng, out, tries = random.Random(f"device {seed}"), [], 0
    names = [m for m, e in lab.models.items() if e.ort and e.low == "" and m not in HEAVY]
    while len(out) < n and names and tries < 50 * n:
        tries += 1
        name, kind = names[tries % len(names)], rng.choice(sorted(faults.KINDS))
        ways = faults.candidates(lab.proto(name), kind)
        if not ways:
            continue
        node, number = rng.choice(ways), rng.randrange(1 << 30)
        if faults.mutate(lab.proto(name), kind, node, random.Random(number)) is None:
            continue
        out.append(dict(way="b", model=name, kind=kind, node=node, backend=backend, number=number, id=str(len(out))))
    return out


class DeviceLab(bench.Lab):
    n_erf = 0

    def true_blame(self, backend, blame):
        kept = [b for b in super().true_blame(backend, blame) if b["op"] != "Erf"]
        self.n_erf += len(blame) - len(kept)
        return kept


def measure(lab, cases, seconds, say):
    """[(case, outcome, innocents)] within the time."""
    out, end = [], time.monotonic() + seconds
    for case in cases:
        if time.monotonic() > end:
            break
        r = bench.run_case(lab, case)
        planted_erf = r["planted"] == "Erf" and r.get("verdict") == "diverged"
        what = "found" if planted_erf and not r.get("found") else bench.outcome(r)
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


def write_page(results, lab, backend, seed):
    n, visible, innocents = summary(results)
    kinds = {}
    for r, what, _ in results:
        row = kinds.setdefault(r["kind"], [0, 0])
        row[0] += what not in ("invisible", "small", "failed")
        row[1] += what == "found"
    text = ["# Planted faults on a device", "",
            f"`bench/device/planted.py --seed {seed} --write`: `{backend}` under its precision profile, {len(results)} faults.", "",
            "| outcome | faults |", "|---|--:|"]
    text += [f"| {k} | {v} |" for k, v in sorted(n.items())]
    text += ["", f"Visible {visible}, found {n.get('found', 0)}; innocents named {innocents}; Erf, a real bug of the shader, named beside them {lab.n_erf} times.", "",
             "| kind | visible | found |", "|---|--:|--:|"]
    text += [f"| {k} | {a} | {b} |" for k, (a, b) in sorted(kinds.items())]
    bad = [f"- {r['model']} {r['kind']} at {r['planted']} `{r['value']}`: {what}; {r.get('named') or r.get('error', 'nobody')} was named, {i} innocent"
           for r, what, i in results if i or what not in ("found", "invisible", "small")]
    PAGE.write_text("\n".join(text + (["", "Not found, or not alone:", ""] + bad if bad else [])) + "\n", encoding="utf-8")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--faults", type=int, default=200)
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--backend", default="ort:providers=WebGPU")
    p.add_argument("--write", action="store_true")
    o = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="plumb-device-") as tmp:
        lab = DeviceLab(tmp, o.seed, 1)

        def say(r, what):
            print(f"{what:10} {r['model']} {r['kind']} {r['planted']} {r['value']} q {r.get('q')} innocent {r.get('innocent', 0)} {r.get('error', '')}", flush=True)

        results = measure(lab, plans(lab, o.seed, o.faults, o.backend), o.seconds, say)
        n, visible, innocents = summary(results)
        print(f"{len(results)} faults, {visible} visible: {n}; {innocents} innocents; Erf {lab.n_erf} times")
        if o.write:
            write_page(results, lab, o.backend, o.seed)
    return 0 if visible and n.get("found", 0) >= 0.98 * visible and innocents == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

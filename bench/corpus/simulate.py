#!/usr/bin/python3
"""The scheduling core of `plumb corpus` with up to 1,000 workers, simulated by SimGrid (apt-get install libsimgrid-dev; Debian 12 has 3.32).

  bench/corpus/simulate.py costs LIST OUT…    measured costs of finished runs of LIST -> bench/corpus/costs.txt: model, held out?, a net (else one operation or a few)?, estimate, CPU time of each step
  bench/corpus/simulate.py run [WORKERS…]     20,000 items drawn from the held-out nets of costs.txt with a fixed seed, on 1 to 1,000 workers:
                                              efficiency (sum of costs / workers / time) -> bench/corpus/simulated.json, bench/plots/corpus.svg
  bench/corpus/simulate.py seeds              1,000 workers, other draws; and the models on which the order and its constants were chosen

An item is a model with all its backends; a model is drawn with all of them, and as often as chance wants. The limit of an item is the ideal time of the draw, so that the longest item
takes exactly as long as all of it with efficiency 1: the hardest case of "the longest item is below the ideal time".

The program (simulate.c) is compiled with src/flows/corpus/schedule.c itself. Workers ask rank 0 for one step of an item at a time over a network of 20 us and
10 Gb/s; rank 0 takes 20 us for an answer. Costs are known from an earlier run, or estimated from graphs and learned from siblings. Exit 1: efficiency below .85 where the longest item is below the ideal time."""

import json
import os
import random
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
COSTS = HERE / "costs.txt"
N_ITEMS, SEED, LEAST, MASTER_US = 20000, 1, 0.85, 20
WORKERS = (1, 3, 10, 30, 100, 300, 700, 1000)
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="n" suffix="" radical="0-999" speed="1Gf" bw="1.25GBps" lat="20us" router_id="r"/>
</platform>
"""


def write_costs(source, outs):
    """Half of the models, chosen by their names, are held out: nothing may be tuned on them."""
    rows = []
    for out in map(Path, outs):
        items = json.loads((out / "items.json").read_text())["items"]
        backends = sorted({i["backend"] for i in items})
        told = subprocess.run([PLUMB, "corpus", source, *(w for b in backends for w in ("--backend", b)), "--dry-run", "--json"], capture_output=True,
                              text=True, check=True)
        estimate = {p["key"]: p["estimated_seconds"] for p in json.loads(told.stdout)["plan"]}
        model, steps = {i["key"]: i["model"] for i in items}, {}
        for part in sorted((out / "parts").glob("*-of-*.jsonl")):
            for row in map(json.loads, part.read_text().splitlines()):
                if row["t"] in ("part", "done") and row["key"] in estimate:
                    steps.setdefault(row["key"], {})[row.get("n", 99)] = round(row["cpu"] * 1e6)  # CPU time: the machine may be busy
        rows += [(model[k], round(estimate[k] * 1e6), [us for _, us in sorted(s.items())]) for k, s in steps.items() if 99 in s]
    names = sorted({m for m, _, _ in rows})
    number = {m: i for i, m in enumerate(names)}
    held = {m: zlib.crc32(m.encode()) % 2 for m in names}
    COSTS.write_text("".join(f"{number[m]} {held[m]} {int('onnx/' not in m and 'bugs/' not in m)} {e} {' '.join(map(str, s))}\n" for m, e, s in sorted(rows)))
    print(f"{len(names)} models, {len(rows)} items, {sum(sum(s) for _, _, s in rows) / 1e6:.0f} s, longest {max(sum(s) for _, _, s in rows) / 1e6:.1f} s")


def cut(steps, limit):
    """The steps that a limit of the item leaves."""
    kept = []
    for us in steps:
        kept.append(min(us, limit - sum(kept)))
        if sum(kept) == limit:
            break
    return kept


def draw(held=1, seed=SEED, nets=1):
    """Models with all their items, until there are 20,000 items; with the limit that is the ideal time of 1,000 workers."""
    models = {}
    for line in COSTS.read_text().splitlines():
        model, is_held, is_net, estimate, *steps = map(int, line.split())
        if is_held == held and is_net == nets:
            models.setdefault(model, []).append((estimate, steps))
    rng, rows = random.Random(seed), []
    for items in models.values():  # costs.txt is sorted: which item of a model is cheap must not be told by its place
        rng.shuffle(items)
    names = sorted(models)
    for family in range(N_ITEMS):
        rows += [(family, e, s) for e, s in models[rng.choice(names)]]
        if len(rows) >= N_ITEMS:
            break
    rows, limit = rows[:N_ITEMS], 0
    while limit != (ideal := sum(sum(cut(s, limit) if limit else s) for _, _, s in rows) // 1000):
        limit = ideal
    return [(f, e, cut(s, limit)) for f, e, s in rows]


def simulate(tmp, costs, n, master_us, mode):
    (tmp / "costs").write_text("".join(f"{m} {e} {len(s)} {' '.join(map(str, s))}\n" for m, e, s in costs))
    (tmp / "platform.xml").write_text(PLATFORM)
    (tmp / "hosts").write_text("".join(f"n{i}\n" for i in [0, *range(n)]))  # rank 0 shares the host of rank 1
    done = subprocess.run(["smpirun", "-np", str(n + 1), "-platform", "platform.xml", "-hostfile", "hosts", "--cfg=smpi/simulate-computation:no",
                           "--log=root.thresh:error", "./simulate", "costs", str(master_us), mode], cwd=tmp, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(lines) != 1:
        sys.exit(f"smpirun failed with exit code {done.returncode}: {done.stdout[-500:]}{done.stderr[-1000:]}")
    result = json.loads(lines[0])
    if result["done"] != N_ITEMS:
        sys.exit(f"{result['done']} of {N_ITEMS} items were done")
    return result


SERIES = {"earlier run": "known", "graphs": "learn", "graphs, shards": "shard"}


def build(tmp):
    subprocess.run(["smpicc", "-O2", f"-I{ROOT}/src", "-o", str(tmp / "simulate"), str(HERE / "simulate.c"), str(ROOT / "src/flows/corpus/schedule.c"), "-lm"], check=True)


def seeds():
    with tempfile.TemporaryDirectory() as name:
        build(Path(name))
        for held in (1, 0):
            for seed in range(1, 4):
                r = simulate(Path(name), draw(held, seed), 1000, MASTER_US, "learn")
                print(f"{'held out' if held else 'chosen on'}, draw {seed}: {r['efficiency']:.3f}", flush=True)


def run(workers):
    found, wrong = {}, []
    with tempfile.TemporaryDirectory() as name:
        tmp = Path(name)
        build(tmp)
        costs = draw()
        for title, mode in SERIES.items():
            for n in workers:
                r = simulate(tmp, costs, n, MASTER_US, mode)
                r["ideal"] = r["sum"] / n
                found.setdefault(title, []).append(r)
                held = r["longest"] <= r["ideal"]
                print(f"{title:24} {n:5} workers: {r['seconds']:10.1f} s, ideal {r['ideal']:9.1f}, longest {r['longest']:6.1f}, efficiency {r['efficiency']:.3f}"
                      f"{'' if held else '  (longest item above the ideal time)'}", flush=True)
                if mode != "shard" and held and r["efficiency"] < LEAST:
                    wrong.append(f"{title}, {n} workers: {r['efficiency']:.3f}")
    if tuple(workers) == WORKERS:
        sys.path.insert(0, str(ROOT / "bench"))
        import plot
        (HERE / "simulated.json").write_text(json.dumps(found, indent=1) + "\n")
        curves = {title: [(r["workers"], r["efficiency"]) for r in rows] for title, rows in found.items()}
        (ROOT / "bench/plots/corpus.svg").write_text(plot.svg("plumb corpus, 20,000 items, simulated", "workers", "efficiency", curves))
    print("\n".join(wrong) or f"efficiency is at least {LEAST} wherever the longest item is below the ideal time")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["costs"] and len(sys.argv) > 3:
        sys.exit(write_costs(sys.argv[2], sys.argv[3:]))
    if sys.argv[1:2] == ["run"]:
        sys.exit(run(tuple(map(int, sys.argv[2:])) or WORKERS))
    if sys.argv[1:] == ["seeds"]:
        sys.exit(seeds())
    sys.exit(__doc__)

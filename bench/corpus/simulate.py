#!/usr/bin/python3
"""The scheduling core of `plumb corpus` with up to 1,000 workers, simulated by SimGrid (apt-get install libsimgrid-dev; Debian 12 has 3.32).

  bench/corpus/simulate.py costs LIST OUT…    measured costs of finished runs of LIST -> bench/corpus/costs.txt (estimate and CPU time of each item)
  bench/corpus/simulate.py run [WORKERS…]     20,000 items drawn from costs.txt with a fixed seed, on 1 to 1,000 workers:
                                              efficiency (sum of costs / workers / time) -> bench/corpus/simulated.json, bench/plots/corpus.svg

The program (simulate.c) is compiled with src/flows/corpus/schedule.c itself. Workers ask rank 0 for one item at a time over a network of 20 us and
10 Gb/s; rank 0 takes 20 us for an answer. Costs are known from an earlier run, or estimated from graphs and learned from siblings. Exit 1: efficiency below .85 where the longest item is below the ideal time."""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
COSTS = HERE / "costs.txt"
N_ITEMS, SEED, LEAST = 20000, 1, 0.85
WORKERS = (1, 3, 10, 30, 100, 300, 700, 1000)
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="n" suffix="" radical="0-999" speed="1Gf" bw="1.25GBps" lat="20us" router_id="r"/>
</platform>
"""


def write_costs(source, outs):
    rows = []
    for out in map(Path, outs):
        items = json.loads((out / "items.json").read_text())["items"]
        backends = sorted({i["backend"] for i in items})
        told = subprocess.run([PLUMB, "corpus", source, *(w for b in backends for w in ("--backend", b)), "--dry-run", "--json"], capture_output=True,
                              text=True, check=True)
        estimate = {p["key"]: p["estimated_seconds"] for p in json.loads(told.stdout)["plan"]}
        model = {i["key"]: i["model"] for i in items}
        for part in sorted((out / "parts").glob("*-of-*.jsonl")):
            for line in part.read_text().splitlines():
                row = json.loads(line)
                if row["t"] == "done" and row["key"] in estimate:
                    rows.append((model[row["key"]], round(estimate[row["key"]] * 1e6), round(row["cpu"] * 1e6)))  # CPU time: the machine may be busy
    names = sorted({m for m, _, _ in rows})
    number = {m: i for i, m in enumerate(names)}
    COSTS.write_text("".join(f"{number[m]} {e} {c}\n" for m, e, c in sorted(rows)))
    print(f"{len(names)} models, {len(rows)} items, {sum(c for _, _, c in rows) / 1e6:.0f} s, longest {max(c for _, _, c in rows) / 1e6:.1f} s")


def draw(limit_us):
    """Models with all their items, until there are 20,000 items."""
    models = {}
    for line in COSTS.read_text().splitlines():
        model, estimate, cost = map(int, line.split())
        models.setdefault(model, []).append((estimate, min(cost, limit_us) if limit_us else cost))
    rng, rows = random.Random(SEED), []
    for items in models.values():  # costs.txt is sorted: which item of a model is cheap must not be told by its place
        rng.shuffle(items)
    names = sorted(models)
    for family in range(N_ITEMS):
        rows += [(family, e, c) for e, c in models[rng.choice(names)]]
        if len(rows) >= N_ITEMS:
            return rows[:N_ITEMS]


def simulate(tmp, costs, n, master_us, mode):
    (tmp / "costs").write_text("".join(f"{m} {e} {c}\n" for m, e, c in costs))
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


def series():
    """name -> (limit of an item in us, time of an answer in us, mode, are the costs known?)"""
    ideal = sum(c for _, _, c in draw(0)) // 1000 - 1  # as --timeout: no item above the ideal time of 1,000 workers
    return {"earlier run": (ideal, 20, "ask", True), "graphs": (ideal, 20, "learn", False), "graphs, shards": (ideal, 20, "shard", False)}


def run(workers):
    found, wrong = {}, []
    with tempfile.TemporaryDirectory() as name:
        tmp = Path(name)
        subprocess.run(["smpicc", "-O2", f"-I{ROOT}/src", "-o", str(tmp / "simulate"), str(HERE / "simulate.c"), str(ROOT / "src/flows/corpus/schedule.c")], check=True)
        for title, (limit, master_us, mode, known) in series().items():
            for n in workers:
                costs = draw(limit)
                if known:  # --baseline with the output of an earlier run
                    costs = [(m, c, c) for m, _, c in costs]
                r = simulate(tmp, costs, n, master_us, mode)
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
    sys.exit(__doc__)

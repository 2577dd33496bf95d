#!/usr/bin/python3
"""Runs on WebGPU and in the browser leave nothing behind (bench/device/leaks.py, in small): no process, file, shared memory or descriptor. TAP.
--full: 1,000 runs, and devices lost in the middle."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/device"))
import leaks  # noqa: E402

SHORT = (("api-gpu", 25), ("crash-gpu", 3), ("one-webgpu", 25))
FULL = (("api-gpu", 1000), ("crash-gpu", 25), ("lost-gpu", 10), ("one-gpu", 1000), ("one-wasm", 1000), ("one-webgpu", 1000), ("crash-webgpu", 25), ("lost-webgpu", 10))


def missing(row):
    """Why the device is not there; empty when it is."""
    text = row.get("error", "") + " ".join(row.get("bad", ()))
    return text[-300:] if any(w in text for w in ("install chromium", "not found", "no WebGPU adapter")) else ""


def main():
    bad, n = 0, 0
    for part, runs in FULL if "--full" in sys.argv else SHORT:
        n, row = n + 1, leaks.measure(part, runs)
        if missing(row):
            print(f"ok {n} - {part} # SKIP {' '.join(missing(row).split())}", flush=True)
            continue
        found = leaks.leaks(row)
        bad += bool(found)
        print(f"{'not ok' if found else 'ok'} {n} - {part}: {runs} runs" + "".join(f"\n# {w}" for w in found), flush=True)
    # The judge itself: what is left must count.
    row = dict(part="api-gpu", runs=1, n_bad=0, bad=[], own_kb=[1, 1], processes=1, shm=[], tmp=["x"], fds=0)
    good = len(leaks.leaks(row)) == 2 and len(leaks.leaks(row | dict(processes=0, tmp=[], own_kb=[0, 10**6]))) == 1
    print(f"{'ok' if good else 'not ok'} {n + 1} - what is left is a leak\n1..{n + 1}")
    return 1 if bad or not good else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Planted faults on WebGPU (bench/device/planted.py) in small: each is named first, nobody else but Erf, whose shader is wrong. TAP.
Another seed than the benchmark's. --full: 200 faults of the smallest sizes."""
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/device"))
import planted as device  # noqa: E402

BACKEND = "ort:providers=WebGPU"


def main():
    n_faults = 200 if "--full" in sys.argv else 6
    results = []
    with tempfile.TemporaryDirectory(prefix="plumb-device-") as tmp:
        lab = device.DeviceLab(tmp, 7, 1)
        there, why = device.has_device(lab, BACKEND)
        if not there:
            print(f"ok 1 - faults on WebGPU # SKIP {why[:200]}\n1..1")
            return 0

        def tap(good, name, reason=""):
            results.append(good)
            print(f"{'ok' if good else 'not ok'} {len(results)} - {name}" + (f"\n# {reason}" if not good else ""), flush=True)

        def say(r, what):
            good = what in ("found", "invisible", "small") and not r.get("innocent", 0)
            tap(good, f"{r['model']} {r['kind']} at {r['planted']} {r['value']}",
                f"{what}: {r.get('named') or r.get('error', 'nobody')} was named, {r.get('innocent', 0)} innocent")

        full = "--full" in sys.argv  # small ones need two clean runs of every model first
        cases = (device.plans if full else device.large_plans)(lab, 7, n_faults, BACKEND)
        measured = device.measure(lab, cases, not full, 1e9, say)
        n, visible, _ = device.summary(measured)
        tap(visible > 0 and n.get("found", 0) >= 0.98 * visible, "98 of 100 visible faults are named first", str(n))
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

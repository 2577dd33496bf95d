#!/usr/bin/python3
"""The localisation benchmark (bench/blame) in small: planted faults are named, nobody else is, clean runs agree. TAP.
Other seeds than the full benchmark has, so that nothing is fitted to them. --full: more seeds."""

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/blame"))
import run as bench  # noqa: E402

SEEDS = range(11, 21) if "--full" in sys.argv else range(11, 13)
results = []


def tap(good, name, reason=""):
    results.append(good)
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}" + (f"\n# {reason}" if not good else ""), flush=True)


def quiet(*_):
    pass


def main():
    out = tempfile.mkdtemp(prefix="plumb-blame-")
    try:
        for seed in SEEDS:
            lab = bench.Lab(out, seed, 2)
            has_ort = lab.has_ort()
            if not has_ort:
                results.append(True)
                print(f"ok {len(results)} - ort # SKIP ONNX Runtime not found")

            def here(c):
                return has_ort or not c["backend"].startswith("ort")

            cases = bench.run_all(lab, f"cases{seed}.jsonl", [c for c in bench.list_cases(lab, True) if here(c)], bench.run_case,
                                  quiet)
            for r in cases:
                name = f"{r['model']} {r['backend']} {r['kind']} at {r['planted']} {r['value']}"
                bad = bench.outcome(r) in ("missed", "error", "no recording", "failed") or r.get("innocent", 0) > 0
                tap(not bad, name, f"{bench.outcome(r)}: {r.get('named') or r.get('error', 'nobody')} was named")
            kinds = [r["kind_right"] for r in cases if "kind_right" in r]
            wrong = [f"{r['kind']} is called {r['said']}" for r in cases if r.get("kind_right") is False]
            tap(len(kinds) > 10 and 10 * sum(kinds) >= 9 * len(kinds), f"seed {seed}: kinds right in nine of ten", "; ".join(wrong))
            clean = bench.run_all(lab, f"clean{seed}.jsonl", [c for c in bench.list_clean(lab, True) if here(c)], bench.run_clean, quiet)
            for r in clean:
                tap(r.get("verdict") == "agree" and not r["blame"], f"clean {r['model']} {r['backend']}", r.get("error") or r.get("reason"))
    finally:
        shutil.rmtree(out, ignore_errors=True)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

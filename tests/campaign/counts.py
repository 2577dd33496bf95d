"""bench/campaign-counts.json: what has been tried since the file was begun, over all runs of the campaign. Each run adds to it, so that
a campaign goes on where the last one ended."""

import contextlib
import fcntl
import json
import os
from pathlib import Path

from subjects import ROOT

FILE = ROOT / "bench/campaign-counts.json"


def read(path=FILE):
    return json.loads(path.read_text()) if path.exists() else {"since": "", "fuzz": {}, "sweep": {"next_part": 0, "cases": 0, "runs": 0}}


@contextlib.contextmanager
def changing(path=FILE):
    """The counts, written whole when the block ends; parts that run side by side wait for each other."""
    with open(ROOT / ".cache" / f"{path.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        counts = read(path)
        yield counts
        fresh = Path(f"{path}.{os.getpid()}")
        fresh.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
        fresh.rename(path)


def add_fuzzed(target, n):
    """n more inputs to a target; returns all so far."""
    with changing() as counts:
        counts["fuzz"][target] = counts["fuzz"].get(target, 0) + n
        return counts["fuzz"][target]


def add_lost(target, names, what):
    """An input that was lost stays on the list with its file until a person takes it off, with the commit that mends it."""
    with changing() as counts:
        counts.setdefault("lost", []).append({"target": target, "input": names, "what": what[:300]})


def add_swept(part, cases, runs):
    """One more part of the sweep; returns all cases so far."""
    with changing() as counts:
        sweep = counts["sweep"]
        sweep["next_part"] = max(sweep["next_part"], part + 1)
        sweep["cases"] += cases
        sweep["runs"] += runs
        return sweep["cases"]

"""Never a false green: situations in which AGREE or exit 0 would be wrong, and clean ones in which an alarm would be.

A situation is a few files and one command of plumb. Truth is numpy's (green_models.py) and the way the files were made; nothing
is judged by plumb. Red: exit 0, the verdict agree, status pass or a JUnit report without failures is a false green. Clean:
anything but exit 0 is a false alarm (minify --query says 0 of both "does not fail").

    test_green_audit.py [-k TEXT] [-v] [--full] [--seed N] [--list]

Without --full a part of the generated ones runs, chosen by the seed (default 0), and those written by hand all run."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
import green_clean  # noqa: E402
import green_red  # noqa: E402
import green_server  # noqa: E402

PLUMB = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
PART = {"no_false_green": 120, "no_false_alarm": 120}  # generated situations that run without --full
LIMIT = 300      # seconds


def option(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def chosen(situations, part, full, seed, text):
    """hand-written ones and a seeded part of the generated ones, spread over classes"""
    found = [s for s in situations if text in s.name]
    if full or text:
        return found
    generated = [s for s in found if s.generated]
    rest = random.Random(seed).sample(generated, min(part, len(generated)))
    return [s for s in found if not s.generated or s in rest]


def run(situation, root):
    folder = Path(tempfile.mkdtemp(dir=root))
    env = {k: v for k, v in os.environ.items() if not k.startswith("PLUMB_") or k == "PLUMB_ORT_LIB"}
    env.update(PLUMB=PLUMB, ORT_DISABLE_TELEMETRY="1", XDG_CACHE_HOME=str(root / "cache"))
    try:
        command = situation.make(folder)
        done = subprocess.run([PLUMB, *map(str, command)], cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT, errors="replace")
        return situation.judge(done)
    except Exception as e:  # a situation that cannot be made is a failure like any other
        return f"{type(e).__name__}: {e}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tell(number, name, bad, total, left_out):
    print(f"{'not ok' if bad else 'ok'} {number} - {name} # {total} situations, {len(bad)} wrong" + (f", {left_out} more with --full" if left_out else ""))
    for situation, why in bad:
        print(f"# {situation}: {why}".replace("\n", " | ")[:700])


def main():
    full, text, failed = "--full" in sys.argv, option("-k", ""), 0
    root = Path(tempfile.mkdtemp(prefix="green-"))
    groups = [("no_false_green", green_red.SITUATIONS), ("no_false_alarm", green_clean.SITUATIONS)]
    if "--list" in sys.argv:
        for _, situations in groups:
            print("\n".join(s.name for s in situations))
        return 0
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for i, (name, situations) in enumerate(groups, 1):
            some = chosen(situations, PART[name], full, int(option("--seed", "0")), text)
            answers = list(pool.map(lambda s: run(s, root), some))  # threads wait, plumb computes
            bad = [(s.name, why) for s, why in zip(some, answers) if why]
            if "-v" in sys.argv:
                for s, why in zip(some, answers):
                    print(f"# {'WRONG' if why else 'right'} {s.name}")
            tell(i, name, bad, len(some), len(situations) - len(some))
            failed += len(bad)
    if text in "the_page":
        bad, n = green_server.check(PLUMB, root, full)
        tell(3, "the_page", bad, n, 0)
        failed += len(bad)
    few = [name for name, situations in groups if len(situations) < 300]
    print(f"{'not ok' if few else 'ok'} 4 - at_least_300_of_each # {', '.join(f'{n} {len(s)}' for n, s in groups)}")
    print("1..4")
    shutil.rmtree(root, ignore_errors=True)
    return 1 if failed or few else 0


if __name__ == "__main__":
    sys.exit(main())

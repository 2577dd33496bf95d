"""The tests of a script, one after the other, as TAP: every function `test_NAME`, in the order of the file.

One with a parameter gets a fresh folder (a Path). A text that it returns is told beside its name; Skip("why") is counted as
skipped. `-k TEXT` on the command line: only those with TEXT in the name. main(globals()) returns the exit code.
"""
import inspect
import sys
import tempfile
import traceback
from pathlib import Path


class Skip(Exception):
    pass


def run(test):
    if not inspect.signature(test).parameters:
        return test()
    with tempfile.TemporaryDirectory(prefix="plumb-test-") as folder:
        return test(Path(folder))


def main(names):
    only = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
    chosen = {n[5:]: f for n, f in names.items() if n.startswith("test_") and only in n}
    failed = 0
    for i, (name, test) in enumerate(chosen.items(), 1):
        try:
            note = run(test)
            print(f"ok {i} - {name}" + (f" # {note}" if note else ""), flush=True)
        except Skip as reason:
            print(f"ok {i} - {name} # SKIP {reason}", flush=True)
        except Exception as e:  # a broken test is a failure like any other
            failed += 1
            print(f"not ok {i} - {name}\n# " + "\n# ".join(traceback.format_exc().splitlines()[-8:] + repr(e)[:600].splitlines()), flush=True)
    print(f"1..{len(chosen)}")
    return 1 if failed else 0

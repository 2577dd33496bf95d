"""ONNX Runtime's real bugs, on every version that is there, against what was measured without plumb. Prints TAP.

Needs ../shared/conformance beside the clone and tools/fetch-ort; skipped without. Also unpacks mobilenet-qdq for test_backend_ort.c."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests" / "models"))
import ort_bugs  # noqa: E402


def load_runner():
    loader = importlib.machinery.SourceFileLoader("tests_run", str(ROOT / "tests/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
    loader.exec_module(module)
    return module


def main():
    runner = load_runner()
    archive, qdq = runner.CONFORMANCE / "ort-bugs-open.tar.zst", runner.CONFORMANCE / "mobilenet-qdq.tar.zst"
    versions = ort_bugs.fetched()
    if not archive.exists() or not versions:
        print("1..1\nok 1 - ort_bugs # SKIP " + ("no ../shared/conformance" if not archive.exists() else "tools/fetch-ort has fetched nothing"))
        return
    if qdq.exists():
        runner.unpack(qdq)
    data = runner.unpack(archive)
    names = ort_bugs.cases(data)
    print(f"1..{len(names)}", flush=True)
    with tempfile.TemporaryDirectory() as tmp:
        for i, name in enumerate(names, 1):
            args, text = SimpleNamespace(plumb=os.environ["PLUMB"], data=data), io.StringIO()
            with contextlib.redirect_stdout(text):
                wrong = ort_bugs.check_case(args, name, versions, tmp)
            print(f"{'not ok' if wrong else 'ok'} {i} - {name}")
            if wrong:
                print("".join(f"# {line}\n" for line in text.getvalue().splitlines()), end="", flush=True)


if __name__ == "__main__":
    main()

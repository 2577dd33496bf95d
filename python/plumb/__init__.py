"""plumb: find the operation where a model goes wrong.

    import plumb
    r = plumb.analyze(net, (x,), backend="ort")   # a torch module, an ONNX path, bytes or ModelProto
    print(r)                                      # verdict, blame, table
    r.blame[0].op, r.blame[0].source              # the operation, and its PyTorch line
    r["/h/Relu_output_0"].a                       # numpy arrays, loaded on first access

Requires numpy; uses torch, pandas, tqdm and pytest if installed. How to use it: docs/python.md.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._analyze import analyze, analyze_many, assert_close, compare
from ._errors import (BackendError, ExistsError, InputError, LibraryError, NotFoundError, PlumbError,
                      TroubleError)
from ._generate import Generation, explain_inputs, generate
from ._minify import Repro, dump_repro, minify, minify_query, read_repro
from ._model import Model
from ._run import Recorder, RecordResult, RunResult, Tensors, load, record, run
from ._same import Same, measure, measure_logits, same
from ._session import Blame, Session, Sessions, SyncPoint, SyncPoints, open_session, view
from ._tools import (CheckResult, Corpus, TestReport, backends, check, corpus, corpus_merge, corpus_plan, faults_missed,
                     info_tensors, open_corpus, ops, store_gc, store_ls, store_verify, test, version)
from ._version import VERSION as __version__  # noqa: N811
from ._wrap import Compiled, Wrapped, wrap

if TYPE_CHECKING:
    from ._compile import AccuracyError, CompileError, watch
    from ._save import Recording, save_intermediates

__all__ = [
    "AccuracyError", "BackendError", "Blame", "CheckResult", "CompileError", "Corpus", "ExistsError",
    "InputError", "LibraryError", "Model", "NotFoundError",
    "PlumbError", "RecordResult", "Recorder", "Recording", "Repro", "RunResult", "Same", "Session", "Sessions",
    "SyncPoint", "SyncPoints",
    "TroubleError", "Tensors", "TestReport", "__version__", "analyze", "analyze_many", "assert_close", "backends", "check",
    "compare",
    "dump_repro", "faults_missed", "info_tensors", "load", "measure", "minify", "minify_query", "open_session", "ops",
    "read_repro", "record", "run", "same", "save_intermediates", "store_gc", "store_ls", "store_verify", "test", "version",
    "view",
    "corpus", "corpus_merge", "corpus_plan", "open_corpus",
    "Generation", "explain_inputs", "generate", "measure_logits",
    "Compiled", "Wrapped", "watch", "wrap",
]


def __getattr__(name: str) -> Any:
    """Imports the parts that need torch on first use."""
    if name in ("save_intermediates", "Recording"):
        from . import _save
        return getattr(_save, name)
    if name in ("watch", "AccuracyError", "CompileError"):
        from . import _compile
        return getattr(_compile, name)
    raise AttributeError(f"module 'plumb' has no attribute {name!r}")

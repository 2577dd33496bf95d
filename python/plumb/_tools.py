"""The rest of the program's commands: check, test folders, catalogues, the store."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _abi, _lib, _tensor
from ._model import PathLike, open_model
from ._progress import Progress, ProgressLike
from ._run import take_inputs, write_text
from ._session import Row

_MODES = {"none": 0, "accuracy": 1, "strict": 2}


class CheckResult:
    """The reproducibility test: exit_code, status ("pass", "fail_accuracy", ...), error, outputs; true when it passed."""

    def __init__(self, handle: _lib.Handle) -> None:
        lib, p = _lib.lib(), handle.pointer
        self._handle = handle
        self.exit_code = int(lib.plumb_check_result_exit_code(p))
        self.status = _lib.text_of(lib.plumb_check_result_status(p))
        self.error = _lib.text_of(lib.plumb_check_result_error(p))
        self.outputs: List[Row] = []
        for i in range(lib.plumb_check_result_outputs(p)):
            row = _lib.fields("plumb_check_output", "plumb_check_result_output", p, i)
            row["tensor"] = _tensor.shared(row["tensor"])
            self.outputs.append(Row(row))

    def __bool__(self) -> bool:
        return self.exit_code == 0

    def text(self, format: str = "text") -> str:
        """As `plumb run --accuracy` prints it; format "json" is its JSON."""
        return write_text("plumb_check_result_write", self._handle, {"format": format})

    def __repr__(self) -> str:
        return f"<plumb.CheckResult {self.status}>"


def check(model: Any, inputs: Any = None, *, backend: Optional[str] = None, mode: str = "accuracy",
          context: Optional[Dict[str, Any]] = None, progress: ProgressLike = None, **options: Any) -> CheckResult:
    """`plumb run --accuracy`: does the backend compute what the reference computes?

    mode     "accuracy", "strict" (non-float outputs count, too) or "none"
    context  a dict of eval, amp, backward, loss_output, random_gradients, grad_seed
    options  reference, reference_model, reference_amp, profile, same, tol, baseline, write_baseline; of the run: timeout,
             memory_limit, threads, repeat, output, save_as; of the inputs: dims, ranges, fill, seed
    """
    opened = open_model(model)
    given = take_inputs(inputs, opened.inputs, options)
    of_run = {k: options.pop(k) for k in ("timeout", "memory_limit", "threads", "repeat", "output", "save_as") if k in options}
    about = None if context is None else _lib.options("plumb_context", "PLUMB_OPTIONS_CONTEXT", context)
    if mode not in _MODES:
        raise ValueError(f"mode is {mode!r}; available: {', '.join(_MODES)}")
    with opened.lock, Progress(progress) as p:
        run = _lib.options("plumb_run_options", "PLUMB_OPTIONS_RUN",
                           dict(of_run, backend=backend, inputs=given.struct, progress=p.struct))
        made = _lib.options("plumb_check_options", "PLUMB_OPTIONS_CHECK",
                            dict(options, run=run, mode=_MODES[mode], context=about))
        return CheckResult(_lib.make("check", "plumb_check", "plumb_check_result_free", opened.pointer, ctypes.byref(made)))


class TestReport:
    """passed, failed, skipped, and cases with path, status, reason, seconds."""

    __test__ = False  # not a test class for pytest

    def __init__(self, handle: _lib.Handle) -> None:
        lib, p = _lib.lib(), handle.pointer
        self._handle = handle
        self.passed = int(lib.plumb_test_report_passed(p))
        self.failed = int(lib.plumb_test_report_failed(p))
        self.skipped = int(lib.plumb_test_report_skipped(p))
        self.cases = [Row(_lib.fields("plumb_test_case", "plumb_test_report_case", p, i))
                      for i in range(lib.plumb_test_report_cases(p))]

    def text(self, format: str = "text", verbose: bool = False) -> str:
        """As `plumb test` prints it; verbose lists every case."""
        return write_text("plumb_test_report_write", self._handle, {"format": format, "verbose": verbose})


def test(folders: Union[PathLike, Sequence[PathLike]], *, progress: ProgressLike = None, **options: Any) -> TestReport:
    """Runs every ONNX test case below the folders: backend, rtol, atol, filter, timeout, memory_limit, fp64, threads."""
    dirs = [folders] if isinstance(folders, (str, os.PathLike)) else list(folders)
    with Progress(progress) as p:
        made = _lib.options("plumb_test_options", "PLUMB_OPTIONS_TEST", dict(options, progress=p.struct))
        return TestReport(_lib.make("test", "plumb_test", "plumb_test_report_free", _lib.strings(dirs), len(dirs),
                                    ctypes.byref(made)))


test.__test__ = False  # type: ignore[attr-defined]


class Corpus:
    """Many models on many backends: exit_code, folder, finished, counts (n_agree, ...), cases and groups as rows."""

    def __init__(self, handle: _lib.Handle) -> None:
        p = handle.pointer
        self._handle = handle
        summary = _lib.fields("plumb_corpus_summary", "plumb_corpus_get", p)
        self.exit_code = int(summary["exit_code"])
        self.folder: str = summary["folder"]
        self.finished = bool(summary["finished"])
        self.counts = {k[2:]: int(v) for k, v in summary.items() if k.startswith("n_")}
        self.cases = [Row(_lib.fields("plumb_corpus_case", "plumb_corpus_get_case", p, i))
                      for i in range(self.counts["cases"])]
        self.groups = [Row(_lib.fields("plumb_corpus_group", "plumb_corpus_get_group", p, i))
                       for i in range(self.counts["groups"])]

    def __bool__(self) -> bool:
        return self.exit_code == 0

    def text(self, format: str = "text") -> str:
        """As `plumb corpus` prints it; format: "text", "json", "junit", "sarif", "html"."""
        return write_text("plumb_corpus_write", self._handle, {"format": format})

    def diff(self, before: Corpus) -> Dict[str, Any]:
        """What changed since `before`, as `plumb corpus --diff --json`."""
        text, worse = ctypes.c_void_p(), ctypes.c_int()
        _lib.call("plumb_corpus_diff", before._handle.pointer, self._handle.pointer, _abi.PLUMB_JSON, ctypes.byref(worse),
                  ctypes.byref(text))
        return dict(json.loads(_lib.take_text(text)), is_worse=bool(worse.value))


def _corpus_options(given: Dict[str, Any], backends: Sequence[str], progress: Any) -> Any:
    seeds = list(given.pop("seeds", []))
    given.setdefault("program", _lib.program())
    made = dict(given, backends=list(backends), progress=progress)
    if seeds:
        made.update(seeds=(ctypes.c_uint64 * len(seeds))(*seeds), n_seeds=len(seeds))
    return _lib.options("plumb_corpus_options", "PLUMB_OPTIONS_CORPUS", made)


def corpus(list: PathLike, backends: Sequence[str], output: PathLike, *, progress: ProgressLike = None, **options: Any) -> Corpus:
    """`plumb corpus`: runs every model of a list, folder or file on every backend; failures with the same cause are one group.

    options  reference, seeds, shard, jobs, timeout, memory_limit, max_queries, max_deaths, resume, baseline,
             write_baseline, program (None: the one of this package, else the one in PATH)
    """
    with Progress(progress) as p:
        made = _corpus_options(dict(options, output=os.fspath(output)), backends, p.struct)
        return Corpus(_lib.make("corpus", "plumb_corpus_run", "plumb_corpus_free", os.fsencode(list), ctypes.byref(made)))


def corpus_plan(list: PathLike, backends: Sequence[str], **options: Any) -> Dict[str, Any]:
    """What `plumb.corpus` would run, with an estimate of the time, as `plumb corpus --dry-run --json`."""
    made = _corpus_options(dict(options), backends, None)
    plan: Dict[str, Any] = _text("plumb_corpus_plan", os.fsencode(list), ctypes.byref(made), _abi.PLUMB_JSON)
    return plan


def corpus_merge(folders: Sequence[PathLike], output: Optional[PathLike] = None, *, progress: ProgressLike = None,
                 **options: Any) -> Corpus:
    """Joins the outputs of shards into a new folder; without `output` the one folder that all shards wrote to is finished.

    options  as for plumb.corpus; backends: those that the shards name and that start a program or load a library
    """
    with Progress(progress) as p:
        backends = options.pop("backends", [])
        made = _corpus_options(dict(options, output=None if output is None else os.fspath(output)), backends, p.struct)
        return Corpus(_lib.make("corpus", "plumb_corpus_merge", "plumb_corpus_free", _lib.strings(folders), len(folders),
                                ctypes.byref(made)))


def open_corpus(folder: PathLike) -> Corpus:
    """An output of `plumb corpus` that is finished."""
    return Corpus(_lib.make("corpus", "plumb_corpus_open", "plumb_corpus_free", os.fsencode(folder)))


def _text(function: str, *args: Any) -> Any:
    text = ctypes.c_void_p()
    _lib.call(function, *args, ctypes.byref(text))
    return json.loads(_lib.take_text(text))


def ops(filter: Optional[str] = None) -> Any:
    """The operator table, as `plumb ops --json`."""
    return _text("plumb_ops", _abi.PLUMB_JSON, None if filter is None else filter.encode())


def info_tensors(path: PathLike) -> Any:
    """What is in a file of tensors without a graph, as `plumb info FILE --json`: GGUF with its metadata, any recording."""
    return _text("plumb_info_tensors", os.fsencode(path), _abi.PLUMB_JSON)


def backends() -> List[Dict[str, Any]]:
    """Which backends work here: dicts with name, summary, version, available, reason, cpu, sandbox."""
    handle = _lib.make("backends", "plumb_backend_list_new", "plumb_backend_list_free")
    lib, found = _lib.lib(), []
    for i in range(lib.plumb_backend_list_count(handle.pointer)):
        row = _lib.fields("plumb_backend_info", "plumb_backend_list_get", handle.pointer, i)
        row["available"] = bool(row["available"])
        found.append(row)
    return found


def faults_missed(model: Any, backend: str) -> str:
    """A line for each planted fault of a spec (jit:inject=KIND@OP:N) that has no node in the model."""
    text = ctypes.c_void_p()
    opened = open_model(model)
    _lib.call("plumb_faults_missed", opened.pointer, backend.encode(), ctypes.byref(text))
    return _lib.take_text(text)


def store_ls(folder: PathLike) -> Any:
    """Lists the contents of a store."""
    return _text("plumb_store_ls", os.fsencode(folder), _abi.PLUMB_JSON)


def store_verify(path: PathLike) -> Any:
    """Whether every blob of a store, or tensor of a recording, is what its name or hash says; "n_bad" counts the others."""
    bad, text = ctypes.c_size_t(), ctypes.c_void_p()
    _lib.call("plumb_store_verify", os.fsencode(path), _abi.PLUMB_JSON, ctypes.byref(bad), ctypes.byref(text))
    return {"n_bad": bad.value, "report": json.loads(_lib.take_text(text))}


def store_gc(folder: PathLike, dry_run: bool = False) -> Any:
    """Removes blobs that no index refers to."""
    return _text("plumb_store_gc", os.fsencode(folder), int(dry_run), _abi.PLUMB_JSON)


def version() -> str:
    """The version of the loaded library."""
    return _lib.text_of(_lib.lib().plumb_version())

"""Does a compiled graph fail? Asked in this process, or in one of its own that may crash and hang."""
from __future__ import annotations

import copy
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import torch

from . import _graph, _script
from ._same import same


class Failure:
    """kind: "error", "crash", "timeout", "accuracy", "metadata", "nondeterministic"; output: number of the output, -1 unknown."""

    def __init__(self, kind: str, text: str, output: int = -1) -> None:
        self.kind, self.text, self.output = kind, text, output

    def like(self, other: Optional["Failure"]) -> bool:
        """Whether another failure is the same one: kind, and the text of an error without its numbers."""
        if other is None or other.kind != self.kind:
            return False
        return self.kind != "error" or re.sub(r"\d+", "0", self.text) == re.sub(r"\d+", "0", other.text)


def of_exception(e: BaseException) -> Failure:
    if isinstance(e, TimeoutError):
        return Failure("timeout", str(e))
    return Failure("error", (f"{type(e).__name__}: {e}".splitlines() or [type(e).__name__])[0][:300])


def limited(function: Callable[[], Any], seconds: float) -> Any:
    """The result, or TimeoutError; a call that hangs is left behind in its thread."""
    if not seconds:
        return function()
    found: Dict[str, Any] = {}
    grad = torch.is_grad_enabled()  # of this thread only

    def work() -> None:
        try:
            with torch.set_grad_enabled(grad):
                found["value"] = function()
        except BaseException as e:
            found["error"] = e
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"no answer within {seconds:g} s")
    if "error" in found:
        raise found["error"]
    return found["value"]


def rolled(inputs: Sequence[Any]) -> List[Any]:
    """Other inputs with the same values: a result that stays as it was shows."""
    return [t.roll(1) if isinstance(t, torch.Tensor) and t.dim() and t.is_floating_point() else t for t in inputs]


def metadata(a: Any, b: Any, strides: bool) -> str:
    """How type, shape or strides of b differ from those of a; "" when they do not."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return "" if type(a) is type(b) else f"{type(b).__name__}, eager has {type(a).__name__}"
    if a.dtype != b.dtype:
        return f"{b.dtype}, eager has {a.dtype}"
    if a.shape != b.shape:
        return f"shape {list(b.shape)}, eager has {list(a.shape)}"
    if strides and any(s != t and d > 1 for s, t, d in zip(a.stride(), b.stride(), a.shape)):
        return f"strides {list(b.stride())}, eager has {list(a.stride())}"
    return ""


def judge(want: List[Any], got: List[Any], again: List[Any], third: Any, options: Dict[str, Any],
          strides: bool) -> Optional[Failure]:
    """The first output that differs from eager's, or from run to run."""
    if len(want) != len(got):
        return Failure("metadata", f"{len(got)} outputs, eager has {len(want)}")
    for i, (a, b, c) in enumerate(zip(want, got, again)):
        text = metadata(a, b, strides)
        if text:
            return Failure("metadata", f"output {i}: {text}", i)
        if isinstance(a, torch.Tensor):
            found = same(a, b, None if third is None else third[i], **options)
            if not found:
                return Failure("accuracy", f"output {i}: {found.why}", i)
        if not _graph.same_bits(b, c):
            return Failure("nondeterministic", f"output {i}: two runs on the same inputs differ", i)
    return None


class InProcess:
    """Compiles and runs here. `values`: also compare what it computes."""

    def __init__(self, compile: Callable[..., Any], timeout: float, options: Dict[str, Any], values: bool) -> None:
        self.compile, self.timeout, self.options, self.values = compile, timeout, options, values
        self.n_queries = 0
        self.want: List[Any] = []
        self.got: List[Any] = []

    def ask(self, gm: Any, inputs: Sequence[Any], strides: bool = True) -> Optional[Failure]:
        self.n_queries += 1
        others = rolled(inputs)
        try:
            compiled = limited(lambda: self.compile(copy.deepcopy(gm), _graph.clone(inputs)), self.timeout)
            got, again, later = [limited(lambda x=x: _graph.run(compiled, x), self.timeout)  # type: ignore[misc]
                                 for x in (inputs, inputs, others)]
        except Exception as e:
            return of_exception(e)
        if not self.values:
            return None
        self.want, self.got = _graph.eager(gm, inputs), got
        failure = judge(self.want, got, again, _graph.fp64(gm, inputs), self.options, strides)
        if failure is None:
            failure = judge(_graph.eager(gm, others), later, later, _graph.fp64(gm, others), self.options, strides)
            if failure is not None:
                failure.text += " (on the next inputs: a stale result)"
        return failure


class Isolated:
    """Runs the repro's script in a process of its own."""

    def __init__(self, backend: Union[str, _script.Backend], timeout: float, options: Dict[str, Any], values: bool,
                 random: bool = False) -> None:
        self.backend, self.timeout, self.values, self.random = backend, timeout or 120, values, random
        self.tol = options.get("tol", 1e-3)
        self.n_queries = 0
        self.want: List[Any] = []
        self.got: List[Any] = []

    def ask(self, gm: Any, inputs: Sequence[Any], strides: bool = True) -> Optional[Failure]:
        self.n_queries += 1
        folder = tempfile.mkdtemp(prefix="plumb-")
        try:
            _script.write(folder, gm, inputs, self.backend, "a question", tol=self.tol, strides=strides, values=self.values,
                          random=self.random)
            return run_script(folder, self.timeout)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def run_script(folder: str, timeout: float) -> Optional[Failure]:
    """What the script of a repro says when it runs; None: nothing fails."""
    try:
        done = subprocess.run([sys.executable, os.path.join(folder, "repro.py")], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return Failure("timeout", f"no answer within {timeout:g} s")
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return Failure("crash", f"ended by {signal.Signals(-done.returncode).name}")
    line = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1][:300]
    found = re.match(r"(error|accuracy|metadata|nondeterministic): (?:output (\d+): )?(.*)", line)
    if found is None:
        return Failure("error", line)
    return Failure(found[1], found[3], int(found[2]) if found[2] else -1)

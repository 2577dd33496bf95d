"""plumb.generate: many steps with state, from two token sequences to the operation."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _abi, _lib
from ._model import PathLike, open_model
from ._progress import Progress, ProgressLike
from ._run import take_inputs, write_text
from ._session import Row


def _logit_names() -> List[str]:
    lib = _lib.lib()
    return [_lib.text_of(lib.plumb_logit_metric_name(i)) for i in range(lib.plumb_logit_metric_count())]


class Generation:
    """What was found, step by step. True when both sides agree, or every self-test passes.

    verdict, reason, first_divergent_step, first_flip (None = none), op, node, value, layer, kind, carried_by, perplexity, ...
    are those of plumb_generation_summary; `steps`, `analyses` and `tests` are lists of rows.
    """

    def __init__(self, handle: _lib.Handle) -> None:
        lib, p = _lib.lib(), handle.pointer
        self._handle = handle
        self.summary = _lib.fields("plumb_generation_summary", "plumb_generation_get", p)
        names = _logit_names()
        self.steps: List[Row] = []
        for i in range(lib.plumb_generation_steps(p)):
            row = _lib.fields("plumb_step", "plumb_generation_step", p, i)
            logits = row.pop("logits")
            row["logits"] = {n: logits[k] for k, n in enumerate(names)} if logits else None
            row["analysis"] = None if row["analysis"] == ctypes.c_size_t(-1).value else row["analysis"]
            self.steps.append(Row(row))
        self.analyses: List[Row] = []
        for i in range(lib.plumb_generation_analyses(p)):
            step = ctypes.c_int64()
            session = lib.plumb_generation_session(p, i, ctypes.byref(step))
            found = _lib.fields("plumb_session_summary", "plumb_session_get", session)
            self.analyses.append(Row(dict(found, step=step.value)))
        self.tests = [Row(_lib.fields("plumb_self_test", "plumb_generation_test", p, i))
                      for i in range(lib.plumb_generation_tests(p))]

    def __bool__(self) -> bool:
        return bool(self.summary["exit_code"] == 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.summary:
            raise AttributeError(name)
        value = self.summary[name]
        return None if name in ("first_divergent_step", "first_flip", "layer") and value < 0 else value

    def text(self, format: str = "text") -> str:
        """As `plumb generate` prints it; format "json" is its JSON."""
        return write_text("plumb_generation_write", self._handle, {"format": format})

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<plumb.Generation {self.summary['verdict']}: {self.summary['reason']}>"


def _read_ids(text: str) -> List[int]:
    """Ids from a text or a text file."""
    ids, n = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_size_t()
    _lib.call("plumb_ids_read", os.fsencode(text), ctypes.byref(ids), ctypes.byref(n))
    try:
        return [ids[i] for i in range(n.value)]
    finally:
        _lib.lib().plumb_free(ids)


def _ids(options: Dict[str, Any], name: str, count: str, ids: Union[str, Sequence[int], None]) -> None:
    if ids is None:
        return
    values = _read_ids(ids) if isinstance(ids, str) else [int(i) for i in ids]
    options[name] = (ctypes.c_int64 * max(1, len(values)))(*values)
    options[count] = len(values)


def generate(model: Any, inputs: Any = None, *, backend: Optional[str] = None, prompt: Union[str, Sequence[int], None] = None,
             forced: Union[str, Sequence[int], None] = None, output: Optional[PathLike] = None, progress: ProgressLike = None,
             **options: Any) -> Generation:
    """Runs a model with state over many steps on two sides: first step, layer and operation that goes wrong.

    model    an ONNX path, bytes, onnx.ModelProto or plumb.Model
    inputs   for inputs that no rule feeds, as in analyze; a list: one for each step
    prompt   token ids, a text or text file of them; None: a few that depend on the seed
    forced   token ids that follow the prompt; None: what the reference chooses
    output   folder for the session of each analysed step; None: none is written
    options  steps, reference, reference_model, force, sample, cache, chunk, states, feeds, logits,
             skip_analysis, save, save_step, self_test, timeout, memory_limit, threads; of the inputs: dims, ranges, fill, seed
    """
    opened = open_model(model)
    given = take_inputs(inputs, opened.inputs, options)
    _ids(options, "prompt", "n_prompt", prompt)
    _ids(options, "forced", "n_forced", forced)
    if forced is not None:
        options.setdefault("steps", options["n_forced"])
    with opened.lock, Progress(progress) as p:
        made = _lib.options("plumb_generate_options", "PLUMB_OPTIONS_GENERATE",
                            dict(options, backend=backend, inputs=given.struct, progress=p.struct,
                                 output=None if output is None else os.fspath(output)))
        return Generation(_lib.make("generation", "plumb_generate", "plumb_generation_free", opened.pointer,
                                    ctypes.byref(made)))


def explain_inputs(model: Any, inputs: Any = None, **options: Any) -> Any:
    """What each input gets at each step, by which rule, and which outputs are fed back: `plumb generate --explain-inputs`."""
    opened = open_model(model)
    given = take_inputs(inputs, opened.inputs, options)
    text = ctypes.c_void_p()
    with opened.lock:
        made = _lib.options("plumb_generate_options", "PLUMB_OPTIONS_GENERATE", dict(options, inputs=given.struct))
        _lib.call("plumb_generate_explain", opened.pointer, ctypes.byref(made), _abi.PLUMB_JSON, ctypes.byref(text))
    return json.loads(_lib.take_text(text))

"""save_intermediates: run, record, export, match, write."""
from __future__ import annotations

import contextlib
import copy
import inspect
import json
import os
import platform
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor
from torch.nn import Module

from . import _calls, _export, _file, _fx, _match, _watch
from ._version import VERSION
from ._watch import Value, Watcher

_RANK_MAX = 16  # of plumb's reader
_SAMPLES = 64


@dataclass
class Recording:
    """What save_intermediates wrote."""
    path: str
    onnx_path: Optional[str] = None
    keys: List[str] = field(default_factory=list)          # of the records, in the order of the run
    mapped: Dict[str, str] = field(default_factory=dict)        # key -> name of the value in the ONNX graph
    unmapped: Dict[str, str] = field(default_factory=dict)      # key -> why it has none
    not_recorded: List[str] = field(default_factory=list)  # what was seen and could not be written, with the reason
    fx: str = ""                                      # "traced", or why torch.fx cannot
    fx_not_seen: List[str] = field(default_factory=list)   # nodes of torch.fx that no record fits
    opaque: List[str] = field(default_factory=list)        # modules that could not be looked into
    lost_calls: List[Dict[str, Any]] = field(default_factory=list)    # calls that the export dropped, froze or changed

    def __str__(self) -> str:
        text = f"{self.path}: {len(self.keys)} records"
        if self.onnx_path:
            text += f", {len(self.mapped)} with a value of {self.onnx_path}, {len(self.unmapped)} without"
        dropped = sum(row["status"] == "dropped" for row in self.lost_calls)
        if dropped:
            text += f"; {dropped} {'call' if dropped == 1 else 'calls'} dropped by the exporter"
        if self.not_recorded:
            text += f"; {len(self.not_recorded)} not recorded"
        return text


class _Summary:
    """What stays in memory of a recorded tensor."""

    def __init__(self, tensor: Tensor, dense: Tensor, index: Any) -> None:
        self.index = index
        self.strides = tuple(tensor.stride())
        n = dense.numel() * dense.element_size()
        self.hash = _file.xxh3_hex(dense.data_ptr() if n else None, n)
        self.digest = self.hash or _blake(dense)
        flat = dense.reshape(-1)
        m = min(_SAMPLES, flat.numel())
        picked = flat[::max(1, flat.numel() // max(m, 1))][:m] if m else flat
        if picked.dtype.is_complex:
            picked = torch.view_as_real(picked).reshape(-1)
        self.samples = picked.to(torch.float64).tolist()


def _blake(dense: Tensor) -> str:
    import hashlib
    return hashlib.blake2b(_file.as_bytes(dense), digest_size=16).hexdigest()


def _sink(writer: Any) -> Callable[[Tensor], _Summary]:
    """Writes immediately, so later in-place changes cannot affect the record."""
    def sink(tensor: Tensor) -> _Summary:
        if tensor.dim() > _RANK_MAX:
            raise _file.UnsupportedError(f"{tensor.dim()} dims")
        dense = _file.dense(tensor)
        return _Summary(tensor, dense, writer.write(dense) if writer else None)
    return sink


def _no_sink(_fake: Tensor) -> None:
    """For tensors without data."""


def _copied(thing: Any) -> Any:
    """The inputs for one run: a model that changes its inputs must not change those of the next run."""
    if isinstance(thing, torch.Tensor):
        return thing.detach().clone()
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*(_copied(v) for v in thing))
    if isinstance(thing, (list, tuple)):
        return type(thing)(_copied(v) for v in thing)
    if isinstance(thing, dict):
        same = copy.copy(thing)  # of its own class
        same.update((k, _copied(v)) for k, v in thing.items())
        return same
    return thing


@contextlib.contextmanager
def _eval_mode(model: Module) -> Iterator[None]:
    flags = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for m, flag in flags:
            m.training = flag


def _own_modules(model: Module) -> List[Module]:
    return [m for m in model.modules() if not isinstance(m, torch.jit.ScriptModule)]


@contextlib.contextmanager
def _buffers_kept(model: Module) -> Iterator[None]:
    """Both runs start from the same buffers, and the caller finds them unchanged."""
    bound = [(m._buffers, dict(m._buffers)) for m in _own_modules(model)]
    before = [(b, b.detach().clone(), _watch.version(b)) for b in model.buffers() if b.layout == torch.strided]
    try:
        yield
    finally:
        for buffers, names in bound:
            buffers.clear()
            buffers.update(names)
        for b, saved, version in before:
            if b.is_inference() or b._version != version:
                with torch.inference_mode(b.is_inference()):
                    b.copy_(saved)


def _contents(thing: Any) -> Any:
    return list(thing) if isinstance(thing, list) else dict(thing) if isinstance(thing, dict) else None


def _put_back(thing: Any, contents: Any) -> None:
    now = _contents(thing)
    if now is None or list(map(id, now)) == list(map(id, contents)) and (
            isinstance(thing, list) or list(map(id, now.values())) == list(map(id, contents.values()))):
        return
    thing.clear()
    (thing.extend if isinstance(thing, list) else thing.update)(contents)


@contextlib.contextmanager
def _attributes_kept(model: Module) -> Iterator[None]:
    """torch.fx runs forward on proxies; undoes the attributes it sets and appends, so the real run does not see them."""
    before = [(m.__dict__, dict(m.__dict__), [(v, _contents(v)) for v in m.__dict__.values()]) for m in _own_modules(model)]
    try:
        yield
    finally:
        for attributes, values, inside in before:
            attributes.clear()
            attributes.update(values)
            for thing, contents in inside:
                _put_back(thing, contents)


def _traced_by_fx(model: Module) -> Any:
    with torch.random.fork_rng(devices=[]), _attributes_kept(model), _buffers_kept(model):
        return _fx.trace(model)


def _in_order(model: Module, kwargs: Any) -> Dict[str, Any]:
    """Keyword arguments in the order of forward's parameters, the order of the exported inputs."""
    try:
        names = list(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):
        names = []
    return dict(sorted(kwargs.items(), key=lambda kv: names.index(kv[0]) if kv[0] in names else len(names)))


def _input_names(model: Module, args: Any, kwargs: Any, given: Any) -> List[str]:
    """A name for each tensor among the inputs: the caller's, else that of forward's parameter."""
    found = []
    try:
        names = [p.name for p in inspect.signature(model.forward).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    for i, a in enumerate(args):
        base = names[i] if i < len(names) else f"input{i}"
        found += [base + path for path, _ in _watch.tensors_in(a)]
    for k, a in kwargs.items():
        found += [k + path for path, _ in _watch.tensors_in(a)]
    return list(given) + found[len(given):] if given else found


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "")
    except OSError:
        return platform.processor()


def _file_hash(path: Any) -> Optional[str]:
    """XXH3-128 of a file, or None; mapped, not read into memory."""
    import ctypes
    import mmap
    if _file.xxh3_hex(None, 0) is None or os.path.getsize(path) == 0:
        return None
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY) as data:
        block = (ctypes.c_ubyte * len(data)).from_buffer(data)
        try:
            return _file.xxh3_hex(ctypes.addressof(block), len(data))
        finally:
            del block


def _flags(value: Value) -> List[str]:
    strides = value.summary.strides
    expected: List[int] = []
    step = 1
    for d in reversed(value.shape):
        expected.insert(0, step)
        step *= max(d, 1)
    flags = [f for f in ("input", "output") if f in value.flags]
    if any(s != e for s, e, d in zip(strides, expected, value.shape) if d > 1) and step > 0:
        flags.append("strided")
        if any(s == 0 and d > 1 for s, d in zip(strides, value.shape)):
            flags.append("broadcast")
    return flags


def _torch_name(value: Value, input_name: Optional[str]) -> str:
    if "input" in value.flags and input_name:
        return input_name
    return (f"{value.module}/" if value.module else "") + value.op + value.path


class _Names:
    """Keys as plumb's recorder makes them: NAME, NAME#1, NAME#2 ..."""

    def __init__(self) -> None:
        self.taken = {"__metadata__"}
        self.next: Dict[str, int] = {}

    def key(self, name: str) -> Tuple[str, str, int]:
        name = name.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
        call = self.next.get(name, 0)
        while (key := name if call == 0 else f"{name}#{call}") in self.taken:
            call += 1
        self.next[name] = call + 1
        self.taken.add(key)
        return key, name, call


def _source_of(watcher: Watcher, value: Value) -> Dict[str, Any]:
    """The line of the model's code that made a value, and the call that changed it through a view."""
    made = watcher.calls[value.call].source if value.call is not None else None
    about = {} if made is None else {"file": made[0], "line": made[1]}
    if value.changed_by is not None:
        call = watcher.calls[value.changed_by]
        about["changed_by"] = {"call": value.changed_by, "op": call.op, **_calls.where(call.source)}
    return about


def _tuples(watcher: Watcher, names_of_inputs: List[str], found: Dict[int, str], reasons: Dict[int, str],
            methods: Dict[int, str]) -> Any:
    """(keys by tensor number, tuples, Recording parts)."""
    names, keys, tuples, mapped, unmapped = _Names(), {}, [], {}, {}
    inputs = dict(zip(watcher.inputs, names_of_inputs))
    order = sorted((v for v, x in enumerate(watcher.values) if x.summary is not None),
                   key=lambda v: v not in found)  # names of the graph first: they must not get a number
    made = {v: names.key(found.get(v) or _torch_name(watcher.values[v], inputs.get(v))) for v in order}
    for v, value in enumerate(watcher.values):
        if value.summary is None:
            continue
        key, name, call = made[v]
        keys[value.summary.index] = key
        node = value.fx[0] if value.fx else _torch_name(value, inputs.get(v))
        row = {"key": key, "value": name, "call": call, "node": node, "op": value.op, "module": value.module,
               "dtype": _file.TYPES[value.dtype][1], "shape": list(value.shape), "strides": list(value.summary.strides),
               "offset": 0, "hash": value.summary.hash, "flags": _flags(value)}
        row = {k: x for k, x in row.items() if x not in (None, "") and not (k == "call" and x == 0)}
        about = {"call": value.call, "path": value.path, "fx": value.fx, "method": methods.get(v),
                 "modules": [{"module": m, "call": c, "path": p} for m, c, p in value.names],
                 "returned_again_by": [watcher.calls[k].op for k in value.aliases], "unmapped": reasons.get(v),
                 "quantised": value.quantised, **_source_of(watcher, value)}
        row["torch"] = {k: x for k, x in about.items() if x not in (None, "", [])}
        tuples.append(row)
        if v in found:
            mapped[key] = found[v]
        elif v in reasons:
            unmapped[key] = reasons[v]
    return [keys[i] for i in range(len(keys))], tuples, mapped, unmapped


def _kind(value: Value) -> str:
    return f"{str(value.dtype).split('.')[-1]}{['?' if d is None else d for d in value.shape]}"


def _why_alone(value: Value) -> str:
    if value.op == "changed":
        return "changed through a view: no call returned it"
    if value.call is None and not value.names:
        return "made by scripted or compiled code: the exporter tells nothing of its operations"
    return "the exported run does not make this call"


class _Matched:
    def __init__(self) -> None:
        self.names: Dict[int, str] = {}  # by value of the recorded run
        self.reasons: Dict[int, str] = {}
        self.methods: Dict[int, str] = {}
        self.calls: List[Dict[str, Any]] = []  # _calls.lost


def _same_kind(a: Value, b: Value, exactly: bool) -> bool:
    """exactly: the export ran on the inputs that were recorded."""
    return a.dtype == b.dtype and (a.shape == b.shape if exactly else len(a.shape) == len(b.shape))


def _matched(recorded: Watcher, traced: Watcher, graph: Any, tags: List[Optional[int]], exporter: str,
             same_inputs: bool) -> _Matched:
    """name, reason and method for each value of the recorded run; what became of its calls."""
    if any(t is not None for t in tags) or not any(_match.module_of(n) is not None for n in graph.nodes):
        pairs = _match.align(recorded, traced)
        _match.adopt(recorded, traced, pairs)
        result = _match.by_calls(traced, graph, tags)
    else:
        pairs, traced = {v: v for v in range(len(recorded.values))}, recorded
        result = _match.by_modules(recorded, graph)
    by_call, done = traced is not recorded, _Matched()
    found, reasons, methods = done.names, done.reasons, done.methods
    for v, value in enumerate(recorded.values):
        w = pairs.get(v)
        if w is None:
            reasons[v] = _why_alone(value)
        elif w not in result.names:
            reasons[v] = result.reasons.get(w, "")
        elif result.names[w] in found.values():
            reasons[v] = f"{result.names[w]} has a record already"
        elif not _same_kind(value, traced.values[w], same_inputs):
            reasons[v] = f"different shape or type in the exported run: {_kind(traced.values[w])}"
        elif same_inputs and "output" not in value.flags and not _match.agree(value, traced.values[w]):
            # An output is the model's output, whatever its value: that it differs is what the comparison has to show.
            reasons[v] = "different value in the exported run"
        else:
            found[v], methods[v] = result.names[w], result.methods[w]
    if by_call and any(t is not None for t in tags):
        done.calls = _calls.lost(recorded, traced, tags, pairs, result, found, exporter)
    return done


def _is_compiled(module: Module) -> bool:
    """By torch.compile(module), module.compile() or torch.compile(module.forward)."""
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None or \
        hasattr(module.forward, "_torchdynamo_orig_callable")


def _check(model: Module, onnx_path: Any, out: Any, training: str, exporter: str) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, not a torch.nn.Module")
    for path, m in model.named_modules():
        if not isinstance(m, torch.jit.ScriptModule) and _is_compiled(m):
            raise ValueError(f"{path or 'model'} is compiled by torch.compile: its graphs run as a whole, so a recording "
                             "would be that of the eager module. Record the module before it is compiled "
                             "(model._orig_mod), and compare the outputs of the compiled one with it")
    if out is None:
        raise TypeError("missing argument: out, the file to write")
    if training not in ("eval", "preserve"):
        raise ValueError(f"training is {training!r}, expected 'eval' (BatchNormalization folded) or 'preserve'")
    if exporter not in ("torchscript", "dynamo"):
        raise ValueError(f"exporter is {exporter!r}, expected 'torchscript' or 'dynamo'")
    for path in (out, onnx_path):
        if path is not None:
            _file.refuse_existing(path)


def _export_options(training: str, exporter: str, input_names: Any, output_names: Any, opset_version: Any,
                    dynamic_axes: Any, more: Any) -> Dict[str, Any]:
    options = {}
    if exporter == "torchscript":
        mode = torch.onnx.TrainingMode.PRESERVE if training == "preserve" else torch.onnx.TrainingMode.EVAL
        options = {"training": mode, "do_constant_folding": training == "eval"}
    given = {"input_names": input_names, "output_names": output_names, "opset_version": opset_version,
             "dynamic_axes": dynamic_axes}
    options.update({k: v for k, v in given.items() if v is not None})
    options.update(more or {})
    return options


def _split(model: Module, inputs: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """(args, kwargs) of inputs: a tensor, a tuple of arguments, a dict of keyword arguments."""
    if isinstance(inputs, dict):
        return (), _in_order(model, inputs)
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def run_model(model: Module, args: Any, kwargs: Any, watcher: Watcher) -> None:
    """The run that is recorded. (_watch knows this function by its name.)"""
    watcher.add_inputs((*args, *kwargs.values()))
    with _buffers_kept(model), watcher.watching():
        model(*args, **kwargs)
    for v in watcher.outputs:
        watcher.values[v].flags.add("output")
        for w in watcher.twins(v):
            watcher.values[w].flags.add("output")


PathLike = Union[str, "os.PathLike[str]"]


def save_intermediates(model: Module, inputs: Any, onnx_path: Optional[PathLike] = None, out: Optional[PathLike] = None, *,
                       input_names: Optional[Sequence[str]] = None, output_names: Optional[Sequence[str]] = None,
                       training: str = "eval", exporter: str = "torchscript", opset_version: Optional[int] = None,
                       dynamic_axes: Optional[Dict[str, Any]] = None, export_options: Optional[Dict[str, Any]] = None,
                       export_inputs: Any = None, stack_traces: bool = True, fx: bool = True,
                       notes: Optional[str] = None) -> Recording:
    """Runs model on inputs in eval mode and writes every intermediate tensor to the recording `out`.

    model           a torch.nn.Module that torch.compile has not compiled; quantised ones of torch.ao are recorded as codes
                    and as what the codes stand for
    inputs          a tensor, a tuple of arguments, or a dict of keyword arguments
    onnx_path       also export the model there, and name the records after the values of its graph
    out             the recording to write (.safetensors)
    input_names, output_names, opset_version, dynamic_axes
                    as of torch.onnx.export
    training        'eval': as usual, BatchNormalization folded into Conv; 'preserve': operations stay as they are
    exporter        'torchscript', or 'dynamo' (torch 2.5 and later, with onnxscript)
    export_options  a dict of further arguments for torch.onnx.export
    export_inputs   inputs to export with, when they are not those to record: so a branch that the exporter froze shows
    stack_traces    False leaves the lines of the source out of the exported model
    fx              False leaves out torch.fx's names
    notes           any text for the recording's provenance
    Neither file may exist. Returns a Recording.
    """
    _check(model, onnx_path, out, training, exporter)
    assert out is not None  # _check has seen to it
    args, kwargs = _split(model, inputs)
    refused = []

    def refuse(value: Dict[str, Any], why: str) -> None:
        refused.append(f"{value.get('module') or 'model'}/{value.get('op')}{value.get('path', '')}: {why}")
    writer = _file.Writer(out)
    try:
        with _eval_mode(model), torch.random.fork_rng(devices=[]):
            nodes, fx_reason = _traced_by_fx(model) if fx else (None, "not asked")
            random = torch.random.get_rng_state()
            run = _watch.Watcher(model, _sink(writer), refuse)
            run_model(model, _copied(args), _copied(kwargs), run)
            not_seen = _fx.attach(nodes, run, model) if nodes else []
            match = _Matched()
            if onnx_path is not None:
                torch.random.set_rng_state(random)
                sink: Any = _sink(None) if exporter == "torchscript" else _no_sink
                traced = _watch.Watcher(model, sink, lambda *_: None, tag=True)
                options = _export_options(training, exporter, input_names, output_names, opset_version, dynamic_axes,
                                          export_options)
                x_args, x_kwargs = (args, kwargs) if export_inputs is None else _split(model, export_inputs)
                with _buffers_kept(model):
                    graph, tags = _export.export(model, _copied(x_args), _copied(x_kwargs), onnx_path, exporter, options,
                                                 traced, stack_traces)
                match = _matched(run, traced, graph, tags, exporter, export_inputs is None)
        keys, tuples, mapped, unmapped = _tuples(run, _input_names(model, args, kwargs, input_names), match.names,
                                                 match.reasons, match.methods)
        result = Recording(os.fspath(out), None if onnx_path is None else os.fspath(onnx_path),
                           [t["key"] for t in tuples], mapped, unmapped, refused,
                           "traced" if nodes else fx_reason, not_seen, run.opaque, match.calls)
        metadata = {"plumb.recording": "1", "plumb.values": _json(tuples),
                    "plumb.provenance": _json(_provenance(result, model, training, exporter, notes))}
        if onnx_path is not None:
            metadata["plumb.export"] = _json({"exporter": exporter, "torch": torch.__version__, "calls": match.calls})
        writer.finish(keys, metadata)
    except BaseException:
        writer.abandon()
        raise
    return result


def _json(thing: Any) -> str:
    return json.dumps(thing, ensure_ascii=False, separators=(",", ":"))


def _provenance(result: Any, model: Module, training: str, exporter: str, notes: Optional[str]) -> Dict[str, Any]:
    about = {}
    if result.onnx_path:
        about = {"model": result.onnx_path, "model_file_hash": _file_hash(result.onnx_path),
                 "options": f"training={training},exporter={exporter}"}
    about.update({
        "backend": "torch", "backend_version": torch.__version__, "threads": torch.get_num_threads(),
        "plumb": VERSION, "cpu": _cpu_name(), "cpus": os.cpu_count(),
        "system": " ".join((platform.system(), platform.release(), platform.machine())),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "notes": notes,
        "torch": {"class": f"{type(model).__module__}.{type(model).__qualname__}", "fx": result.fx,
                  "fx_not_seen": result.fx_not_seen, "opaque": result.opaque, "not_recorded": result.not_recorded,
                  "unmapped": [{"key": k, "reason": r} for k, r in result.unmapped.items()]},
    })
    return {k: v for k, v in about.items() if v is not None}

"""save_intermediates: run, record, export, match, write."""
import contextlib
import copy
import inspect
import json
import os
import platform
import time
from dataclasses import dataclass, field

import torch

from . import _export, _file, _fx, _match, _watch
from ._version import VERSION

_RANK_MAX = 16  # of plumb's reader
_SAMPLES = 64


@dataclass
class Recording:
    """What save_intermediates wrote."""
    path: str
    onnx_path: str = None
    keys: list = field(default_factory=list)          # of the records, in the order of the run
    mapped: dict = field(default_factory=dict)        # key -> name of the value in the ONNX graph
    unmapped: dict = field(default_factory=dict)      # key -> why it has none
    not_recorded: list = field(default_factory=list)  # what was seen and could not be written, with the reason
    fx: str = ""                                      # "traced", or why torch.fx cannot
    fx_not_seen: list = field(default_factory=list)   # nodes of torch.fx that no record fits
    opaque: list = field(default_factory=list)        # modules that could not be looked into

    def __str__(self):
        text = f"{self.path}: {len(self.keys)} records"
        if self.onnx_path:
            text += f", {len(self.mapped)} with a value of {self.onnx_path}, {len(self.unmapped)} without"
        if self.not_recorded:
            text += f"; {len(self.not_recorded)} not recorded"
        return text


class _Summary:
    """What is kept in memory of a tensor."""

    def __init__(self, tensor, dense, index):
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


def _blake(dense):
    import hashlib
    return hashlib.blake2b(_file.as_bytes(dense), digest_size=16).hexdigest()


def _sink(writer):
    """Writes at once, so that what happens to the tensor later cannot reach the record."""
    def sink(tensor):
        if tensor.dim() > _RANK_MAX:
            raise _file.Unsupported(f"{tensor.dim()} dims")
        dense = _file.dense(tensor)
        return _Summary(tensor, dense, writer.write(dense) if writer else None)
    return sink


def _copied(thing):
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
def _eval_mode(model):
    flags = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for m, flag in flags:
            m.training = flag


def _own_modules(model):
    return [m for m in model.modules() if not isinstance(m, torch.jit.ScriptModule)]


@contextlib.contextmanager
def _buffers_kept(model):
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


def _contents(thing):
    return list(thing) if isinstance(thing, list) else dict(thing) if isinstance(thing, dict) else None


def _put_back(thing, contents):
    now = _contents(thing)
    if now is None or list(map(id, now)) == list(map(id, contents)) and (
            isinstance(thing, list) or list(map(id, now.values())) == list(map(id, contents.values()))):
        return
    thing.clear()
    (thing.extend if isinstance(thing, list) else thing.update)(contents)


@contextlib.contextmanager
def _attributes_kept(model):
    """torch.fx runs forward on proxies; what it sets and appends must not be found there by the run."""
    before = [(m.__dict__, dict(m.__dict__), [(v, _contents(v)) for v in m.__dict__.values()]) for m in _own_modules(model)]
    try:
        yield
    finally:
        for attributes, values, inside in before:
            attributes.clear()
            attributes.update(values)
            for thing, contents in inside:
                _put_back(thing, contents)


def _traced_by_fx(model):
    with torch.random.fork_rng(devices=[]), _attributes_kept(model), _buffers_kept(model):
        return _fx.trace(model)


def _in_order(model, kwargs):
    """Keyword arguments in the order of forward's parameters: so the exporters make inputs of them."""
    try:
        names = list(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):
        names = []
    return dict(sorted(kwargs.items(), key=lambda kv: names.index(kv[0]) if kv[0] in names else len(names)))


def _input_names(model, args, kwargs, given):
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


def _cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "")
    except OSError:
        return platform.processor()


def _file_hash(path):
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


def _flags(value):
    strides, expected = value.summary.strides, []
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


def _torch_name(value, input_name):
    if "input" in value.flags and input_name:
        return input_name
    return (f"{value.module}/" if value.module else "") + value.op + value.path


class _Names:
    """Keys as plumb's recorder makes them: NAME, NAME#1, NAME#2 ..."""

    def __init__(self):
        self.taken = {"__metadata__"}
        self.next = {}

    def key(self, name):
        name = name.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
        call = self.next.get(name, 0)
        while (key := name if call == 0 else f"{name}#{call}") in self.taken:
            call += 1
        self.next[name] = call + 1
        self.taken.add(key)
        return key, name, call


def _tuples(watcher, names_of_inputs, found, reasons, methods):
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
                 "returned_again_by": [watcher.calls[k].op for k in value.aliases], "unmapped": reasons.get(v)}
        row["torch"] = {k: x for k, x in about.items() if x not in (None, "", [])}
        tuples.append(row)
        if v in found:
            mapped[key] = found[v]
        elif v in reasons:
            unmapped[key] = reasons[v]
    return [keys[i] for i in range(len(keys))], tuples, mapped, unmapped


def _kind(value):
    return f"{str(value.dtype).split('.')[-1]}{['?' if d is None else d for d in value.shape]}"


def _why_alone(value):
    if value.op == "changed":
        return "changed behind a view: no call returned it"
    if value.call is None and not value.names:
        return "made by scripted or compiled code: the exporter tells nothing of its operations"
    return "the run that was exported has no such call"


def _matched(recorded, traced, graph, tags):
    """name, reason and method for each value of the recorded run."""
    if any(t is not None for t in tags) or not any(_match.module_of(n) is not None for n in graph.nodes):
        pairs = _match.align(recorded, traced)
        _match.adopt(recorded, traced, pairs)
        result = _match.by_calls(traced, graph, tags)
    else:
        pairs, traced = {v: v for v in range(len(recorded.values))}, recorded
        result = _match.by_modules(recorded, graph)
    found, reasons, methods = {}, {}, {}
    for v, value in enumerate(recorded.values):
        w = pairs.get(v)
        if w is None:
            reasons[v] = _why_alone(value)
        elif w not in result.names:
            reasons[v] = result.reasons.get(w, "")
        elif result.names[w] in found.values():
            reasons[v] = f"{result.names[w]} has a record already"
        elif value.shape != traced.values[w].shape or value.dtype != traced.values[w].dtype:
            reasons[v] = f"it had another shape or type in the run that was exported: {_kind(traced.values[w])}"
        elif not _match.agree(value, traced.values[w]):
            reasons[v] = "it had another value in the run that was exported"
        else:
            found[v], methods[v] = result.names[w], result.methods[w]
    return found, reasons, methods


def _check(model, onnx_path, out, training, exporter):
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, not a torch.nn.Module")
    if out is None:
        raise TypeError("out is missing: the file to write")
    if training not in ("eval", "preserve"):
        raise ValueError(f"training is {training!r}; 'eval' (BatchNormalization folded) or 'preserve'")
    if exporter not in ("torchscript", "dynamo"):
        raise ValueError(f"exporter is {exporter!r}; 'torchscript' or 'dynamo'")
    for path in (out, onnx_path):
        if path is not None:
            _file.refuse_existing(path)


def _export_options(training, exporter, input_names, output_names, opset_version, dynamic_axes, more):
    options = {}
    if exporter == "torchscript":
        mode = torch.onnx.TrainingMode.PRESERVE if training == "preserve" else torch.onnx.TrainingMode.EVAL
        options = {"training": mode, "do_constant_folding": training == "eval"}
    given = {"input_names": input_names, "output_names": output_names, "opset_version": opset_version,
             "dynamic_axes": dynamic_axes}
    options.update({k: v for k, v in given.items() if v is not None})
    options.update(more or {})
    return options


def save_intermediates(model, inputs, onnx_path=None, out=None, *, input_names=None, output_names=None, training="eval",
                       exporter="torchscript", opset_version=None, dynamic_axes=None, export_options=None,
                       stack_traces=True, fx=True, notes=None):
    """Runs model on inputs in eval mode and writes every intermediate tensor to the recording `out`.

    inputs      a tensor, a tuple of arguments, or a dict of keyword arguments
    onnx_path   also export the model there, and name the records after the values of its graph
    training    'eval': as usual, BatchNormalization folded into Conv; 'preserve': operations stay as they are
    exporter    'torchscript', or 'dynamo' (torch 2.5 and later, with onnxscript)
    The names of the rest are those of torch.onnx.export. Neither file may exist. Returns a Recording.
    """
    _check(model, onnx_path, out, training, exporter)
    if isinstance(inputs, dict):
        args, kwargs = (), _in_order(model, inputs)
    else:
        args, kwargs = (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}
    refused = []

    def refuse(value, why):
        refused.append(f"{value.get('module') or 'model'}/{value.get('op')}{value.get('path', '')}: {why}")
    writer = _file.Writer(out)
    try:
        with _eval_mode(model), torch.random.fork_rng(devices=[]):
            nodes, fx_reason = _traced_by_fx(model) if fx else (None, "not asked")
            random = torch.random.get_rng_state()
            run = _watch.Watcher(model, _sink(writer), refuse)
            run_args, run_kwargs = _copied(args), _copied(kwargs)
            run.add_inputs((*run_args, *run_kwargs.values()))
            with _buffers_kept(model), run.watching():
                model(*run_args, **run_kwargs)
            for v in run.outputs:
                run.values[v].flags.add("output")
            not_seen = _fx.attach(nodes, run, model) if nodes else []
            found, reasons, methods = {}, {}, {}
            if onnx_path is not None:
                torch.random.set_rng_state(random)
                sink = _sink(None) if exporter == "torchscript" else lambda _fake: None
                traced = _watch.Watcher(model, sink, lambda *_: None, tag=True)
                options = _export_options(training, exporter, input_names, output_names, opset_version, dynamic_axes,
                                          export_options)
                with _buffers_kept(model):
                    graph, tags = _export.export(model, _copied(args), _copied(kwargs), onnx_path, exporter, options,
                                                 traced, stack_traces)
                found, reasons, methods = _matched(run, traced, graph, tags)
        keys, tuples, mapped, unmapped = _tuples(run, _input_names(model, args, kwargs, input_names), found, reasons,
                                                 methods)
        result = Recording(os.fspath(out), None if onnx_path is None else os.fspath(onnx_path),
                           [t["key"] for t in tuples], mapped, unmapped, refused,
                           "traced" if nodes else fx_reason, not_seen, run.opaque)
        about = _provenance(result, model, training, exporter, notes)
        writer.finish(keys, {"plumb.recording": "1", "plumb.values": _json(tuples), "plumb.provenance": _json(about)})
    except BaseException:
        writer.abandon()
        raise
    return result


def _json(thing):
    return json.dumps(thing, ensure_ascii=False, separators=(",", ":"))


def _provenance(result, model, training, exporter, notes):
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

"""Models: an ONNX file, bytes, a ModelProto, or text form; opened once, used by one thread at a time."""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _abi, _lib

PathLike = Union[str, "os.PathLike[str]"]


class Model:
    """An ONNX model.

    source    a path (.onnx, .onnxtxt), the bytes of a ModelProto, text form, or an onnx.ModelProto
    base_dir  folder of the external data of a model that comes as bytes
    Calls lock it, so it may be shared between threads.
    """

    def __init__(self, source: Any, base_dir: Optional[PathLike] = None) -> None:
        self.path = ""
        self.lock = threading.RLock()
        data = _bytes_of(source)
        if data is None:
            self.path = os.fspath(source)
            self.handle = _lib.make("model", "plumb_model_open", "plumb_model_close", os.fsencode(self.path))
        else:
            folder = None if base_dir is None else os.fsencode(base_dir)
            self.handle = _lib.make("model", "plumb_model_open_memory", "plumb_model_close", data, len(data), folder)

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The handle for ctypes."""
        return self.handle.pointer

    @property
    def inputs(self) -> List[str]:
        """Names of the inputs, in order."""
        lib = _lib.lib()
        return [_lib.text_of(lib.plumb_model_input_name(self.pointer, i)) for i in range(lib.plumb_model_inputs(self.pointer))]

    @property
    def input_types(self) -> List[str]:
        """ONNX types of the inputs, "float"; "" where it is not known."""
        lib = _lib.lib()
        kinds = [lib.plumb_model_input_dtype(self.pointer, i) for i in range(lib.plumb_model_inputs(self.pointer))]
        return [_lib.text_of(lib.plumb_dtype_name(k)) for k in kinds]

    @property
    def outputs(self) -> List[str]:
        """Names of the outputs, in order."""
        lib = _lib.lib()
        return [_lib.text_of(lib.plumb_model_output_name(self.pointer, i))
                for i in range(lib.plumb_model_outputs(self.pointer))]

    @property
    def output_types(self) -> List[str]:
        """ONNX types of the outputs; "" where it is not known."""
        lib = _lib.lib()
        kinds = [lib.plumb_model_output_dtype(self.pointer, i) for i in range(lib.plumb_model_outputs(self.pointer))]
        return [_lib.text_of(lib.plumb_dtype_name(k)) for k in kinds]

    def _shapes(self, function: Any, n: int) -> List[Optional[Tuple[int, ...]]]:
        found: List[Optional[Tuple[int, ...]]] = []
        for i in range(n):
            rank = int(function(self.pointer, i, None, 0))
            dims = (ctypes.c_int64 * max(rank, 0))()
            function(self.pointer, i, dims, max(rank, 0))
            found.append(None if rank < 0 else tuple(dims))
        return found

    @property
    def input_shapes(self) -> List[Optional[Tuple[int, ...]]]:
        """Shapes of the inputs; -1 is a symbolic or unknown dim, None an unknown rank."""
        lib = _lib.lib()
        return self._shapes(lib.plumb_model_input_dims, lib.plumb_model_inputs(self.pointer))

    @property
    def output_shapes(self) -> List[Optional[Tuple[int, ...]]]:
        """Shapes of the outputs, as `input_shapes`."""
        lib = _lib.lib()
        return self._shapes(lib.plumb_model_output_dims, lib.plumb_model_outputs(self.pointer))

    @property
    def nodes(self) -> List[Dict[str, Any]]:
        """The nodes of the main graph: name, op, domain, inputs and outputs (names; "" = left out)."""
        lib, found = _lib.lib(), []
        for i in range(self.n_nodes):
            row = _lib.fields("plumb_node", "plumb_model_node", self.pointer, i)
            for name, function in (("inputs", lib.plumb_model_node_input), ("outputs", lib.plumb_model_node_output)):
                row[name] = [_lib.text_of(function(self.pointer, i, k)) for k in range(row.pop("n_" + name))]
            found.append(row)
        return found

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(_lib.lib().plumb_model_nodes(self.pointer))

    def to_bytes(self) -> bytes:
        """The serialised ModelProto, with all weights in it."""
        data, n = ctypes.c_void_p(), ctypes.c_size_t()
        with self.lock:
            _lib.call("plumb_model_bytes", self.pointer, ctypes.byref(data), ctypes.byref(n))
        try:
            return ctypes.string_at(data.value or 0, n.value)
        finally:
            _lib.lib().plumb_free(data)

    def restrict(self, function: Optional[str] = None, from_: Optional[str] = None, to: Optional[str] = None) -> "Model":
        """Keeps one local function, or the part between values (comma-separated names). Changes the model itself."""
        given = [None if x is None else x.encode() for x in (function, from_, to)]
        with self.lock:
            _lib.call("plumb_model_restrict", self.pointer, *given)
        return self

    def transform(self, **options: Any) -> str:
        """Evaluation mode (eval=True), autocast (amp="fp16"), double precision (fp64=True), in place; what was changed."""
        made = _lib.options("plumb_transform_options", "PLUMB_OPTIONS_TRANSFORM", options)
        text = ctypes.c_void_p()
        with self.lock:
            _lib.call("plumb_model_transform", self.pointer, ctypes.byref(made), ctypes.byref(text))
        return _lib.take_text(text)

    def convert(self, out: PathLike, **options: Any) -> None:
        """Writes .onnx or .onnxtxt by the name: external=True, backward="joint", dims=["n=2"], max_elements."""
        made = _lib.options("plumb_convert_options", "PLUMB_OPTIONS_CONVERT", options)
        with self.lock:
            _lib.call("plumb_convert", self.pointer, os.fsencode(out), ctypes.byref(made))

    def info(self, **options: Any) -> Dict[str, Any]:
        """What is in it, as `plumb info --json`: nodes=True lists every node, dims=["n=2"] sets sizes."""
        import json
        made = _lib.options("plumb_info_options", "PLUMB_OPTIONS_INFO", dict(options, format=_abi.PLUMB_JSON))
        text = ctypes.c_void_p()
        with self.lock:
            _lib.call("plumb_info", self.pointer, ctypes.byref(made), ctypes.byref(text))
        found: Dict[str, Any] = json.loads(_lib.take_text(text))
        return found

    def __repr__(self) -> str:
        return f"<plumb.Model {self.path or 'in memory'}: {self.n_nodes} nodes, inputs {self.inputs}, outputs {self.outputs}>"


def _bytes_of(source: Any) -> Optional[bytes]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if hasattr(source, "SerializeToString"):  # onnx.ModelProto
        return bytes(source.SerializeToString())
    if isinstance(source, str) and source.lstrip().startswith("<"):
        return source.encode()
    if isinstance(source, (str, os.PathLike)):
        return None
    raise TypeError(f"a model is a path, bytes, an onnx.ModelProto or a plumb.Model, not {type(source).__name__}")


def open_model(source: Any) -> Model:
    """A Model from anything that Model accepts."""
    return source if isinstance(source, Model) else Model(source)


def is_module(source: Any) -> bool:
    """Is it a torch.nn.Module? Does not import torch."""
    import sys
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def is_exported(source: Any) -> bool:
    """Is it a torch.export.ExportedProgram? Does not import torch."""
    return type(source).__name__ == "ExportedProgram" and type(source).__module__.startswith("torch")

"""The small part of ONNX needed without the onnx package: node names, edges and stack traces of a model,
and a copy of it without the frames that plumb put into the traces. Reads protobuf's wire format."""
from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

TAG = "plumb-call"  # file name of the frame around a call; its line is the number of the call

# Fields that hold graphs or nodes, by kind of message: number -> kind. (onnx.proto3, IR version 10)
_NESTED = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {6: "graph", 11: "graph"},
}
_NODE_DOC, _NODE_PROPS = 6, 9
_TRACE = "pkg.torch.onnx.stack_trace"  # of torch 2's exporter, in Python's form: the innermost frame comes last
_TAG_LINE = re.compile(rf"^{TAG}\((\d+)\)", re.M)
_TAG_FRAME = re.compile(rf'\n? *File "{TAG}", line (\d+), in \w+')
_OWN_FRAME = re.compile(rf"^(?:{TAG}\(\d+\): .*|{re.escape(os.path.dirname(os.path.abspath(__file__)))}/.*\(\d+\): .*|"
                        r".*/torch/overrides\.py\(\d+\): __torch_function__|"
                        r".*/torch/overrides\.py\(\d+\): handle_torch_function)$\n?", re.M)


class Node:
    def __init__(self) -> None:
        self.name = self.op = self.doc = ""
        self.inputs: List[str] = []
        self.outputs: List[str] = []
        self.props: Dict[str, str] = {}


class Model:
    def __init__(self) -> None:
        self.nodes: List[Node] = []
        self.inputs: List[str] = []
        self.outputs: List[str] = []
        self.weights: Set[str] = set()
        self.types: Dict[str, Any] = {}  # name of a value: (element type number or None, shape or None)


def _varint(data: memoryview, at: int) -> Tuple[int, int]:
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("not an ONNX model: a number has more than 64 bits")


def fields(data: memoryview) -> Iterator[Tuple[int, int, Any, int, int]]:
    """(field number, wire type, value, start, end) of a message; the value of type 2 is a view of its bytes."""
    at, n = 0, len(data)
    while at < n:
        start = at
        key, at = _varint(data, at)
        wire = key & 7
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 2:
            length, at = _varint(data, at)
            value, at = data[at:at + length], at + length
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            value, at = data[at:at + width], at + width
        else:
            raise ValueError(f"not an ONNX model: invalid wire type {wire}")
        if at > n:
            raise ValueError("not an ONNX model: truncated")
        yield key >> 3, wire, value, start, at


def _text(view: Any) -> str:
    return bytes(view).decode("utf-8", "replace")


def _one_text(message: memoryview, number: int) -> str:
    return next((_text(v) for f, w, v, _, _ in fields(message) if f == number and w == 2), "")


def _read_node(message: memoryview) -> Node:
    node = Node()
    for f, w, v, _, _ in fields(message):
        if w != 2:
            continue
        if f == 1:
            node.inputs.append(_text(v))
        elif f == 2:
            node.outputs.append(_text(v))
        elif f == 3:
            node.name = _text(v)
        elif f == 4:
            node.op = _text(v)
        elif f == _NODE_DOC:
            node.doc = _text(v)
        elif f == 9:
            node.props[_one_text(v, 1)] = _one_text(v, 2)
    return node


def _read_type(value_info: memoryview) -> Tuple[Optional[int], Optional[Tuple[Optional[int], ...]]]:
    """(element type, shape) of a ValueInfoProto; a symbolic dim is None."""
    for f, w, kind, _, _ in fields(value_info):
        if f != 2 or w != 2:
            continue
        for g, _, tensor, _, _ in fields(kind):
            if g != 1:
                continue
            element, shape = None, None
            for h, _, part, _, _ in fields(tensor):
                if h == 1:
                    element = part
                elif h == 2:
                    dims = [{a: b for a, _, b, _, _ in fields(d)} for i, _, d, _, _ in fields(part) if i == 1]
                    shape = tuple(d.get(1) for d in dims)
            return element, shape
    return None, None


def read(data: memoryview) -> Model:
    model = Model()
    graph = next((v for f, w, v, _, _ in fields(data) if f == 7 and w == 2), memoryview(b""))
    for f, w, v, _, _ in fields(graph):
        if w != 2:
            continue
        if f == 1:
            model.nodes.append(_read_node(v))
        elif f == 5:
            model.weights.add(_one_text(v, 8))
        elif f in (11, 12, 13):
            name = _one_text(v, 1)
            model.types[name] = _read_type(v)
            if f != 13:
                (model.inputs if f == 11 else model.outputs).append(name)
    model.inputs = [n for n in model.inputs if n not in model.weights]
    return model


def call_of(node: Node) -> Optional[int]:
    """Number of the call a node was traced in, None if it has no trace. In doc_string the innermost frame comes first."""
    found = _TAG_LINE.search(node.doc)
    if found:
        return int(found[1]) - 1
    frames = _TAG_FRAME.findall(node.props.get(_TRACE, ""))
    return int(frames[-1]) - 1 if frames else None


def _put_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, *parts: Any) -> List[Any]:
    return [_put_varint(number << 3 | 2) + _put_varint(sum(map(len, parts))), *parts]


def _trace_entry(entry: memoryview, keep_traces: bool) -> Optional[List[Any]]:
    """A node's metadata entry that holds a stack trace, without plumb's frames; None for another entry."""
    if _one_text(entry, 1) != _TRACE:
        return None
    if not keep_traces:
        return []
    text = _TAG_FRAME.sub("", _one_text(entry, 2)).encode()
    return _field(_NODE_PROPS, *_field(1, _TRACE.encode()), *_field(2, text))


def pieces(data: memoryview, kind: str = "model", keep_traces: bool = True) -> Iterator[Any]:
    """The bytes of the message, in pieces, without plumb's frames in the stack traces."""
    nested = _NESTED[kind]
    done = 0
    for f, w, v, start, end in fields(data):
        new = None
        if w == 2 and f in nested:
            new = _field(f, *pieces(v, nested[f], keep_traces))
        elif w == 2 and kind == "node" and f == _NODE_DOC:
            new = _field(f, _OWN_FRAME.sub("", _text(v)).encode() if keep_traces else b"")
        elif w == 2 and kind == "node" and f == _NODE_PROPS:
            new = _trace_entry(v, keep_traces)
        if new is None:
            continue
        yield data[done:start]
        yield from new
        done = end
    yield data[done:]

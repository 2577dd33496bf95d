"""Prints what tensor files hold:  show.py FILE…   npy, npz, TensorProto (.pb) or safetensors, read without plumb."""

import json
import struct
import sys

import numpy as np


def load_safetensors(path):
    data = open(path, "rb").read()
    (n,) = struct.unpack("<Q", data[:8])
    dtypes = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
    for name, t in sorted(json.loads(data[8:8 + n]).items()):
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            yield name, np.frombuffer(data[8 + n + begin:8 + n + end], dtypes[t["dtype"]]).reshape(t["shape"])


def load(path):
    if path.endswith(".safetensors"):
        yield from load_safetensors(path)
    elif path.endswith(".npz"):
        with np.load(path) as z:
            yield from sorted(z.items())
    elif path.endswith(".pb"):
        import onnx
        from onnx import numpy_helper

        t = onnx.TensorProto()
        t.ParseFromString(open(path, "rb").read())
        yield t.name, numpy_helper.to_array(t)
    else:
        yield path.split("/")[-1].removesuffix(".npy"), np.load(path)


for path in sys.argv[1:]:
    for name, a in load(path):
        print(name, a.dtype, list(a.shape), a.tolist())

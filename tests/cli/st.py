"""Writes a safetensors file from Python literals, without plumb:  st.py OUT NAME=DTYPE:VALUES…
VALUES is a list, a number (0-d) or an expression of numpy as np:  st.py a.safetensors x=float32:[1,2] n=float32:np.zeros((0,3))
"""
import json
import struct
import sys

import numpy as np

KINDS = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32", "int8": "I8", "uint8": "U8", "bool": "BOOL"}
header, data = {}, b""
nan, inf = np.nan, np.inf
for item in sys.argv[2:]:
    name, rest = item.split("=", 1)
    dtype, values = rest.split(":", 1)
    array = np.asarray(eval(values), dtype)  # the tests' own text
    header[name] = {"dtype": KINDS[dtype], "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
    data += array.tobytes()
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + data)

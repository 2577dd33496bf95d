"""Writes an array:  npy.py OUT DTYPE DIM,DIM… [VALUE]   (VALUE: all of them; else 0, 1, 2, …)
Without numpy, whose import costs ten times what these cases do."""

import math
import struct
import sys

FORMS = {"float32": ("<f4", "f"), "float64": ("<f8", "d"), "int32": ("<i4", "i"), "int64": ("<i8", "q")}

out, dtype, dims = sys.argv[1:4]
descr, code = FORMS[dtype]
shape = tuple(int(d) for d in dims.split(",") if d)
n = math.prod(shape)
values = [float(sys.argv[4])] * n if len(sys.argv) > 4 else range(n)
if code in "iq":
    values = map(int, values)
head = str({"descr": descr, "fortran_order": False, "shape": shape}).encode()
head += b" " * (-(len(head) + 11) % 64) + b"\n"
with open(out, "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{n}{code}", *values))

"""Writes an array:  npy.py OUT DTYPE DIM,DIM… [VALUE]   (VALUE: all of them; else 0, 1, 2, …)"""

import sys

import numpy as np

out, dtype, dims = sys.argv[1:4]
shape = tuple(int(d) for d in dims.split(",") if d)
if len(sys.argv) > 4:
    array = np.full(shape, float(sys.argv[4])).astype(dtype)
else:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
np.save(out, array)

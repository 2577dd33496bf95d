"""Two ONNX test folders in cases/: y = x is right in one and wrong in the other.   make-cases.py MAKE.PY"""

import os
import struct
import subprocess
import sys


def tensor(name, values):
    """A TensorProto of floats: dims, data_type, raw_data, name."""
    data = struct.pack(f"<{len(values)}f", *values)
    return bytes((0x08, len(values), 0x10, 1, 0x4A, len(data))) + data + bytes((0x42, len(name))) + name.encode()


for name, wrong in (("test_right", 0), ("test_wrong", 1)):
    data = f"cases/{name}/test_data_set_0"
    os.makedirs(data)
    subprocess.run([sys.executable, sys.argv[1], "relu", f"cases/{name}/model.onnx"], check=True)
    for part, values in (("input", (1, 2)), ("output", (1 + wrong, 2 + wrong))):
        with open(f"{data}/{part}_0.pb", "wb") as f:
            f.write(tensor(part[0], values))

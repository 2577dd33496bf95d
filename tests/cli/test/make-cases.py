"""Two ONNX test folders in cases/: y = x is right in one and wrong in the other.   make-cases.py MAKE.PY"""

import os
import subprocess
import sys

import numpy as np
from onnx import numpy_helper

for name, wrong in (("test_right", 0), ("test_wrong", 1)):
    data = f"cases/{name}/test_data_set_0"
    os.makedirs(data)
    subprocess.run([sys.executable, sys.argv[1], "relu", f"cases/{name}/model.onnx"], check=True)
    x = np.array([1, 2], dtype=np.float32)
    for part, a in (("input", x), ("output", x + np.float32(wrong))):
        with open(f"{data}/{part}_0.pb", "wb") as f:
            f.write(numpy_helper.from_array(a, name=part[0]).SerializeToString())

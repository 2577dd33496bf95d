# A folder as ONNX's test data has it: input_0.pb, input_1.pb, …
/usr/bin/python3 - <<'EOF'
import os

import numpy as np
from onnx import numpy_helper

os.mkdir("set")
t = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3))
open("set/input_0.pb", "wb").write(t.SerializeToString())
EOF
"$PLUMB" run "$TESTS/small.onnxtxt" --inputs set -o out >log
/usr/bin/python3 "$TESTS/show.py" out/s.npy

# A value that is too large for the device: exit 3 with the device's own words, and the next run works.
source "$TESTS/web_runtime/common.inc"
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, int64[3] n) => (float[2] y) { e = Expand(x, n) s = Sin(e) r = ReduceSum<keepdims = 0>(s) y = Add(r, x) }
TEXT
/usr/bin/python3 - <<'PY'
import numpy as np
for name, dims in (("large", (20000, 12500, 2)), ("small", (2, 3, 2))):
    np.savez(f"{name}.npz", x=np.ones(2, np.float32), n=np.array(dims, np.int64))
PY
"$PLUMB" run m.onnxtxt --inputs large.npz --save none --repro-level 0 --backend web:webgpu >log.txt 2>&1
status=$?
no=$(grep -o 'this browser has no WebGPU adapter' log.txt)
[ -z "$no" ] || { echo "no web:webgpu: $no" >&2; exit 77; }
echo "exit $status"
grep -o 'Buffer size (2000000000) exceeds the max buffer size' log.txt
"$PLUMB" run m.onnxtxt --inputs small.npz --save none --repro-level 0 --backend web:webgpu >/dev/null && echo works

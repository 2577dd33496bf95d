# A repro of a bug on the device runs on the device: its scripts name the provider, as each package calls it.
source "$TESTS/webgpu/common.inc"
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,1] x) => (float[2,1] e) { e = Erf(x) }
TEXT
/usr/bin/python3 -c 'import numpy as np; np.save("x.npy", np.array([[0.830705762], [0.192383915]], np.float32))'
"$PLUMB" minify m.onnxtxt --input x=x.npy --backend "$GPU" --timeout 100 -o r >/dev/null 2>&1
echo "exit $?"
grep -h 'PROVIDERS = \|providers\[\] = ' r/repro_ort.py r/repro_ort.js r/repro_ort.c

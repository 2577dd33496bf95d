# The shader of Erf in the browser is the polynomial of the native provider: it is named, Tanh agrees under the profile of WGSL, and
# WebAssembly of the same version agrees. Nodes without a shader run on the CPU, and that is shown.
source "$TESTS/web_runtime/common.inc"
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[16,16] x) => (float[16,16] y, float[16,16] t, float[16,16] s) { e = Erf(x) y = Add(e, x) t = Tanh(x) s = Shrink<lambd = 0.5>(x) }
TEXT
"$PLUMB" analyze m.onnxtxt --backend web --backend web:webgpu -o s --repro-level 0 >log.txt 2>&1
status=$?
# Chromium may have been built or installed without SwiftShader, the software driver.
no=$(cat log.txt s/2/session.json 2>/dev/null | grep -o 'this browser has no WebGPU adapter' | head -1)
[ -z "$no" ] || { echo "no web:webgpu: $no" >&2; exit 77; }
echo "exit $status"
/usr/bin/python3 - <<'PY'
import json
for n in "12":
    s = json.load(open(f"s/{n}/session.json"))
    print(s["a"].get("precision_profile"), [b["op"] for b in s["blame"]], sorted({p["place"] for p in s["a"].get("placement", [])}))
PY

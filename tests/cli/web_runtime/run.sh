# A model in the browser, on WebAssembly: same bits as eager where the arithmetic is exact, all that the session says of it, a clear
# error for what onnxruntime-web cannot take.
source "$TESTS/web_runtime/common.inc"
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[4,8] x, int64[3] i, bool[2] b) => (float[4,8] y, int64[3] j, bool[2] c) { a = Add(x, x) y = Mul(a, x) j = Add(i, i) c = Not(b) }
TEXT
"$PLUMB" analyze m.onnxtxt --backend web:wasm,simd,threads=2 -o s --json --repro-level 0 >s.json
echo "exit $?"
"$PLUMB" run m.onnxtxt --save none --backend web --json >a.json
"$PLUMB" run m.onnxtxt --save none --json >b.json
/usr/bin/python3 - <<'PY'
import json
s, a, b = (json.load(open(f)) for f in ("s.json", "a.json", "b.json"))
print("same bits as eager:", [x["hash"] == y["hash"] for x, y in zip(a["outputs"], b["outputs"])])
print(a["device"].split(" in ")[0], s["a"]["version"][:2], s["observer_effect"], len(s["blame"]))
PY
cat >t.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (bfloat16[3] x) => (bfloat16[3] y) { y = Identity(x) }
TEXT
"$PLUMB" run t.onnxtxt --save none --repro-level 0 --backend web >/dev/null 2>&1
echo "bfloat16: exit $?"
for spec in web:wasm,webgpu web:threads=0; do
    "$PLUMB" run m.onnxtxt --save none --repro-level 0 --backend "$spec" 2>&1
    echo "exit $?"
done

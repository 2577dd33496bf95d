# The shader of Erf is a polynomial of five terms: beyond what WGSL allows any function, so it is named. Tanh, Sin and Log are
# functions of WGSL and agree under its profile; by the rounding of CPUs they would not.
source "$TESTS/webgpu/common.inc"
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[32,32] x) => (float[32,32] y, float[32,32] t, float[32,32] s, float[32,32] l, float[32,32] c) {
  e = Erf(x) y = Add(e, x) t = Tanh(x) s = Sin(x) c = Cos(x) a = Abs(x) l = Log(a)
}
TEXT
"$PLUMB" analyze m.onnxtxt --backend "$GPU" -o s --json --repro-level 0 >s.json
echo "exit $?"
"$PLUMB" analyze m.onnxtxt --backend "$GPU" -o s2 --json --repro-level 0 --precision-profile ieee >i.json
"$PLUMB" report s --format md >/dev/null && echo readable
"$PLUMB" analyze m.onnxtxt --backend "$GPU" -o s3 --precision-profile wgls --repro-level 0 2>&1
/usr/bin/python3 - <<'PY'
import json
s, i = json.load(open("s.json")), json.load(open("i.json"))
print(s["a"]["precision_profile"], [b["op"] for b in s["blame"]], s["observer_effect"])
print(i["a"]["precision_profile"], {"Erf", "Tanh", "Sin", "Cos"} <= {b["op"] for b in i["blame"]})
print(json.load(open("s/session.json"))["a"]["placement"][0]["place"])
PY

# A model on the device: its outputs, the device and where each node ran; a node that no shader has falls back to the CPU.
source "$TESTS/webgpu/common.inc"
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[4,8] x) => (float[4,8] y) {
  [a] a = Add(x, x)
  [shrink] s = Shrink<lambd = 0.5>(a)
  [b] y = Mul(s, x)
}
TEXT
"$PLUMB" run m.onnxtxt --save none --backend "$GPU" | sed "1d; s|^device: .*|device: D|; s|^load.*|load|"
"$PLUMB" run m.onnxtxt --save none --backend "$GPU" --json >a.json
"$PLUMB" run m.onnxtxt --save none --json >b.json
/usr/bin/python3 - <<'PY'
import json
a, b = json.load(open("a.json")), json.load(open("b.json"))
print("same bits as eager:", a["outputs"][0]["hash"] == b["outputs"][0]["hash"])
print(bool(a["device"]), "device" in b)
cpu = [p for p in a["placement"] if p["place"] == "CPU"]
print(cpu)
t = a["timing"]
print("submit and wait:", 0 < t["submit_ms"] + t["wait_ms"] <= t["first_ms"] + 1, "wait_ms" in b["timing"])
PY
"$PLUMB" run m.onnxtxt --backend "$GPU" --accuracy | head -1

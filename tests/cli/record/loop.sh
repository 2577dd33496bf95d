# A body that runs three times: call numbers.
cat >loop.onnxtxt <<'END'
<ir_version: 8, opset_import: ["": 16]>
g (float[2] x) => (float[2] y) {
  n = Constant <value = int64 {3}> ()
  c = Constant <value = bool {1}> ()
  y = Loop <body = b (int64 i, bool cin, float[2] a) => (bool cout, float[2] o) {
    cout = Identity(cin)
    o = Add(a, x)
  }> (n, c, x)
}
END
"$PLUMB" record loop.onnxtxt --fill ones --op Add --op Loop -o out.safetensors >log
/usr/bin/python3 "$TESTS/show.py" out.safetensors
/usr/bin/python3 - <<'END'
import json, struct
data = open("out.safetensors", "rb").read()
(n,) = struct.unpack("<Q", data[:8])
for v in json.loads(json.loads(data[8:8 + n])["__metadata__"]["plumb.values"]):
    print(v["key"], v["value"], v.get("call", 0), v.get("graph", ""), v["op"], v["flags"])
END

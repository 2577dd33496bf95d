# Pairs by hand: B is a recording under names that say nothing, all alike in shape.
"$PLUMB" record "$TESTS/net.onnxtxt" -o good.safetensors >/dev/null
/usr/bin/python3 - <<'PY'
import json, struct
raw = open("good.safetensors", "rb").read()
n, = struct.unpack("<Q", raw[:8])
head = json.loads(raw[8:8 + n])
head.pop("__metadata__", None)
names = {k: ("mystery" if k == "s" else k) for k in head}
data = bytearray(raw[8 + n:])
begin = head["s"]["data_offsets"][0]
data[begin:begin + 4] = struct.pack("<f", struct.unpack("<f", data[begin:begin + 4])[0] * 1.000001)
text = json.dumps({names[k]: v for k, v in head.items()}).encode()
open("strange.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(data))
PY
echo '{"plumb.map": 1, "pairs": [{"a": "s", "b": "mystery"}]}' >map.json
show() { /usr/bin/python3 -c 'import json; s = json.load(open("log.json")); p = [p for p in s["sync_points"] if p["value"] == "s"][0]; print(p["counterpart"], p["paired_by"], [l["value"] for l in s["left_over"]])'; }
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:fuse=off --reference strange.safetensors --map map.json --json --save none -o a >log.json
echo "exit $?"; show
echo '{"plumb.map": 1, "pairs": [{"a": "s", "b": null}]}' >alone.json
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:fuse=off --reference strange.safetensors --map alone.json --json --save none -o b >log.json
echo "exit $?"; show
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit --map map.json -o c 2>&1
echo "exit $?"

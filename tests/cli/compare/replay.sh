# A fault in the compiler: named with the model at hand, and from two recordings.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[4,8] x) => (float[4,8] y) { a = Sigmoid(x)  b = Mul(a, x)  c = Tanh(b)  y = Add(c, x) }
TEXT
"$PLUMB" record m.onnxtxt -o good.safetensors >log
"$PLUMB" record m.onnxtxt --backend jit --inject offset@Tanh -o bad.safetensors >log || exit 77
for pair in "bad.safetensors good.safetensors" "bad.safetensors m.onnxtxt"; do
    "$PLUMB" compare $pair --no-session --json >out.json
    echo "exit $?"
    /usr/bin/python3 - <<'END'
import json
s = json.load(open("out.json"))
print(s["first_divergence"], [(b["op"], b["value"], b["kind"].split()[0]) for b in s["blame"]], [(p["value"], p["verdict"].replace("within", "same")) for p in s["sync_points"]], s["coverage"]["replayed"])
END
done

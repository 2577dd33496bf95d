# On a backend behind the guard: the model's names, provenance, and a failure that leaves nothing.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[4,8] x) => (float[4,8] y) { a = Sigmoid(x)  b = Mul(a, x)  y = Tanh(b) }
TEXT
"$PLUMB" record m.onnxtxt --backend jit:fuse=off -o jit.safetensors >log || cat log
"$PLUMB" record m.onnxtxt --backend cmd:"$ROOT/examples/cmd/run_plumb.sh" -o cmd.safetensors | sed 's/([0-9.]* ms)/(T ms)/'
"$PLUMB" record m.onnxtxt --backend cmd:/bin/false -o none.safetensors
echo "exit $?"
"$PLUMB" record m.onnxtxt --backend jit --inject hang@Tanh --timeout 1 -o none.safetensors 2>log
echo "exit $?"
ls ./*.safetensors
/usr/bin/python3 - <<'END'
import json, struct
for name in ("jit", "cmd"):
    f = open(f"{name}.safetensors", "rb")
    (n,) = struct.unpack("<Q", f.read(8))
    meta = json.loads(f.read(n))["__metadata__"]
    p = json.loads(meta["plumb.provenance"])
    print(p["backend"], p["options"]["spec"].split("/")[0], p["options"]["observer_effect"], sorted(v["value"] for v in json.loads(meta["plumb.values"])))
END

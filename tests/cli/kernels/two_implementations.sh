# Own kernels against a library's: two implementations that analyze and compare set beside each other, told apart by their versions.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3,10,10] x, float[16,3,3,3] w, float[1024,7] v) => (float[2,7] y) {
    c = Conv<kernel_shape=[3,3]>(x, w)
    r = Relu(c)
    f = Flatten(r)
    y = MatMul(f, v)
}
TEXT
"$PLUMB" analyze m.onnxtxt --backend eager:kernels=blas --reference eager:kernels=onednn -o session | sed -n 's/[0-9.]* \([a-z]*\) (\(OpenBLAS\|oneDNN\)[^)]*)/\1 (\2 …)/; 1,3p'
"$PLUMB" analyze m.onnxtxt --backend jit:kernels=onednn -o jit | sed -n 's/[0-9.]* \([a-z]*\) (\(OpenBLAS\|oneDNN\)[^)]*)/\1 (\2 …)/; 1,2p'
for kernels in own blas; do "$PLUMB" record m.onnxtxt --backend eager:kernels=$kernels -o $kernels.safetensors >log || cat log; done
PLUMB_KERNELS=blas "$PLUMB" record m.onnxtxt -o env.safetensors >log || cat log
"$PLUMB" compare own.safetensors blas.safetensors -o s2 | head -1
/usr/bin/python3 - <<'END'
import json, struct
seen = {}
for name in ("own", "blas", "env"):
    f = open(f"{name}.safetensors", "rb")
    (n,) = struct.unpack("<Q", f.read(8))
    head = json.loads(f.read(n))
    p = json.loads(head["__metadata__"]["plumb.provenance"])
    at = head["y"]["data_offsets"]
    body = f.read()
    seen[name] = body[at[0]:at[1]]
    print(name, p["options"]["spec"], p["backend_version"].split(" (")[0].partition(" ")[2] or "own")
print("by variable as by spec:", seen["env"] == seen["blas"])
END

# Old versions of ONNX Runtime find a model's external data when it is recorded from another folder, where other data has the same name.
libs=$(ls "$ROOT"/.cache/ort-1.1[2-9].*/libonnxruntime.so.1 "$ROOT"/.cache/ort-1.1[2-9].*/package/bin/napi-v*/linux/x64/libonnxruntime.so* 2>/dev/null)
[ -n "$libs" ] || { echo "no ONNX Runtime before 1.20 in .cache (tools/fetch-ort)" >&2; exit 77; }
cat >m.onnxtxt <<TEXT
<ir_version: 7, opset_import: ["" : 13]>
g (float[2000] x) => (float[2000] y) <float[2000] w = {$(seq -s, 2000)}> { a = Mul(x, w) b = Abs(a) y = Sqrt(b) }
TEXT
mkdir sub
"$PLUMB" convert m.onnxtxt sub/m.onnx --external >/dev/null
truncate -s 100000 m.onnx.data
ls sub
for lib in $libs; do
    "$PLUMB" analyze sub/m.onnx --backend "ort:lib=$lib" -o s | sed -n '1p;/values:/p'
    rm -r s
done | sort -u

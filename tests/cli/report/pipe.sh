# A session of a stranger that names a pipe as its recording: nobody waits for it.
cat > m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x) => (float[2,3] y) { a = Neg(x) y = Relu(a) }
M
"$PLUMB" record m.onnxtxt -o a.safetensors >/dev/null && "$PLUMB" record m.onnxtxt -o b.safetensors >/dev/null || exit
"$PLUMB" compare a.safetensors b.safetensors -o s >/dev/null || exit
rm a.safetensors && mkfifo a.safetensors
timeout 20 "$PLUMB" report s -o r.html

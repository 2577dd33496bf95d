# A program that leaves its intermediates in the first of two runs only: the recording does not take those of the plain run for its own.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[3] y) { a = Neg(x) b = Neg(a) y = Identity(b) }
TEXT
cat >once.sh <<'SH'
#!/bin/bash
cp "$1/test_data_set_0/input_0.pb" "$1/test_data_set_0/output_0.pb"
[ -f done ] || cp stale.safetensors "$1/intermediates.safetensors"
touch done
SH
chmod +x once.sh
"$PLUMB" run m.onnxtxt --to a -o stale.safetensors >/dev/null
"$PLUMB" record m.onnxtxt --backend cmd:./once.sh -o r.safetensors | head -1 | cut -d" " -f1-2

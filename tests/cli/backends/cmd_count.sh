# A program that leaves one output too many.
cat >many.sh <<'SH'
#!/bin/bash
"$PLUMB_EXAMPLE" "$1" && cp "$1/test_data_set_0/output_0.pb" "$1/test_data_set_0/output_1.pb"
SH
chmod +x many.sh
export PLUMB PLUMB_EXAMPLE="$ROOT/examples/cmd/run_plumb.sh"
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[3] y) { y = Relu(x) }
TEXT
"$PLUMB" run m.onnxtxt --save none --backend cmd:./many.sh

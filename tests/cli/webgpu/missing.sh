# Without a driver: what is missing and how to get it, and exit 2; another provider is not asked for one.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[3] y) { y = Relu(x) }
TEXT
unset VK_ICD_FILENAMES VK_DRIVER_FILES
export PLUMB_SWIFTSHADER=$PWD/none
"$PLUMB" backends | grep -q '^ort  *1' || { echo "ONNX Runtime not found" >&2; exit 77; }
"$PLUMB" run m.onnxtxt --save none --repro-level 0 --backend ort:providers=WebGPU,device=software 2>&1
echo "exit $?"
"$PLUMB" backends --json | grep -c 'install chromium' | sed 's/^[1-9]$/told/'
"$PLUMB" run m.onnxtxt --save none --repro-level 0 --backend ort:device=software 2>&1
echo "exit $?"

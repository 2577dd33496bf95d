# Without the browser or the runtime: what is missing and how to get it, and exit 2.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[3] y) { y = Relu(x) }
TEXT
PLUMB_CHROMIUM=$PWD/none "$PLUMB" run m.onnxtxt --save none --repro-level 0 --backend web 2>&1 | sed "s|$PWD|DIR|"
echo "exit ${PIPESTATUS[0]}"
PLUMB_CHROMIUM=/bin/true PLUMB_ORT_WEB=$PWD "$PLUMB" run m.onnxtxt --save none --repro-level 0 --backend web:webgpu 2>&1
echo "exit $?"
PLUMB_CHROMIUM=$PWD/none "$PLUMB" backends --json | grep -c 'install chromium' | sed 's/^[1-9]$/told/'

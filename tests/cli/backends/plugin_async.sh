here=$(dirname "$PLUMB")
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[3] y) { y = Relu(x) }
TEXT
"$PLUMB" run m.onnxtxt --save none --backend "plugin:$here/relu_plugin.so,backend=relu-careless,fault" --json | grep -c hash
"$PLUMB" run m.onnxtxt --save none --backend "plugin:$here/relu_plugin.so,backend=relu-async,fault"

# A part without operations hands its inputs on, and a start that nothing reads changes nothing: neither may pass.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[3] y) { a = Relu(x) b = Exp(a) y = Neg(b) }
TEXT
try() { "$PLUMB" run m.onnxtxt --accuracy --backend jit "$@" 2>&1 | grep -v '^load\|same'; echo "exit ${PIPESTATUS[0]}"; }
try --to x
try --from y
try --from b --to a
try --from b --to b
try --from a --to b
try --from x
"$PLUMB" analyze m.onnxtxt --backend jit --to x -o s
echo "exit $?"
"$PLUMB" convert m.onnxtxt part.onnx --from y
echo "exit $?"

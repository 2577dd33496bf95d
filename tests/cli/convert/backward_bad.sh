"$PLUMB" convert "$TESTS/small.onnxtxt" a.onnx --backward=sideways
echo "exit $?"
cat >ints.onnxtxt <<'X'
<ir_version: 8, opset_import: ["" : 17]>
g (int64[2] x) => (int64[2] y) { y = Add(x, x) }
X
"$PLUMB" convert ints.onnxtxt a.onnx --backward=joint
echo "exit $?"
cat >loop.onnxtxt <<'X'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, int64 m) => (float[2] y)
{ y = Loop(m, "", x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) { d = Identity(c) w = Mul(v, v) }> }
X
"$PLUMB" convert loop.onnxtxt a.onnx --backward=joint
echo "exit $?"
ls a.onnx 2>/dev/null || true

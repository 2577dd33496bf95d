# Gradients of what a model may ask for but nobody means: steps beyond all axes, pads without end, many lengths of 0 and 1.
joint() { timeout 20 "$PLUMB" convert m.onnxtxt joint.onnxtxt --backward joint; echo "exit $?"; rm -f joint.onnxtxt; }
slice() {
    cat > m.onnxtxt <<M
<ir_version: 9, opset_import: ["" : 19]>
g (float[10] x) => (float[1] y) <int64[1] s = {$1}, int64[1] e = {$2}, int64[1] a = {0}, int64[1] t = {$3}> { y = Slice(x, s, e, a, t) }
M
    "$PLUMB" run m.onnxtxt --backward --save none | grep '^d_x'
}
slice 0 9223372036854775807 4611686018427387904
slice 9 -9223372036854775808 -9223372036854775808
for mode in edge wrap reflect; do
    cat > m.onnxtxt <<M
<ir_version: 9, opset_import: ["" : 19]>
g (float[2,2] x) => (y) <int64[4] p = {0, 0, 0, 1099511627776}> { y = Pad<mode="$mode">(x, p) }
M
    joint
done
cat > m.onnxtxt <<'M'
<ir_version: 9, opset_import: ["" : 19]>
g (float[2] x) => (y) <int64[2] p = {0, 100000}> { y = Pad<mode="wrap">(x, p) }
M
joint
cat > m.onnxtxt <<M
<ir_version: 9, opset_import: ["" : 19]>
g (float[2,300,3] x, float[2,4,3] w, float[2,4,1] r) => (y) <int32[300] n = {$(seq -s, 300 | sed 's/[0-9]*[02468]\b/0/g; s/[0-9]*[13579]\b/1/g')}> {
  y = LSTM<hidden_size=1, direction="bidirectional">(x, w, r, "", n)
}
M
joint

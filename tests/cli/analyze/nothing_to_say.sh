# AGREE is a promise: where nothing independent was compared there is nothing to say, and that is exit 2.
cat >m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,4] x) => (float[2,4] y) { a = Tanh(x)  y = Sigmoid(a) }
M
cp m.onnxtxt copy.onnxtxt
try() { "$PLUMB" "$@" >log 2>&1; code=$?; grep -hE '^(AGREE|INCONCLUSIVE|plumb )' log; echo "exit $code"; }
try analyze m.onnxtxt -o s
try analyze m.onnxtxt --backend eager --reference copy.onnxtxt -o s
try run m.onnxtxt --accuracy
try compare m.onnxtxt copy.onnxtxt --no-session
try analyze m.onnxtxt --inject scale@Tanh -o s1
try analyze m.onnxtxt --reference eager:fp64 -o s2
# Only the input is paired: every format says so.
/usr/bin/python3 -c 'import numpy as np; x = np.random.RandomState(0).randn(2, 4).astype("f"); np.savez("engine.npz", x=x, q0=np.ones((3, 5, 7), "f"), q1=np.zeros((9, 2), "f"))'
try compare engine.npz m.onnxtxt --no-session
for format in junit github sarif; do
    "$PLUMB" compare engine.npz m.onnxtxt --no-session --format $format >log; echo "exit $?"
    grep -oE 'failures="[0-9]+"|^::error title=plumb inconclusive|"ruleId": "inconclusive"' log
done
# Random numbers cannot be compared.
cat >r.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,4] x) => (float[2,4] y) { r = RandomNormal<shape=[2,4], seed=1.0>()  y = Add(x, r) }
M
try analyze r.onnxtxt --backend jit -o s3

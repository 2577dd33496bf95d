# ONNX Runtime's CPU has no float16 products: it computes them in float32 and drops the model's own Cast down with its Cast up. No fault; a scaled weight is one.
cat >net.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
net (float[8,32] x, float[32,48] w, float[48,16] v) => (float[8,16] y)
{
  [first] h = MatMul (x, w)
  [act] a = Tanh (h)
  [second] y = MatMul (a, v)
}
M
sed 's/  \[act\] a = Tanh (h)/  [grow] g = Mul (h, more)\n  [act] a = Tanh (g)/; s/^{/<float more = {1.01}>\n{/' net.onnxtxt >grown.onnxtxt
for m in net grown; do "$PLUMB" convert --amp fp16 $m.onnxtxt $m-16.onnx >/dev/null; done
"$PLUMB" analyze net-16.onnx --backend ort --save none -o clean | sed -n '1s/:.*//p'
"$PLUMB" analyze grown-16.onnx --reference net-16.onnx --backend ort --json --save none -o faulty >log.json
echo "exit $?"
/usr/bin/python3 "$TESTS/blame.py" verdict <log.json

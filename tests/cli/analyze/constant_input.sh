# Inputs that hide faults are said so.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit --fill ones --json --save none -o out >log.json
/usr/bin/python3 "$TESTS/blame.py" verdict notes.0 <log.json
# So are random ones that do not reach what an operator is there for; files are taken as they are.
cat >clip.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
clip (float[4,16] x) => (float[4,16] y)
<float lo = {-6.0}, float hi = {6.0}>
{
  t = Clip (x, lo, hi)
  r = Relu (t)
  y = LeakyRelu (r)
}
M
for range in -1:1 -7:7; do
    "$PLUMB" analyze clip.onnxtxt --backend jit --range x=$range --save none -o "range$range" | grep "^note"
done
"$PLUMB" analyze clip.onnxtxt --backend jit --range x=-1:1 --skip-determinism --save none -o fewer | grep "^note"
/usr/bin/python3 -c 'import numpy as np; np.save("x.npy", np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16))'
"$PLUMB" analyze clip.onnxtxt --backend jit --input x=x.npy --save none -o file | grep -c "^note"
exit 0

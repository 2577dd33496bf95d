# Inf that a Cast to float16 makes is what the model says, in run as in analyze; an Inf that arithmetic makes is a finding.
cat >cast.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) { h = Cast<to=10>(x)  w = Cast<to=1>(h)  y = Neg(w) }
M
cat >sum.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) { s = Mul(x, x)  y = Sqrt(s) }
M
/usr/bin/python3 -c 'import numpy as np; np.save("a.npy", np.array([1, 1e6], "f")); np.save("b.npy", np.array([1, 1e30], "f"))'
for m in "cast a" "sum b"; do
    set -- $m
    "$PLUMB" run $1.onnxtxt --accuracy --backend jit --input x=$2.npy 2>/dev/null | head -2; echo "run: exit ${PIPESTATUS[0]}"
    "$PLUMB" analyze $1.onnxtxt --backend jit --input x=$2.npy -o s$1 >log 2>&1; echo "analyze: exit $?"
done

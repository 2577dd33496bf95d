# Another model as the reference: what has its name on the other side is not taken for something else by its place.
head='<ir_version: 8, opset_import: ["" : 17]>'
echo "$head g (float[4] x, float[4] z) => (float[4] p, float[4] q) { p = Sin(x) q = Cos(z) }" >a.onnxtxt
echo "$head g (float[4] z) => (float[4] q, float[4] r) { q = Cos(z) r = Exp(z) }" >b.onnxtxt
echo "$head g (float[4] z, float[4] w) => (float[4] q, float[4] r) { q = Cos(z) r = Exp(w) }" >c.onnxtxt
echo "$head g (float[4] u, float[4] v) => (float[4] s, float[4] t) { s = Sin(u) t = Cos(v) }" >d.onnxtxt
for other in b c d; do
    "$PLUMB" run a.onnxtxt --accuracy --reference $other.onnxtxt --backend jit --save none --repro-level 0 2>&1 | grep -v '^load'
done

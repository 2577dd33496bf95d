# NaN or Inf on both sides where fp64 is finite is a finding; a number beyond the type, and a mask of -Inf inside, are not.
head='<ir_version: 8, opset_import: ["" : 17]>'
echo "$head"' g (float16[2,4] x) => (float16[2,4] y) <float16 c = {40000.0}> { a = Add(c, c) b = Mul(x, a) y = Div(b, a) }' >bad.onnxtxt
echo "$head"' g (float[2,4] x) => (float16[2,4] y) <float c = {1000000.0}> { a = Mul(x, c) y = Cast<to=10>(a) }' >beyond.onnxtxt
echo "$head"' g (float[2,4] x) => (float[2,4] y) <float c = {-3.0e38}> { a = Add(c, c) m = Min(x, a) e = Exp(m) y = Add(e, x) }' >mask.onnxtxt
for m in bad beyond mask; do
    "$PLUMB" analyze $m.onnxtxt --backend jit:fuse=off --fill ones --json --save none --repro-level 0 -o $m >log.json; echo "$m exit $?"
    /usr/bin/python3 -c 'import json; s = json.load(open("log.json")); print(s["verdict"], s["at_fault"], s["first_divergence"])'
    "$PLUMB" run $m.onnxtxt --accuracy --backend jit --fill ones --repro-level 0 >log 2>&1; echo "exit $?"
done

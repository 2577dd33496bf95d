# Gradients in float16: averages over more than 65504 elements (0.5 / 40000), parameters that are wider
# than what they scale (1 / (24 sqrt(1.00001)), 8 / 24 and 32 / 128 of ones); a window beyond all channels ends.
run() { timeout 20 "$PLUMB" run m.onnxtxt --backward --save none --fill ones | sed '/^load /d; /^ok$/d; /^y:/d'; }
cat > m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float16[1,2,200,200] x) => (float16[1,2,1,1] y) { y = GlobalAveragePool(x) }
M
run
cat > m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float16[1,2,200,200] x) => (float16[2] y) { y = ReduceMean<axes=[0,2,3], keepdims=0>(x) }
M
run
cat > m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float16[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float16[2,3,4] y) { y = BatchNormalization(x, s, b, m, v) }
M
run
cat > m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float16[2,4,4,4] x, float[4] s, float[4] b) => (float16[2,4,4,4] y) { y = com.microsoft.GroupNorm<groups=2, activation=0>(x, s, b) }
M
run
cat > m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4,2,2] x) => (float[1,4,2,2] y) { y = LRN<size=9223372036854775807>(x) }
M
run
timeout 20 "$PLUMB" analyze m.onnxtxt --backend jit --skip-determinism -o s > log; echo "exit $?"

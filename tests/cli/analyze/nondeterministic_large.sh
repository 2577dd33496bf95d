# Large values of the second recording come as hashes from the guard: a change is seen all the same, and told.
cat >m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[4,65536] x) => (float[4] y) {
  h = Relu(x)
  z = Neg(h)
  y = ReduceSum<keepdims = 0>(z, axes)
}
M
sed -i 's/^g (float\[4,65536\] x) => (float\[4\] y) {/g (float[4,65536] x) => (float[4] y)\n<int64[1] axes = {1}>\n{/' m.onnxtxt
"$PLUMB" analyze m.onnxtxt --backend jit:fuse=off --inject nondeterministic@Relu -q -o s >out 2>err || code=$?
grep -E "NONDETERMINISTIC|nondeterministic" out | head -2 | sed 's/[0-9a-f]\{8\} != .*$/HASH/'
exit "${code:-0}"

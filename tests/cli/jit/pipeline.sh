# A long chain in a long row is a pipeline (jit_pipeline.c); in a short row or without vectors of 8 floats it is a plain loop.
export XDG_CACHE_HOME=$PWD/cache
chain='a = Sigmoid(x) b = Sqrt(a) c = Div(x, b) d = Neg(c) e = Exp(d) f = Add(e, one) g1 = Div(c, f) h = Tanh(g1)'
for n in 300 5000; do
    echo "<ir_version: 8, opset_import: [\"\" : 17]> net (float[$n] x) => (float[$n] y) <float one = {1}> { $chain y = Mul(h, x) }" >"long$n.onnxtxt"
    echo "<ir_version: 8, opset_import: [\"\" : 17]> net (float[$n] x) => (float[1] y) <float one = {1}> { $chain y = ReduceSum(h) }" >"sum$n.onnxtxt"
done
pipelines() {
    "$PLUMB" run "$1.onnxtxt" --backend jit --debug-dir "$1" >/dev/null || exit
    sed '1,/step 0:/d' "$1/5-model.c" | grep -c 'int64_t rounds'
}
"$PLUMB" backends | grep -q "own kernels: avx" && expected=1 || expected=0
[ "$(pipelines long5000)" = $expected ] && echo "a long row"
echo "short rows: $(pipelines long300) $(pipelines sum300)"

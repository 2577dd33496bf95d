# A device that is lost, hangs or runs out of memory: exit 3 with the cause, nothing left running, and the next run works.
# slow: four processes with a GPU in software, a minute under sanitizers on an idle machine
source "$TESTS/webgpu/common.inc"
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[N,N] x) => (float[N,N] y) { a = MatMul(x, x) y = Add(a, x) }
TEXT
"$PLUMB" run m.onnxtxt --dim N=2000 --save none --repro-level 0 --backend "$GPU" --timeout 0.2 2>&1 | sed 's/ in [a-z]*;.*//; s/ in [a-z]*$//'
echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run m.onnxtxt --dim N=3000 --save none --repro-level 0 --backend "$GPU" --memory-limit 100 2>&1 | sed 's/ in [a-z]*;.*//; s/ in [a-z]*$//'
echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run m.onnxtxt --dim N=3000 --repeat 1000 --save none --repro-level 0 --backend "$GPU" >lost.txt 2>&1 &
plumb=$!
guard= child=
for _ in $(seq 600); do
    # the eldest: the guard adopts what its child leaves behind
    guard=$(pgrep -o -P $plumb plumb-guard) && child=$(pgrep -o -P "$guard") && break
    sleep 0.05
done
kill -9 $child
wait $plumb
echo "exit $?"
sed 's/ in [a-z]*;.*//; s/ in [a-z]*$//' lost.txt
kill -0 $guard 2>/dev/null && echo "guard left"
kill -0 $child 2>/dev/null && echo "child left"
# More than a buffer of the device may have; nothing of it is written here.
cat >large.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) <int64[3] n = {40000, 20000, 2}> { e = Expand(x, n) s = Sin(e) r = ReduceSum<keepdims = 0>(s) y = Add(r, x) }
TEXT
"$PLUMB" run large.onnxtxt --save none --repro-level 0 --backend "$GPU" 2>&1 | grep -o 'Buffer size (6400000000) exceeds the max buffer size'
echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run m.onnxtxt --dim N=4 --save none --backend "$GPU" >/dev/null && echo works

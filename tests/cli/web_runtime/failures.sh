# A browser that is killed, takes too long or too much memory: exit 3 with the cause, no process and no folder left, and the next run works.
source "$TESTS/web_runtime/common.inc"
export TMPDIR=$PWD/tmp
mkdir tmp
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[N,N] x) => (float[N,N] y) { a = MatMul(x, x) b = MatMul(a, a) c = MatMul(b, b) y = MatMul(c, c) }
TEXT
"$PLUMB" run m.onnxtxt --dim N=2500 --save none --repro-level 0 --backend web --timeout 0.3 2>&1 | sed 's/ in [a-z]*;.*//; s/ in [a-z]*$//'
echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run m.onnxtxt --dim N=4 --save none --repro-level 0 --backend web --memory-limit 100 2>&1 | sed 's/ in [a-z]*$//'
echo "exit ${PIPESTATUS[0]}"
# so often that no machine is done before it is killed
"$PLUMB" run m.onnxtxt --dim N=2500 --repeat 1000 --save none --repro-level 0 --backend web >lost.txt 2>&1 &
plumb=$!
browser=
for _ in $(seq 600); do
    # the guarded child's child is the browser; its arguments say so (the guard also adopts what the browser left behind)
    guard=$(pgrep -o -P $plumb plumb-guard) && child=$(pgrep -d, -P "$guard") && browser=$(pgrep -o -P "$child" -f remote-debugging-pipe) && break
    sleep 0.05
done
kill -9 $browser
wait $plumb
echo "exit $?"
cat lost.txt
for _ in $(seq 600); do
    [ -z "$(pgrep -f "user-data-dir=$TMPDIR")" ] && break
    sleep 0.05
done
pgrep -f "user-data-dir=$TMPDIR" >/dev/null && echo "browser left"
ls tmp
"$PLUMB" run m.onnxtxt --dim N=4 --save none --backend web >/dev/null && echo works
ls tmp

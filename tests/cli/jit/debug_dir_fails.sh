# Debug output that cannot be written is an error, but not before what it was wanted for: a crash or a wrong input is still what is told.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[4,8] x) => (float[4,8] y) { a = Sigmoid(x)  y = Tanh(a) }
TEXT
touch file
for option in debug-dir explain; do
    "$PLUMB" run m.onnxtxt --backend jit:$option=file/below -o out 2>&1 | sed 's/^\(plumb run: [^:]*\): .*file\/below/\1: … file\/below/'
    echo "exit ${PIPESTATUS[0]}"
    "$PLUMB" run m.onnxtxt --backend jit:$option=file/below --inject crash@Tanh --repro-level 0 -o out 2>&1 | grep -o -i 'crash[a-z]*\|signal [0-9]*\|Segmentation fault' | head -1
    echo "exit ${PIPESTATUS[0]}"
done
[ -e out ] && echo "out was written"
true

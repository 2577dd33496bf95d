# A fault that shows only with one pass of the compiler: --bisect names the pass; one that always shows has none.
for fault in epilogue/scale@Tanh reuse/offset@Mul:2 lower/nan@Sigmoid fuse/crash@Relu scale@Tanh; do
    "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend "jit:inject=$fault" --bisect --json --save none --repro-level 0 -o "out-${fault%%[/@]*}" >log.json
    echo "$fault: exit $?"
    /usr/bin/python3 "$TESTS/blame.py" bisect.pass bisect.reason blame.0.op <log.json
done
# What the spec leaves out stays out: the pass that is left is to blame, not the two.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=epilogue/scale@Tanh,inject=reuse/offset@Mul:2,disable=epilogue --bisect --json --save none --repro-level 0 -o out-two >log.json
echo "two: exit $?"
/usr/bin/python3 "$TESTS/blame.py" bisect.pass bisect.reason blame.0.op <log.json

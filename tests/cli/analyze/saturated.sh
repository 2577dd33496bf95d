# u8 x s8 pairs that are clipped at 16 bits (x86 without VNNI) are a kind of their own: kernels=saturate computes so on any CPU.
# An integer operator, and the sums of a QDQ model, of which a fused runtime shows only codes. With weights of 7 bits nothing is clipped.
for op in Conv MatMul; do
    for form in qlinear qdq; do /usr/bin/python3 "$TESTS/make.py" quantised:$form,$op $form-$op.onnx; done
    /usr/bin/python3 "$TESTS/make.py" quantised:qlinear,$op,64 narrow-$op.onnx
    "$PLUMB" analyze qlinear-$op.onnx --range x=0:255 --backend eager:kernels=saturate --json --save none -o a-$op >log.json
    echo "$op: exit $?"
    /usr/bin/python3 "$TESTS/blame.py" <log.json
    /usr/bin/python3 "$TESTS/blame.py" blame.0.reason <log.json | sed 's/.*remedy/remedy/'
    "$PLUMB" record qlinear-$op.onnx --range x=0:255 --backend eager:kernels=saturate -o $op.safetensors >/dev/null
    "$PLUMB" compare $op.safetensors qdq-$op.onnx --json -o c-$op >log.json
    echo "QDQ: exit $?"
    /usr/bin/python3 "$TESTS/blame.py" <log.json
    "$PLUMB" analyze narrow-$op.onnx --range x=0:255 --backend eager:kernels=saturate --save none -o n-$op | sed -n '1s/:.*//p'
done
# another fault on the same operator keeps its own kind
"$PLUMB" analyze qlinear-Conv.onnx --range x=0:255 --backend jit:inject=offset@QLinearConv --json --save none -o other | /usr/bin/python3 "$TESTS/blame.py"
# the remedy is tried on the backend that clips, and written
"$PLUMB" analyze qlinear-Conv.onnx --range x=0:255 --backend eager:kernels=saturate --save none -o remedy --advise-out unsigned.onnx --json >log.json
/usr/bin/python3 "$TESTS/blame.py" advice.by advice.met <log.json
"$PLUMB" analyze unsigned.onnx --range x=0:255 --backend eager:kernels=saturate --save none -o unsigned | sed -n '1s/:.*//p'

try() { "$PLUMB" analyze "$@" -o out 2>&1 | tail -1; echo "exit ${PIPESTATUS[0]}"; }
try "$TESTS/net.onnxtxt" --backend nowhere
try "$TESTS/net.onnxtxt" --profile loose
try "$TESTS/net.onnxtxt" --save some
try none.onnx
try "$TESTS/net.onnxtxt" --backend jit --reference none.safetensors
ls

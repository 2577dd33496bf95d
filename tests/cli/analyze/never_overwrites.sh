"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit -o out >/dev/null; echo "exit $?"
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit -o out; echo "exit $?"

"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=sign@Tanh --save none -o out --limit 2
echo "exit $?"

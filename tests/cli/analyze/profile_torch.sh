# PyTorch's rule for outputs; its lines are printed as PyTorch's analyze prints them.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=accuracy@Sigmoid --profile torch --save none -o out | grep -c '^DIVERGED at'
echo "exit ${PIPESTATUS[0]}"
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit --profile torch --save none -o clean | sed -n 1p

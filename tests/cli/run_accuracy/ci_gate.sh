# The example of ten lines: passes, fails and names the operation.
"$ROOT/examples/ci_gate.sh" "$TESTS/small.onnxtxt" jit; echo "exit $?"
"$ROOT/examples/ci_gate.sh" "$TESTS/small.onnxtxt" jit --backward --grad-seed 1; echo "exit $?"
"$ROOT/examples/ci_gate.sh" "$TESTS/small.onnxtxt" jit:inject=accuracy@Relu 2>err | grep -o 'Relu.*computes .y. wrongly'
grep -c failure plumb-gate.xml; ls

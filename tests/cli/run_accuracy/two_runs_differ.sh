# The reference is checked against itself first, bit for bit.
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --reference jit:inject=nondeterministic@Relu | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"

# A candidate that throws is exit 3, never "same"; so is a reference.
for kind in compile-error runtime-error crash; do
  "$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --inject $kind@Relu 2>err | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
done
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --inject hang@Relu --timeout 1 2>err | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --reference jit:inject=crash@Relu 2>err | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
grep -c 'the reference failed' err

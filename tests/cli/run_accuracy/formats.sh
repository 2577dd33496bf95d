"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --inject accuracy@Relu --format junit 2>err | sed "s#$TESTS#T#"; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --inject accuracy@Relu --format github 2>err | sed "s#$TESTS#T#"; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --backend jit --format junit | sed "s#$TESTS#T#"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --backend jit --format poem; echo "exit $?"

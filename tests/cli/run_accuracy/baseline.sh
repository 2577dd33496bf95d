# What is accepted does not fail the gate; what is worse does.
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --inject accuracy@Relu --write-baseline b.json | sed '/^load /d; s/, error.*//'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --inject accuracy@Relu --baseline b.json | sed '/^load /d; s/, error.*//'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --inject nan@Relu --baseline b.json 2>err | sed '/^load /d; s/, error.*//'; echo "exit ${PIPESTATUS[0]}"

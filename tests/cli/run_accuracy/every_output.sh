# Sequences and optionals are walked; integers count too.
for mode in --accuracy --strict-accuracy; do
  "$PLUMB" run "$TESTS/outputs.onnxtxt" $mode --inject accuracy@Relu 2>err | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
done
"$PLUMB" run "$TESTS/outputs.onnxtxt" --accuracy --inject accuracy@Neg | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/outputs.onnxtxt" --strict-accuracy --inject accuracy@Neg 2>err | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"

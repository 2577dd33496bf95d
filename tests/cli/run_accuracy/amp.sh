# Under autocast; the reference in float32 or under the same autocast.
for type in fp16 bf16; do
  "$PLUMB" run "$TESTS/training.onnxtxt" --accuracy --amp $type | sed '/^load /d; s/, error.*//'
  "$PLUMB" run "$TESTS/training.onnxtxt" --accuracy --amp $type --reference-amp --backend jit | sed '/^load /d; s/, error.*//'
done
"$PLUMB" run "$TESTS/training.onnxtxt" --eval --amp bf16 --save none | sed '/^load /d'
"$PLUMB" run "$TESTS/training.onnxtxt" --amp fp8; echo "exit $?"

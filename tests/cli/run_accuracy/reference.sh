# The reference may be another model or a recording.
sed 's/-2, 0.5/-2, 0.25/' "$TESTS/small.onnxtxt" >other.onnxtxt
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --reference "$TESTS/small.onnxtxt" | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --reference other.onnxtxt --fill ones 2>err | sed '/^load /d; s/, error.*//'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --reference-model other.onnxtxt --reference jit --fill ones 2>err | sed '/^load /d; s/, error.*//'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" record "$TESTS/small.onnxtxt" -o r.safetensors >log
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --backend jit --reference r.safetensors | sed '/^load /d; s/, error.*//'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --inject accuracy@Relu --reference r.safetensors 2>err | sed '/^load /d; s/, error.*//'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --reference eager:fp64 | sed '/^load /d; s/, error.*//'; echo "exit ${PIPESTATUS[0]}"

# Outputs, input gradients, parameter gradients and updated buffers, each named.
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --backward --backend jit --dim N=3 | sed '/^load /d; s/, error.*//'
"$PLUMB" run "$TESTS/training.onnxtxt" --accuracy --backward --no-eval --backend jit | sed '/^load /d; s/, error.*//'
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --backward --inject accuracy@Mul:1 --loss-output y 2>err | sed '/^load /d; s/, error.*//'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --backward --fill ones --save none | sed '/^load /d'
"$PLUMB" run "$TESTS/small.onnxtxt" --backward --grad-seed 3 --fill ones --save none | sed '/^load /d'

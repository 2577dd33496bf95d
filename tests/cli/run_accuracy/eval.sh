# --accuracy implies eval mode; what was changed is listed.
"$PLUMB" run "$TESTS/training.onnxtxt" --accuracy --backend jit | sed '/^load /d; s/, error.*//'
"$PLUMB" run "$TESTS/training.onnxtxt" --accuracy --no-eval --backend jit | sed '/^load /d; s/, error.*//'
"$PLUMB" run "$TESTS/training.onnxtxt" --eval --save none | sed '/^load /d; s/, error.*//'
"$PLUMB" run "$TESTS/training.onnxtxt" --accuracy --eval --no-eval; echo "exit $?"

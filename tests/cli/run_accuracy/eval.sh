# --accuracy implies eval mode; what was changed is listed.
"$PLUMB" run "$TESTS/training.onnxtxt" --accuracy | sed '/^load /d'
"$PLUMB" run "$TESTS/training.onnxtxt" --accuracy --no-eval | sed '/^load /d'
"$PLUMB" run "$TESTS/training.onnxtxt" --eval --save none | sed '/^load /d'
"$PLUMB" run "$TESTS/training.onnxtxt" --accuracy --eval --no-eval; echo "exit $?"

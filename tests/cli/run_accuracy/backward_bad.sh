"$PLUMB" run "$TESTS/integers.onnxtxt" --accuracy --backward | sed '/^load /d'
"$PLUMB" run "$TESTS/outputs.onnxtxt" --accuracy --backward --loss-output k; echo "exit $?"
"$PLUMB" run "$TESTS/outputs.onnxtxt" --accuracy --backward --loss-output nobody; echo "exit $?"
"$PLUMB" run "$TESTS/outputs.onnxtxt" --accuracy --loss-output y; echo "exit $?"

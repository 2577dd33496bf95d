"$PLUMB" run "$TESTS/integers.onnxtxt" --accuracy --backward --backend jit | sed '/^load /d'
"$PLUMB" run "$TESTS/outputs.onnxtxt" --accuracy --backward --backend jit --loss-output k; echo "exit $?"
"$PLUMB" run "$TESTS/outputs.onnxtxt" --accuracy --backward --backend jit --loss-output nobody; echo "exit $?"
"$PLUMB" run "$TESTS/outputs.onnxtxt" --accuracy --backend jit --loss-output y; echo "exit $?"

# A planted fault: exit 1, and an AccuracyError that names output, rule, errors and the next command.
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --backend jit --inject accuracy@Relu | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --profile torch --inject accuracy@Relu --dim N=2 --seed 3 | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --tol 10 --inject accuracy@Relu | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --no-accuracy --save none --inject accuracy@Relu | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"

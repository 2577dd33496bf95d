# Limits that nothing works below are told as such: 0.1.0 crashed, or called the failure flaky.
(ulimit -s 64; "$PLUMB" minify "$TESTS/small.onnxtxt" --backend jit -o a; echo "exit $?")
(ulimit -n 8; "$PLUMB" minify "$TESTS/small.onnxtxt" --backend jit -o b; echo "exit $?")

# A command says what it cannot use: an argument too many, options that exclude each other.
"$PLUMB" backends ort; echo "exit $?"
"$PLUMB" minify "$TESTS/training.onnxtxt" --eval --no-eval; echo "exit $?"
for command in "run --accuracy --backend jit" "analyze --backend jit" "compare --backend jit $TESTS/small.onnxtxt"; do
    for format in csv json; do
        # shellcheck disable=SC2086
        "$PLUMB" $command "$TESTS/small.onnxtxt" --json --format $format >out
        echo "exit $? $(head -c 1 out)"
    done
done

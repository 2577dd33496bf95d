# A command says what it cannot use: an argument too many, options that exclude each other.
"$PLUMB" backends ort; echo "exit $?"
"$PLUMB" minify "$TESTS/training.onnxtxt" --eval --no-eval; echo "exit $?"

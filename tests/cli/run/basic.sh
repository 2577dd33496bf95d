# The same outputs on both backends that plumb brings along.
"$PLUMB" run "$TESTS/small.onnxtxt" -o eager >log
"$PLUMB" run "$TESTS/small.onnxtxt" --backend jit -o jit >log
cmp eager/y.npy jit/y.npy && echo same

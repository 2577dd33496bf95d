"$PLUMB" record "$TESTS/small.onnxtxt" --dim N=4 -o a.safetensors >log
"$PLUMB" record "$TESTS/small.onnxtxt" --dim N=4 --stats-only -o stats.safetensors >log
"$PLUMB" record "$TESTS/small.onnxtxt" --dim N=4 --seed 1 --stats-only -o other.safetensors >log
"$PLUMB" compare a.safetensors stats.safetensors --no-session --sort order
echo "exit $?"
"$PLUMB" compare a.safetensors other.safetensors --no-session
echo "exit $?"
# NaN on one side only needs no elements to be told.
"$PLUMB" record "$TESTS/small.onnxtxt" --dim N=4 --stats-only --backend jit --inject nan@Relu -o nan.safetensors >log
"$PLUMB" compare nan.safetensors stats.safetensors --no-session >out
echo "exit $?"
grep -v '^  [AB]  ' out

# The type of an inner value is inferred before the model is cut there.
"$PLUMB" run "$TESTS/small.onnxtxt" --from a --to s --fill ones --dim N=2 -o out >log
/usr/bin/python3 "$TESTS/show.py" out/*.npy

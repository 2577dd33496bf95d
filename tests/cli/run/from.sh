/usr/bin/python3 "$TESTS/npy.py" a.npy float32 2,3
"$PLUMB" run "$TESTS/small.onnxtxt" --from a --to s -i a=a.npy -o out >log
/usr/bin/python3 "$TESTS/show.py" out/*.npy

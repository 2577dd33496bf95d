"$PLUMB" run "$TESTS/small.onnxtxt" --fill zeros -o zeros >log
"$PLUMB" run "$TESTS/small.onnxtxt" --fill ones -o ones >log
/usr/bin/python3 "$TESTS/show.py" zeros/y.npy ones/y.npy

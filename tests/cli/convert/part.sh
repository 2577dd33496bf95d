"$PLUMB" convert "$TESTS/small.onnxtxt" a.onnx --to a
/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2,3
"$PLUMB" run a.onnx -i x=x.npy -o out >log
/usr/bin/python3 "$TESTS/show.py" out/*.npy

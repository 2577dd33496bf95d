/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2,3
"$PLUMB" run "$TESTS/small.onnxtxt" -i x=x.npy -o out.npz >log
"$PLUMB" run "$TESTS/small.onnxtxt" -o out.npz

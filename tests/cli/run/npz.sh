/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2,3
"$PLUMB" run "$TESTS/small.onnxtxt" -i x=x.npy -o out.npz >log
/usr/bin/python3 "$TESTS/show.py" out.npz

/usr/bin/python3 "$TESTS/make.py" relu m.onnx
/usr/bin/python3 "$TESTS/npy.py" whole.npy float32 2
head -c 100 whole.npy >x.npy
"$PLUMB" run m.onnx -i x=x.npy

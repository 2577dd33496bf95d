/usr/bin/python3 "$TESTS/make.py" relu m.onnx
/usr/bin/python3 "$TESTS/npy.py" x.npy int64 2
"$PLUMB" run m.onnx -i x=x.npy

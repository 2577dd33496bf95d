/usr/bin/python3 "$TESTS/make.py" relu m.onnx
/usr/bin/python3 "$TESTS/npy.py" z.npy float32 2
"$PLUMB" run m.onnx -i z=z.npy

/usr/bin/python3 "$TESTS/make.py" relu m.onnx
/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2,1
"$PLUMB" run m.onnx -i x=x.npy

/usr/bin/python3 "$TESTS/make.py" huge_shape m.onnx
"$PLUMB" run m.onnx

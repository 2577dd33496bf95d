/usr/bin/python3 "$TESTS/make.py" huge_initializer m.onnx
"$PLUMB" info m.onnx

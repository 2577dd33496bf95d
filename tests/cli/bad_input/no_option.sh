/usr/bin/python3 "$TESTS/make.py" relu m.onnx
"$PLUMB" run m.onnx --frob

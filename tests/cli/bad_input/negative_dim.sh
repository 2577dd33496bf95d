/usr/bin/python3 "$TESTS/make.py" negative_dim m.onnx
"$PLUMB" info m.onnx

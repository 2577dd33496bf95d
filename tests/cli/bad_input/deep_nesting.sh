/usr/bin/python3 "$TESTS/make.py" deep_nesting m.onnx
"$PLUMB" info m.onnx

/usr/bin/python3 "$TESTS/make.py" missing_value m.onnx
"$PLUMB" info m.onnx

/usr/bin/python3 "$TESTS/make.py" duplicate_value m.onnx
"$PLUMB" info m.onnx

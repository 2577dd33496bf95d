/usr/bin/python3 "$TESTS/make.py" relu m.onnx
: >out.onnx
"$PLUMB" convert m.onnx out.onnx

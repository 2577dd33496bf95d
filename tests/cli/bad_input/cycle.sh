/usr/bin/python3 "$TESTS/make.py" cycle m.onnx
"$PLUMB" info m.onnx

/usr/bin/python3 "$TESTS/make.py" external:/etc/passwd m.onnx
"$PLUMB" info m.onnx

/usr/bin/python3 "$TESTS/make.py" external:w.bin m.onnx
"$PLUMB" info m.onnx

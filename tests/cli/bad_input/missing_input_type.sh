/usr/bin/python3 "$TESTS/make.py" no_type m.onnx
"$PLUMB" run m.onnx

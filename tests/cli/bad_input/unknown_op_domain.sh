/usr/bin/python3 "$TESTS/make.py" unknown_op m.onnx
"$PLUMB" run m.onnx

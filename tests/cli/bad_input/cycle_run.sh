/usr/bin/python3 "$TESTS/make.py" cycle m.onnx
"$PLUMB" run m.onnx

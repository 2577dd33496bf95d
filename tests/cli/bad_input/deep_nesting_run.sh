/usr/bin/python3 "$TESTS/make.py" deep_nesting m.onnx
"$PLUMB" run m.onnx

/usr/bin/python3 "$TESTS/make.py" too_few_inputs m.onnx
"$PLUMB" run m.onnx

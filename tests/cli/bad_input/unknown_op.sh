/usr/bin/python3 "$TESTS/make.py" unknown_op_onnx m.onnx
"$PLUMB" run m.onnx

/usr/bin/python3 "$TESTS/make.py" relu m.onnx
"$PLUMB" convert m.onnx m.txt

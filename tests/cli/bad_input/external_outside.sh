mkdir in
head -c 8 /dev/zero >w.bin
/usr/bin/python3 "$TESTS/make.py" external:../w.bin in/m.onnx
"$PLUMB" info in/m.onnx

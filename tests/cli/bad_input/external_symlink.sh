mkdir in out
head -c 8 /dev/zero >out/w.bin
ln -s ../out/w.bin in/w.bin
/usr/bin/python3 "$TESTS/make.py" external:w.bin in/m.onnx
"$PLUMB" info in/m.onnx

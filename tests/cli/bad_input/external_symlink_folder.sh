mkdir in out
head -c 8 /dev/zero >out/w.bin
ln -s ../out in/data
/usr/bin/python3 "$TESTS/make.py" external:data/w.bin in/m.onnx
"$PLUMB" info in/m.onnx

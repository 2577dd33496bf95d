/usr/bin/python3 "$TESTS/make.py" big_weights m.onnx
"$PLUMB" convert m.onnx a.onnx --external
ls a.*
/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2
"$PLUMB" run a.onnx -i x=x.npy -o out >log
/usr/bin/python3 "$TESTS/show.py" out/y.npy

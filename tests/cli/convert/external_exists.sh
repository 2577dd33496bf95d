/usr/bin/python3 "$TESTS/make.py" big_weights m.onnx
echo "weights of another model" >a.onnx.data
"$PLUMB" convert m.onnx a.onnx --external
code=$?
ls a.*
cat a.onnx.data
exit $code

echo "this is not a model" >m.onnx
"$PLUMB" info m.onnx

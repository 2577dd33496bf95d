mkdir m.onnx
"$PLUMB" info m.onnx

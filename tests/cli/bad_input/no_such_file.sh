"$PLUMB" info m.onnx

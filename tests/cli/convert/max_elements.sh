"$PLUMB" convert "$TESTS/small.onnxtxt" a.onnx
"$PLUMB" convert a.onnx b.onnxtxt --max-elements 2

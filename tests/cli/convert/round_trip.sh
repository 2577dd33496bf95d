# Text to binary to text to binary: both texts and both binaries are the same.
"$PLUMB" convert "$TESTS/small.onnxtxt" a.onnx
"$PLUMB" convert a.onnx b.onnxtxt
"$PLUMB" convert b.onnxtxt c.onnx
"$PLUMB" convert c.onnx d.onnxtxt
cmp a.onnx c.onnx && cmp b.onnxtxt d.onnxtxt && echo same
/usr/bin/python3 -c 'import onnx; m = onnx.load("a.onnx"); onnx.checker.check_model(m); print([n.op_type for n in m.graph.node])'

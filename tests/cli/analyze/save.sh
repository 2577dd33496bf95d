# What the session keeps: all tensors, those of suspects and outputs, none.
for what in all suspects none; do
    "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=offset@Tanh --save $what -o "$what" >/dev/null
    echo "$what: $(find "$what" -type f | grep -c store) blobs"
done

# What the session keeps: all tensors, those of suspects and outputs, none. How many blobs that is depends on which values have the
# same bits on both sides, and so on the processor.
for what in all suspects none; do
    "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=offset@Tanh --save $what -o "$what" >/dev/null
    declare "$what=$(find "$what" -type f | grep -c store)"
done
[ "$all" -gt "$suspects" ] && [ "$suspects" -ge 8 ] && echo "all keeps more than suspects"
echo "none: $none blobs"

"$PLUMB" info "$TESTS/small.onnxtxt"

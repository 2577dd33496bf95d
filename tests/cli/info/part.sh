"$PLUMB" info "$TESTS/small.onnxtxt" --from a --to y

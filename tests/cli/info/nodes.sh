"$PLUMB" info "$TESTS/small.onnxtxt" --nodes --dim N=4

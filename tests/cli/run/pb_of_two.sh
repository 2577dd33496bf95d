"$PLUMB" run "$TESTS/small.onnxtxt" -o out.pb

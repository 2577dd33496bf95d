"$PLUMB" run "$TESTS/small.onnxtxt" --backend ort:optt=all --save none

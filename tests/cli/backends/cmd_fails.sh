"$PLUMB" run "$TESTS/small.onnxtxt" --backend cmd:/bin/false --save none

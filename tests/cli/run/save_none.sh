"$PLUMB" run "$TESTS/small.onnxtxt" --save none
ls

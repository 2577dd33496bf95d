"$PLUMB" run "$TESTS/small.onnxtxt" --profile-nodes --repeat 3 --save none

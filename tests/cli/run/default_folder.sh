"$PLUMB" run "$TESTS/small.onnxtxt" >log
ls plumb-out/*

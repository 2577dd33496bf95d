"$PLUMB" run

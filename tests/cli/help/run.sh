"$PLUMB" run --help

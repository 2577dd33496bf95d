"$PLUMB" test --help

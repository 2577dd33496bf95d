"$PLUMB" --help

"$PLUMB" info --help

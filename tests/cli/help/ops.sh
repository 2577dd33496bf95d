"$PLUMB" ops --help

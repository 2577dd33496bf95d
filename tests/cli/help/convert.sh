"$PLUMB" convert --help

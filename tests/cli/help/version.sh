"$PLUMB" --version

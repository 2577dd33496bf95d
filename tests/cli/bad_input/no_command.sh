"$PLUMB" frob

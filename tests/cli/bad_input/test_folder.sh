mkdir d
"$PLUMB" test d

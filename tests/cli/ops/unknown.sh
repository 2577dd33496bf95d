"$PLUMB" ops Nonsense

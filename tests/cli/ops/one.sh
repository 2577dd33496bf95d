"$PLUMB" ops Softplus

/usr/bin/python3 "$TESTS/npy.py" m.npy float32 2,3
"$PLUMB" info m.npy

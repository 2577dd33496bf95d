/usr/bin/python3 -c 'import numpy as np; np.savez("in.npz", x=np.arange(6, dtype=np.float32).reshape(2, 3))'
"$PLUMB" run "$TESTS/small.onnxtxt" --inputs in.npz -o out >log
/usr/bin/python3 "$TESTS/show.py" out/s.npy

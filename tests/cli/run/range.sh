"$PLUMB" run "$TESTS/small.onnxtxt" --range x=2:3 --dim N=1000 --to a -o a.npy >log
/usr/bin/python3 -c '
import numpy as np
x = np.load("a.npy") / np.array([1, -2, 0.5], dtype=np.float32)
print(x.min() >= 2, x.max() <= 3, x.std() > 0.2, abs(x.mean() - 2.5) < 0.05)
'

# Several samples: the worst of each value counts, and the ones that fail are listed.
/usr/bin/python3 - <<'P'
import numpy as np
rng = np.random.default_rng(1)
np.savez("one.npz", x=rng.standard_normal((4, 16)).astype(np.float32))
np.savez("two.npz", x=-1 - np.abs(rng.standard_normal((4, 16))).astype(np.float32))
P
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit --inputs one.npz --inputs two.npz --json --save none -o clean >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json
# Relu hides the saturated part where everything is negative.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=saturate@Relu --inputs one.npz --inputs two.npz --json --save none -o bad >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json
/usr/bin/python3 "$TESTS/blame.py" failing_samples <log.json

# Seven samples with the defaults that users get: tensors of all of them are in the session.
/usr/bin/python3 - <<'P'
import numpy as np
rng = np.random.default_rng(1)
for i in range(7):
    np.savez(f"s{i}.npz", x=rng.standard_normal((4, 16)).astype(np.float32))
P
sets=$(for i in 0 1 2 3 4 5 6; do echo --inputs s$i.npz; done)
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit $sets >text
echo "exit $?"; head -1 text
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=shift@Mul:1 $sets --json >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" verdict failing_samples <log.json
for d in plumb-out/*; do ls "$d/store/index" | sort | tr '\n' ' '; echo; done

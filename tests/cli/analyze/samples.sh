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
/usr/bin/python3 "$TESTS/blame.py" failing_samples smallest_failing_set blame.0.samples <log.json
# The first fault shows in samples 0 and 2, the second in 1 and 2: the smallest set is sample 2.
cat >two.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
two (float[4,16] x) => (float[4,16] y, float[4,16] z)
{
  [positive] y = Relu (x)
  n = Neg (x)
  [negative] z = Relu (n)
}
M
/usr/bin/python3 - <<'P'
import numpy as np
x = 1 + np.abs(np.random.default_rng(2).standard_normal((4, 16)))
for name, v in (("p", x), ("n", -x), ("b", np.where(np.arange(64).reshape(4, 16) % 2, x, -x))):
    np.savez(name + ".npz", x=v.astype(np.float32))
P
"$PLUMB" analyze two.onnxtxt --backend jit:inject=saturate@Relu --inputs p.npz --inputs n.npz --inputs b.npz --save none -o two >text
echo "exit $?"; grep "samples fail" text; grep -o "[12][.] .* -> .:\|samples* [0-9, ]*$" text; grep -o "[yz] .sample [0-9]." text
"$PLUMB" report two --format text | grep "samples fail"

# Precision advice: the nodes to raise by name, and the raised model computes what NumPy computes in fp64.
ask() { # MODEL options
    model=$1; shift
    "$PLUMB" analyze "$model" --advise --json --save none -o "out-$model" "$@" >log.json
    echo "exit $?"
    /usr/bin/python3 "$TESTS/blame.py" verdict advice.precision advice.met advice.one_minimal advice.raise <log.json
}

cat >over.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
over (float16[4,64] x) => (float16[4,64] y)
<float16 lift = {300.0}, float16 eps = {0.001}>
{
  [lift] h = Mul (x, lift)
  [square] sq = Mul (h, h)
  [mean] ss = ReduceMean <axes=[1], keepdims=1> (sq)
  [eps] se = Add (ss, eps)
  [root] r = Sqrt (se)
  [norm] y = Div (h, r)
}
M
cat >cancel.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
cancel (float[4,64] x) => (float[4,64] y)
<float ten = {10.0}>
{
  [shift] xs = Add (x, ten)
  [low] h = Cast <to=16> (xs)
  [square] sq = Mul (h, h)
  [mean_sq] ms = ReduceMean <axes=[1], keepdims=1> (sq)
  [mean] m = ReduceMean <axes=[1], keepdims=1> (h)
  [mean2] mm = Mul (m, m)
  [var] v = Sub (ms, mm)
  [std] s = Sqrt (v)
  [centre] c = Sub (h, m)
  [norm] n = Div (c, s)
  [act] t = Tanh (n)
  [high] y = Cast <to=1> (t)
}
M
cat >codes.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
codes (float[8,32] x, float[32,32] w, float[32,16] v) => (float[8,16] y)
<float sx = {0.03}, uint8 zx = {128}, float sw = {0.03}, int8 zw = {0}, float bad = {0.01}, uint8 z0 = {0}, float sy = {2.0}>
{
  [q_x] qx = QuantizeLinear (x, sx, zx)
  [dq_x] dx = DequantizeLinear (qx, sx, zx)
  [q_w] qw = QuantizeLinear (w, sw, zw)
  [dq_w] dw = DequantizeLinear (qw, sw, zw)
  [first] h = MatMul (dx, dw)
  [act] a = Relu (h)
  [q_a] qa = QuantizeLinear (a, bad, z0)
  [dq_a] da = DequantizeLinear (qa, bad, z0)
  [q_v] qv = QuantizeLinear (v, sw, zw)
  [dq_v] dv = DequantizeLinear (qv, sw, zw)
  [second] g = MatMul (da, dv)
  [q_y] qy = QuantizeLinear (g, sy, zx)
  [dq_y] y = DequantizeLinear (qy, sy, zx)
}
M
/usr/bin/python3 - <<'P'
import numpy as np
rng = np.random.default_rng(5)
np.savez("over.npz", x=rng.standard_normal((4, 64)).astype(np.float16))
np.savez("cancel.npz", x=rng.uniform(-1, 1, (4, 64)).astype(np.float32))
np.savez("codes.npz", **{n: rng.standard_normal(s).astype(np.float32) for n, s in (("x", (8, 32)), ("w", (32, 32)), ("v", (32, 16)))})
P
for m in over cancel codes; do
    echo "== $m"
    ask $m.onnxtxt --inputs $m.npz --advise-out raised-$m.onnx
    "$PLUMB" run $m.onnxtxt --inputs $m.npz -o as-it-is-$m.npz >/dev/null
    "$PLUMB" run raised-$m.onnx --inputs $m.npz -o raised-$m.npz >/dev/null
done
/usr/bin/python3 - <<'P'
import numpy as np
def load(name): return {k: v.astype(np.float64) for k, v in np.load(name).items()}
def over(x):
    h = x * 300.0
    return h / np.sqrt((h * h).mean(1, keepdims=True) + np.float64(np.float16(0.001)))
def cancel(x):
    h = x + 10
    return np.tanh((h - h.mean(1, keepdims=True)) / np.sqrt((h * h).mean(1, keepdims=True) - h.mean(1, keepdims=True) ** 2))
def codes(x, w, v): return np.maximum(x @ w, 0) @ v
for f, limit in ((over, 0.002), (cancel, 0.02), (codes, 0.1)):
    want = f(**load(f.__name__ + ".npz"))
    off = [np.sqrt(((load(p + "-" + f.__name__ + ".npz")["y"] - want) ** 2).sum() / (want ** 2).sum()) for p in ("as-it-is", "raised")]
    print(f.__name__, "as it is:", "met" if off[0] <= limit else "not met", "| raised:", "met" if off[1] <= limit else f"not met ({off[1]:.3g})")
P
echo "== read back from the session"
"$PLUMB" report out-codes.onnxtxt --format text | grep -c "^advice: keep 1 of 3 layers in float"
"$PLUMB" report out-codes.onnxtxt --format text | grep "^  [*]" | grep -o "MatMul  g (second)"
echo "== on jit"
ask codes.onnxtxt --inputs codes.npz --backend jit -o out-jit
echo "== autocast: what is lifted overflows in float16, not in bfloat16"
cat >wide.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
wide (float[8,32] x, float[32,32] w, float[32,16] v) => (float[8,16] y)
<float much = {100000.0}>
{
  [first] h = MatMul (x, w)
  [lift] l = Mul (h, much)
  [act] a = Relu (l)
  [lower] b = Div (a, much)
  [second] y = MatMul (b, v)
}
M
ask wide.onnxtxt --inputs codes.npz --amp fp16
ask wide.onnxtxt --inputs codes.npz --amp bf16 -o out-bf16
echo "== nothing to raise, and a limit that cannot be met"
ask "$TESTS/net.onnxtxt" -o out-f32
ask over.onnxtxt --inputs over.npz --tol 1e-7 -o out-tol
echo "== never overwritten"
touch there.onnx
"$PLUMB" analyze over.onnxtxt --advise-out there.onnx -o out-there 2>err; echo "exit $?"; cat err; [ -e out-there ] || echo "no session"

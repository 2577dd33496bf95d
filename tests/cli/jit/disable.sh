# Passes by name: each one left out changes what the compiler does, none what comes out beyond rounding; an unknown name is refused.
# slow: compiles one model nine times
cat >net.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
net (float[1,16,24,24] x, float[16,16,3,3] k, float[8,16,1,1] p) => (float[24,24,16] y, float[1,16,24,24] z, float[1,8,24,24] v)
<float[2] a = {1, 2}, float[2] b = {3, 4}>
{
  c = Conv <pads=[1,1,1,1]> (x, k)
  r = Relu (c)
  s = Sigmoid (r)
  ab = Mul (a, b)
  total = ReduceSum <keepdims=0> (ab)
  m = Mul (s, total)
  e = Exp (m)
  t = Transpose <perm=[0,2,3,1]> (e)
  u = Neg (t)
  h = Squeeze (u)
  y = Abs (h)
  d = Conv <pads=[1,1,1,1]> (m, k)
  n = Tanh (d)
  o = Conv <pads=[1,1,1,1]> (n, k)
  q = Tanh (o)
  z = Conv <pads=[1,1,1,1]> (q, k)
  g = GlobalAveragePool (z)
  f = Mul (z, g)
  v = Conv (f, p)
}
M
"$PLUMB" run net.onnxtxt --backend jit:debug-dir=plain -o plain.npz >/dev/null || exit
for pass in fold factor overwrite reuse inline epilogue fuse lower; do
    "$PLUMB" run net.onnxtxt --backend "jit:disable=$pass,debug-dir=$pass" -o "$pass.npz" >/dev/null || exit
    cmp -s plain/3-schedule.txt "$pass/3-schedule.txt" && cmp -s plain/4-memory.txt "$pass/4-memory.txt" && echo "$pass changes nothing"
    /usr/bin/python3 -c '
import sys, numpy as np
a, b = np.load("plain.npz"), np.load(sys.argv[1] + ".npz")
off = max(np.abs(a[k] - b[k]).max() / np.abs(a[k]).max() for k in a)
print(sys.argv[1], "as without" if off < 1e-5 else off)' $pass
done
"$PLUMB" run net.onnxtxt --backend jit:disable=nothing --repro-level 0 2>err; echo "exit $?"; cat err
"$PLUMB" run net.onnxtxt --backend jit --inject nothing/scale@Relu --repro-level 0 2>err; echo "exit $?"; cat err

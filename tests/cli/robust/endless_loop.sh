# The budget ends the reference's run of an endless Loop, too; 0.1.0 went on until it was killed.
cat >loop.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
m (float[2,3] x) => (float[2,3] y)
<bool t = {1}>
{
  y = Loop <body = b (int64 i, bool c, float[2,3] v) => (bool c2, float[2,3] w) {
    c2 = Identity (c)
    w = Relu (v)
  }> (, t, x)
}
M
timeout 60 "$PLUMB" minify loop.onnxtxt --backend jit --max-time 1 -o r
echo "exit $?"
timeout 60 "$PLUMB" minify loop.onnxtxt --check 'sleep 100; : {model}' --max-time 1 -o r >/dev/null 2>&1
[ $? -ne 124 ] && echo ended

# The list of changes points into the model that the gradients were made of: 0.1.0 printed freed memory.
cat >drop.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
m (float[2,3] x) => (float[2,3] y)
<float r = {0.5}, bool t = {1}>
{
  d = Dropout (x, r, t)
  y = Softmax (d)
}
M
MALLOC_PERTURB_=85 "$PLUMB" run drop.onnxtxt --accuracy --backward --backend jit | grep '^eval'

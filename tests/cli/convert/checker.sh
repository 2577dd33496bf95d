# Parts and transformed models are files that onnx.checker takes: outputs have types, and an
# initializer that is no input needs IR version 4.
cat >m.onnxtxt <<'TEXT'
<ir_version: 3, opset_import: ["" : 9]>
g (float[2] x, float[2] w = {1, 2}) => (float[2] y) {
   t = Mul (x, w)
   one = Constant <value = float {1}> ()
   y = Add (t, one)
}
TEXT
set -e
"$PLUMB" convert m.onnxtxt m.onnx
"$PLUMB" convert m.onnx to.onnx --to t
"$PLUMB" convert m.onnx from.onnx --from t
"$PLUMB" convert m.onnx fp64.onnx --fp64 >log
/usr/bin/python3 - <<'PYTHON'
import onnx

for name in "m", "to", "from", "fp64":
    model = onnx.load(name + ".onnx")
    onnx.checker.check_model(model)
    print(name, model.ir_version, [x.name for x in model.graph.input], len(model.graph.initializer))
PYTHON

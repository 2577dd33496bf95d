# Optionals in ONNX Runtime, empty and not, as outputs and inside: a recording reads them as a plain run does.
"$PLUMB" backends | grep -q '^ort  *1\.' || { echo "ONNX Runtime not found" >&2; exit 77; }
head='<ir_version: 8, opset_import: ["" : 16]> g (float[4] x) =>'
echo "$head (optional(float[4]) o) { o = Optional (x) }" >full.onnxtxt
echo "$head (optional(float[4]) o, float[4] y) { o = Optional <type: type_proto = float[4]> () y = Relu (x) }" >empty.onnxtxt
echo "$head (float[4] y, bool b) { o = Optional <type: type_proto = float[4]> () b = OptionalHasElement (o) y = Relu (x) }" >inside.onnxtxt
for m in full empty inside; do "$PLUMB" analyze $m.onnxtxt --backend ort -o $m | sed -n '1p;/values*:/p'; done

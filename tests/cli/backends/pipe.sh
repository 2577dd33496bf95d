# A model that comes through a pipe runs in a process of its own, too.
"$PLUMB" convert "$TESTS/small.onnxtxt" m.onnx >/dev/null
"$PLUMB" run <(cat m.onnx) --backend jit --save none | sed -n 1p
cat m.onnx | "$PLUMB" analyze /dev/stdin --backend jit -o s | sed -n 1p

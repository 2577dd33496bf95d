# No inputs, an empty batch: a clear result.
cat >none.onnxtxt <<'M'
<
  ir_version: 8,
  opset_import: ["" : 17]
>
none () => (float[2] y) <float[2] w = {1, -2}> { y = Relu (w) }
M
"$PLUMB" run none.onnxtxt --accuracy --backward --backend jit | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --backward --backend jit --dim N=0 | sed '/^load /d'; echo "exit ${PIPESTATUS[0]}"

# Training behaviour off, casts by the operator table, both listed.
"$PLUMB" convert "$TESTS/training.onnxtxt" e.onnxtxt --eval
sed -n '/^{/,$p' e.onnxtxt
"$PLUMB" convert "$TESTS/training.onnxtxt" h.onnxtxt --eval --amp bf16
sed -n '/^{/,$p' h.onnxtxt
"$PLUMB" convert "$TESTS/training.onnxtxt" h.onnx --eval --amp fp16 --json
"$PLUMB" run h.onnx --save none | head -2
"$PLUMB" convert "$TESTS/training.onnxtxt" d.onnxtxt --eval --fp64
grep '=>' d.onnxtxt

"$PLUMB" convert "$TESTS/small.onnxtxt" a.onnx --amp int8; echo "exit $?"
"$PLUMB" convert "$TESTS/small.onnxtxt" a.onnx --amp bf16 --fp64; echo "exit $?"
ls

"$PLUMB" record "$TESTS/small.onnxtxt" -o /proc/out.safetensors
echo "exit $?"
"$PLUMB" record "$TESTS/small.onnxtxt" -o no/such/folder/out.safetensors
echo "exit $?"

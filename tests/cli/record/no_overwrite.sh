echo precious >out.safetensors
"$PLUMB" record "$TESTS/small.onnxtxt" -o out.safetensors
echo "exit $?"
cat out.safetensors

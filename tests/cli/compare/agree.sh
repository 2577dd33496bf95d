"$PLUMB" record "$TESTS/small.onnxtxt" --dim N=4 -o a.safetensors >log
cp a.safetensors b.safetensors
"$PLUMB" compare a.safetensors b.safetensors -o session
"$PLUMB" compare "$TESTS/small.onnxtxt" a.safetensors --no-session --sort order
ls session

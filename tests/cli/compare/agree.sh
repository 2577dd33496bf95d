"$PLUMB" record "$TESTS/small.onnxtxt" --dim N=4 -o a.safetensors >log
"$PLUMB" compare a.safetensors a.safetensors -o session
"$PLUMB" compare "$TESTS/small.onnxtxt" a.safetensors --no-session --sort order
ls session

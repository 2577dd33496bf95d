/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2,3
"$PLUMB" record "$TESTS/small.onnxtxt" -i x=x.npy -o out.safetensors >log
/usr/bin/python3 "$TESTS/show.py" out.safetensors

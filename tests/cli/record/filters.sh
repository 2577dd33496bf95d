# By operator, by a regular expression; both together; one that fits nothing.
/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2,3
for args in "--op Relu" "--name ^[xy]\$" "--op Relu --name x"; do
    rm -f out.safetensors
    "$PLUMB" record "$TESTS/small.onnxtxt" -i x=x.npy -o out.safetensors $args >log
    echo "$args: exit $?"
    [ -f out.safetensors ] && /usr/bin/python3 "$TESTS/show.py" out.safetensors
done
"$PLUMB" record "$TESTS/small.onnxtxt" -o out.safetensors --name '['
echo "exit $?"

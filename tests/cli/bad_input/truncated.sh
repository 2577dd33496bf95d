# Cut at every byte: never a crash, never more than one line, and half a model is none.
/usr/bin/python3 "$TESTS/make.py" weights whole.onnx
n=$(wc -c <whole.onnx)
for cut in $(seq 1 $((n - 1))); do
    head -c "$cut" whole.onnx >m.onnx
    "$PLUMB" run m.onnx --save none >out 2>err
    code=$?
    # A cut between two fields may leave a smaller message behind that is a model still.
    [ $code = 2 ] || [ $code = 0 ] || echo "cut at $cut: exit $code" >&2
    [ "$(wc -l <err)" -le 1 ] || echo "cut at $cut: more than one line" >&2
done
head -c $((n / 2)) whole.onnx >m.onnx
"$PLUMB" info m.onnx

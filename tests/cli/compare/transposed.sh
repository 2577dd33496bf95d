# Axes in another order do not show in the shape [4,4]: that is a fault of what makes them, an output or not …
"$PLUMB" record "$ROOT/examples/identity_transpose.onnxtxt" -o b.safetensors >log
for op in Add Softmax; do
    "$PLUMB" record "$ROOT/examples/identity_transpose.onnxtxt" --backend jit --inject transpose@$op -o $op.safetensors >log
    "$PLUMB" compare $op.safetensors b.safetensors --no-session >out
    echo "exit $?"
    sed -n '/^  1\. /p; /fits as/s/.*; fits as/fits as/p' out | head -n 2 | sed 's/ [1-9]\.[0-9]e-08$/ N.Ne-08/' # the last digits are the CPU's
done
# … unless other shapes show that one side keeps its values so.
/usr/bin/python3 "$TESTS/st.py" nhwc.safetensors 'cube=float32:np.arange(64).reshape(1,4,4,4).transpose(0,2,3,1)' 'conv=float32:np.arange(60).reshape(1,3,4,5).transpose(0,2,3,1)'
/usr/bin/python3 "$TESTS/st.py" nchw.safetensors 'cube=float32:np.arange(64).reshape(1,4,4,4)' 'conv=float32:np.arange(60).reshape(1,3,4,5)'
"$PLUMB" compare nhwc.safetensors nchw.safetensors --no-session | tail -n +6

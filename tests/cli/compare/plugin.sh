here=$(dirname "$PLUMB")
/usr/bin/python3 "$TESTS/st.py" a.safetensors 'x=float32:[1,2,3,4]' 'y=float32:[1,-1]' 'z=int64:[1]'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'x=float32:[1,2,3,5]' 'y=float32:[1,1]' 'z=int64:[1]'
"$PLUMB" compare a.safetensors b.safetensors --plugin "$here/metric_plugin.so" --metric same_sign --no-session
"$PLUMB" compare a.safetensors b.safetensors --plugin "$here/metric_plugin.so" --no-session --format csv | cut -d, -f1,19,20
"$PLUMB" compare a.safetensors b.safetensors --plugin "$here/relu_plugin.so" --no-session 2>&1 | sed "s|$here|BUILD|"

/usr/bin/python3 "$TESTS/st.py" a.safetensors 'x=float32:[1,2,3]' 'y=float32:[1,2,3.5]' 'z=float32:[1,2,3]' 'only_a=float32:[[7,9]]'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'x=float32:[1,2,3]' 'y=float32:[1,2,3]' 'z=float32:[1,2,3.000001]' 'only_b=int64:[1]'
"$PLUMB" compare a.safetensors b.safetensors --no-session

# By hand: channel 1 is off by 1 in all four elements, and the maximum of the second row moves.
/usr/bin/python3 "$TESTS/st.py" a.safetensors 'x=float32:[[[1,2],[4,5]],[[5,6],[9,8]]]'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'x=float32:[[[1,2],[3,4]],[[5,6],[8,9]]]'
"$PLUMB" compare a.safetensors b.safetensors --no-session --detail x
"$PLUMB" compare a.safetensors b.safetensors --no-session --detail y
echo "exit $?"

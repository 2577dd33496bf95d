/usr/bin/python3 "$TESTS/st.py" a.safetensors 'x=float32:[1,2,3.002]' 'y=float32:[1,2,3.01]'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'x=float32:[1,2,3]' 'y=float32:[1,2,3]'
"$PLUMB" compare a.safetensors b.safetensors --profile torch --no-session --sort order
echo "exit $?"
"$PLUMB" compare a.safetensors b.safetensors --profile torch --same tol=1e-2 --no-session --sort order
echo "exit $?"
"$PLUMB" compare a.safetensors b.safetensors --tol 0.01 --no-session --sort order --limit 1
echo "exit $?"

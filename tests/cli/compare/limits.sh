/usr/bin/python3 "$TESTS/st.py" a.safetensors 'x=float32:[1,2,3.001]' 'y=float32:[1,2,3.001]'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'x=float32:[1,2,3]' 'y=float32:[1,2,3]'
echo '{"limits": [{"value": "^y$", "dtype": "float", "green": 60, "yellow": 50}]}' >l.json
"$PLUMB" compare a.safetensors b.safetensors --no-session --limits l.json --sort order
for bad in '{"limits": [{"valu": "y", "green": 1, "yellow": 1}]}' '{"limits": [{"green": 1}]}' '{"limits": [{"value": "(", "green": 1, "yellow": 1}]}' '[]' '{'; do
    echo "$bad" >bad.json
    "$PLUMB" compare a.safetensors b.safetensors --no-session --limits bad.json
    echo "exit $?"
done

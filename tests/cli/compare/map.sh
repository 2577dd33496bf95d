# What was paired by values alone is written, edited, and used.
/usr/bin/python3 "$TESTS/st.py" a.safetensors 'p=float32:np.sin(np.arange(300))' 'q=float32:np.cos(np.arange(400)**2)'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'x=float32:np.sin(np.arange(300))' 'y=float32:np.cos(np.arange(400)**2)'
"$PLUMB" compare a.safetensors b.safetensors --no-session --export-map m.map --sort order; echo "exit $?"
"$PLUMB" compare a.safetensors b.safetensors --no-session --map m.map --sort order | grep -c '(map'
sed 's/"y"/"none"/' m.map >wrong.map
"$PLUMB" compare a.safetensors b.safetensors --no-session --map wrong.map; echo "exit $?"

st() { /usr/bin/python3 "$TESTS/st.py" "$@"; }
st r.safetensors 'x=float32:[1,2,3]' 'y=float32:[1,2,3]' 'z=float32:[1,2,3]'
cp r.safetensors same.safetensors
st known.safetensors 'x=float32:[1,2,3.5]' 'y=float32:[1,2,3]' 'z=float32:[1,2,3]'
st worse.safetensors 'x=float32:[1,2,9]' 'y=float32:[1,2,3]' 'z=float32:[1,2,3]'
st new.safetensors 'x=float32:[1,2,3.5]' 'y=float32:[1,2,4]' 'z=float32:[1,2,3]'
for a in known worse new same; do
    [ -e base.json ] || "$PLUMB" compare known.safetensors r.safetensors --no-session --write-baseline base.json --limit 1
    "$PLUMB" compare $a.safetensors r.safetensors --no-session --baseline base.json --limit 1
    echo "$a: exit $?"
done
cat base.json
echo '{"plumb_baseline": 1, "accepted": [{"value": 3}]}' >bad.json
"$PLUMB" compare same.safetensors r.safetensors --no-session --baseline bad.json
echo "exit $?"

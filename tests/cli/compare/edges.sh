# NaN everywhere, empty, 0-d, zero tensors, Inf, other shapes, other types: each has a clear verdict.
/usr/bin/python3 "$TESTS/st.py" a.safetensors 'nans=float32:[nan,nan]' 'empty=float32:np.zeros((0,3))' 'scalar=float32:1.5' 'zeros=float32:[0,0]' \
    'nan_here=float32:[1,nan]' 'inf=float32:[inf,1]' 'inf_sign=float32:[inf]' 'zero_ref=float32:[1e-9,0]' 'shape=float32:[[1,2,3]]' 'type=float32:[1,2]' \
    'ints=int64:[1,2,3]' 'codes=int8:[1,2,3]' 'flags=bool:[1,0]' 'minus=float32:[-0.0]' 'half=float16:[1,2]' 'padded=float32:[1,2,3]' 'row=float32:[[1,2,3]]'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'nans=float32:[nan,nan]' 'empty=float32:np.zeros((0,3))' 'scalar=float32:1.5' 'zeros=float32:[0,0]' \
    'nan_here=float32:[1,2]' 'inf=float32:[inf,1]' 'inf_sign=float32:[-inf]' 'zero_ref=float32:[0,0]' 'shape=float32:[1,2,3,4]' 'type=int64:[1,2]' \
    'ints=int64:[1,2,4]' 'codes=int8:[1,2,4]' 'flags=bool:[1,1]' 'minus=float32:[0.0]' 'half=float32:[1,2.0001]' 'padded=float32:[1,2,3,0]' 'row=float32:[1,2,3]'
"$PLUMB" compare a.safetensors b.safetensors --no-session --json --sort order >out.json
echo "exit $?"
/usr/bin/python3 - <<'END'
import json
s = json.load(open("out.json"))
for p in s["sync_points"]:
    print(p["value"], p["class"], p["metrics"].get("psnr"), p["similarity"], p["verdict"], p["metadata"]["reason"] or "-")
for x in s["left_over"]:
    print("left over", x["value"])
END

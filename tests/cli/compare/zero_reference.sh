# Where the reference is 0 everywhere the limits of max_abs colour, and are called so; of equal PSNR the larger error comes
# first. A cosine is told by its distance from 1. NaN and Inf on both sides are equal, and shown.
/usr/bin/python3 "$TESTS/st.py" a.safetensors 'p=float32:[1.00001,1.00002]' 'small=float32:[1e-5,0]' 'large=float32:[1,0]' 'nan=float32:[nan,inf,nan]'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'p=float32:[1,1]' 'small=float32:[0,0]' 'large=float32:[0,0]' 'nan=float32:[nan,inf,nan]'
"$PLUMB" compare a.safetensors b.safetensors --no-session | tail -n +6
"$PLUMB" compare a.safetensors b.safetensors --no-session --metric cosine | tail -n +6
"$PLUMB" compare a.safetensors b.safetensors --no-session --json |
    /usr/bin/python3 -c 'import json, sys; [print(p["value"], p["limits"]["metric"]) for p in json.load(sys.stdin)["sync_points"]]'

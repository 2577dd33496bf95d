st() { /usr/bin/python3 "$TESTS/st.py" "$@"; }
try() { "$PLUMB" compare "$@" --no-session; echo "exit $?"; }
st good.safetensors 'x=float32:[1,2,3]'
st other.safetensors 'entirely=int64:[[1,2],[3,4]]'
head -c 40 good.safetensors >truncated.safetensors
: >empty.safetensors
/usr/bin/python3 - <<'END'
import json, struct


def write(path, header, data=b""):
    open(path, "wb").write(struct.pack("<Q", len(header)) + header + data)


t = {"dtype": "F32", "shape": [2]}
write("overlap.safetensors", json.dumps({"a": {**t, "data_offsets": [0, 8]}, "b": {**t, "data_offsets": [4, 12]}}).encode(), bytes(12))
write("twice.safetensors", b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8))
open("huge.safetensors", "wb").write(struct.pack("<Q", 1 << 60) + b'{"a":1}')
write("nothing.safetensors", b"{}      ")
END
for f in truncated empty overlap twice huge nothing other missing; do
    try good.safetensors $f.safetensors
done
try good.safetensors good.safetensors --metric taste
try good.safetensors good.safetensors --format pdf
try good.safetensors good.safetensors -o session
try good.safetensors good.safetensors --sort up
try good.safetensors good.safetensors --profile strict
try good.safetensors good.safetensors --same tol=1
try good.safetensors good.safetensors --map good.safetensors
try good.safetensors good.safetensors --plugin ./good.safetensors
ls

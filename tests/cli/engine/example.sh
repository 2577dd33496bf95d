# examples/engine against its model: the first value that differs is the one with the bug.
lib=$(dirname "$PLUMB")
[ -f "$lib/libplumb.so" ] || { echo "no libplumb.so in this build" >&2; exit 77; }
cc -O2 -I"$ROOT/include" "$ROOT/examples/engine/engine.c" -o engine -L"$lib" -lplumb -Wl,-rpath,"$lib" -lm || exit 1
./engine good.safetensors >log && ./engine --bug bad.safetensors >log || exit 1
"$PLUMB" record "$ROOT/examples/engine/digits.onnxtxt" -i image=bad.safetensors -o reference.safetensors >log || exit 1
/usr/bin/python3 - <<'END'
import json, struct
import numpy as np


def load(path):
    data = open(path, "rb").read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    del header["__metadata__"]
    return {k: np.frombuffer(data[8 + n:], np.float32, int(np.prod(v["shape"])), v["data_offsets"][0])
            for k, v in header.items()}


reference, good, bad = (load(f"{n}.safetensors") for n in ("reference", "good", "bad"))
for name in reference:
    print(name, *("same" if np.allclose(x[name], reference[name], 1e-5, 1e-6) else "DIFFERS" for x in (good, bad)))
END

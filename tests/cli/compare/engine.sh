# A hand-written engine with a bug against the model it was written from: the pooling is to blame.
lib=$(dirname "$PLUMB")
[ -f "$lib/libplumb.so" ] || { echo "no libplumb.so in this build" >&2; exit 77; }
cc -O2 -I"$ROOT/include" "$ROOT/examples/engine/engine.c" -o engine -L"$lib" -lplumb -Wl,-rpath,"$lib" -lm || exit 1
./engine good.safetensors >log && ./engine --bug bad.safetensors >log || exit 1
for run in good bad; do
    "$PLUMB" compare $run.safetensors "$ROOT/examples/engine/digits.onnxtxt" --no-session --json >out.json
    echo "$run: exit $?"
    /usr/bin/python3 - <<'END'
import json
s = json.load(open("out.json"))
print(s["verdict"], s["first_divergence"], [(b["op"], b["value"]) for b in s["blame"]])
print([(p["value"], p["verdict"]) for p in s["sync_points"]])
END
done

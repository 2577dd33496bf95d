"$PLUMB" record "$TESTS/small.onnxtxt" --dim N=4 -o a.safetensors >log
cp a.safetensors b.safetensors
"$PLUMB" compare a.safetensors b.safetensors -o s --pack --json >out.json
cmp out.json s/session.json && find s -type f | sed 's/[0-9a-f]\{32\}/HASH/' | sort
"$PLUMB" store verify s/store
/usr/bin/python3 - <<'END'
import json, os
s = json.load(open("s/session.json"))
blobs = {f for _, _, files in os.walk("s/store/blobs") for f in files}
named = {p["metadata"][side]["blob"] for p in s["sync_points"] for side in "ab"}
print(len(named), named == blobs, [p["value"] for p in s["outputs"]], s["model"]["path"].split("/")[-1])
END
"$PLUMB" compare a.safetensors b.safetensors -o s
echo "exit $?"
mkdir here && cd here && "$PLUMB" compare ../a.safetensors ../b.safetensors | tail -2 | head -1 | sed 's/[0-9]\{8\}-[0-9]*-[0-9]*/TIME/'; ls -A plumb-out | wc -l

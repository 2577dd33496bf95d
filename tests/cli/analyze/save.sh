# What the session keeps: all tensors, those of suspects and outputs, none. How many blobs that is depends on which values have the
# same bits on both sides, and so on the processor; but they are those that the indices name, one file each, and no others.
for what in all suspects none; do
    "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=offset@Tanh --save $what -o "$what" >/dev/null
    python3 - "$what" <<'END'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
index = {f.stem: json.loads(f.read_text())["values"] for f in sorted(folder.glob("store/index/*.json"))}
named = {v["blob"] for values in index.values() for v in values}
there = {f.name for f in folder.glob("store/blobs/*/*")}
points = json.loads((folder / "session.json").read_text())["sync_points"]
shown = {p["metadata"][s]["blob"] for p in points for s in "ab" if p["metadata"][s].get("blob")}
assert there == named and shown <= named, (there ^ named, shown - named)
print(f"{folder}:", "; ".join(f"{name} {' '.join(v['value'] for v in values)}" for name, values in index.items()) or "nothing")
END
done
# Large outputs are kept when they differ, not when they agree.
cat >large.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[600,600] x) => (float[600,600] y, float[600,600] z) { y = Abs(x) a = Sin(x) z = Neg(a) }
TEXT
for fault in Abs Sin; do
    "$PLUMB" analyze large.onnxtxt --backend jit:fuse=off,inject=offset@$fault --save suspects -o "large-$fault" >/dev/null
    python3 -c "
import json, sys
points = json.load(open('large-$fault/session.json'))['sync_points']
print('$fault:', *[p['value'] for p in points if p['metadata']['a'].get('blob')])"
done

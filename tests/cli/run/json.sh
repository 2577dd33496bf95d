/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2,3
"$PLUMB" run "$TESTS/small.onnxtxt" -i x=x.npy -o out --json | /usr/bin/python3 -c '
import json, sys
d = json.load(sys.stdin)
print(d["status"], d["timing"]["runs"])
for o in d["outputs"]:
    print(o["name"], o["dtype"], o["shape"], o["min"], o["max"], o["nan"], o["inf"], o["file"])
'

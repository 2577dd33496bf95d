"$PLUMB" info "$TESTS/small.onnxtxt" --json | /usr/bin/python3 -c '
import json, sys
d = json.load(sys.stdin)
print([(i["name"], i["dtype"], i["shape"]) for i in d["inputs"]])
print([o["name"] for o in d["outputs"]], d["nodes"], d["parameters"], d["opsets"], sorted(d["ops"]), d["inferred"])
'

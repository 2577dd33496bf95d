"$PLUMB" ops --json | /usr/bin/python3 -c '
import json, sys
d = json.load(sys.stdin)
names = {(o["domain"], o["name"]) for o in d["ops"]}
print(d["rows"] == len(d["ops"]) > 300, ("ai.onnx", "Conv") in names, ("com.microsoft", "FusedConv") in names)
'

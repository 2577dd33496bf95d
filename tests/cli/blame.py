"""Prints what a JSON document of analyze (standard input) says, without numbers that differ between machines:
verdict, reason without figures, then `node op value members kind where` of each group. With names: those keys."""

import json
import re
import sys

d = json.load(sys.stdin)
if len(sys.argv) > 1:
    for path in sys.argv[1:]:
        x = d
        for key in path.split("."):
            x = x[int(key)] if key.isdigit() else x[key]
        print(path, json.dumps(x))
    sys.exit()
print(d["verdict"], "| first", d["first_divergence"])
for b in d["blame"]:
    kind = re.sub(r"\d\.\d{4,}", lambda m: f"{float(m[0]):.3f}", b["kind"])
    print(b["node"], b["op"], b["value"], ",".join(b["members"]), "|", kind, "|", b["where"])

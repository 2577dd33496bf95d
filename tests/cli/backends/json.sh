"$PLUMB" backends --json | /usr/bin/python3 -c '
import json, sys
rows = json.load(sys.stdin)
print([r["name"] for r in rows], all(sorted(r) == ["available", "cpu", "devices", "name", "reason", "sandbox", "version"] for r in rows))
print(all(r["available"] or r["reason"] for r in rows))'

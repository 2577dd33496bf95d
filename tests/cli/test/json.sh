/usr/bin/python3 "$TESTS/test/make-cases.py" "$TESTS/make.py"
"$PLUMB" test cases --json | /usr/bin/python3 -c '
import json, sys
d = json.load(sys.stdin)
print(d["passed"], d["failed"], d["skipped"], [(c["path"], c["status"]) for c in d["cases"]])
'

# Inputs that hide faults are said so.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit --fill ones --json --save none -o out >log.json
/usr/bin/python3 "$TESTS/blame.py" verdict notes.0 <log.json

# A clean pair: agree, nobody to blame, exit 0, and the session is there.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit --json -o out >log.json
echo "exit $?"
/usr/bin/python3 "$TESTS/blame.py" <log.json
ls out

# Without gold there is no effect and no propagated error, but still a culprit.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=offset@Tanh --skip-gold --json --save none -o out >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json
/usr/bin/python3 "$TESTS/blame.py" blame.0.effect sync_points.0.propagated <log.json

# Both are named, in the order of what they do to the outputs.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend "jit:inject=offset@Sigmoid,inject=scale@Exp" --json --save none -o out >log.json
/usr/bin/python3 "$TESTS/blame.py" <log.json

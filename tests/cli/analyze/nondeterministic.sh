"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=nondeterministic@Tanh --json --save none -o out >log.json 2>err
echo "exit $?"
/usr/bin/python3 "$TESTS/blame.py" verdict reason first_divergence <log.json
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=nondeterministic@Tanh --save none -o out2 | sed -n 's/ (.*//; 1p'
# Not asked, it is a fault like any other; and what was recorded is what is judged.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=nondeterministic@Tanh --skip-determinism --json --save none -o out3 >log.json
/usr/bin/python3 "$TESTS/blame.py" verdict blame.0.value observer_effect <log.json

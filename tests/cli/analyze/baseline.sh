# What is accepted does not fail; what is new, or worse than accepted, does.
run() { "$PLUMB" analyze "$TESTS/net.onnxtxt" --json --save none "$@" >log.json; echo "exit $?"; }
bad="--backend jit:inject=shift@Mul:1"
run $bad --write-baseline known.json -o a
/usr/bin/python3 "$TESTS/blame.py" <log.json
run $bad --baseline known.json -o b
/usr/bin/python3 -c 'import json; s = json.load(open("log.json")); print(s["verdict"], len(s["blame"]), s["first_divergence"], sum(p["accepted"] for p in s["sync_points"]) > 0)'
echo '{"plumb_baseline": 1, "accepted": []}' >none.json
run $bad --baseline none.json -o c
run --backend jit:inject=scale@Sigmoid:1 --baseline known.json -o d
echo '{"plumb_baseline": 2}' >bad.json
run $bad --baseline bad.json -o e

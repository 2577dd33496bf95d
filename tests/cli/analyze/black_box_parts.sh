# Backends that show nothing and that marking disturbs, or that refuse to be marked: parts of the model run on them, the rest on eager.
# slow: many runs of a black box
n=0
export PLUMB
corrupt="plugin:$(dirname "$PLUMB")/corrupt_plugin.so,blind"
[ -f "$(dirname "$PLUMB")/corrupt_plugin.so" ] || { echo "no corrupt_plugin.so in this build" >&2; exit 77; }
ask() { # MODEL HALVINGS SPEC: its nodes can be halved so often
    "$PLUMB" analyze "$1" --backend "$3" --json --save none --repro-level 0 -o "out$((n += 1))" >log.json
    echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json
    /usr/bin/python3 "$TESTS/blame.py" observer_effect <log.json
    # A search by halves: two questions a halving for each of at most two faults, and a few to begin with.
    sed -n 's/.*\(found by running parts.* the rest on eager\): \([0-9]*\) runs, \([0-9]*\) rejected.*/\1 \2 \3/p' log.json |
        /usr/bin/python3 -c 'import sys
for line in sys.stdin:
    words = line.split()
    print(*words[:-2], "| few runs" if int(words[-2]) <= 2 * int(sys.argv[1]) + 8 else "| runs: " + words[-2], "|", words[-1], "rejected")' "$2"
}
echo "== right as soon as a third output is marked"
ask "$TESTS/net.onnxtxt" 3 "$corrupt,value=t,kind=scale,size=0.05,most=2"
echo "== right as soon as the value is looked at: the fault lies between two nodes"
ask "$TESTS/net.onnxtxt" 3 "$corrupt,value=t,kind=scale,size=0.05,inner"
echo "== clean"
ask "$TESTS/net.onnxtxt" 3 "$corrupt"
echo "== a program that refuses more than two outputs, with two faults"
cat >refuses.sh <<'S'
#!/bin/bash
[ "$("$PLUMB" info "$1/model.onnx" --json | /usr/bin/python3 -c 'import json, sys; print(len(json.load(sys.stdin)["outputs"]))')" -le 2 ] || exit 1
exec ./faulty.sh "$1"
S
cat >faults.sh <<'S'
#!/bin/bash
"$PLUMB" info "$1" --json | /usr/bin/python3 -c 'import json, sys; ops = {k.split("-")[0] for k in json.load(sys.stdin)["ops"]}; print(*("--inject " + k + "@" + o for k, o in (("offset", "Sigmoid"), ("scale", "Tanh")) if o in ops))'
S
sed 's|"$dir/model.onnx" --inputs|"$dir/model.onnx" --backend jit $(./faults.sh "$dir/model.onnx") --inputs|' "$ROOT/examples/cmd/run_plumb.sh" >faulty.sh
chmod +x refuses.sh faulty.sh faults.sh
ask "$TESTS/net.onnxtxt" 3 cmd:./refuses.sh
echo "== 121 nodes: few runs"
/usr/bin/python3 - <<'P'
ops = ["Tanh", "Sigmoid", "Softsign", "Atan"]
lines, last = [], "x"
for i in range(60):
    lines.append(f"  a{i} = {ops[i % 4]} ({last})")
    lines.append(f"  b{i} = Add (a{i}, x)")
    last = f"b{i}"
lines.append("  y = Neg (b59)")
print("<ir_version: 8, opset_import: [\"\" : 17]>\nlong (float[4,16] x) => (float[4,16] y)\n{\n" + "\n".join(lines) + "\n}", file=open("long.onnxtxt", "w"))
P
ask long.onnxtxt 7 "$corrupt,value=a41,kind=channel,size=0.5,most=1"
echo "== not wanted"
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend "$corrupt,value=t,kind=scale,size=0.05,most=2" --skip-search --json --save none --repro-level 0 -o skipped >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json

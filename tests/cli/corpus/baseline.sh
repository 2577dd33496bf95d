# New, known and fixed groups; a known one does not fail the run. --diff says what changed.
. "$TESTS/corpus/models.inc"
bad=jit:inject=accuracy@Relu worse=$bad,inject=accuracy@Sigmoid
run() { "$PLUMB" corpus m -b "$1" -o "$2" -q "${@:3}" >log 2>&1; echo "exit $?"; }
states() { python3 -c 'import json, sys; c = json.load(open(sys.argv[1]))
for g in c["groups"] + c["gone"]: print(g["state"], g["name"])' "$1/corpus.json" | sort; }
run $bad first --write-baseline known.json
run $bad second --baseline known.json; states second
run jit fixed --baseline first; states fixed
run "$worse" third --baseline known.json; states third
"$PLUMB" corpus --diff first fixed | sed 's/[0-9a-f]\{12\}/ID/'
"$PLUMB" corpus --diff first third | grep -c 'new group'
"$PLUMB" corpus --diff first

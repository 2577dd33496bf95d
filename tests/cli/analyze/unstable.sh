# 1 + 0.49999997 is 1.5 in float32 and Round jumps there: eager says 2, the recording 1, no operation is to blame, and
# what rounding does to the inputs moves it as far: the rule unstable of run --accuracy. Cancellation is no jump: it fails.
ask() { # NAME B CONSTANT STEP
    printf '<ir_version: 8, opset_import: ["" : 17]>\ng (float[4] x) => (float[4] y) <float[4] c = {%s}> { s = Add(x, c) y = %s }\n' "$3" "$4" >"$1.onnxtxt"
    /usr/bin/python3 -c "import numpy; numpy.savez('$1.npz', y=numpy.array($2, numpy.float32))"
    "$PLUMB" analyze "$1.onnxtxt" --fill ones --reference "$1.npz" --json --save none -o "$1" >log.json
    echo "$1: exit $?"
    /usr/bin/python3 -c "
import json
log = json.load(open('log.json'))
print(*log['reason'].split(':')[:1], *[n for n in log['notes'] if 'unstable' in n], sep='\n')
print([(p['value'], p['verdict'], p['excuse']) for p in log['sync_points'] if p['output']])"
}
ask jump "[1, 2, 1, 1]" "0.49999997, 0.7, 0.25, 0.49999997" "Round(s)"
ask cancelled "[1, 1, 1, 1]" "30000000, 30000000, 30000000, 30000000" "Sub(s, c)"

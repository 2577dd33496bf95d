# A recording given as the reference is the truth: its inputs are used, other inputs are refused, and the model, the runtime or both are at fault.
cat >m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,4] x) => (float[2,4] y)
<float three = {3.0}>
{ l = Mul(x, three)  t = Tanh(l)  y = Sigmoid(t) }
M
/usr/bin/python3 - <<'P'
import numpy as np
x = np.random.RandomState(0).randn(2, 4).astype('f')
def save(name, l, **more):
    t = np.tanh(l)
    values = dict(x=x, l=l, t=t, y=(1 / (1 + np.exp(-t))).astype('f'))
    for drop in more.get('drop', ()):
        del values[drop]
    np.savez(name, **values)
save('right.npz', x * 3)
save('dropped.npz', np.clip(x * 3, 0, 1)) # the exporter lost a clamp
save('no_output.npz', x * 3, drop=['y'])
save('no_input.npz', x * 3, drop=['x'])
np.save('other.npy', x + 1)
P
show='import json, sys; s = json.load(open(sys.argv[1])); print(s["verdict"], s["at_fault"], s["first_divergence"], [b["value"] for b in s["blame"]])'
ask() {
    "$PLUMB" analyze m.onnxtxt "$@" --json --save none --repro-level 0 -o out >log.json; code=$?
    [ $code = 2 ] && [ ! -s log.json ] || /usr/bin/python3 -c "$show" log.json
    echo "exit $code"; rm -rf out
}
for profile in plumb torch; do
    ask --backend jit --reference right.npz --profile $profile
    ask --backend jit --reference dropped.npz --profile $profile
    ask --backend jit:inject=scale@Tanh --reference right.npz --profile $profile
    ask --backend jit:inject=scale@Tanh --reference dropped.npz --profile $profile
done
ask --backend jit --reference no_output.npz
ask --backend jit --reference no_input.npz
ask --backend jit --reference right.npz --input x=other.npy
gate() { "$PLUMB" run m.onnxtxt --accuracy "$@" --repro-level 0 --json >log.json 2>err; echo "exit $?"; sed 's/: output.*//' err; /usr/bin/python3 -c 'import json; r = json.load(open("log.json")); print(r["status"], r["accuracy"]["at_fault"])' 2>/dev/null; }
gate --backend jit --reference right.npz
gate --backend jit --reference dropped.npz
gate --backend jit:inject=scale@Tanh --reference right.npz
gate --backend jit:inject=scale@Tanh --reference dropped.npz
gate --backend jit --reference no_output.npz
gate --backend jit --reference right.npz --input x=other.npy
both() { "$PLUMB" compare m.onnxtxt "$@" --no-session --json >log.json; code=$?; /usr/bin/python3 -c "$show" log.json; echo "exit $code"; }
both right.npz --backend jit
both dropped.npz --backend jit
both right.npz --backend jit:inject=scale@Tanh

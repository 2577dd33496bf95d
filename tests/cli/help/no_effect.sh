# An option that would change nothing is an error: it needs another one, or names what is not there.
try() { "$PLUMB" "$@" >log 2>err; code=$?; head -1 err; echo "exit $code"; }
cat >m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[batch,4] x) => (float[batch,4] y) { a = Tanh(x)  y = Relu(a) }
M
/usr/bin/python3 -c 'import numpy; numpy.save("x.npy", numpy.ones((2, 4), "f4")); numpy.savez("a.npz", y=numpy.ones(3, "f4")); numpy.savez("b.npz", y=numpy.ones(3, "f4"))'
for option in "--reference jit" "--reference-model m.onnxtxt" "--profile torch" "--tol 1" "--baseline b.json" "--write-baseline b.json" --no-eval --reference-amp "--timeout 1" \
    "--memory-limit 100" "--save none -o out" "--save-as pb -o out.npz" "--input x=x.npy --range x=0:1" "--input x=x.npy --dim batch=5" "--input x=x.npy --fill zeros"; do
    # shellcheck disable=SC2086
    try run m.onnxtxt $option
done
try record m.onnxtxt --op Tanh --op Rleu -o r
try record m.onnxtxt --repro-level 4 -o r
for option in "--backend jit" "--reference jit" "--input x=x.npy" "--dim batch=2" "--fill ones"; do
    # shellcheck disable=SC2086
    try compare a.npz b.npz --no-session $option
done
try minify m.onnxtxt --backend jit:inject=scale@Tanh --fail-code 3 -o r
try minify m.onnxtxt --backend jit:inject=scale@Tanh --check-str text -q -o r
try minify m.onnxtxt --backend jit:inject=scale@Tanh --query --zip
try convert m.onnxtxt c.onnx --dim batch=3
try convert m.onnxtxt c.onnx --backward joint --dim Batch=3
try convert m.onnxtxt c.onnx --max-elements 3
try convert m.onnxtxt c.onnxtxt --external
try info m.onnxtxt --dim Batch=3
try info a.npz --nodes
try store ls . --dry-run
try corpus m.onnxtxt --backend jti -o c
try run m.onnxtxt --accuracy --backend jit --profile torch --same tl=1
try view . --source nowhere --no-open
"$PLUMB" analyze m.onnxtxt --backend jit:inject=scale@Tanh -o s >log
try report s --format md --max-size 3
try report s --limit 3 -o r.html
try report s --metric pnsr -o r.html

# Items that cannot be judged are told with their reasons; links to models are followed inside the folder and refused when they lead out of it.
. "$TESTS/corpus/models.inc"
mkdir s
printf 'no model' >s/a.onnx
printf 'none either' >s/b.onnx
"$PLUMB" corpus s -b jit -o out -q
"$PLUMB" corpus s -b jit -o out2 -q >/dev/null
echo "exit $?"
ln -s a.onnxtxt m/inside.onnxtxt
"$PLUMB" corpus m -b jit --dry-run | head -n 1
printf '<ir_version: 8, opset_import: ["" : 17]>\ng (float[1] x) => (float[1] y) { y = Abs(x) }\n' >secret.onnxtxt
ln -s ../secret.onnxtxt m/outside.onnxtxt
"$PLUMB" corpus m -b jit --dry-run
printf 'm/outside.onnxtxt\n' >list
"$PLUMB" corpus list -b jit --dry-run | head -n 1

# Two backends that agree under the profile do not "agree with each other and not with the reference", far as Sin may be from it on WebGPU; two
# that are off at Erf do.
source "$TESTS/webgpu/common.inc"
for op in Sin Erf; do
    printf '<ir_version: 8, opset_import: ["" : 17]>\ng (float[32,32] x) => (float[32,32] y) { y = %s(x) }\n' $op >$op.onnxtxt
    "$PLUMB" analyze $op.onnxtxt --backend "$GPU" --backend "$GPU,opt=off" -o $op --repro-level 0 2>/dev/null | sed -n '2,4s/ (q.*//; 2,4s/ [0-9.]*:/:/; 2,4p'
done

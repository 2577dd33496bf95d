# What the compiler emits is eager's function in the corners, too: casts and attributes out of range, numbers that are not finite, sizes that only the kernel refuses.
# slow: compiles many small models
# The compiler is told to trap what C leaves undefined.
export XDG_CACHE_HOME=$PWD/cache
mkdir bin
printf '#!/bin/sh\nexec %s -fsanitize=undefined,float-cast-overflow -fsanitize-undefined-trap-on-error "$@"\n' "$(command -v cc)" >bin/cc
chmod +x bin/cc
export PATH=$PWD/bin:$PATH
both() { # NAME OPSET GRAPH RUN-OPTION…
    printf '<ir_version: 8, opset_import: ["" : %s, "ai.onnx.ml" : 3, "com.microsoft" : 1]>\ng %s\n' "$2" "$3" >"$1.onnxtxt"
    for backend in eager jit; do
        "$PLUMB" run "$1.onnxtxt" --backend $backend "${@:4}" --repro-level 0 -o "$1-$backend.npz" >/dev/null 2>"$1-$backend.err"
        echo $? >"$1-$backend.exit"
    done
    /usr/bin/python3 - "$1" <<'P'
import sys
import numpy as np
name = sys.argv[1]
codes = [int(open(f"{name}-{b}.exit").read()) for b in ("eager", "jit")]
if codes != [0, 0]:
    text = open(f"{name}-jit.err").read().strip()
    print(name, "exit", codes, *text.splitlines()[:1])
else:
    a, b = (np.load(f"{name}-{x}.npz") for x in ("eager", "jit"))
    wrong = [k for k in a.files if not np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f")]
    print(name, "differs in" if wrong else "agrees", *wrong)
P
}
both casts 13 '(float[64] x, double[64] z) => (a, b, c, d, e) { a = Cast<to=3>(x) b = Cast<to=5>(x) c = Cast<to=6>(x) d = Cast<to=13>(x) e = Cast<to=6>(z) }' --range x=-4e19:4e19 --range z=-4e19:4e19
both logs 13 '(int32[4,3] x) => (y) { n = Neg(x) y = ReduceLogSum<axes=[1]>(n) }' --range x=1:9
both shrink 13 '(int32[9] x) => (y) { y = Shrink<lambd=-1.0, bias=1.5>(x) }' --range x=-4:4
both infinite 13 '(float[2,3,4] x, float[3] s, float[3] v) => (a, b, c, d) { a = BatchNormalization<epsilon=inf>(x, s, s, s, v) b = LRN<size=3, bias=nan>(x) c = ai.onnx.ml.Binarizer<threshold=inf>(x) d = InstanceNormalization<epsilon=inf>(x, s, s) }' --range v=1:2
both power 1 '(float[2,3,4] x) => (y) { y = GlobalLpPool<p=inf>(x) }' --range x=-0.9:0.9
both resized 19 '(int32[1,1,3,4] x, bool[1,1,3,4] t) => (y, u) <float[8] roi = {0, 0, 0.2, -0.3, 1, 1, 0.8, 1.4}, int64[4] n = {1, 1, 5, 3}> { y = Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=1e20>(x, roi, , n) u = Resize<mode="linear">(t, , , n) }'
both activated 13 '(float[1,2,7] x, float[3,2,3] w) => (y) { r = Sqrt(x) y = com.microsoft.FusedConv<activation="HardSigmoid">(r, w) }' --range x=-2:-1
both undefined 20 '(float16[18] x, float[4] z) => (y, q, s, t) { r = Sqrt(x) y = Gelu(r) l = Log(z) n = Neg(l) c = Concat<axis=0>(l, n) q, s, t = DynamicQuantizeLinear(c) }' --range x=-2:-1 --range z=0:0
both few 7 '(float[2,3,4] x, float[3] s, float[3] v) => (y) { y = BatchNormalization<spatial=0>(x, s, s, s, v) }' --range v=1:2
both lengths 10 '(float[3,4,2] x, int64[1] n) => (y) { y = ReverseSequence(x, n) }' --range n=1:3

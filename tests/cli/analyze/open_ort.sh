# Where ONNX leaves something open (the mean of nothing, a bicubic sample beside the image, padding times an infinite weight, where two queries stand among four keys) the other reading is no fault, nor is what follows from it.
# What its words settle is one: clip goes before every activation of LSTM, so before h too; ONNX Runtime leaves h out.
# A run that fits neither reading is a fault (GridSample of 1.16.3).
old=$ROOT/.cache/ort-1.16.3/libonnxruntime.so.1
[ -f "$old" ] || { echo "ONNX Runtime 1.16.3 is not in .cache (tools/fetch-ort)" >&2; exit 77; }
put() { printf '<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1, "ai.onnx.ml" : 3]>\ng %s\n' "$2" >"$1.onnxtxt"; }
put mean '(float[2,0,3] x, float[2,1,3] b) => (float[2,1,3] y) <int64[1] a = {1}> { m = ReduceMean(x, a) y = Add(m, b) }'
put grid '(float[1,2,4,5] x, float[1,6,6,2] p) => (float[1,2,6,6] y) { s = GridSample<mode="bicubic", padding_mode="border">(x, p) y = Sin(s) }'
put lstm '(float[6,2,3] x, float[1,20,3] w, float[1,20,5] r, float[1,40] b) => (y) { y, h, c = LSTM<hidden_size=5, clip=0.2>(x, w, r, b) }'
put pads '(float[1,1,6,6] x) => (float[1,2,6,6] y) <float[2,1,3,3] w = {inf, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9}> { s = Conv<pads=[1,1,1,1]>(x, w) y = Tanh(s) }'
put heads '(float[1,2,8] q, float[1,4,8] k, float[1,4,8] v) => (float[1,2,8] y) { s = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>(q, k, v) y = Tanh(s) }'
put largest '(float[4,8] x) => (float[4,8] y) { n = ai.onnx.ml.Normalizer<norm="MAX">(x) y = Sin(n) }'
put margin '(float[8,4] x) => (l, y) { l, s = ai.onnx.ml.LinearClassifier<coefficients=[0.5, -1.0, 0.25, 2.0], intercepts=[0.1], classlabels_ints=[3, 5]>(x) y = Sin(s) }'
ask() { # MODEL BACKEND…
    "$PLUMB" analyze "$1.onnxtxt" --backend "$2" "${@:3}" --json --save none -o "$1-${2%%:*}-${#2}" >log.json
    echo "$1: exit $?"
    /usr/bin/python3 -c "
import json
log = json.load(open('log.json'))
print(log['verdict'], [b['op'] for b in log['blame']], [(p['value'], p['verdict'], p['excuse']) for p in log['sync_points']])"
}
ask mean ort
ask grid ort --range p=-1.6:1.6
ask lstm ort
ask pads ort:opt=all
ask pads ort:opt=basic
ask heads ort
ask heads jit:inject=scale@MultiHeadAttention
ask largest ort --range x=-4:1
ask largest jit:inject=scale@Normalizer
ask margin ort
ask margin jit:inject=scale@LinearClassifier
ask pads jit:inject=scale@Conv
ask grid "ort:lib=$old" --range p=-1.6:1.6

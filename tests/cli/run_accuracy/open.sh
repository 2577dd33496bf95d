# What fits the other reading of what ONNX leaves open (the mean of nothing, a bicubic sample beside the image) passes by the rule `open`; a fault beside it does not.
put() { printf '<ir_version: 8, opset_import: ["" : 18]>\ng %s\n' "$2" >"$1.onnxtxt"; }
put mean '(float[2,0,3] x, float[2,1,3] b) => (float[2,1,3] y) <int64[1] a = {1}> { m = ReduceMean(x, a) y = Add(m, b) }'
put grid '(float[1,2,4,5] x, float[1,6,6,2] p) => (float[1,2,6,6] y) { s = GridSample<mode="bicubic", padding_mode="border">(x, p) y = Sin(s) }'
ask() { "$PLUMB" run "$@" --accuracy --repro-level 0 2>/dev/null | grep -v "^load" | cut -d, -f1; echo "exit ${PIPESTATUS[0]}"; }
ask mean.onnxtxt --backend ort
ask grid.onnxtxt --range p=-1.6:1.6 --backend ort
ask grid.onnxtxt --range p=-1.6:1.6 --backend ort --profile torch
ask grid.onnxtxt --range p=-1.6:1.6 --backend jit --inject scale@GridSample
"$PLUMB" minify grid.onnxtxt --backend ort --accuracy --range p=-1.6:1.6 -o small 2>&1; echo "exit $?"

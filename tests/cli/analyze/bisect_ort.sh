# A real defect: Pad fused into AveragePool in ONNX Runtime 1.19.2. On the next version nothing is wrong.
bad=$ROOT/.cache/ort-1.19.2/libonnxruntime.so.1 good=$ROOT/.cache/ort-1.22.0/libonnxruntime.so.1
[ -f "$bad" ] && [ -f "$good" ] || { echo "ONNX Runtime 1.19.2 and 1.22.0 are not in .cache (tools/fetch-ort)" >&2; exit 77; }
cat >pad.onnxtxt <<'M'
<ir_version: 7, opset_import: ["" : 13]>
g (float[1,2,5,5] x) => (float[1,2,7,7] y)
<int64[8] pads = {0,0,1,1,0,0,1,1}>
{
  [pad] p = Pad (x, pads)
  [pool] y = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (p)
}
M
"$PLUMB" analyze pad.onnxtxt --backend "ort:opt=all,lib=$bad" --bisect --json --save none -o bad >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json; /usr/bin/python3 "$TESTS/blame.py" bisect <log.json
"$PLUMB" analyze pad.onnxtxt --backend "ort:opt=all,lib=$good" --json --save none -o good >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json

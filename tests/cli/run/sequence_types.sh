# A sequence of another element type than the model declares is refused, as a tensor is; so is a file with items of several types.
head='<ir_version: 8, opset_import: ["" : 17]>'
echo "$head g (int64[4] x) => (seq(int64[4]) s) { s = SequenceConstruct (x, x) }" >make.onnxtxt
echo "$head g (seq(float[4]) s) => (float[8] y) { y = ConcatFromSequence <axis = 0> (s) }" >join.onnxtxt
"$PLUMB" run make.onnxtxt --save-as pb -o made >/dev/null
for b in eager jit; do "$PLUMB" run join.onnxtxt -i s=made/s.pb --backend $b --save none --repro-level 0 2>&1; done
/usr/bin/python3 - <<'PY'
# elem_type 1; two items: float[1] and int8[1] in raw_data
item = lambda dtype, raw: bytes([0x08, 1, 0x10, dtype, 0x4A, len(raw)]) + raw
parts = [item(1, b"\0\0\0\0"), item(3, b"\0")]
open("mixed.pb", "wb").write(b"\x10\x01" + b"".join(bytes([0x1A, len(p)]) + p for p in parts))
PY
"$PLUMB" run join.onnxtxt -i s=mixed.pb --save none 2>&1

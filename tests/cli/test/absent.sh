# DESIGN section 2: an absent expected output is not compared. The case passes, and says what was left out.
cat >two.onnxtxt <<'END'
<ir_version: 8, opset_import: ["" : 17]>
two (float[2] x) => (float[2] y, float[2] z) {
    y = Relu(x)
    z = Neg(x)
}
END
mkdir -p cases/test_two/test_data_set_0
"$PLUMB" convert two.onnxtxt cases/test_two/model.onnx
/usr/bin/python3 - <<'END'
import struct

for name, values in (("input_0", (1, 2)), ("output_0", (1, 2))):
    with open(f"cases/test_two/test_data_set_0/{name}.pb", "wb") as f:
        f.write(bytes((0x08, 2, 0x10, 1, 0x4A, 8)) + struct.pack("<2f", *values))
END
"$PLUMB" test cases

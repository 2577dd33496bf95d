# dump.json of a stranger names its own folder: an error, not a recursion without end.
mkdir -p dump/dump_tensor_data
printf '{"data":{"a":{"data_name":".."}}}' >dump/dump.json
printf '<ir_version: 8, opset_import: ["": 17]>\ng (float[2] x) => (float[2] y) { y = Relu(x) }\n' >m.onnxtxt
"$PLUMB" record m.onnxtxt -o a.safetensors >log
"$PLUMB" compare dump a.safetensors -o out

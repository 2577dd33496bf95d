#!/bin/bash
# A worked example of the cmd backend: called as `run_plumb.sh DIR`, it runs DIR/model.onnx on the inputs in
# DIR/test_data_set_0 and leaves output_N.pb there, in the order of the model's outputs. Here the program under test is
# plumb's own interpreter; put yours in its place:   plumb run MODEL --backend cmd:examples/cmd/run_plumb.sh
set -euo pipefail
dir=$1
out=$dir/out
report=$("${PLUMB:-plumb}" run "$dir/model.onnx" --inputs "$dir/test_data_set_0" --save-as pb -o "$out" --json)
n=0
while IFS= read -r file; do
    mv "$file" "$dir/test_data_set_0/output_$n.pb"
    n=$((n + 1))
done < <(sed -n 's/^ *"file": "\(.*\)",*$/\1/p' <<<"$report")
rm -rf "$out"

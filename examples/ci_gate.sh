#!/bin/sh
# Gate a model in CI: the runtime must compute what the original computes.
# Usage: examples/ci_gate.sh MODEL.onnx [BACKEND [OPTIONS…]], say: model.onnx ort --backward --grad-seed 1
# Exit 0 it agrees, 1 it does not (the operation to blame is named), 3 the runtime failed.
model=$1 backend=${2:-ort} plumb=${PLUMB:-plumb}
shift $(($# < 2 ? $# : 2))
"$plumb" run "$model" --accuracy --backend "$backend" --format junit "$@" >plumb-gate.xml
code=$?
[ $code -eq 0 ] || "$plumb" analyze "$model" --backend "$backend" --format github -o plumb-session
exit $code

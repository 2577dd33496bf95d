#!/bin/sh
# Gate a model in CI: the runtime must compute what the original computes.
# Usage: examples/ci_gate.sh MODEL.onnx [BACKEND [OPTIONS of plumb run…]], say: model.onnx ort --reference float.onnx --dim batch=8
# Writes plumb-gate.xml (JUnit) in any case. Where the outputs differ or the runtime fails, plumb analyze names the operation to blame, with the
# same inputs, dims and reference, and leaves a session in plumb-session, plumb-session-2, ….
# Exit 0 it agrees, 1 it does not, 2 bad usage or bad input, 3 the runtime failed.
model=${1:?usage: ci_gate.sh MODEL.onnx [BACKEND [OPTIONS…]]} backend=${2:-ort} plumb=${PLUMB:-plumb}
shift $(($# < 2 ? $# : 2))
"$plumb" run "$model" --accuracy --backend "$backend" --format junit "$@" >plumb-gate.xml
code=$?
[ -s plumb-gate.xml ] || cat >plumb-gate.xml <<XML
<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="plumb" tests="1" failures="0" errors="1"><testcase name="gate"><error message="plumb run: exit code $code"/></testcase></testsuite></testsuites>
XML
if [ $code -eq 1 ] || [ $code -eq 3 ]; then
    n=$# # what only run knows is left out
    while [ "$n" -gt 0 ]; do
        option=$1
        shift && n=$((n - 1))
        case $option in
        --strict-accuracy | --eval | --no-eval | --reference-amp | --backward | --explain | --fresh-cache | --runs=* | --loss-output=* | --grad-seed=* | --write-baseline=*) ;;
        --runs | --loss-output | --grad-seed | --write-baseline) [ "$n" -eq 0 ] || { shift && n=$((n - 1)); } ;;
        *) set -- "$@" "$option" ;;
        esac
    done
    session=plumb-session i=1
    while [ -e "$session" ]; do i=$((i + 1)) session=plumb-session-$i; done
    "$plumb" analyze "$model" --backend "$backend" --format github -o "$session" "$@"
fi
exit $code

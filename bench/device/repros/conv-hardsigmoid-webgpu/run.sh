#!/bin/sh
# ./run.sh [run|minify|analyze|query]   (default: query)
plumb_dir=$(dirname "$0")
plumb_model=$plumb_dir/model.onnx
plumb=${PLUMB:-plumb}
what=${1:-query}
[ $# -gt 0 ] && shift
case "$what" in
run) exec "$plumb" run "$plumb_dir" --backend 'ort:providers=WebGPU' "$@" ;;
analyze) exec "$plumb" analyze "$plumb_dir" --backend 'ort:providers=WebGPU' "$@" ;;
minify) exec "$plumb" minify "$plumb_dir" --backend 'ort:providers=WebGPU' --signature "$plumb_dir/repro.json" "$@" ;;
query) exec "$plumb" minify --query --trust "$plumb_dir" "$@" ;;
*) echo "usage: ./run.sh [run|minify|analyze|query]" >&2; exit 2 ;;
esac

if ! "$PLUMB" backends --json | /usr/bin/python3 -c 'import json, sys; sys.exit(not json.load(sys.stdin)[1]["available"])'; then
    echo "ONNX Runtime not found" >&2
    exit 77
fi
for opt in off all; do "$PLUMB" run "$TESTS/small.onnxtxt" --save none --backend ort:opt=$opt,threads=1 --json | grep -c '"name"'; done

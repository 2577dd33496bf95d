# A sparse initializer of a few bytes whose dense form is nearly all memory of the machine (which Linux would promise), or more than a size can say; and indices that do not fit.
sum() { /usr/bin/python3 "$TESTS/make.py" "sparse:$1" "$2.onnx" && "$PLUMB" run "$2.onnx" --save none 2>&1 | sed '/^load/d; s/[0-9]\{6,\}/N/g'; echo "exit ${PIPESTATUS[0]}"; }
sum 2x3 small
sum 2x3,1x2 pairs
sum 2x3,1x1 short
kb=$(awk '/^(MemTotal|SwapTotal):/ { sum += $2 } END { print sum }' /proc/meminfo)
sum $(((kb - 65536) * 256)) large
sum 4611686018427387904 huge

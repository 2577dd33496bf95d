# A crash of the backend is told with its signal; AddressSanitizer would catch the signal itself.
[ -z "${ASAN_OPTIONS:-}" ] || { echo "AddressSanitizer turns the signal into an exit" >&2; exit 77; }
"$PLUMB" run "$TESTS/small.onnxtxt" --save none --inject crash@Relu 2>&1 | grep -v '^load'
echo "exit ${PIPESTATUS[0]}"

# An output that cannot be written leaves nothing: no folder with half of the outputs, no temporary file.
(ulimit -f 0; exec "$PLUMB" run "$TESTS/net.onnxtxt" -o out >/dev/null 2>&1)
echo "exit $?"
mkdir empty
(ulimit -f 0; exec "$PLUMB" run "$TESTS/net.onnxtxt" -o empty >/dev/null 2>&1)
echo "exit $?"
find . | sort

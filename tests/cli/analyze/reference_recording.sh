# B is a recording: paired by name, blamed by replaying A's own graph.
"$PLUMB" record "$TESTS/net.onnxtxt" -o good.safetensors >/dev/null
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit --reference good.safetensors --json --save none -o clean >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=shift@Mul:1 --reference good.safetensors --json --save none -o bad >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json

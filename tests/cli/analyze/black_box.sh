# A program that shows its outputs only: values are marked as outputs, and the fault is found inside.
export PLUMB
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend "cmd:$ROOT/examples/cmd/run_plumb.sh" --json --save none -o clean >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json
sed 's|"$dir/model.onnx" --inputs|"$dir/model.onnx" --inject scale@Tanh --inputs|' "$ROOT/examples/cmd/run_plumb.sh" >faulty.sh
chmod +x faulty.sh
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend cmd:./faulty.sh --json --save none -o bad >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json

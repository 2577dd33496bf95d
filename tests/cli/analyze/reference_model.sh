# A model with one operator changed, against the original: on eager both compute what they say, and the node is named.
sed 's/s = Sigmoid/s = HardSigmoid/' "$TESTS/net.onnxtxt" >other.onnxtxt
"$PLUMB" analyze other.onnxtxt --reference "$TESTS/net.onnxtxt" --json --save none -o out >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json
sed 's/half = {0.5}/half = {0.51}/' "$TESTS/net.onnxtxt" >weight.onnxtxt
"$PLUMB" analyze weight.onnxtxt --backend jit --reference "$TESTS/net.onnxtxt" --json --save none -o out2 >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" <log.json | sed 1d | cut -d'|' -f1 | grep -o 'c\b' | head -1
# --reference-model with a backend for it
"$PLUMB" analyze other.onnxtxt --reference jit --reference-model "$TESTS/net.onnxtxt" --json --save none -o out3 >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" blame.0.value b.spec <log.json

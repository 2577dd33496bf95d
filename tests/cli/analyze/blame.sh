# Every accuracy kind of --inject at one node: that node is named, first and alone, and so is the kind.
for kind in accuracy nan bf16 offset scale sign transpose shift saturate channel tail zero one-element; do
    "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend "jit:inject=$kind@Mul:1" --json --save none -o "out-$kind" >log.json
    echo "$kind: exit $?"
    /usr/bin/python3 "$TESTS/blame.py" <log.json | sed -n '2,$p'
done

# A compile error, a run-time error, a crash and a hang are verdicts; the node with which they begin is named.
for kind in compile-error runtime-error crash hang; do
    limit=60
    [ $kind = hang ] && limit=5 # compiling counts, on a busy machine too
    "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend "jit:inject=$kind@Sigmoid" --timeout $limit --json --save none -o "out-$kind" >log.json 2>err
    echo "$kind: exit $?"
    /usr/bin/python3 "$TESTS/blame.py" <log.json
done

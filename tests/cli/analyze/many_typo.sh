# A typo in the last of several backends is told before the first one runs, and leaves no folder.
for spec in orl jit:fuze=off; do
    "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit --backend "$spec" -o out 2>&1
    echo "exit $?"
done
ls

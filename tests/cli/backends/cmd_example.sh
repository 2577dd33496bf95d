export PLUMB
"$PLUMB" run "$TESTS/small.onnxtxt" --save none --json | grep hash >a
"$PLUMB" run "$TESTS/small.onnxtxt" --save none --json --backend "cmd:$ROOT/examples/cmd/run_plumb.sh" | grep hash >b
cmp a b && wc -l <a

# The result is the same for any number of jobs, and for shards that are merged, in several folders or in one.
# slow: five whole runs
. "$TESTS/corpus/models.inc"
run() { "$PLUMB" corpus m -b jit -b jit:inject=accuracy@Relu -q "$@" >log 2>&1; echo "exit $?"; }
run -o one --jobs 1
run -o four --jobs 4
for i in 1 2 3; do run -o "s$i" --shard "$i/3"; done
"$PLUMB" corpus --merge s3 s1 s2 -o merged -q >log 2>&1; echo "exit $?"
for i in 1 2 3; do run -o together --shard "$i/3"; done
"$PLUMB" corpus --merge together -q >log 2>&1; echo "exit $?"
for x in four merged together; do cmp one/corpus.json "$x/corpus.json" && echo "$x: same"; done
# A shard that is left out is noticed.
"$PLUMB" corpus --merge s1 s2 -o hole -q 2>&1 | tail -n 1
# A shard of another list is refused.
"$PLUMB" corpus m/a.onnxtxt -b jit -o other --shard 1/3 -q >log 2>&1
"$PLUMB" corpus --merge s1 other -o mixed
[ -e mixed ] && echo "left half-written"
# What is there already is not overwritten.
"$PLUMB" corpus m -b jit -b jit:inject=accuracy@Relu -o one
exit $?

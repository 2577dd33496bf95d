# A run that was killed goes on; an item in flight at two deaths is reported and skipped, one death or a stop on purpose is not enough.
. "$TESTS/corpus/models.inc"
"$PLUMB" corpus m -b jit -o whole -q >log 2>&1; echo "exit $?"
part=out/parts/1-of-1.jsonl
mkdir -p out/parts out/items
cp whole/items.json out/
key() { grep -o "\"$1.onnxtxt-[0-9a-f]*\"" whole/items.json | tr -d '"'; }
{ # a and b were in flight at a death, a at another; c at a stop on purpose, twice; the last line is cut off
    echo '{"t":"open","pid":1}'
    for k in a b; do echo "{\"t\":\"start\",\"key\":\"$(key $k)\"}"; done
    echo '{"t":"open","pid":2}'
    echo "{\"t\":\"start\",\"key\":\"$(key a)\"}"
    for i in 1 2; do
        echo '{"t":"open","pid":3}'
        echo "{\"t\":\"start\",\"key\":\"$(key c)\"}"
        echo '{"t":"stop"}'
    done
    printf '{"t":"done","key":"%s","seco' "$(key b)"
} >$part
"$PLUMB" corpus m -b jit -o out
"$PLUMB" corpus m -b jit -o out --resume -q; echo "exit $?"
"$PLUMB" corpus m -b jit -o again --resume --deaths 0 -q >log 2>&1; echo "exit $?"
cmp whole/corpus.json again/corpus.json && echo "nothing to resume: a run from the start"
"$PLUMB" corpus m -b jit -o whole --resume -q >log 2>&1; echo "exit $?"
grep -c '"t":"start"' whole/parts/1-of-1.jsonl
"$PLUMB" corpus m -b eager -o whole --resume

# A session's folder stands for its store.
"$PLUMB" analyze "$TESTS/small.onnxtxt" --backend jit -o s >log
for verb in ls verify "gc --dry-run" gc; do
    # shellcheck disable=SC2086
    "$PLUMB" store $verb s >of_session
    echo "exit $?"
    # shellcheck disable=SC2086
    "$PLUMB" store $verb s/store | cmp - of_session
done
"$PLUMB" store verify s | sed 's/[1-9][0-9]*/N/g'
rm -r s/store
"$PLUMB" store ls s
echo "exit $?"

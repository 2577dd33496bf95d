# -v prints the time on standard error, -q nothing; both work in every command and change no result.
model=$TESTS/net.onnxtxt
for command in "info $model" "run $model --save none" "analyze $model --backend jit -o out" "convert $model out.onnx" "ops Relu" "backends"; do
    # shellcheck disable=SC2086
    "$PLUMB" $command -q >/dev/null 2>quiet; echo "${command%% *} -q: exit $?, $(wc -l <quiet) lines"
    # shellcheck disable=SC2086
    "$PLUMB" ${command/out/again} -v >/dev/null 2>verbose; echo "-v: exit $?, $(tail -n 1 verbose | sed 's/[0-9.]* s in/N s in/')"
done

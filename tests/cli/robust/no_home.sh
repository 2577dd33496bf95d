# A HOME that does not exist is not made, and jit keeps its cache elsewhere.
[ ! -e /nonexistent ] || { echo "/nonexistent exists" >&2; exit 77; }
XDG_CACHE_HOME= HOME=/nonexistent "$PLUMB" run "$TESTS/small.onnxtxt" --backend jit --save none >/dev/null && echo ran
[ ! -e /nonexistent ] && echo not made
# Nor does a file in its way stop it.
touch file
XDG_CACHE_HOME="$PWD/file" HOME=/nonexistent "$PLUMB" run "$TESTS/small.onnxtxt" --backend jit --save none >/dev/null && echo ran

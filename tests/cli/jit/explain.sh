# --explain lists breaks and reasons; --debug-dir leaves every pass; a second run comes from the cache.
export XDG_CACHE_HOME=$PWD/cache
"$PLUMB" run "$TESTS/small.onnxtxt" --save none --explain --debug-dir passes | grep -v '^load'
ls passes
"$PLUMB" run "$TESTS/small.onnxtxt" --save none --explain | grep -o 'from the cache'
"$PLUMB" run "$TESTS/small.onnxtxt" --save none --explain --fresh-cache | grep -c 'from the cache'
"$PLUMB" run "$TESTS/small.onnxtxt" --save none --explain --inject scale@Relu | grep planted

# A compiler that dies or fails without a word, and a cache whose files were cut off.
export XDG_CACHE_HOME=$PWD/cache
mkdir bin
run() { "$PLUMB" run "$TESTS/small.onnxtxt" --backend jit --save none --repro-level 0 "$@" 2>&1 | sed -n 1p; }
for what in 'kill -9 $$' 'exit 3'; do
    printf '#!/bin/sh\n%s\n' "$what" >bin/cc
    chmod +x bin/cc
    PATH=$PWD/bin:$PATH run
done
run
for f in cache/plumb/jit/*.so; do truncate -s 5000 "$f"; done
run
for f in cache/plumb/jit/*.so; do printf x | dd of="$f" bs=1 seek=3000 conv=notrunc status=none; done
for i in 1 2; do "$PLUMB" run "$TESTS/small.onnxtxt" --save none --explain | grep -c 'from the cache'; done
long=$PWD/$(printf 'd%.0s' {1..200})/$(printf 'e%.0s' {1..200})/$(printf 'f%.0s' {1..200})
XDG_CACHE_HOME=$long run
ls "$long"

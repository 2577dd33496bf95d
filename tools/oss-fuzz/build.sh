#!/bin/bash -eu
# Builds every fuzz target the way OSS-Fuzz wants it: CC, CFLAGS and LIB_FUZZING_ENGINE come from outside; programs, seed corpora and options
# go to $OUT. Runs in the source folder. `tools/check-oss-fuzz` does the same here.
build=${WORK:-/tmp}/plumb-oss-fuzz
# Sources are listed when meson configures: a folder that is kept is configured again.
[ ! -f "$build/build.ninja" ] || again=--reconfigure
meson setup ${again:-} "$build" -Dfuzz=true "-Dfuzz_engine=$LIB_FUZZING_ENGINE" -Doptimization=plain
ninja -C "$build" fuzz
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    cp "$build/$name" "$OUT/"
    rm -f "$OUT/${name}_seed_corpus.zip"
    (cd "tests/fuzz/corpus/${name#fuzz_}" && zip -q -r "$OUT/${name}_seed_corpus.zip" .)
    printf '[libfuzzer]\ntimeout = 20\nrss_limit_mb = 2048\n' >"$OUT/$name.options"
done

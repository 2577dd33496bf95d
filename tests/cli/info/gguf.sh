cp "$ROOT/tests/fuzz/corpus/gguf/q4_0" w.gguf
"$PLUMB" info w.gguf
"$PLUMB" info w.gguf --json
head -c 100 w.gguf >cut.gguf
! "$PLUMB" info cut.gguf

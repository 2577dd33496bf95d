# A tensor of the session that cannot be read is told, not left out without a word.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit -o ses >/dev/null
for f in ses/store/blobs/*/*; do printf x >>"$f"; done
"$PLUMB" report ses -o out.html | sed -n 's/^[0-9]* \(with unreadable tensors: \).*/N \1/p'

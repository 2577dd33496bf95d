# The guard is found beside a program whose path is long.
d=$PWD/$(printf 'd%.0s' {1..200})/$(printf 'e%.0s' {1..200})/$(printf 'f%.0s' {1..200})
mkdir -p "$d"
for f in "$PLUMB" "$(dirname "$PLUMB")/plumb-guard"; do ln "$f" "$d" 2>/dev/null || cp "$f" "$d"; done
"$d/plumb" run "$TESTS/small.onnxtxt" --backend jit --save none | sed -n 1p

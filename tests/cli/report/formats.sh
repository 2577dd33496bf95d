cp "$TESTS/small.onnxtxt" .
"$PLUMB" analyze small.onnxtxt -o s > /dev/null || exit
for f in md csv junit sarif model-explorer json; do
    "$PLUMB" report s --format $f -o out.$f || exit
    test -s out.$f && echo "$f"
done
"$PLUMB" report s --format csv | head -c 6; echo
"$PLUMB" report s -o out.md; echo "exists: $?"
"$PLUMB" report s; echo "no file: $?"
"$PLUMB" report nowhere -o x.html; echo "no session: $?"
"$PLUMB" report s --format pdf; echo "no format: $?"
ls

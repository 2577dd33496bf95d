# A store made by hand: two blobs, one of them in an index, one temporary of a killed writer.
mkdir -p s/blobs/2 s/blobs/9 s/index s/tmp
echo 1 >s/plumb-store
# 99aa… is XXH3-128 of no bytes, from the test vectors of xxHash.
: >s/blobs/9/uint8-0-99aa06d3014798d86001c324468d497f
printf x >s/tmp/1-0123456789abcdef-3
echo '{"plumb_index":1,"values":[{"value":"e","blob":"uint8-0-99aa06d3014798d86001c324468d497f","shape":[0]}]}' >s/index/run.json
printf y >s/blobs/2/uint8-2-20000000000000000000000000000000
"$PLUMB" store ls s
echo "exit $?"
"$PLUMB" store verify s
echo "exit $?"
"$PLUMB" store gc s --dry-run
"$PLUMB" store gc s
"$PLUMB" store verify s
echo "exit $?"
find s -type f | sort

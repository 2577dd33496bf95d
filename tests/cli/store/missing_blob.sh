# A blob that an index names and that is not there, and an index that is none, are as bad as a damaged blob.
mkdir -p s/blobs/9 s/index s/tmp
echo 1 >s/plumb-store
entry='"blob":"uint8-0-99aa06d3014798d86001c324468d497f","shape":[0]'
echo '{"plumb_index":1,"values":[{"value":"e",'$entry'},{"value":"f",'$entry'}]}' >s/index/run.json
"$PLUMB" store verify s
echo "exit $?"
: >s/blobs/9/uint8-0-99aa06d3014798d86001c324468d497f
echo '{' >s/index/broken.json
"$PLUMB" store verify s
echo "exit $?"
rm s/index/broken.json
"$PLUMB" store verify s
echo "exit $?"

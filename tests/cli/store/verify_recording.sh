"$PLUMB" record "$TESTS/small.onnxtxt" -o out.safetensors >log
"$PLUMB" store verify out.safetensors
printf X | dd of=out.safetensors bs=1 seek=$(($(stat -c %s out.safetensors) - 1)) conv=notrunc 2>/dev/null
"$PLUMB" store verify out.safetensors --json >verdict
echo "exit $?"
/usr/bin/python3 -c 'import json; print(json.load(open("verdict"))["bad"])'

# Every provider on the ONNX cases of products, convolutions, attention and recurrent networks, f32 and int8.
data=/usr/share/libonnx-testdata/data
[ -d $data ] || { echo "$data is not there" >&2; exit 77; }
for name in matmul gemm Linear conv Conv attention rnn lstm gru einsum; do
    for dir in "$data"/*/*"$name"*; do [ -d "$dir" ] && echo "$dir"; done
done | sort -u >cases
mapfile -t cases <cases
[ ${#cases[@]} -gt 80 ] || echo "only ${#cases[@]} cases"
for kernels in own plain blas onednn; do
    PLUMB_KERNELS=$kernels "$PLUMB" test "${cases[@]}" --json >$kernels.json || echo "$kernels: exit $?"
    /usr/bin/python3 - $kernels <<'END'
import json, sys
r = json.load(open(sys.argv[1] + ".json"))
print(sys.argv[1], r["failed"], "failed", r["skipped"], "skipped", r["passed"] == len(open("cases").readlines()))
END
done

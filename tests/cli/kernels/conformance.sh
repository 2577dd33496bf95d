# Every provider on the ONNX cases of products, convolutions, attention and recurrent networks, f32 and int8.
# slow: the ONNX cases with each provider
data=/usr/share/libonnx-testdata/data
[ -d $data ] || { echo "$data is not there" >&2; exit 77; }
for name in matmul gemm Linear conv Conv attention rnn lstm gru einsum; do
    for dir in "$data"/*/*"$name"*; do [ -d "$dir" ] && echo "$dir"; done
done | sort -u >cases
mapfile -t cases <cases
[ ${#cases[@]} -gt 80 ] || echo "only ${#cases[@]} cases"
judge() { # NAME OPTION…
    "$PLUMB" test "${cases[@]}" "${@:2}" --json >"$1.json" || echo "$1: exit $?"
    /usr/bin/python3 - "$1" <<'END'
import json, sys
r = json.load(open(sys.argv[1] + ".json"))
print(sys.argv[1], r["failed"], "failed", r["skipped"], "skipped", r["passed"] == len(open("cases").readlines()))
END
}
for kernels in own plain blas onednn; do PLUMB_KERNELS=$kernels judge $kernels; done
for kernels in blas onednn; do judge jit-$kernels --backend jit:kernels=$kernels; done

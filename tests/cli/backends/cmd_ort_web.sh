# A third-party runtime behind cmd: onnxruntime-web under node. Exact operators, so that hashes agree.
command -v node >/dev/null || { echo "no node" >&2; exit 77; }
[ -e "$ROOT/.cache/ort-web-1.27.0/ort.wasm.bundle.min.mjs" ] || { echo "tools/fetch-ort web has not run" >&2; exit 77; }
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x, int64[4] n) => (float[3,2] y, int64[4] m, bool[2,3] b) {
  r = Relu(x)
  y = Transpose<perm = [1, 0]>(r)
  m = Mul(n, n)
  b = Less(x, r)
}
TEXT
"$PLUMB" run m.onnxtxt --save none --json | grep hash >a
"$PLUMB" run m.onnxtxt --save none --json --backend "cmd:$ROOT/examples/cmd/run_ort_web.mjs" | grep hash >b
cmp a b && wc -l <a

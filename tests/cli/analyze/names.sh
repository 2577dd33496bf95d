# The names of the JSON document are a promise (docs/formats/session.md).
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=scale@Tanh:1 --json -o out >log.json
/usr/bin/python3 - log.json out/session.json <<'P'
import json, sys
want = "plumb verdict reason model a b observer_effect outputs first_divergence blame coverage sync_points timing peak_rss".split()
for path in sys.argv[1:]:
    d = json.load(open(path))
    print("missing:", [k for k in want if k not in d])
b, p, c = d["blame"][0], d["sync_points"][0], d["coverage"]
print([k for k in "node op value members kind where q effect score reason module source".split() if k not in b])
print([k for k in "replayed unreplayed single_node_share".split() if k not in c])
point = "value node op module counterpart paired_by confidence metadata class metrics propagated local amplified q excuse similarity verdict"
print([k for k in point.split() if k not in p])
print([k for k in "match reason a b".split() if k not in p["metadata"]],
      [k for k in "dtype hash offset shape strides flags".split() if k not in p["metadata"]["a"]])
print([k for k in "psnr mae mse max_abs mean_rel rmse cosine snr max_ulp".split() if k not in p["metrics"]])
P

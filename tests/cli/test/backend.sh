# What ONNX Runtime does not pass is told apart: an operator it lacks, and other values.
# slow: the ONNX cases on ONNX Runtime
[ -e "$ROOT/.cache/ort-1.27.0/package" ] || { echo "tools/setup test has not fetched ONNX Runtime" >&2; exit 77; }
data=/usr/share/libonnx-testdata/data
[ -d "$data" ] || { echo "no libonnx-testdata" >&2; exit 77; }
"$PLUMB" test "$data" --backend ort:threads=1 --json >report.json
python3 - <<'PY'
import collections, json
report = json.load(open("report.json"))
words = collections.Counter(c["reason"].split(":")[0] for c in report["cases"] if c["status"] == "fail")
print("at least 952:", report["passed"] >= 952)
print("all classified:", sum(words[w] for w in ("unsupported", "difference", "error")) == report["failed"])
print("crash, time-out:", words["crash"], words["time-out"])
PY

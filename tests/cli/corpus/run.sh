# One planted bug in two of three models is one group; the clean backend agrees; a file that is no model is skipped with its reason.
. "$TESTS/corpus/models.inc"
echo garbage >m/bad.onnx
"$PLUMB" corpus m --backend jit --backend jit:inject=accuracy@Relu -o out
code=$?
python3 - out/corpus.json <<'PY'
import json, os, sys
c = json.load(open(sys.argv[1]))
for case in c["cases"]:
    print(case["model"], case["backend"], case["status"], case["reason"] if case["status"] == "skipped" else "")
(group,) = c["groups"]
print(group["models"], group["cases"], group["confirmed"], group["on"], group["repro_nodes"])
repro = f"out/items/{group['smallest']}/repro"
print(sorted(n for n in os.listdir(repro) if n in ("model.onnx", "repro.json", "README.md")))
PY
"$PLUMB" test "out/items/$(python3 -c 'import json; print(json.load(open("out/corpus.json"))["groups"][0]["smallest"])')/repro" --backend jit | tail -n 1
exit $code

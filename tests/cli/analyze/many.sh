# Several backends: one table, and those that agree with each other and not with the reference are named. Two jits with the same planted fault
# are two that agree; a third is right.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[4,8] x) => (float[4,8] y) { a = Add(x, x) b = Exp(a) y = Mul(b, x) }
TEXT
one="jit:inject=offset@Exp" two="jit:fuse=off,inject=offset@Exp"
"$PLUMB" analyze m.onnxtxt --backend jit --backend "$one" --backend "$two" -o d --repro-level 0 >t.txt
echo "exit $?"
grep 'agree with each other' t.txt
"$PLUMB" analyze m.onnxtxt --backend jit --backend jit:fuse=off -o e --json >e.json
echo "exit $?"
cmp e.json e/many.json && echo "written as printed"
"$PLUMB" analyze m.onnxtxt --backend jit --backend jit -o f 2>&1
"$PLUMB" analyze m.onnxtxt --backend jit --backend eager --bisect -o f 2>&1
"$PLUMB" report d/2 --format md | head -1 | cut -c1-12
/usr/bin/python3 - <<'PY'
import json
d = json.load(open("d/many.json"))
print([b["verdict"] for b in d["backends"]], [[x["op"] for x in b["blame"]] for b in d["backends"]], d["agree_without_reference"], d["exit_code"])
y = next(v for v in d["values"] if v["value"] == "y")
# Whether the first is the same to the last bit or within its bound depends on the CPU's exp.
print(y["is_output"], [o["verdict"] if o["verdict"] != "same" else "within" for o in y["of"]])
e = json.load(open("e.json"))
print([b["verdict"] for b in e["backends"]], e["agree_without_reference"], e["exit_code"])
PY

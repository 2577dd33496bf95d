# The page with the data inlined: the planted fault is in it, hostile names cannot leave the script element.
cat > m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
small (float[2,3] x) => (float[2,3] y) <float[3] w = {1, -2, 0.5}> { a = Mul(x, w) y = Relu(a) }
M
"$PLUMB" analyze m.onnxtxt --backend jit:inject=offset@Mul,fuse=off -o s > out.txt || [ $? = 1 ] || exit 9
"$PLUMB" report s -o r.html || exit
python3 - <<'P'
import json, re
page = open("r.html").read()
block = lambda name: json.loads(re.search(r'<script type="application/json" id="%s">(.*?)</script>' % name, page, re.S)[1])
data, tensors = block("data"), block("tensor-data")
session = data["session"]
column = session["columns"].index
rows = {p[column("value")]: p for p in session["points"]}
assert rows["a"][column("verdict")] == "culprit", rows["a"]
assert session["blame"][0]["value"] == "a"
assert [n[0] for n in data["graph"]["nodes"]] == ["Mul", "Relu"]
at = str(list(rows).index("a"))
assert tensors[at]["stats"]["n"] == 6 and tensors[at]["slices"]
assert "http-equiv=\"Content-Security-Policy\"" in page and "https://" not in page
print("culprit", session["blame"][0]["op"])
P

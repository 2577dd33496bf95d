# What CI systems and Model Explorer are given is what their formats ask for, also for a path that is no URI.
cp "$TESTS/net.onnxtxt" 'my net #1 <é>.onnxtxt'
"$PLUMB" analyze 'my net #1 <é>.onnxtxt' --backend jit:fuse=off,inject=scale@Mul:1 -o s >/dev/null
for f in sarif junit model-explorer csv md; do "$PLUMB" report s --format $f -o out.$f; done
/usr/bin/python3 - <<'PY'
import csv, json, re
import xml.etree.ElementTree as xml

log = json.load(open("out.sarif"))                         # SARIF 2.1.0: §3.13, §3.14, §3.18, §3.27, §3.11
assert log["version"] == "2.1.0" and len(log["runs"]) == 1
run = log["runs"][0]
driver = run["tool"]["driver"]
rules = [r["id"] for r in driver["rules"]]
assert driver["name"] and len(rules) == len(set(rules))
for r in run["results"]:
    assert r["message"]["text"] and r["level"] in ("none", "note", "warning", "error") and r["ruleId"] in rules
    for place in r["locations"]:
        uri = place["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"([A-Za-z0-9._~/-]|%[0-9A-F]{2})+", uri), uri
        assert place["physicalLocation"].get("region", {"startLine": 1})["startLine"] >= 1
print("sarif", len(run["results"]), uri.rsplit("/", 1)[-1])

suites = xml.parse("out.junit").getroot()
assert suites.tag == "testsuites"
for suite in suites:
    cases = suite.findall("testcase")
    count = lambda tag: sum(c.find(tag) is not None for c in cases)
    assert [suite.get(k) for k in ("tests", "failures", "skipped", "errors")] == [str(x) for x in (len(cases), count("failure"), count("skipped"), count("error"))]
    assert all(c.get("name") and c.get("classname") for c in cases)
print("junit", len(cases), count("failure"))

data = json.load(open("out.model-explorer"))               # NodeDataProviderGraphData: keyed by output tensors
session = json.load(open("s/session.json"))
assert set(data["results"]) == {p["value"] for p in session["sync_points"]} and data["name"]
assert all(isinstance(r["value"], (int, float, str)) and re.fullmatch("#[0-9a-f]{6}", r["bgColor"]) for r in data["results"].values())
print("model-explorer", len(data["results"]))

rows = list(csv.reader(open("out.csv")))
assert len({len(r) for r in rows}) == 1 and len(rows) == 1 + len(session["sync_points"])
tables = [l for l in open("out.md") if l.startswith("|")]
print("csv", len(rows), "md", len(tables) > 4)
PY

# Every format is read by somebody else's parser. Names are as nasty as names can be.
/usr/bin/python3 "$TESTS/st.py" a.safetensors 'x=float32:[1,2]' 'a<b>&"c",|d
e=float32:[1,nan]' 'ok=float32:[1]'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'x=float32:[1,3]' 'a<b>&"c",|d
e=float32:[1,2]' 'ok=float32:[1]' 
for f in json csv md junit github sarif model-explorer; do
    "$PLUMB" compare a.safetensors b.safetensors --no-session --format $f >out.$f
    echo "$f: exit $?"
done
/usr/bin/python3 - <<'END'
import csv, json
import xml.etree.ElementTree as ET

s = json.load(open("out.json"))
assert list(s)[0] == "plumb" and s["verdict"] == "diverged" and len(s["sync_points"]) == 3, s
assert {"verdict", "reason", "model", "a", "b", "observer_effect", "outputs", "first_divergence", "blame", "coverage", "sync_points", "timing", "peak_rss"} <= set(s)
rows = list(csv.DictReader(open("out.csv")))
print(len(rows), [r["verdict"] for r in rows], repr(rows[0]["value"]))
suite = ET.parse("out.junit").getroot().find("testsuite")
print(suite.attrib["tests"], suite.attrib["failures"], [c.attrib["name"] for c in suite if c.find("failure") is not None])
sarif = json.load(open("out.sarif"))
assert sarif["version"] == "2.1.0"
rules = {r["id"] for r in sarif["runs"][0]["tool"]["driver"]["rules"]}
print([r["ruleId"] for r in sarif["runs"][0]["results"]], all(r["ruleId"] in rules for r in sarif["runs"][0]["results"]))
print(sorted(json.load(open("out.model-explorer"))["results"].items()))
print(open("out.github").read(), end="")
print(sum(line.startswith("|") for line in open("out.md")))
END

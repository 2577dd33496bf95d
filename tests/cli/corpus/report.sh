# JUnit, SARIF and one HTML page; names from files are escaped; the server shows the page and opens sessions only with its token.
. "$TESTS/corpus/models.inc"
mv m/a.onnxtxt 'm/<img src=x onerror=alert(1)> & "q"'"'.onnxtxt"
"$PLUMB" corpus m -b jit -b jit:inject=accuracy@Relu -o out -q >/dev/null 2>&1
"$PLUMB" report out -o page.html
"$PLUMB" report out --format junit -o plumb.xml
"$PLUMB" report out --format sarif -o plumb.sarif
"$PLUMB" report out --format text | head -n 1
"$PLUMB" report out --format csv
"$PLUMB" report out
"$PLUMB" view out --no-open >link &
python3 - "$!" <<'PY'
import html.parser, json, os, re, signal, sys, time, urllib.error, urllib.request, xml.etree.ElementTree as ET
tags, texts = set(), []
class Look(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs):
        tags.add(tag)
        assert not any(k.startswith("on") for k, _ in attrs), attrs
    def handle_data(self, data): texts.append(data)
page = open("page.html", encoding="utf-8").read()
Look().feed(page)
name = "<img src=x onerror=alert(1)> & \"q\"'.onnxtxt"
links = re.findall(r'href="([^#"]+)"', page)
print("links:", len(links), all(os.path.isdir(link) for link in links))
print("page:", sorted(tags & {"img", "script"}), name in texts, "Content-Security-Policy" in page)
suite = ET.parse("plumb.xml").getroot().find("testsuite")
print("junit:", suite.get("tests"), suite.get("failures"), suite.get("skipped"), any(c.get("name") == name for c in suite))
run = json.load(open("plumb.sarif"))["runs"][0]
print("sarif:", [r["level"] for r in run["results"]], all("<" not in r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]))
rules = {r["id"] for r in run["tool"]["driver"]["rules"]}
print("rules known:", all(r["ruleId"] in rules for r in run["results"]))
for _ in range(600):
    link = open("link").read().strip()
    if link: break
    time.sleep(0.1)
def get(path):
    try:
        with urllib.request.urlopen(link.split("/?")[0] + path) as r: return r.status, r.read().decode(), r.headers["Content-Security-Policy"]
    except urllib.error.HTTPError as e: return e.code, e.read().decode(), ""
token = link.split("token=")[1]
status, text, policy = get("/?token=" + token)
tags.clear(); Look().feed(text)
print("served:", status, sorted(tags & {"img", "script"}), "script-src" not in policy)
session = re.search(r"/session\?key=([\w.%-]+)&amp;token=" + token, text)[1]
print("session:", get(f"/session?key={session}&token={token}")[0], get(f"/session?key={session}")[0], get(f"/session?key=..%2F..&token={token}")[0])
print("then:", json.loads(get(f"/api/session?token={token}")[1])["verdict"])
os.kill(int(sys.argv[1]), signal.SIGTERM)
PY

# corpus.json of a stranger: a table of 20,000 models x 20,000 backends is refused before it is made.
mkdir c
/usr/bin/python3 - <<'PY'
import json
names = [f"b{i}" for i in range(20000)]
json.dump({"plumb_corpus": 1, "backends": [{"spec": n} for n in names], "groups": [],
           "cases": [{"key": f"k{i}", "model": f"m{i}", "backend": n, "status": "agree"} for i, n in enumerate(names)]}, open("c/corpus.json", "w"))
PY
"$PLUMB" report c -o page.html
echo "exit $?"
[ -e page.html ] && echo "a page was written"
true

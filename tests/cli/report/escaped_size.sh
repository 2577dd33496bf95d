# What is escaped in the file counts as it stands there: --max-size holds for names of markup, too.
/usr/bin/python3 - <<'P'
name = "<" * 160000
open("m.onnxtxt", "w").write(f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[2] x) => (float[2] y) {{ "{name}" = Neg(x) y = Relu("{name}") }}\n')
P
"$PLUMB" analyze m.onnxtxt --backend jit -o s >/dev/null || exit
"$PLUMB" report s -o r.html --max-size 1 2>&1 | sed 's/[0-9]\{7,\}/N/g'
[ ! -e r.html ] || echo "r.html has $(stat -c %s r.html) bytes"
"$PLUMB" report s -o r.html --max-size 4
[ "$(stat -c %s r.html)" -gt 1048576 ] && [ "$(stat -c %s r.html)" -le 4194304 ] && echo "between the two"

# Clean pairs agree; times are not shown here.
for backend in jit jit:fuse=off; do
  "$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --backend $backend --dim N=4 | sed '/^load /d; s/error .*//'
done
"$PLUMB" run "$TESTS/small.onnxtxt" --accuracy --profile torch --backend jit | sed '/^load /d'
"$PLUMB" run "$TESTS/small.onnxtxt" --strict-accuracy --backend jit --runs 3 --json >r.json
/usr/bin/python3 -c 'import json; r = json.load(open("r.json")); print(sorted(r), r["status"], r["accuracy"]["passed"], sorted(r["timing"]["phases"]))'
ls

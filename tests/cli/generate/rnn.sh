# A state that is fed back, without tokens: clean, then with a fault in one operation; each step differs, the first is named.
"$PLUMB" generate "$TESTS/generate/rnn.onnxtxt" --backend jit --steps 5 -o clean | head -1
"$PLUMB" generate "$TESTS/generate/rnn.onnxtxt" --backend jit --inject offset@Tanh --steps 5 -o bad --json >bad.json
echo "exit $?"
/usr/bin/python3 - <<'X'
import json
r = json.load(open("bad.json"))
print(r["verdict"], r["first_divergent_step"], r["blame"][0]["op"], r["blame"][0]["value"], r["carried_by"], len(r["steps"]))
print(sorted(a["step"] for a in r["analyses"])[0], r["first_flip"], r["steps"][0]["state"])
X
ls -d bad/step-0
"$PLUMB" generate "$TESTS/generate/rnn.onnxtxt" --backend jit --inject offset@Tanh --steps 3 --skip-analysis --save-step 2 -o fed >/dev/null
ls fed/feed-2
"$PLUMB" run "$TESTS/generate/rnn.onnxtxt" --inputs fed/feed-2 --save none >/dev/null && echo "the feed runs"

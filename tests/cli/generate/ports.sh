# Outputs without a counterpart are not compared: no AGREE. Many ports cost little; logits are numbers.
m=$TESTS/generate/rnn.onnxtxt
sed 's/h_out/state2/g; s/ y)/ v)/; s/y = Neg/v = Neg/; s/float\[1,3\] y,/float[1,3] v,/' "$m" >other.onnxtxt
sed -i 's/=> (float\[1,3\] v, float\[1,3\] state2)/=> (float[1,3] v)/' other.onnxtxt
"$PLUMB" generate "$m" --backend jit --reference other.onnxtxt --skip-analysis; echo "exit $?"
cat >words.onnxtxt <<'T'
<ir_version: 8, opset_import: ["" : 13]>
g (float[1,3] x, float[1,3] h_in) => (int64[1,3] n, float[1,3] h_out) { s = Add(x, h_in) h_out = Tanh(s) n = Cast<to = 7>(s) }
T
"$PLUMB" generate words.onnxtxt --backend jit --logits n; echo "exit $?"
/usr/bin/python3 - <<'P'
n = 40000
ports = lambda name: ", ".join(f"float[1] {name}{i}" for i in range(n))
body = " ".join(f"present_{i} = Neg(past_{i})" for i in range(n))
open("many.onnxtxt", "w").write(f'<ir_version: 8, opset_import: ["" : 13]>\ng ({ports("past_")}) => ({ports("present_")}) {{ {body} }}\n')
P
timeout 60 "$PLUMB" generate many.onnxtxt --explain-inputs | grep -c ' state '

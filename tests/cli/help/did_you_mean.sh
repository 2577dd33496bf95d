# An option that matches nothing is an error that names what there is; a file that is no model is recognised by its bytes.
cat >m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[batch,4] x) => (float[batch,4] y) { a = Tanh(x)  e = Erf(a)  y = Relu(e) }
M
try() { "$PLUMB" "$@" >log 2>err; code=$?; head -1 err; echo "exit $code"; }
try analyse m.onnxtxt
try serve
try analyze m.onnxtxt --backnd jit
try analyze m.onnxtxt --backend jti -o s
try analyze m.onnxtxt --backend jit:fues=off -o s
try analyze m.onnxtxt --backend jit:disable=fodl -o s
try analyze m.onnxtxt --hepl
try analyze m.onnxtxt --backend jit --dim Batch=2 -o s
try analyze m.onnxtxt --inject scale@Erff -o s
try analyze m.onnxtxt --inject scael@Erf -o s
try analyze m.onnxtxt --backend jit --metric pnsr -o s
try analyze m.onnxtxt --backend jit --format jnuit -o s
try analyze m.onnxtxt --backend jit --to Y -o s
try analyze m.onnxtxt --backend jit --function nobody -o s
try run m.onnxtxt --input X=x.npy
try run m.onnxtxt --range X=0:1
try run m.onnxtxt --inject scale@Erf --repro-level 4
try compare m.onnxtxt m.onnxtxt --backend jit --metric cosin --no-session
"$PLUMB" analyze m.onnxtxt --backend jit -o jit >log
try analyze m.onnxtxt --reuse jit --backend jit:fuse=off -o s
try analyze m.onnxtxt --reuse jit -o reused
# No generated index fits: eager cannot run either.
cat >bad.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x, int64[2] shape) => (float[n,m] y) { t = Relu(x)
 y = Reshape(t, shape) }
M
try analyze bad.onnxtxt --backend jit --range shape=7:7 -o s
try run bad.onnxtxt --accuracy --backend jit --range shape=7:7
/usr/bin/python3 - <<'P'
import io, pickle, zipfile
z = zipfile.ZipFile("net.pt", "w"); z.writestr("archive/data.pkl", b""); z.close()
open("old.pt", "wb").write(pickle.dumps({}, 2))
open("m.tflite", "wb").write(b"\x1c\0\0\0TFL3" + bytes(40))
open("m.gguf", "wb").write(b"GGUF" + bytes(40))
open("m.mlmodel", "wb").write(b"\xff" * 40)
open("m.txt", "w").write("hello, this is no model\n")
open("text.onnx", "w").write(open("m.onnxtxt").read())
P
echo "a session is no model: its inputs are not those that plumb generates"
try analyze jit --backend jit -o s
for f in net.pt old.pt m.tflite m.gguf m.mlmodel m.txt text.onnx jit .; do try run $f; done

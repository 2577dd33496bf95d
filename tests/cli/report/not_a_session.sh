# What is given to report instead of a session is recognised.
/usr/bin/python3 - <<'P'
import io, zipfile
z = zipfile.ZipFile("net.pt", "w"); z.writestr("archive/data.pkl", b""); z.close()
z = zipfile.ZipFile("m.zip", "w"); z.writestr("model.onnx", b""); z.close()
open("m.tflite", "wb").write(b"\x1c\0\0\0TFL3" + bytes(40))
open("m.gguf", "wb").write(b"GGUF" + bytes(40))
open("m.mlmodel", "wb").write(b"\xff" * 40)
open("m.txt", "w").write("hello\n")
open("m.json", "w").write("{}\n")
open("lfs.bin", "w").write("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
P
mkdir folder
for f in net.pt m.zip m.tflite m.gguf m.mlmodel m.txt m.json lfs.bin "$TESTS/net.onnxtxt" folder; do "$PLUMB" report "$f" -o r.html 2>&1; echo "exit $?"; done

# Colours only on a terminal that has them: NO_COLOR and TERM=dumb switch them off; the verdict is coloured.
cat >on_terminal.py <<'P'
import os, pty, sys
out = []
def read(fd):
    data = os.read(fd, 65536)
    out.append(data)
    return b""
pty.spawn(sys.argv[1:], read)
text = b"".join(out)
print("verdict coloured" if text.startswith((b"\x1b[1;32mAGREE", b"\x1b[1;31mDIVERGED")) else "colours" if b"\x1b[3" in text else "plain")
P
unset NO_COLOR
export TERM=xterm
python3 on_terminal.py "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit -q -o a </dev/null
NO_COLOR=1 python3 on_terminal.py "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit -q -o b </dev/null
TERM=dumb python3 on_terminal.py "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit -q -o c </dev/null
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit -q -o d | grep -c $'\033' || true

# Seven samples with the defaults that users get: tensors of all of them are in the session.
/usr/bin/python3 - <<'P'
import numpy as np
rng = np.random.default_rng(1)
for i in range(7):
    np.savez(f"s{i}.npz", x=rng.standard_normal((4, 16)).astype(np.float32))
P
sets=$(for i in 0 1 2 3 4 5 6; do echo --inputs s$i.npz; done)
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit $sets >text
echo "exit $?"; head -1 text
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:inject=shift@Mul:1 $sets --json >log.json
echo "exit $?"; /usr/bin/python3 "$TESTS/blame.py" verdict failing_samples <log.json
for d in plumb-out/*; do ls "$d/store/index" | sort | tr '\n' ' '; echo; done
# The samples share one program: the compiler is called as often as for one of them.
mkdir bin
cat >bin/cc <<SH
#!/bin/sh
echo >>"$PWD/calls"
exec $(command -v cc) "\$@"
SH
chmod +x bin/cc
for sets in "--inputs s0.npz" "--inputs s0.npz --inputs s1.npz --inputs s2.npz"; do
    : >calls
    PATH=$PWD/bin:$PATH "$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit:fresh-cache $sets --sandbox off --save none --repro-level 0 -o "s$(wc -w <<<"$sets")" | sed -n '1s/:.*//p'
    wc -l <calls
done

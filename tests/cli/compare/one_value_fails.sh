# A rule that has no answer for one value: it is named, the others are compared, and that is no AGREE.
/usr/bin/python3 - <<'P'
import numpy as np
r = np.random.RandomState(0)
a = dict(f=r.randn(4, 4).astype('f'), c=(r.randn(4) + 1j * r.randn(4)).astype('complex64'), g=r.randn(9).astype('f'))
np.savez('a.npz', **a)
np.savez('same.npz', **a)
np.savez('other.npz', **{**a, 'g': a['g'] * 2})
P
for b in same other; do
    "$PLUMB" compare a.npz $b.npz --profile torch --same cos_similarity=1 --no-session --sort order >log; echo "exit $?"
    sed -n '1p; /^[0-9]* values/p' log
done

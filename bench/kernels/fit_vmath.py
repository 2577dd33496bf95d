#!/usr/bin/python3
"""Minimax fits behind the constants of src/kernels/simd/vfun_f32.h (needs mpmath, numpy).

Each fit minimises max |w(x) (f(x) - sum c_i b_i(x))| by Lawson's iteration on Chebyshev points, then
prints the coefficients rounded to float. The accuracy that counts is measured on the finished
functions by tests/unit/test_kernels_vmath.c and bench/kernels/bench_kernels.c ulp."""
import numpy as np
import mpmath as mp

mp.mp.dps = 40


def fit(name, f, w, lo, hi, degree, var=lambda x: x, n=400):
    k = np.arange(n)
    xs = [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (float(i) + 0.5) / n) for i in k]
    v = [var(x) for x in xs]
    vlo, vhi = min(v), max(v)
    s = np.array([float((2 * t - vlo - vhi) / (vhi - vlo)) for t in v])
    y = np.array([float(f(x)) for x in xs])
    wt = np.array([float(abs(w(x))) for x in xs])
    basis = np.polynomial.chebyshev.chebvander(s, degree)
    lam = np.ones(n)
    for _ in range(300):
        q = np.sqrt(lam) * wt
        c, *_ = np.linalg.lstsq(basis * q[:, None], y * q, rcond=None)
        e = np.abs(wt * (basis @ c - y))
        lam = lam * (e + 1e-30)
        lam /= lam.mean()
    p = np.polynomial.Polynomial(np.polynomial.chebyshev.cheb2poly(c))
    a, b = 2 / float(vhi - vlo), -float(vlo + vhi) / float(vhi - vlo)
    p = p(np.polynomial.Polynomial([b, a]))
    print(f"/* {name}: weighted error {e.max():.2e} = 2^{np.log2(e.max()):.1f} */")
    print("   ", ", ".join(f"{np.float32(t)!r}f" for t in p.coef))


third = mp.mpf(1) / 3
fit("exp: (e^r - 1 - r) / r^2", lambda r: (mp.exp(r) - 1 - r) / r**2 if r else mp.mpf(1) / 2,
    lambda r: r * r / mp.exp(r), -0.3482, 0.3482, 4)
fit("log: (log1p(f) - f + f^2/2) / f^3",
    lambda r: (mp.log1p(r) - r + r * r / 2) / r**3 if abs(r) > 1e-9 else third,
    lambda r: r**3 / mp.log1p(r), mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1, 7)
fit("tanh: (tanh x - x) / x^3 in x^2", lambda x: (mp.tanh(x) - x) / x**3, lambda x: x**3 / mp.tanh(x),
    mp.mpf(1) / 1000, 0.63, 4, lambda x: x * x)
fit("erf small: erf x / x - 1 in x^2", lambda x: mp.erf(x) / x - 1, lambda x: x / mp.erf(x),
    mp.mpf(1) / 10000, 0.93, 5, lambda x: x * x)
fit("erf large: log(erfc x) / x", lambda x: mp.log(mp.erfc(x)) / x, lambda x: x * mp.erfc(x) / mp.erf(x),
    0.92, 4.0, 6)
k = mp.mpf(5)
for d in (8, 9, 10):
    fit(f"half erfcx(t/sqrt2)(t+k), u=(t-k)/(t+k), k={float(k)}",
        lambda t: mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) / 2 * (t + k),
        lambda t: 1 / (mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) / 2 * (t + k)),
        mp.mpf(0), mp.mpf(15), d, lambda t: (t - k) / (t + k))
fit("gelu small: erf(x/sqrt2) / (2x) in x^2", lambda x: mp.erf(x / mp.sqrt(2)) / x / 2,
    lambda x: x * x / (x * mp.erfc(x / mp.sqrt(2)) / 2), mp.mpf(1) / 10000, 0.75, 4, lambda x: x * x)

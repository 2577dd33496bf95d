/* FFT by mixed radix in passes (8, 4, 2, 3, 5 and any small odd prime), and Bluestein's convolution
 * for the rest. Twiddles are computed one by one from reduced angles, not by recurrence, so the
 * error of a transform grows only with log n. */
#include "ops/signal/fft.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Larger prime factors are cheaper as a convolution than as a plain sum. */
enum { RADIX_MAX = 32, N_FACTORS_MAX = 64 };

struct pl_fft {
    size_t n;
    int n_factors;
    size_t factors[N_FACTORS_MAX]; /* product is n; in the order of the passes */
    const pl_cplx *twiddle;        /* per pass: exp(-2 pi i j l1 i / n), radix * m of them */
    const pl_cplx *roots;          /* exp(-2 pi i k / radix) at [radix * RADIX_MAX + k] */
    /* Bluestein: a convolution of length inner->n with the chirp exp(-pi i k^2 / n). */
    const pl_fft *inner;
    const pl_cplx *chirp;         /* n */
    const pl_cplx *chirp_forward; /* transform of the conjugate chirp, scaled by 1 / inner->n */
};

/* ---- mixed radix ----
 * A pass takes l1 groups of `radix` rows of length m and writes `radix` groups of l1 rows: after
 * the last pass the elements stand in natural order, without a separate permutation. */

static inline pl_cplx add(pl_cplx a, pl_cplx b) {
    return (pl_cplx){ a.re + b.re, a.im + b.im };
}
static inline pl_cplx sub(pl_cplx a, pl_cplx b) {
    return (pl_cplx){ a.re - b.re, a.im - b.im };
}
static inline pl_cplx mul(pl_cplx a, pl_cplx b) {
    return (pl_cplx){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}
/* Multiplies by i or, for the forward transform (sign -1), by -i. */
static inline pl_cplx turn(pl_cplx a, double sign) {
    return (pl_cplx){ -sign * a.im, sign * a.re };
}

static inline void butterfly_2(pl_cplx *v) {
    const pl_cplx a = v[0];
    v[0] = add(a, v[1]);
    v[1] = sub(a, v[1]);
}

static inline void butterfly_3(pl_cplx *v, double sign) {
    const double s = sign * 0.86602540378443864676;
    const pl_cplx sum = add(v[1], v[2]), dif = sub(v[1], v[2]);
    const pl_cplx mid = { v[0].re - 0.5 * sum.re, v[0].im - 0.5 * sum.im };
    const pl_cplx side = turn((pl_cplx){ s * dif.re, s * dif.im }, 1);
    v[0] = add(v[0], sum);
    v[1] = add(mid, side);
    v[2] = sub(mid, side);
}

static inline void butterfly_4(pl_cplx *v, double sign) {
    const pl_cplx ac = add(v[0], v[2]), a_c = sub(v[0], v[2]);
    const pl_cplx bd = add(v[1], v[3]), b_d = turn(sub(v[1], v[3]), sign);
    v[0] = add(ac, bd);
    v[1] = add(a_c, b_d);
    v[2] = sub(ac, bd);
    v[3] = sub(a_c, b_d);
}

static inline void butterfly_5(pl_cplx *v, double sign) {
    const double c1 = 0.3090169943749474241, c2 = -0.8090169943749474241;
    const double s1 = sign * 0.95105651629515357212, s2 = sign * 0.58778525229247312917;
    const pl_cplx a = v[0], p1 = add(v[1], v[4]), m1 = sub(v[1], v[4]);
    const pl_cplx p2 = add(v[2], v[3]), m2 = sub(v[2], v[3]);
    const pl_cplx even1 = { a.re + c1 * p1.re + c2 * p2.re, a.im + c1 * p1.im + c2 * p2.im };
    const pl_cplx even2 = { a.re + c2 * p1.re + c1 * p2.re, a.im + c2 * p1.im + c1 * p2.im };
    const pl_cplx odd1 = { -(s1 * m1.im + s2 * m2.im), s1 * m1.re + s2 * m2.re };
    const pl_cplx odd2 = { -(s2 * m1.im - s1 * m2.im), s2 * m1.re - s1 * m2.re };
    v[0] = add(add(a, p1), p2);
    v[1] = add(even1, odd1);
    v[4] = sub(even1, odd1);
    v[2] = add(even2, odd2);
    v[3] = sub(even2, odd2);
}

/* Two of radix 4, combined with the eighth roots of unity. */
static inline void butterfly_8(pl_cplx *v, double sign) {
    const double h = 0.70710678118654752440;
    pl_cplx even[4] = { v[0], v[2], v[4], v[6] }, odd[4] = { v[1], v[3], v[5], v[7] };
    butterfly_4(even, sign);
    butterfly_4(odd, sign);
    odd[1] = (pl_cplx){ h * (odd[1].re - sign * odd[1].im), h * (odd[1].im + sign * odd[1].re) };
    odd[2] = turn(odd[2], sign);
    odd[3] = (pl_cplx){ h * (-odd[3].re - sign * odd[3].im), h * (sign * odd[3].re - odd[3].im) };
    for (int i = 0; i < 4; i++) {
        v[i] = add(even[i], odd[i]);
        v[i + 4] = sub(even[i], odd[i]);
    }
}

/* Any odd radix: elements j and radix - j are conjugate in their roots. */
static inline void butterfly_odd(pl_cplx *v, size_t radix, const pl_cplx *roots, bool inverse) {
    pl_cplx plus[RADIX_MAX], minus[RADIX_MAX], out[RADIX_MAX];
    const size_t half = radix / 2;
    out[0] = v[0];
    for (size_t j = 1; j <= half; j++) {
        plus[j] = add(v[j], v[radix - j]);
        minus[j] = sub(v[j], v[radix - j]);
        out[0] = add(out[0], plus[j]);
    }
    for (size_t k = 1; k <= half; k++) {
        pl_cplx even = v[0], odd = { 0, 0 };
        for (size_t j = 1; j <= half; j++) {
            const pl_cplx w = roots[j * k % radix]; /* exp(-…) */
            const double s = inverse ? -w.im : w.im;
            even.re += w.re * plus[j].re;
            even.im += w.re * plus[j].im;
            odd.re -= s * minus[j].im;
            odd.im += s * minus[j].re;
        }
        out[k] = add(even, odd);
        out[radix - k] = sub(even, odd);
    }
    for (size_t k = 0; k < radix; k++)
        v[k] = out[k];
}

static inline void butterfly(pl_cplx *v, size_t radix, const pl_cplx *roots, bool inverse) {
    const double sign = inverse ? 1 : -1;
    switch (radix) {
    case 2: butterfly_2(v); break;
    case 3: butterfly_3(v, sign); break;
    case 4: butterfly_4(v, sign); break;
    case 5: butterfly_5(v, sign); break;
    case 8: butterfly_8(v, sign); break;
    default: butterfly_odd(v, radix, roots, inverse); break;
    }
}

typedef struct fft_pass {
    size_t radix, l1, m;    /* rows, groups, elements in a row; product is n */
    const pl_cplx *twiddle; /* exp(-2 pi i j l1 i / n) at [j * m + i] */
    const pl_cplx *roots;   /* exp(-2 pi i k / radix) */
    bool inverse;
} fft_pass;

static inline void pass(const fft_pass *p, size_t radix, const pl_cplx *x, pl_cplx *y) {
    pl_cplx v[RADIX_MAX];
    for (size_t k = 0; k < p->l1; k++) {
        for (size_t i = 0; i < p->m; i++) {
            for (size_t j = 0; j < radix; j++)
                v[j] = x[i + p->m * (j + radix * k)];
            butterfly(v, radix, p->roots, p->inverse);
            y[i + p->m * k] = v[0];
            for (size_t j = 1; j < radix; j++) {
                pl_cplx w = p->twiddle[j * p->m + i];
                if (p->inverse) w.im = -w.im;
                y[i + p->m * (k + p->l1 * j)] = i == 0 ? v[j] : mul(v[j], w);
            }
        }
    }
}

/* x is overwritten by its transform; work holds n elements. */
static void run_mixed(const pl_fft *plan, bool inverse, pl_cplx *x, pl_cplx *work) {
    pl_cplx *from = x, *to = work;
    size_t l1 = 1, table = 0;
    for (int f = 0; f < plan->n_factors; f++) {
        const size_t radix = plan->factors[f], m = plan->n / l1 / radix;
        const fft_pass p = { radix,  l1, m, plan->twiddle + table, plan->roots + radix * RADIX_MAX,
                             inverse };
        switch (radix) { /* a constant radix lets the compiler unroll */
        case 2: pass(&p, 2, from, to); break;
        case 3: pass(&p, 3, from, to); break;
        case 4: pass(&p, 4, from, to); break;
        case 5: pass(&p, 5, from, to); break;
        case 8: pass(&p, 8, from, to); break;
        default: pass(&p, radix, from, to); break;
        }
        pl_cplx *swap = from;
        from = to;
        to = swap;
        table += radix * m;
        l1 *= radix;
    }
    if (from != x) memcpy(x, from, plan->n * sizeof(*x));
}

/* ---- roots of unity ---- */

/* exp(-2 pi i k / n), k < n, with the angle reduced below pi / 4, where sin and cos are most
 * accurate. */
static pl_cplx unit_root(size_t k, size_t n) {
    const double quarter_turn = 1.57079632679489661923;
    const size_t k4 = 4 * k;
    const size_t quarter = (2 * k4 + n) / (2 * n); /* nearest multiple of a quarter turn, 0..4 */
    const double rest = ((double)k4 - (double)(quarter * n)) / (double)n; /* of a quarter turn */
    const double c = cos(quarter_turn * rest), s = sin(quarter_turn * rest);
    switch (quarter & 3) {
    case 0: return (pl_cplx){ c, -s };
    case 1: return (pl_cplx){ -s, -c };
    case 2: return (pl_cplx){ -c, s };
    default: return (pl_cplx){ s, c };
    }
}

/* ---- Bluestein ---- */

/* The inverse is the conjugate of the transform of the conjugate. */
static void run_bluestein(const pl_fft *plan, bool inverse, pl_cplx *x, pl_cplx *work) {
    const size_t n = plan->n, length = plan->inner->n;
    pl_cplx *a = work;
    for (size_t i = 0; i < n; i++) {
        if (inverse) x[i].im = -x[i].im;
        a[i] = mul(x[i], plan->chirp[i]);
    }
    for (size_t i = n; i < length; i++)
        a[i] = (pl_cplx){ 0, 0 };
    run_mixed(plan->inner, false, a, work + length);
    for (size_t i = 0; i < length; i++)
        a[i] = mul(a[i], plan->chirp_forward[i]);
    run_mixed(plan->inner, true, a, work + length);
    for (size_t i = 0; i < n; i++) {
        x[i] = mul(a[i], plan->chirp[i]);
        if (inverse) x[i].im = -x[i].im;
    }
}

static bool plan_bluestein(pl_arena *arena, pl_fft *plan) {
    const size_t n = plan->n;
    size_t length = 1;
    while (length < 2 * n - 1)
        length *= 2;
    plan->inner = pl_fft_plan(arena, length);
    pl_cplx *chirp = pl_arena_array(arena, n, sizeof(*chirp));
    pl_cplx *forward = pl_arena_array(arena, length, sizeof(*forward));
    pl_cplx *work = pl_arena_array(arena, length, sizeof(*work));
    if (plan->inner == NULL || chirp == NULL || forward == NULL || work == NULL) return false;
    size_t square = 0; /* k^2 mod 2 n, exactly */
    for (size_t k = 0; k < n; k++) {
        chirp[k] = unit_root(square, 2 * n);
        square = (square + 2 * k + 1) % (2 * n);
    }
    const double scale = 1 / (double)length;
    for (size_t k = 0; k < n; k++) {
        forward[k] = (pl_cplx){ chirp[k].re * scale, -chirp[k].im * scale };
        if (k > 0) forward[length - k] = forward[k];
    }
    run_mixed(plan->inner, false, forward, work);
    plan->chirp = chirp;
    plan->chirp_forward = forward;
    return true;
}

/* ---- plans ---- */

/* False if a prime factor is too large. */
static bool factorise(pl_fft *plan) {
    size_t n = plan->n;
    for (; n % 8 == 0; n /= 8)
        plan->factors[plan->n_factors++] = 8;
    for (; n % 4 == 0; n /= 4)
        plan->factors[plan->n_factors++] = 4;
    if (n % 2 == 0) {
        n /= 2;
        plan->factors[plan->n_factors++] = 2;
    }
    for (size_t f = 3; n > 1; f += 2) {
        if (f > RADIX_MAX) return false;
        for (; n % f == 0; n /= f)
            plan->factors[plan->n_factors++] = f;
    }
    return true;
}

static bool plan_mixed(pl_arena *arena, pl_fft *plan) {
    size_t l1 = 1, n_table = 0, at = 0;
    for (int f = 0; f < plan->n_factors; f++) {
        n_table += plan->n / l1;
        l1 *= plan->factors[f];
    }
    enum { N_ROOTS = (RADIX_MAX + 1) * RADIX_MAX };
    pl_cplx *twiddle = pl_arena_array(arena, n_table, sizeof(*twiddle));
    pl_cplx *roots = pl_arena_array(arena, N_ROOTS, sizeof(*roots));
    if (twiddle == NULL || roots == NULL) return false;
    l1 = 1;
    for (int f = 0; f < plan->n_factors; f++) {
        const size_t radix = plan->factors[f], m = plan->n / l1 / radix;
        for (size_t j = 0; j < radix; j++) {
            for (size_t i = 0; i < m; i++)
                twiddle[at++] = unit_root(j * i * l1, plan->n);
            roots[radix * RADIX_MAX + j] = unit_root(j, radix);
        }
        l1 *= radix;
    }
    plan->twiddle = twiddle;
    plan->roots = roots;
    return true;
}

const pl_fft *pl_fft_plan(pl_arena *arena, size_t n) {
    /* Keeps the length of the convolution, 8 n in unit_root and the tables of all passes from
     * overflowing. */
    if (n == 0 || n > SIZE_MAX / 1024 / sizeof(pl_cplx)) return NULL;
    pl_fft *plan = pl_arena_alloc(arena, sizeof(*plan));
    if (plan == NULL) return NULL;
    plan->n = n;
    const bool ok = factorise(plan) ? plan_mixed(arena, plan) : plan_bluestein(arena, plan);
    return ok ? plan : NULL;
}

size_t pl_fft_work(const pl_fft *plan) {
    return plan->inner == NULL ? plan->n : 2 * plan->inner->n;
}

void pl_fft_run(const pl_fft *plan, bool inverse, pl_cplx *x, pl_cplx *work) {
    if (plan->inner == NULL) {
        run_mixed(plan, inverse, x, work);
    } else {
        run_bluestein(plan, inverse, x, work);
    }
}

/* The metric pass against a long double reference, on every instruction set of this CPU, and every
 * edge case that field.md 2.3 decides. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "metric/metric_block.h"
#include "metric/metrics.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

#define INF ((double)INFINITY)
#define NOT ((double)NAN)

static pl_tensor *tensor(pl_dtype dtype, const double *x, int64_t n) {
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(dtype, 1, &n, &t, NULL), PL_OK);
    pl_store_f64(dtype, x, t->data, (size_t)n);
    return t;
}

static pl_accumulators measure_types(pl_dtype ta, const double *a, pl_dtype tr, const double *r,
                                     int64_t n) {
    pl_accumulators acc;
    pl_err err = PL_ERR_INIT;
    pl_tensor *x = tensor(ta, a, n), *y = tensor(tr, r, n);
    if (pl_accumulate(NULL, x, y, &acc, &err) != PL_OK) fail_msg("%s", err.message);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    return acc;
}
static pl_accumulators measure(pl_dtype t, const double *a, const double *r, int64_t n) {
    return measure_types(t, a, t, r, n);
}
static double value(const char *metric, const pl_accumulators *acc) {
    const pl_metric *m = pl_metric_find(metric);
    assert_non_null(m);
    return m->value(acc);
}
static void near_(double got, double want, double rel, const char *what) {
    if (got == want || fabs(got - want) <= rel * fabs(want)) return;
    fail_msg("%s is %.17g, expected %.17g", what, got, want);
}

/* ---- against long double ---- */
typedef struct truth {
    long double sq, ab, rel, rr, aa, ar;
    double top, max_a, max_r, floor;
    int64_t at, excluded, mismatch;
} truth;

static truth truth_of(const double *a, const double *r, int64_t n, double eps) {
    truth t = { .at = -1 };
    for (int64_t i = 0; i < n; i++)
        if (isfinite(a[i]) && isfinite(r[i])) t.max_r = fmax(t.max_r, fabs(r[i]));
    t.floor = t.max_r > 0 ? eps * exp2(floor(log2(t.max_r))) : 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(r[i])) continue;
        const long double d = (long double)a[i] - (long double)r[i], e = fabsl(d);
        t.sq += d * d;
        t.ab += e;
        t.rr += (long double)r[i] * (long double)r[i];
        t.aa += (long double)a[i] * (long double)a[i];
        t.ar += (long double)a[i] * (long double)r[i];
        if ((double)e > t.top || t.at < 0) {
            t.top = (double)e;
            t.at = i;
        }
        t.max_a = fmax(t.max_a, fabs(a[i]));
        if (fabs(r[i]) <= t.floor) {
            t.excluded++;
        } else {
            t.rel += e / fabsl((long double)r[i]);
        }
        if (a[i] != r[i]) t.mismatch++;
    }
    return t;
}

/* What accumulate.h promises: sums of f64 and of less than a block of f32 are sums of doubles; of a
 * whole block of f32 11 roundings of f32; of narrow types 35, and 33 where d is exact, as here. */
static double rounding_of(pl_dtype dtype, int64_t n) {
    if (dtype == PL_F16 || dtype == PL_BF16) return 33 * 0x1p-24;
    return dtype == PL_F32 && n >= PL_METRIC_BLOCK ? 11 * 0x1p-24 : 1e-13;
}

static void check_sums(const pl_metric_block *b, const truth *t, double rel) {
    near_(b->sum_sq, (double)t->sq, rel, "sum_sq");
    near_(b->sum_abs, (double)t->ab, rel, "sum_abs");
    near_(b->sum_rr, (double)t->rr, rel, "sum_rr");
    near_(b->sum_aa, (double)t->aa, rel, "sum_aa");
    if (fabs(b->sum_ar - (double)t->ar) > rel * sqrt((double)(t->aa * t->rr)))
        fail_msg("sum_ar is %.17g, expected %.17g", b->sum_ar, (double)t->ar);
}

static void check_truth(pl_dtype dtype, const pl_accumulators *acc, const truth *t) {
    const pl_metric_block sums = { .sum_sq = acc->sum_sq,
                                   .sum_abs = acc->sum_abs,
                                   .sum_rr = acc->sum_rr,
                                   .sum_aa = acc->sum_aa,
                                   .sum_ar = acc->sum_ar };
    check_sums(&sums, t, rounding_of(dtype, acc->n));
    near_(acc->sum_rel, (double)t->rel, dtype == PL_F64 ? 1e-13 : 1e-6, "sum_rel");
    near_(acc->max_abs, t->top, 0, "max_abs");
    near_(acc->max_a, t->max_a, 0, "max_a");
    near_(acc->max_r, t->max_r, 0, "max_r");
    near_(acc->floor, t->floor, 0, "floor");
    assert_int_equal(acc->n_excluded, t->excluded);
    assert_int_equal(acc->n_mismatch, t->mismatch);
    assert_int_equal(acc->max_abs_index, t->at);
}

static void round_to(pl_dtype dtype, double *x, int64_t n) {
    char *buf = malloc((size_t)n * 8);
    pl_store_f64(dtype, x, buf, (size_t)n);
    pl_load_f64(dtype, buf, x, (size_t)n);
    free(buf);
}

/* Normal-ish values with zeros, and errors of every size down to none. */
static void fill(pl_dtype dtype, double *a, double *r, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) {
        const double u = pl_rng_uniform_at(seed, 0, (uint64_t)i);
        const double v = pl_rng_uniform_at(seed, 1, (uint64_t)i);
        const double w = pl_rng_uniform_at(seed, 2, (uint64_t)i);
        r[i] = u < 0.1 ? 0 : (v - 0.5) * exp2(floor(u * 12) - 6);
        a[i] = w < 0.3 ? r[i] : r[i] * (1 + (w - 0.6) * 0.01) + (v < 0.02 ? 0.01 : 0);
    }
    round_to(dtype, a, n);
    round_to(dtype, r, n);
}

static const pl_dtype floats[] = { PL_F32, PL_F64, PL_F16, PL_BF16 };

static void test_metric__agrees_with_long_double(void **state) {
    (void)state;
    static const int64_t sizes[] = { 1, 2, 7, 31, 64, 65, 1000, 16383, 16384, 16385, 100000 };
    double *a = malloc(100000 * sizeof *a), *r = malloc(100000 * sizeof *r);
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            fill(floats[k], a, r, sizes[i], 17 + i);
            const truth t = truth_of(a, r, sizes[i], 2 * pl_dtype_unit_roundoff(floats[k]));
            const pl_accumulators acc = measure(floats[k], a, r, sizes[i]);
            check_truth(floats[k], &acc, &t);
            assert_int_equal(acc.n, sizes[i]);
            assert_int_equal(acc.n_finite, sizes[i]);
        }
    free(a);
    free(r);
}

/* The same kernel of every instruction set, on a length with a tail. */
static void test_metric__instruction_sets_agree(void **state) {
    (void)state;
    enum { N = 5003 };
    static double a[N], r[N];
    static char x[N * 8], y[N * 8];
    for (int isa = 0; isa < PL_METRIC_SETS; isa++) {
        const pl_metric_kernels *k = pl_metric_kernels_of(isa);
        if (k == NULL) continue;
        const pl_metric_block_fn fns[] = { k->f32, k->f64, k->f16, k->bf16, k->i8, k->u8 };
        static const pl_dtype types[] = { PL_F32, PL_F64, PL_F16, PL_BF16, PL_I8, PL_U8 };
        for (int t = 0; t < 6; t++) {
            fill(t < 4 ? types[t] : PL_F32, a, r, N, 5);
            if (t >= 4)
                for (int i = 0; i < N; i++) {
                    a[i] = (double)((i * 37) % 120);
                    r[i] = (double)((i * 37) % 119);
                }
            pl_store_f64(types[t], a, x, N);
            pl_store_f64(types[t], r, y, N);
            const truth want = truth_of(a, r, N, t < 4 ? 2 * pl_dtype_unit_roundoff(types[t]) : 0);
            pl_metric_block b;
            memset(&b, 0, sizeof b);
            assert_true(fns[t](x, y, N, want.floor, &b));
            near_(b.sum_sq, (double)want.sq, 2e-6, "sum_sq");
            near_(b.sum_ar, (double)want.ar, 2e-6, "sum_ar");
            near_(b.sum_rel, (double)want.rel, 2e-6, "sum_rel");
            near_(b.max_abs, want.top, 1e-7, "max_abs");
            assert_int_equal(b.n_excluded, want.excluded);
            assert_int_equal(b.n_mismatch, want.mismatch);
        }
    }
}

static void test_metric__does_not_depend_on_threads(void **state) {
    (void)state;
    const int64_t n = 16384 * 9 + 77;
    double *a = malloc((size_t)n * sizeof *a), *r = malloc((size_t)n * sizeof *r);
    pl_pool *pools[3] = { NULL, pl_pool_new(2), pl_pool_new(5) };
    static const pl_dtype types[] = { PL_F32, PL_F64, PL_F16, PL_BF16, PL_I8, PL_I32, PL_F8E4M3FN };
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        fill(PL_F32, a, r, n, 3);
        a[20000] = NOT; /* one block through the plain path */
        r[n - 1] = 300; /* the largest at the end: the floor's guess is wrong */
        pl_tensor *x = tensor(types[k], a, n), *y = tensor(types[k], r, n);
        pl_accumulators acc[3];
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pl_accumulate(pools[i], x, y, &acc[i], NULL), PL_OK);
            assert_memory_equal(&acc[i], &acc[0], sizeof acc[0]);
        }
        pl_tensor_unref(x);
        pl_tensor_unref(y);
    }
    pl_pool_free(pools[1]);
    pl_pool_free(pools[2]);
    free(a);
    free(r);
}

/* What the vector path tells apart in runs: equal, near, far, with small or zero references. Each
 * kind fills stretches of its own length, so that kinds meet within runs and blocks. */
static double other_of(int kind, double r, double u) {
    switch (kind) {
    case 0: return r;
    case 1: return r * (1 + (u - 0.5) * 0x1p-9); /* a few ulps of bf16, many of f64 */
    case 2: return -r * u;
    case 3: return r * u * 0x1p-7; /* beyond a factor of 2, the same sign */
    case 4: return u < 0.5 ? r : r * 1.25;
    default: return u < 0.3 ? r : 0;
    }
}
static void fill_kinds(pl_dtype dtype, double *a, double *r, int64_t n, int first,
                       int64_t stretch) {
    for (int64_t i = 0; i < n; i++) {
        const double u = pl_rng_uniform_at(77, 0, (uint64_t)i);
        const double v = pl_rng_uniform_at(77, 1, (uint64_t)i);
        const int kind = first >= 0 ? first : (int)(i / stretch % 6);
        r[i] = v < 0.02 ? 0 : v < 0.03 ? -0.0 : (v - 0.5) * (v > 0.97 ? 0x1p-13 : 2);
        if (kind == 5 && v < 0.5) r[i] = 0; /* as behind a Relu */
        a[i] = other_of(kind, r[i], u);
    }
    round_to(dtype, a, n);
    round_to(dtype, r, n);
}

/* The distance by counting codes one by one is out of reach; sign and magnitude, as the type has
 * them, are not. */
static int64_t ulps_of(pl_dtype dtype, double a, double r) {
    int64_t code[2];
    for (int i = 0; i < 2; i++) {
        uint64_t bits = 0;
        pl_store_f64(dtype, i == 0 ? &a : &r, &bits, 1);
        const int sign = (int)pl_dtype_bits(dtype) - 1;
        const int64_t magnitude = (int64_t)(bits & ((UINT64_C(1) << sign) - 1));
        code[i] = (bits >> sign & 1) != 0 ? -magnitude : magnitude;
    }
    return code[0] > code[1] ? code[0] - code[1] : code[1] - code[0];
}

static void check_kinds(pl_dtype dtype, pl_metric_block_fn fn, const double *a, const double *r,
                        int64_t n) {
    const truth t = truth_of(a, r, n, 2 * pl_dtype_unit_roundoff(dtype));
    const double tiny = dtype == PL_F16 ? 0x1p-14 : dtype == PL_F64 ? DBL_MIN : (double)FLT_MIN;
    int64_t ulp = 0, subnormal = 0, flushed = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t u = ulps_of(dtype, a[i], r[i]);
        const bool sub = r[i] != 0 && fabs(r[i]) < tiny;
        ulp = u > ulp ? u : ulp;
        subnormal += sub;
        flushed += sub && a[i] == 0;
    }
    pl_tensor *x = tensor(dtype, a, n), *y = tensor(dtype, r, n);
    pl_metric_block b;
    memset(&b, 0, sizeof b);
    assert_true(fn(x->data, y->data, (size_t)n, t.floor, &b));
    check_sums(&b, &t, rounding_of(dtype, n));
    near_(b.sum_rel, (double)t.rel, dtype == PL_F64 ? 1e-13 : 1e-6, "sum_rel");
    const bool rounded = rounding_of(dtype, n) > 1e-13; /* d in f32; pl_accumulate looks again */
    near_(b.max_abs, t.top, rounded ? 1e-7 : 0, "max_abs");
    near_(b.max_a, t.max_a, 0, "max_a");
    near_(b.max_r, t.max_r, 0, "max_r");
    assert_int_equal(b.n_excluded, t.excluded);
    assert_int_equal(b.n_mismatch, t.mismatch);
    assert_int_equal(b.max_ulp, ulp);
    assert_int_equal(b.n_subnormal, subnormal);
    assert_int_equal(b.n_flushed, flushed);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
}

/* One block of floats[k] by the kernel of an instruction set. */
enum { NO_SUCH_CPU, REFUSED, TOOK };
static int run_kernel(int isa, size_t k, const double *a, const double *r, int64_t n, double floor,
                      pl_metric_block *out) {
    const pl_metric_kernels *of = pl_metric_kernels_of(isa);
    if (of == NULL) return NO_SUCH_CPU;
    const pl_metric_block_fn fns[] = { of->f32, of->f64, of->f16, of->bf16 };
    pl_tensor *x = tensor(floats[k], a, n), *y = tensor(floats[k], r, n);
    memset(out, 0, sizeof *out);
    const bool took = fns[k](x->data, y->data, (size_t)n, floor, out);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    return took ? TOOK : REFUSED;
}

static void check_kinds_of(int isa, int64_t n) {
    const pl_metric_kernels *k = pl_metric_kernels_of(isa);
    if (k == NULL) return;
    double *a = malloc((size_t)n * sizeof *a), *r = malloc((size_t)n * sizeof *r);
    const pl_metric_block_fn fns[] = { k->f32, k->f64, k->f16, k->bf16 };
    for (int t = 0; t < 4; t++)
        for (int kind = -3; kind < 6; kind++) { /* below 0: all of them in turn */
            static const int64_t stretch[] = { 700, 64, 5 };
            fill_kinds(floats[t], a, r, n, kind, kind < 0 ? stretch[kind + 3] : 0);
            check_kinds(floats[t], fns[t], a, r, n);
            if (floats[t] != PL_F32 && floats[t] != PL_F16) continue;
            for (int64_t i = 0; i < n; i++) { /* subnormal numbers, none below the floor */
                if (fabs(r[i]) < 0x1p-8) a[i] = r[i] = 1;
                a[i] = ldexp(a[i], floats[t] == PL_F32 ? -121 : -9);
                r[i] = ldexp(r[i], floats[t] == PL_F32 ? -121 : -9);
            }
            round_to(floats[t], a, n);
            round_to(floats[t], r, n);
            check_kinds(floats[t], fns[t], a, r, n);
        }
    for (int64_t i = 0; i < n; i++) { /* codes as far apart as they can be */
        r[i] = i % 2 == 0 ? 65504 : -65504;
        a[i] = i % 2 == 0 ? -0x1p-24 : 0x1p-24;
    }
    check_kinds(PL_F16, k->f16, a, r, n);
    free(a);
    free(r);
}

static void test_metric__runs_of_every_kind(void **state) {
    (void)state;
    for (int isa = 0; isa < PL_METRIC_SETS; isa++) {
        check_kinds_of(isa, 6 * 700 + 13);
        check_kinds_of(isa, PL_METRIC_BLOCK); /* f32 the quick way */
    }
}

/* Squares that f32 cannot hold: a whole block is then summed in doubles, as precise as its end. */
static void test_metric__extreme_f32_blocks_are_precise(void **state) {
    (void)state;
    enum { N = PL_METRIC_BLOCK };
    static const double scale[] = { 0x1p100, 0x1p57, 0x1p-40, 0x1p-57, 0x1p-100 };
    static double a[N], r[N];
    for (int isa = 0; isa < PL_METRIC_SETS; isa++) {
        const pl_metric_kernels *k = pl_metric_kernels_of(isa);
        for (size_t i = 0; i < 5 && k != NULL; i++) {
            for (int j = 0; j < N; j++) {
                r[j] = (1 + pl_rng_uniform_at(5, 0, (uint64_t)j)) * scale[i];
                a[j] = r[j] * (1 + 0x1p-18 * pl_rng_uniform_at(5, 1, (uint64_t)j));
            }
            round_to(PL_F32, a, N);
            round_to(PL_F32, r, N);
            const truth t = truth_of(a, r, N, 0x1p-23);
            pl_tensor *x = tensor(PL_F32, a, N), *y = tensor(PL_F32, r, N);
            pl_metric_block b;
            memset(&b, 0, sizeof b);
            assert_true(k->f32(x->data, y->data, N, t.floor, &b));
            check_sums(&b, &t, 1e-13);
            near_(b.sum_rel, (double)t.rel, 1e-6, "sum_rel");
            near_(b.max_abs, t.top, 0, "max_abs");
            pl_tensor_unref(x);
            pl_tensor_unref(y);
        }
    }
}

/* One side has squares that f32 cannot hold, the other has not. */
static void test_metric__sides_of_unlike_size_keep_their_squares(void **state) {
    (void)state;
    enum { N = PL_METRIC_BLOCK };
    static const double scale[][2] = {
        { 1, 0x1p-80 }, { 0x1p-80, 1 }, { 1, 0x1p-130 }, { 0x1p40, 0x1p-60 }, { 0x1p-60, 0x1p50 }
    };
    static double a[N], r[N];
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < 5; i++) {
            if (floats[k] == PL_F16) continue; /* its squares are floats, all of them */
            for (int j = 0; j < N; j++) {
                const double v = 1 + pl_rng_uniform_at(6, 0, (uint64_t)j);
                a[j] = v * scale[i][0];
                r[j] = v * scale[i][1];
            }
            round_to(floats[k], a, N);
            round_to(floats[k], r, N);
            const truth t = truth_of(a, r, N, 2 * pl_dtype_unit_roundoff(floats[k]));
            const pl_accumulators acc = measure(floats[k], a, r, N);
            check_truth(floats[k], &acc, &t);
            for (int isa = 0; isa < PL_METRIC_SETS; isa++) {
                pl_metric_block b;
                if (run_kernel(isa, k, a, r, N, t.floor, &b) == TOOK)
                    check_sums(&b, &t, rounding_of(floats[k], N)); /* else: as measured above */
            }
        }
}

/* Where all terms are equal, so are all roundings: they add up. */
static void test_metric__products_of_a_scaled_constant_are_precise(void **state) {
    (void)state;
    enum { N = PL_METRIC_BLOCK };
    static const double factor[] = { -0.5, 0.5, -1, 0.6, -0.25, 3, 0.9, -2 };
    static double a[N], r[N];
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < 8 * 12; i++) {
            for (int j = 0; j < N; j++) {
                r[j] = 0.5 + pl_rng_uniform_at(7, 0, i / 8);
                a[j] = r[j] * factor[i % 8];
            }
            round_to(floats[k], r, N);
            round_to(floats[k], a, N);
            const truth t = truth_of(a, r, N, 2 * pl_dtype_unit_roundoff(floats[k]));
            for (int isa = 0; isa < PL_METRIC_SETS; isa++) {
                const double rel =
                    floats[k] == PL_F64 ? (double)N * 0x1p-53 : rounding_of(floats[k], N);
                pl_metric_block b;
                const int took = run_kernel(isa, k, a, r, N, t.floor, &b);
                assert_int_not_equal(took, REFUSED);
                if (took == TOOK) check_sums(&b, &t, rel);
            }
        }
}

/* Whole blocks of f32 round d, others do not: of equal errors it is the first that counts. */
static void test_metric__max_abs_is_the_first_of_equal_ones(void **state) {
    (void)state;
    const int64_t n = 3 * PL_METRIC_BLOCK + 2;
    double *a = malloc((size_t)n * sizeof *a), *r = malloc((size_t)n * sizeof *r);
    for (size_t k = 0; k < 4; k++)
        for (int extreme = 0; extreme < 2; extreme++) {
            for (int64_t i = 0; i < n; i++) {
                a[i] = 1;
                r[i] = 2.12e-6;
            }
            if (extreme)
                a[2 * PL_METRIC_BLOCK] = r[2 * PL_METRIC_BLOCK] = 0x1p100;
            else
                a[2 * PL_METRIC_BLOCK] = r[2 * PL_METRIC_BLOCK] = NOT;
            round_to(floats[k], a, n);
            round_to(floats[k], r, n);
            const pl_accumulators acc = measure(floats[k], a, r, n);
            assert_int_equal(acc.max_abs_index, 0);
            near_(acc.max_abs, a[0] - r[0], 0, "max_abs");
        }
    free(a);
    free(r);
}

/* An excluded difference beyond f32 is a number all the same. */
static void test_metric__excluded_differences_do_not_overflow(void **state) {
    (void)state;
    const double a[] = { (double)FLT_MAX, 1 }, r[] = { -0x1p104, 0x1p127 };
    const pl_accumulators acc = measure(PL_F32, a, r, 2);
    assert_int_equal(acc.n_excluded, 1);
    near_(acc.max_abs, 0x1p128, 0, "max_abs");
}

/* Products of bf16 pairs take subnormal numbers for 0: differences made of them must not vanish,
 * alone or beside others, in a block with large equal values. */
static void test_metric__subnormal_differences_count(void **state) {
    (void)state;
    enum { N = 5000 };
    static double a[N], r[N];
    for (int beside = 0; beside < 2; beside++) {
        for (int i = 0; i < N; i++)
            a[i] = r[i] = 1;
        a[7] = 0x1p-130;
        r[7] = 0;
        r[N - 1] = -0x1p-128;
        a[N - 1] = 0x1p-128;
        if (beside) a[100] = 1.5;
        const pl_accumulators acc = measure(PL_BF16, a, r, N);
        assert_int_equal(acc.n_mismatch, 2 + beside);
        assert_int_equal(acc.n_subnormal, 1);
        near_(acc.sum_abs, beside ? 0.5 : 0x1p-130 + 0x1p-127, 0, "sum_abs");
        near_(acc.max_abs, beside ? 0.5 : 0x1p-127, 0, "max_abs");
        assert_int_equal(acc.max_abs_index, beside ? 100 : N - 1);
        assert_int_equal(acc.max_ulp, 64); /* 2 * 2^-128 / 2^-133, 0.5 * 2^7 */
    }
}

/* NaN and Inf on either side or on both, at any place of a run of any kind: the vector path must
 * leave the block to the plain one. */
static void test_metric__vectors_refuse_nonfinite_values(void **state) {
    (void)state;
    enum { N = 300 };
    static const double bad[][2] = { { NOT, 1 },  { 1, NOT },   { NOT, NOT }, { INF, 1 },
                                     { 1, -INF }, { INF, INF }, { INF, -INF } };
    static double a[N], r[N];
    for (int isa = 0; isa < PL_METRIC_SETS; isa++) {
        const pl_metric_kernels *k = pl_metric_kernels_of(isa);
        if (k == NULL) continue;
        const pl_metric_block_fn fns[] = { k->f32, k->f64, k->f16, k->bf16 };
        for (int t = 0; t < 4; t++)
            for (int kind = 0; kind < 6; kind++)
                for (int i = 0; i < 7; i++)
                    for (int at = 0; at < N; at += 23) {
                        fill_kinds(floats[t], a, r, N, kind, 0);
                        a[at] = bad[i][0];
                        r[at] = bad[i][1];
                        if (bad[i][1] == 1) r[at] = floats[t] == PL_F32 ? (double)FLT_MAX : 60000;
                        pl_tensor *x = tensor(floats[t], a, N), *y = tensor(floats[t], r, N);
                        pl_metric_block b;
                        assert_false(fns[t](x->data, y->data, N, 0x1p-30, &b));
                        pl_tensor_unref(x);
                        pl_tensor_unref(y);
                    }
    }
}

/* Large enough that a thread takes several blocks at a time; the tree of partial sums is the same
 * as that of the blocks one by one. */
static void test_metric__groups_do_not_change_the_tree(void **state) {
    (void)state;
    const int64_t n = 16384 * 16 * 9 + 12345;
    double *a = malloc((size_t)n * sizeof *a), *r = malloc((size_t)n * sizeof *r);
    fill(PL_F32, a, r, n, 9);
    pl_tensor *x = tensor(PL_F32, a, n), *y = tensor(PL_F32, r, n);
    pl_pool *pools[2] = { NULL, pl_pool_new(3) };
    pl_accumulators acc[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pl_accumulate(pools[i], x, y, &acc[i], NULL), PL_OK);
    assert_memory_equal(&acc[0], &acc[1], sizeof acc[0]);
    const truth t = truth_of(a, r, n, 0x1p-23);
    check_truth(PL_F32, &acc[0], &t);

    const pl_metric_kernels *k = pl_metric_kernels_get();
    const int64_t n_blocks = (n - 1) / PL_METRIC_BLOCK + 1;
    double *sums = malloc((size_t)n_blocks * sizeof *sums);
    for (int64_t i = 0; i < n_blocks; i++) {
        const int64_t at = i * PL_METRIC_BLOCK,
                      m = n - at < PL_METRIC_BLOCK ? n - at : PL_METRIC_BLOCK;
        pl_metric_block b;
        memset(&b, 0, sizeof b);
        assert_true(k->f32((pl_f32 *)x->data + at, (pl_f32 *)y->data + at, (size_t)m, t.floor, &b));
        sums[i] = b.sum_sq;
    }
    for (int64_t step = 1; step < n_blocks; step *= 2)
        for (int64_t i = 0; i + step < n_blocks; i += 2 * step)
            sums[i] += sums[i + step];
    assert_true(sums[0] == acc[0].sum_sq);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    pl_pool_free(pools[1]);
    free(sums);
    free(a);
    free(r);
}

/* More than one chunk (16M elements): the tree across chunks, and a floor that moves at the end. */
static void test_metric__runs_again_when_the_floor_moves(void **state) {
    (void)state;
    const int64_t n = 16384 * 1024 + 50000;
    pl_tensor *a = NULL, *r = NULL;
    assert_int_equal(pl_tensor_new(PL_F16, 1, &n, &a, NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_F16, 1, &n, &r, NULL), PL_OK);
    pl_u16 *x = a->data, *y = r->data;
    for (int64_t i = 0; i < n; i++) {
        y[i] = i % 2 == 0 ? 0x3c00 : 0x2e66; /* 1 and 0.1 */
        x[i] = i % 2 == 0 ? 0x3c00 : 0x2e67;
    }
    y[n - 1] = x[n - 1] = 0x6400; /* 1024: ulp 1, so that only values above 1 count */
    pl_accumulators acc;
    assert_int_equal(pl_accumulate(NULL, a, r, &acc, NULL), PL_OK);
    assert_true(acc.floor == 1);
    assert_int_equal(acc.n_excluded, n - 1);
    assert_true(acc.sum_rel == 0);
    assert_int_equal(acc.n_mismatch, (n - 1) / 2); /* the odd ones but the last */
    assert_int_equal(acc.max_ulp, 1);
    assert_int_equal(acc.max_abs_index, 1);
    assert_int_equal(acc.mismatch_index, 1);
    pl_tensor_unref(a);
    pl_tensor_unref(r);
}

/* ---- edge cases of field.md 2.3 ---- */
static void test_metric__zero_error_is_exact(void **state) {
    (void)state;
    const double r[] = { 1, -2, 3 }, z[] = { 0, 0, 0 };
    pl_accumulators acc = measure(PL_F32, r, r, 3);
    assert_int_equal(pl_accumulators_class(&acc), PL_PAIR_EXACT);
    assert_true(value("psnr", &acc) == INF && value("snr", &acc) == INF);
    assert_true(value("cosine", &acc) == 1 && value("mean_rel", &acc) == 0);
    acc = measure(PL_F32, z, z, 3);
    assert_int_equal(pl_accumulators_class(&acc), PL_PAIR_EXACT);
    assert_true(value("psnr", &acc) == INF && value("cosine", &acc) == 1);
    assert_false(pl_accumulators_zero_reference(&acc));
}

static void test_metric__psnr_takes_the_reference_peak(void **state) {
    (void)state;
    const double r[] = { -10, 0 }, a[] = { -10, 1 };
    const pl_accumulators acc = measure(PL_F32, a, r, 2);
    near_(value("psnr", &acc), 10 * log10(100 / 0.5), 1e-15, "psnr");
    near_(value("snr", &acc), 20, 1e-15, "snr");
    near_(value("mse", &acc), 0.5, 0, "mse");
    near_(value("rmse", &acc), sqrt(0.5), 1e-15, "rmse");
    near_(value("mae", &acc), 0.5, 0, "mae");
    assert_true(acc.max_abs_a == 1 && acc.max_abs_r == 0 && acc.max_abs_index == 1);
    /* the zero is left out of the relative mean, and counted */
    assert_true(value("mean_rel", &acc) == 0);
    assert_int_equal(acc.n_excluded, 1);
}

static void test_metric__zero_reference_is_judged_by_max_abs(void **state) {
    (void)state;
    const double r[] = { 0, 0 }, tiny[] = { 0, 1e-7 }, big[] = { 0, 1 };
    pl_metric_limits used;
    pl_accumulators acc = measure(PL_F32, tiny, r, 2);
    assert_true(pl_accumulators_zero_reference(&acc));
    assert_true(value("psnr", &acc) == -INF);
    const pl_metric *psnr = pl_metric_find("psnr");
    assert_int_equal(pl_metric_colour(psnr, &acc, PL_PRECISION_F32, &used), PL_GREEN);
    near_(used.green, 1e-4, 1e-12, "limit of max_abs with a zero reference");
    acc = measure(PL_F32, big, r, 2);
    assert_int_equal(pl_metric_colour(psnr, &acc, PL_PRECISION_F32, &used), PL_RED);
    assert_true(value("cosine", &acc) == 0);
}

static void nonfinite(double a, double r, pl_pair_class want, int64_t *count, pl_accumulators *acc,
                      pl_dtype dtype) {
    const double x[] = { 1, a, 2 }, y[] = { 1, r, 4 };
    *acc = measure(dtype, x, y, 3);
    assert_int_equal(acc->n_finite, 2);
    assert_int_equal(pl_accumulators_class(acc), want);
    assert_true(acc->max_abs == 2 && acc->max_abs_index == 2 && acc->max_r == 4);
    assert_true(acc->sum_sq == 4);
    assert_int_equal(*count, 1);
    assert_int_equal(acc->nonfinite_index, want == PL_PAIR_NONFINITE ? 1 : -1);
}

static void test_metric__nonfinite_values_are_a_class(void **state) {
    (void)state;
    pl_accumulators c;
    for (size_t k = 0; k < 4; k++) {
        const pl_dtype t = floats[k];
        nonfinite(NOT, NOT, PL_PAIR_FINITE, &c.n_both_nan, &c, t);
        nonfinite(INF, INF, PL_PAIR_FINITE, &c.n_both_inf, &c, t);
        nonfinite(-INF, -INF, PL_PAIR_FINITE, &c.n_both_inf, &c, t);
        nonfinite(NOT, 1, PL_PAIR_NONFINITE, &c.n_nan_a, &c, t);
        nonfinite(1, NOT, PL_PAIR_NONFINITE, &c.n_nan_r, &c, t);
        nonfinite(NOT, INF, PL_PAIR_NONFINITE, &c.n_nan_a, &c, t);
        nonfinite(INF, 1, PL_PAIR_NONFINITE, &c.n_inf_a, &c, t);
        nonfinite(1, -INF, PL_PAIR_NONFINITE, &c.n_inf_r, &c, t);
        nonfinite(INF, -INF, PL_PAIR_NONFINITE, &c.n_inf_sign, &c, t);
    }
    for (size_t i = 0; i < pl_n_metrics; i++) /* worse than any number, and no value is NaN */
        assert_int_equal(pl_metric_colour(&pl_metrics[i], &c, PL_PRECISION_F32, NULL), PL_RED);
}

static void test_metric__everything_nan_gives_no_nan(void **state) {
    (void)state;
    const double x[] = { NOT, NOT }, y[] = { 1, 2 };
    pl_accumulators acc = measure(PL_F32, x, x, 2);
    assert_int_equal(pl_accumulators_class(&acc), PL_PAIR_EXACT);
    acc = measure(PL_F32, x, y, 2);
    assert_int_equal(pl_accumulators_class(&acc), PL_PAIR_NONFINITE);
    assert_int_equal(acc.max_abs_index, -1);
    for (size_t i = 0; i < pl_n_metrics; i++)
        assert_true(pl_metrics[i].value(&acc) == pl_metrics[i].value(&acc));
}

static void test_metric__classes_sort_before_numbers(void **state) {
    (void)state;
    const double r[] = { 1, 2 }, near1[] = { 1, 2.001 }, far1[] = { 1, 9e9 }, nan1[] = { NOT, 2 };
    const pl_accumulators exact = measure(PL_F32, r, r, 2), small = measure(PL_F32, near1, r, 2),
                          large = measure(PL_F32, far1, r, 2), bad = measure(PL_F32, nan1, r, 2);
    const pl_accumulators *worst_first[] = { NULL, &bad, &large, &small, &exact };
    for (size_t m = 0; m < pl_n_metrics; m++) {
        if (strcmp(pl_metrics[m].name, "mismatch") == 0) continue; /* one each */
        for (int i = 0; i < 5; i++)
            for (int k = 0; k < 5; k++) {
                const int got = pl_metric_order(&pl_metrics[m], worst_first[i], worst_first[k]);
                assert_int_equal(got < 0 ? -1 : got > 0, i < k ? -1 : i > k);
            }
    }
}

static void test_metric__squares_do_not_overflow_or_vanish(void **state) {
    (void)state;
    const double scale[] = { 1e300, 1e200, 1, 1e-200, 1e-300, 1e-310 };
    for (size_t i = 0; i < 6; i++) {
        const double r[] = { scale[i], -scale[i] }, a[] = { scale[i] * 1.125, -scale[i] };
        const pl_accumulators acc = measure(PL_F64, a, r, 2);
        near_(value("psnr", &acc), 10 * log10(2 / (0.125 * 0.125)), 1e-9, "psnr");
        near_(value("rmse", &acc), scale[i] * 0.125 / sqrt(2), 1e-9, "rmse");
        near_(value("cosine", &acc), 2.125 / sqrt(2 * (1.125 * 1.125 + 1)), 1e-9, "cosine");
    }
    const double r[] = { DBL_MAX, 1 }, a[] = { -DBL_MAX, 1 };
    const pl_accumulators acc = measure(PL_F64, a, r, 2);
    near_(value("psnr", &acc), 10 * log10(0.5), 1e-9, "psnr of an overflowing difference");
    assert_true(acc.max_abs == INF && acc.nonfinite_index < 0);
    const double r32[] = { 3e38, 1 }, a32[] = { -3e38, 1 };
    const pl_accumulators f = measure(PL_F32, a32, r32, 2);
    near_(f.max_abs, 2 * (double)3e38f, 0, "difference beyond f32");
    const double rb[] = { 1e-30, 0 }, ab[] = { 2e-30, 0 };
    const pl_accumulators b = measure(PL_BF16, ab, rb, 2);
    assert_true(value("psnr", &b) < 10 && value("psnr", &b) > 0);
}

static void test_metric__merges_scales_and_offsets(void **state) {
    (void)state;
    const double r1[] = { 1e300, 1 }, a1[] = { 1.5e300, 1 }, r2[] = { 2, 3 }, a2[] = { 2, 4 };
    const double r[] = { 1e300, 1, 2, 3 }, a[] = { 1.5e300, 1, 2, 4 };
    pl_accumulators x = measure(PL_F64, a1, r1, 2), y = measure(PL_F64, a2, r2, 2);
    const pl_accumulators whole = measure(PL_F64, a, r, 4);
    pl_accumulators sum = x;
    pl_accumulators_merge(&sum, &y, 2);
    near_(value("rmse", &sum), value("rmse", &whole), 1e-12, "rmse");
    assert_int_equal(sum.n, 4);
    assert_int_equal(sum.max_abs_index, 0);
    pl_accumulators_init(&sum);
    pl_accumulators_merge(&sum, &y, 10);
    assert_int_equal(sum.max_abs_index, 11);
    assert_int_equal(sum.mismatch_index, 11);
    near_(value("psnr", &sum), value("psnr", &y), 0, "psnr");
    pl_accumulators_merge(&y, &x, 2);
    near_(value("rmse", &y), value("rmse", &whole), 1e-12, "rmse the other way");
}

static void test_metric__integers_are_exact(void **state) {
    (void)state;
    int64_t n = 3;
    pl_tensor *a = NULL, *r = NULL;
    assert_int_equal(pl_tensor_new(PL_I64, 1, &n, &a, NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_I64, 1, &n, &r, NULL), PL_OK);
    const int64_t x[] = { INT64_C(9007199254740993), INT64_MIN, 5 },
                  y[] = { INT64_C(9007199254740992), INT64_MAX, 5 };
    memcpy(a->data, x, sizeof x);
    memcpy(r->data, y, sizeof y);
    pl_accumulators acc;
    assert_int_equal(pl_accumulate(NULL, a, r, &acc, NULL), PL_OK);
    assert_int_equal(acc.n_mismatch, 2); /* 2^53 + 1 is not 2^53 */
    assert_int_equal(acc.mismatch_index, 0);
    assert_true(acc.max_ulp == INT64_MAX);
    assert_int_equal(
        pl_metric_colour(pl_metric_find("mismatch"), &acc, pl_precision_of(PL_I64, PL_I64), NULL),
        PL_RED);
    pl_tensor *u = NULL;
    assert_int_equal(pl_tensor_new(PL_U64, 1, &n, &u, NULL), PL_OK);
    memcpy(u->data, x, sizeof x); /* INT64_MIN's bits are 2^63 */
    assert_int_equal(pl_accumulate(NULL, u, a, &acc, NULL), PL_OK);
    assert_int_equal(acc.n_mismatch, 1);
    assert_true(acc.max_abs == 0x1p64 && acc.max_abs_index == 1);
    pl_tensor_unref(u);
    pl_tensor_unref(a);
    pl_tensor_unref(r);
}

static void test_metric__every_numeric_type(void **state) {
    (void)state;
    const double r[] = { 1, 0, 1, 1 }, a[] = { 1, 0, 0, 1 };
    for (int t = 1; t < PL_DTYPE_COUNT; t++) {
        if (t == PL_STRING || t == PL_F8E8M0) continue; /* E8M0 has no zero */
        const pl_accumulators acc = measure((pl_dtype)t, a, r, 4);
        assert_int_equal(acc.n, 4);
        assert_int_equal(acc.n_mismatch, 1);
        assert_int_equal(acc.mismatch_index, 2);
        assert_true(acc.max_abs == 1 && acc.max_abs_index == 2);
        assert_true(acc.sum_sq == 1 && acc.sum_rr == 3 && acc.sum_aa == 2);
        assert_true(acc.sum_rel == 1);
        assert_int_equal(acc.n_excluded, 1);
        near_(value("psnr", &acc), 10 * log10(4), 1e-12, "psnr");
        for (int u = 1; u < PL_DTYPE_COUNT; u++) {
            if (u == PL_STRING || u == PL_F8E8M0) continue;
            const pl_accumulators mixed = measure_types((pl_dtype)t, a, (pl_dtype)u, r, 4);
            assert_int_equal(mixed.n_mismatch, 1);
            assert_true(mixed.sum_sq == 1);
        }
    }
}

static void test_metric__strings_and_complex(void **state) {
    (void)state;
    int64_t n = 2;
    pl_tensor *a = NULL, *r = NULL, *f = NULL;
    assert_int_equal(pl_tensor_new(PL_STRING, 1, &n, &a, NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_STRING, 1, &n, &r, NULL), PL_OK);
    assert_int_equal(pl_tensor_set_string(a, 0, "x", 1, NULL), PL_OK);
    assert_int_equal(pl_tensor_set_string(a, 1, "long", 4, NULL), PL_OK);
    assert_int_equal(pl_tensor_set_string(r, 0, "x", 1, NULL), PL_OK);
    assert_int_equal(pl_tensor_set_string(r, 1, "lone", 4, NULL), PL_OK);
    pl_accumulators acc;
    assert_int_equal(pl_accumulate(NULL, a, r, &acc, NULL), PL_OK);
    assert_int_equal(acc.n_mismatch, 1);
    assert_int_equal(acc.mismatch_index, 1);
    assert_int_equal(pl_accumulators_class(&acc), PL_PAIR_FINITE);
    assert_int_equal(pl_metric_colour(pl_metric_find("psnr"), &acc, PL_PRECISION_EXACT, NULL),
                     PL_RED);
    assert_int_equal(pl_accumulate(NULL, a, a, &acc, NULL), PL_OK);
    assert_int_equal(pl_accumulators_class(&acc), PL_PAIR_EXACT);
    const double z[] = { 0, 0 };
    f = tensor(PL_F32, z, 2);
    assert_int_equal(pl_accumulate(NULL, a, f, &acc, NULL), PL_E_INVALID);
    pl_tensor_unref(f);
    pl_tensor_unref(a);
    pl_tensor_unref(r);

    const float ca[] = { 3, 4, 0, 1 }, cr[] = { 0, 0, 0, 1 };
    assert_int_equal(pl_tensor_borrow(PL_C64, 1, &n, ca, NULL, NULL, &a, NULL), PL_OK);
    assert_int_equal(pl_tensor_borrow(PL_C64, 1, &n, cr, NULL, NULL, &r, NULL), PL_OK);
    assert_int_equal(pl_accumulate(NULL, a, r, &acc, NULL), PL_OK);
    assert_true(acc.n == 2 && acc.max_abs == 5 && acc.sum_sq == 25 && acc.sum_rr == 1);
    pl_tensor_unref(a);
    pl_tensor_unref(r);
}

static void test_metric__empty_scalar_and_zero_sign(void **state) {
    (void)state;
    const double r[] = { 4 }, a[] = { 5 }, p[] = { 0.0 }, m[] = { -0.0 };
    pl_accumulators acc = measure(PL_F32, r, r, 0);
    assert_int_equal(pl_accumulators_class(&acc), PL_PAIR_EXACT);
    assert_true(value("psnr", &acc) == INF && value("mse", &acc) == 0);
    acc = measure(PL_F32, a, r, 1); /* a scalar's PSNR is -20 log10 of its relative error */
    near_(value("psnr", &acc), -20 * log10(0.25), 1e-14, "psnr");
    near_(value("mean_rel", &acc), 0.25, 0, "mean_rel");
    for (size_t k = 0; k < 4; k++) {
        acc = measure(floats[k], m, p, 1);
        assert_int_equal(pl_accumulators_class(&acc), PL_PAIR_EXACT);
        assert_int_equal(acc.max_ulp, 0);
    }
}

static void test_metric__shapes_are_never_reinterpreted(void **state) {
    (void)state;
    const int64_t d1[] = { 2, 3 }, d2[] = { 3, 2 };
    pl_tensor *a = NULL, *r = NULL;
    pl_accumulators acc;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_tensor_new_zero(PL_F32, 2, d1, &a, NULL), PL_OK);
    assert_int_equal(pl_tensor_new_zero(PL_F32, 2, d2, &r, NULL), PL_OK);
    assert_int_equal(pl_accumulate(NULL, a, r, &acc, &err), PL_E_INVALID);
    assert_non_null(strstr(err.message, "[2,3]"));
    pl_tensor_unref(a);
    pl_tensor_unref(r);
}

static void test_metric__sees_flushed_subnormals(void **state) {
    (void)state;
    const double r[] = { 1e-40, -2e-40, 1, 0 }, a[] = { 0, 0, 1, 0 };
    pl_accumulators acc = measure(PL_F32, a, r, 4);
    assert_true(acc.n_subnormal == 2 && acc.n_flushed == 2);
    acc = measure(PL_F32, r, r, 4);
    assert_true(acc.n_subnormal == 2 && acc.n_flushed == 0);
    const double all[] = { 1e-40, 3e-40 }, none[] = { 0, 0 };
    acc = measure(PL_F32, none, all, 2); /* all of the tensor */
    assert_true(acc.n_subnormal == 2 && acc.n_flushed == 2 && acc.n_mismatch == 2);
}

static void test_metric__counts_ulps_across_zero(void **state) {
    (void)state;
    const double t32 = 0x1p-149, t16 = 0x1p-24;
    const double a[] = { t32, 1 }, r[] = { -t32, 1 + 0x1p-23 };
    pl_accumulators acc = measure(PL_F32, a, r, 2);
    assert_int_equal(acc.max_ulp, 2);
    const double b[] = { t16, 1 }, s[] = { -2 * t16, 1 };
    acc = measure(PL_F16, b, s, 2);
    assert_int_equal(acc.max_ulp, 3);
    const double c[] = { 1, 65504 }, q[] = { 1 + 0x1p-7, 65504 };
    acc = measure(PL_BF16, c, q, 2);
    assert_int_equal(acc.max_ulp, 1);
    const double e[] = { 1 }, f[] = { 1 + 0x1p-52 };
    acc = measure(PL_F64, e, f, 1);
    assert_int_equal(acc.max_ulp, 1);
    acc = measure_types(PL_F32, e, PL_F64, f, 1); /* gold rounds to the same float */
    assert_int_equal(acc.max_ulp, 0);
    assert_int_equal(acc.n_mismatch, 1);
}

static void test_metric__limits_follow_precision(void **state) {
    (void)state;
    const double r[] = { 1, 0.5 }, a[] = { 1.0001, 0.5 }; /* 83 dB */
    const pl_metric *psnr = pl_metric_find("psnr");
    pl_metric_limits used;
    const pl_accumulators acc = measure(PL_F64, a, r, 2);
    assert_int_equal(pl_metric_colour(psnr, &acc, PL_PRECISION_F64, &used), PL_RED);
    assert_true(used.known && used.green == 250 && used.yellow == 200);
    assert_int_equal(pl_metric_colour(psnr, &acc, PL_PRECISION_F32, &used), PL_YELLOW);
    assert_true(used.green == 100 && used.yellow == 70);
    assert_int_equal(pl_metric_colour(psnr, &acc, PL_PRECISION_F16, &used), PL_GREEN);
    assert_int_equal(pl_precision_of(PL_F16, PL_F64), PL_PRECISION_F16);
    assert_int_equal(pl_precision_of(PL_F32, PL_U8), PL_PRECISION_INT8);
    assert_int_equal(pl_precision_of(PL_I64, PL_I64), PL_PRECISION_EXACT);
    for (size_t m = 0; m < pl_n_metrics; m++) /* green is never the worse side */
        for (int p = 0; p < PL_PRECISION_COUNT; p++) {
            const pl_metric_limits l = pl_metrics[m].limits(&acc, (pl_precision)p);
            if (!l.known) continue;
            const bool up = pl_metrics[m].direction == PL_HIGHER_IS_BETTER;
            assert_true(up ? l.green >= l.yellow : l.green <= l.yellow);
        }
}

static void test_metric__takes_views(void **state) {
    (void)state;
    const double x[] = { 1, 2, 3, 4, 5, 6 }, y[] = { 1, 4, 2, 5, 3, 6 };
    const int64_t d[] = { 3, 2 }, s[] = { 1, 3 }, d2[] = { 3, 2 };
    pl_tensor *a = tensor(PL_F32, x, 6), *b = tensor(PL_F32, y, 6), *v = NULL, *w = NULL;
    assert_int_equal(pl_tensor_view(a, 2, d, s, 0, &v, NULL), PL_OK);
    assert_int_equal(pl_tensor_reshape(b, 2, d2, &w, NULL), PL_OK);
    pl_accumulators acc;
    assert_int_equal(pl_accumulate(NULL, v, w, &acc, NULL), PL_OK);
    assert_int_equal(pl_accumulators_class(&acc), PL_PAIR_EXACT);
    pl_tensor_unref(v);
    pl_tensor_unref(w);
    pl_tensor_unref(a);
    pl_tensor_unref(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metric__agrees_with_long_double),
        cmocka_unit_test(test_metric__instruction_sets_agree),
        cmocka_unit_test(test_metric__does_not_depend_on_threads),
        cmocka_unit_test(test_metric__runs_of_every_kind),
        cmocka_unit_test(test_metric__extreme_f32_blocks_are_precise),
        cmocka_unit_test(test_metric__sides_of_unlike_size_keep_their_squares),
        cmocka_unit_test(test_metric__products_of_a_scaled_constant_are_precise),
        cmocka_unit_test(test_metric__max_abs_is_the_first_of_equal_ones),
        cmocka_unit_test(test_metric__excluded_differences_do_not_overflow),
        cmocka_unit_test(test_metric__subnormal_differences_count),
        cmocka_unit_test(test_metric__vectors_refuse_nonfinite_values),
        cmocka_unit_test(test_metric__groups_do_not_change_the_tree),
        cmocka_unit_test(test_metric__runs_again_when_the_floor_moves),
        cmocka_unit_test(test_metric__zero_error_is_exact),
        cmocka_unit_test(test_metric__psnr_takes_the_reference_peak),
        cmocka_unit_test(test_metric__zero_reference_is_judged_by_max_abs),
        cmocka_unit_test(test_metric__nonfinite_values_are_a_class),
        cmocka_unit_test(test_metric__everything_nan_gives_no_nan),
        cmocka_unit_test(test_metric__classes_sort_before_numbers),
        cmocka_unit_test(test_metric__squares_do_not_overflow_or_vanish),
        cmocka_unit_test(test_metric__merges_scales_and_offsets),
        cmocka_unit_test(test_metric__integers_are_exact),
        cmocka_unit_test(test_metric__every_numeric_type),
        cmocka_unit_test(test_metric__strings_and_complex),
        cmocka_unit_test(test_metric__empty_scalar_and_zero_sign),
        cmocka_unit_test(test_metric__shapes_are_never_reinterpreted),
        cmocka_unit_test(test_metric__sees_flushed_subnormals),
        cmocka_unit_test(test_metric__counts_ulps_across_zero),
        cmocka_unit_test(test_metric__limits_follow_precision),
        cmocka_unit_test(test_metric__takes_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

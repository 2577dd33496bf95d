/* Vector maths of every instruction set that this CPU has, against double and long double libm. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_rig.h"
#include "kernels/vmath.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

typedef void (*map_f32)(const pl_f32 *, pl_f32 *, size_t);
typedef void (*map_f64)(const pl_f64 *, pl_f64 *, size_t);
typedef long double (*truth)(long double);

static long double true_sigmoid(long double x) {
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static long double true_silu(long double x) {
    return x * true_sigmoid(x);
}
static long double true_gelu_erf(long double x) {
    return 0.5L * x * erfcl(-x * 0.707106781186547524400844362104849039L);
}
static long double true_gelu_tanh(long double x) {
    return x * true_sigmoid(1.595769121605730711759783L * x * (1 + 0.044715L * x * x));
}
static long double true_softplus(long double x) {
    return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

typedef struct map_row {
    const char *name;
    size_t off_f32, off_f64;
    truth ref;
    double ulp_f32, ulp_f64;
} map_row;
#define ROW(n, ref, ulp32, ulp64)                                                                  \
    { #n, offsetof(pl_vmath_f32, n), offsetof(pl_vmath_f64, n), ref, ulp32, ulp64 }
/* The f64 bounds of the composites are relative to libm's own few ulp; gelu's argument is rounded
 * before erfc and exp multiply the error by up to x^2 (sampled to |x| = 30). */
static const map_row maps[] = {
    ROW(exp, expl, 1, 1),
    ROW(log, logl, 1, 1),
    ROW(tanh, tanhl, 1.5, 2.5),
    ROW(erf, erfl, 1.25, 1.5),
    ROW(sigmoid, true_sigmoid, 1, 3),
    ROW(silu, true_silu, 1.25, 4),
    ROW(gelu_erf, true_gelu_erf, 3.5, 1000),
    ROW(gelu_tanh, true_gelu_tanh, 1.25, 1500),
    ROW(softplus, true_softplus, 2, 3),
};
enum { N_MAPS = sizeof maps / sizeof *maps };

#define EACH_ISA(isa)                                                                              \
    for (int isa = 0; isa < PL_ISA_COUNT; isa++)                                                   \
        if (pl_cpu_has((pl_isa)isa))

static map_f32 get_f32(int isa, const map_row *row) {
    map_f32 f;
    memcpy(&f, (const char *)&pl_vmath_of((pl_isa)isa)->f32 + row->off_f32, sizeof f);
    return f;
}
static map_f64 get_f64(int isa, const map_row *row) {
    map_f64 f;
    memcpy(&f, (const char *)&pl_vmath_of((pl_isa)isa)->f64 + row->off_f64, sizeof f);
    return f;
}

/* |y - ref| in units of the last place of a type with `bits` of significand and minimum exponent.
 */
static double ulps(long double y, long double ref, int bits, int e_min, long double max) {
    if (isnan(ref)) return isnan(y) ? 0 : (double)INFINITY;
    if (isinf(y) || isinf(ref) || fabsl(ref) > max) {
        if (isinf(y) && (y > 0) == (ref > 0) && fabsl(ref) > max * (1 - ldexpl(1, -bits))) return 0;
        if (fabsl(y) == max && fabsl(ref) > max && !isinf(ref)) return 0.5;
        return (double)INFINITY;
    }
    int e;
    frexpl(ref, &e);
    if (e < e_min) e = e_min;
    return (double)(fabsl(y - ref) / ldexpl(1, e - bits));
}
static double ulps_f32(float y, long double ref) {
    return ulps((long double)y, ref, 24, -125, 0x1.fffffep127L);
}
static double ulps_f64(double y, long double ref) {
    return ulps((long double)y, ref, 53, -1021, 0x1.fffffffffffffp1023L);
}

static float float_of(uint64_t *s) { /* in [-1, 1) */
    return (float)((double)(mix_of(s) >> 11) * 0x1p-52 - 1.0);
}

static void check_f32_maps(const float *x, size_t n) {
    float *y = malloc(n * sizeof *y);
    EACH_ISA(isa)
    for (int r = 0; r < N_MAPS; r++) {
        get_f32(isa, &maps[r])(x, y, n);
        for (size_t i = 0; i < n; i++) {
            const double e = ulps_f32(y[i], maps[r].ref((long double)x[i]));
            if (!(e <= maps[r].ulp_f32))
                fail_msg("%s/%s(%a) = %a: %.3f ulp", pl_isa_name((pl_isa)isa), maps[r].name,
                         (double)x[i], (double)y[i], e);
        }
    }
    free(y);
}

static void test_vmath__f32_maps_stay_within_their_ulp_over_all_exponents(void **state) {
    (void)state;
    enum { N = 200000 };
    float *x = malloc(N * sizeof *x);
    uint32_t u = 0;
    for (int i = 0; i < N; i++, u += 21474u + 1u) /* walks all 2^32 patterns but for the step */
        memcpy(&x[i], &u, 4);
    check_f32_maps(x, N);
    uint64_t seed = 1;
    for (int i = 0; i < N; i++)
        x[i] = float_of(&seed) * (i % 2 ? 12.0f : 110.0f);
    check_f32_maps(x, N);
    free(x);
}

static void test_vmath__f32_maps_take_special_values_as_libm(void **state) {
    (void)state;
    const float x[] = { 0.0f,       -0.0f,      INFINITY,    -INFINITY,   NAN,       -NAN,
                        0x1p-149f,  -0x1p-149f, 0x1p-126f,   -0x1p-126f,  1.0f,      -1.0f,
                        88.722839f, 88.722847f, -103.27893f, -103.97208f, -103.973f, 0.625f,
                        0.92f,      0.75f,      3.4e38f,     -3.4e38f,    -200.0f,   -87.4f };
    enum { N = sizeof x / sizeof *x };
    EACH_ISA(isa)
    for (int r = 0; r < N_MAPS; r++) {
        float y[N];
        get_f32(isa, &maps[r])(x, y, N);
        for (int i = 0; i < N; i++) {
            const long double ref = maps[r].ref((long double)x[i]);
            if (!(ulps_f32(y[i], ref) <= maps[r].ulp_f32) ||
                (!isnan(ref) && !signbit(y[i]) != !signbit(ref)))
                fail_msg("%s/%s(%a) = %a, not %La", pl_isa_name((pl_isa)isa), maps[r].name,
                         (double)x[i], (double)y[i], ref);
        }
    }
}

static void test_vmath__an_element_does_not_depend_on_its_place(void **state) {
    (void)state;
    float x[131], all[131], some[131];
    uint64_t seed = 2;
    for (int i = 0; i < 131; i++)
        x[i] = 9.0f * float_of(&seed);
    EACH_ISA(isa)
    for (int r = 0; r < N_MAPS; r++) {
        const map_f32 f = get_f32(isa, &maps[r]);
        f(x, all, 131);
        for (size_t from = 0; from < 70; from += 3)
            for (size_t n = 0; n < 61; n += 5) {
                memset(some, 0x55, sizeof some);
                f(x + from, some, n);
                assert_memory_equal(some, all + from, n * 4);
                uint32_t guard;
                memcpy(&guard, some + n, 4);
                assert_int_equal(guard, 0x55555555);
            }
        memcpy(some, x, sizeof x);
        f(some, some, 131); /* in place */
        assert_memory_equal(some, all, sizeof all);
    }
}

static void test_vmath__avx2_and_avx512_give_the_same_bits(void **state) {
    (void)state;
    enum { N = 100000 };
    if (!pl_cpu_has(PL_ISA_AVX512)) skip();
    float *x = malloc(3 * N * sizeof *x), *a = x + N, *b = x + 2 * N;
    uint64_t seed = 3;
    for (int i = 0; i < N; i++)
        x[i] = float_of(&seed) * (i % 2 ? 6.0f : 105.0f);
    for (int r = 0; r < N_MAPS; r++) {
        get_f32(PL_ISA_AVX2, &maps[r])(x, a, N);
        get_f32(PL_ISA_AVX512, &maps[r])(x, b, N);
        assert_memory_equal(a, b, N * 4);
    }
    free(x);
}

static void test_vmath__f64_maps_stay_within_their_ulp(void **state) {
    (void)state;
    enum { N = 40000 };
    double *x = malloc(2 * N * sizeof *x), *y = x + N;
    uint64_t seed = 4;
    EACH_ISA(isa)
    for (int r = 0; r < N_MAPS; r++) {
        const bool gelu = strncmp(maps[r].name, "gelu", 4) == 0;
        for (int i = 0; i < N; i++)
            x[i] = (double)float_of(&seed) * (i % 3 == 0   ? (gelu ? 6.0 : 700.0)
                                              : i % 3 == 1 ? 30.0
                                                           : 1.0);
        const double special[] = { 0.0, -0.0, (double)INFINITY, (double)NAN, 5e-324, 1.0, -1.0 };
        memcpy(x, special, sizeof special);
        get_f64(isa, &maps[r])(x, y, N);
        for (int i = 0; i < N; i++) {
            if (gelu && x[i] < -8) continue; /* the bound there grows with x^2 */
            const double e = ulps_f64(y[i], maps[r].ref((long double)x[i]));
            if (!(e <= maps[r].ulp_f64))
                fail_msg("%s/%s(%a) = %a: %.3f ulp", pl_isa_name((pl_isa)isa), maps[r].name, x[i],
                         y[i], e);
        }
    }
    free(x);
}

static void test_vmath__f64_exp_reaches_both_ends(void **state) {
    (void)state;
    const double x[] = { -(double)INFINITY, -1e300, -745.2, -745.0, -709.0,
                         -708.39,           709.78, 709.79, 1e300,  (double)INFINITY };
    enum { N = sizeof x / sizeof *x };
    EACH_ISA(isa) {
        double y[N];
        pl_vmath_of((pl_isa)isa)->f64.exp(x, y, N);
        for (int i = 0; i < N; i++)
            assert_true(ulps_f64(y[i], expl((long double)x[i])) <= 1);
    }
}

static void test_vmath__sums_are_close_and_equal_on_every_isa(void **state) {
    (void)state;
    enum { N = 5000 };
    static float x[N], z[N];
    static double xd[N], zd[N];
    uint64_t seed = 5;
    for (int i = 0; i < N; i++) {
        x[i] = 100.0f * float_of(&seed);
        z[i] = float_of(&seed);
        xd[i] = (double)x[i] + 1e-9 * (double)z[i];
        zd[i] = (double)z[i] * 0.1;
    }
    for (size_t n = 0; n <= N; n = n < 70 ? n + 1 : n * 3) {
        long double s[8] = { 0 }, mag[8] = { 0 };
        for (size_t i = 0; i < n; i++) {
            const long double a = (long double)x[i], b = (long double)z[i];
            const long double c = (long double)xd[i], d = (long double)zd[i];
            const long double t[8] = { a, a * a, fabsl(a), a * b, c, c * c, fabsl(c), c * d };
            for (int j = 0; j < 8; j++) {
                s[j] += t[j];
                mag[j] += fabsl(t[j]);
            }
        }
        double first[8] = { 0 };
        EACH_ISA(isa) {
            const pl_vmath *v = pl_vmath_of((pl_isa)isa);
            const double got[8] = { v->f32.sum(x, n),      v->f32.sum_sq(x, n),
                                    v->f32.sum_abs(x, n),  v->f32.dot(x, z, n),
                                    v->f64.sum(xd, n),     v->f64.sum_sq(xd, n),
                                    v->f64.sum_abs(xd, n), v->f64.dot(xd, zd, n) };
            for (int j = 0; j < 8;
                 j++) /* n/32 + 6 additions, each 2^-53 of at most the magnitude */
                assert_true(fabsl((long double)got[j] - s[j]) <=
                            ((long double)n / 32 + 8) * 0x1p-53L * mag[j]);
            if (isa == 0) memcpy(first, got, sizeof got);
            assert_memory_equal(first, got, sizeof got);
        }
    }
}

static void test_vmath__max_and_min_let_nan_win(void **state) {
    (void)state;
    EACH_ISA(isa) {
        const pl_vmath *v = pl_vmath_of((pl_isa)isa);
        float x[100];
        double xd[100];
        for (int i = 0; i < 100; i++) {
            x[i] = (float)((i * 37) % 101) - 50.0f;
            xd[i] = (double)x[i];
        }
        assert_true(v->f32.reduce_max(x, 0) == -INFINITY && v->f32.reduce_min(x, 0) == INFINITY);
        assert_true(isinf(v->f64.reduce_max(xd, 0)) && isinf(v->f64.reduce_min(xd, 0)));
        for (size_t n = 1; n <= 100; n++) {
            float hi = x[0], lo = x[0];
            for (size_t i = 0; i < n; i++) {
                hi = fmaxf(hi, x[i]);
                lo = fminf(lo, x[i]);
            }
            assert_true(v->f32.reduce_max(x, n) == hi && v->f32.reduce_min(x, n) == lo);
            assert_true(v->f64.reduce_max(xd, n) == (double)hi);
            assert_true(v->f64.reduce_min(xd, n) == (double)lo);
        }
        for (size_t at = 0; at < 100; at += 9) {
            x[at] = NAN;
            xd[at] = (double)NAN;
            assert_true(isnan(v->f32.reduce_max(x, 100)) && isnan(v->f32.reduce_min(x, 100)));
            assert_true(isnan(v->f64.reduce_max(xd, 100)) && isnan(v->f64.reduce_min(xd, 100)));
            x[at] = 0;
            xd[at] = 0;
        }
        const float a[] = { 1, NAN, 2, NAN, -0.0f }, b[] = { NAN, 1, 3, NAN, -1 };
        float z[5];
        v->f32.max(a, b, z, 5);
        assert_true(isnan(z[0]) && isnan(z[1]) && z[2] == 3 && isnan(z[3]) && z[4] == 0);
        v->f32.min(a, b, z, 5);
        assert_true(isnan(z[0]) && isnan(z[1]) && z[2] == 2 && isnan(z[3]) && z[4] == -1);
        v->f32.max_s(a, NAN, z, 5);
        assert_true(isnan(z[0]) && isnan(z[1]) && isnan(z[2]) && isnan(z[4]));
    }
}

#define CHECK_BINARY(T, part, fn, expr)                                                            \
    for (size_t n = 0; n < 40; n += 3) {                                                           \
        T z[41];                                                                                   \
        z[n] = 77;                                                                                 \
        v->part.fn(pa, pb, z, n);                                                                  \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T a = pa[i], b = pb[i], want = expr;                                             \
            assert_memory_equal(&z[i], &want, sizeof want);                                        \
        }                                                                                          \
        assert_true(z[n] == 77);                                                                   \
    }
#define CHECK_SCALAR(T, part, fn, expr)                                                            \
    for (size_t n = 0; n < 40; n += 3) {                                                           \
        T z[40];                                                                                   \
        const T b = (T)-0.7;                                                                       \
        v->part.fn(pa, b, z, n);                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T a = pa[i], want = expr;                                                        \
            assert_memory_equal(&z[i], &want, sizeof want);                                        \
        }                                                                                          \
    }
#define CHECK_ALL(T, E, part)                                                                      \
    {                                                                                              \
        char bytes_a[40 * sizeof(T) + 1], bytes_b[40 * sizeof(T) + 3];                             \
        E *pa = (E *)(bytes_a + 1), *pb = (E *)(bytes_b + 3);                                      \
        for (int i = 0; i < 40; i++) {                                                             \
            pa[i] = (T)float_of(&seed);                                                            \
            pb[i] = (T)float_of(&seed) + (T)2.5;                                                   \
        }                                                                                          \
        CHECK_BINARY(T, part, add, a + b)                                                          \
        CHECK_BINARY(T, part, sub, a - b)                                                          \
        CHECK_BINARY(T, part, mul, a *b)                                                           \
        CHECK_BINARY(T, part, div, a / b)                                                          \
        CHECK_BINARY(T, part, max, a > b ? a : b)                                                  \
        CHECK_BINARY(T, part, min, a < b ? a : b)                                                  \
        CHECK_SCALAR(T, part, add_s, a + b)                                                        \
        CHECK_SCALAR(T, part, sub_s, a - b)                                                        \
        CHECK_SCALAR(T, part, rsub_s, b - a)                                                       \
        CHECK_SCALAR(T, part, mul_s, a *b)                                                         \
        CHECK_SCALAR(T, part, div_s, a / b)                                                        \
        CHECK_SCALAR(T, part, rdiv_s, b / a)                                                       \
        CHECK_SCALAR(T, part, max_s, a > b ? a : b)                                                \
        CHECK_SCALAR(T, part, min_s, a < b ? a : b)                                                \
    }
static void test_vmath__arithmetic_equals_scalar_code_at_any_address(void **state) {
    (void)state;
    uint64_t seed = 6;
    EACH_ISA(isa) {
        const pl_vmath *v = pl_vmath_of((pl_isa)isa);
        CHECK_ALL(float, pl_f32, f32)
        CHECK_ALL(double, pl_f64, f64)
    }
}

static void check_softmax(const pl_vmath *v, const float *x, const double *xd, size_t n) {
    float y[1000], l[1000];
    double yd[1000], ld[1000];
    long double max = -(long double)INFINITY, sum = 0, spread = 0;
    for (size_t i = 0; i < n; i++)
        max = fmaxl(max, (long double)x[i]);
    for (size_t i = 0; i < n; i++) {
        sum += expl((long double)x[i] - max);
        spread = fmaxl(spread, max - (long double)x[i]);
    }
    v->f32.softmax(x, y, n);
    v->f32.log_softmax(x, l, n);
    v->f64.softmax(xd, yd, n);
    v->f64.log_softmax(xd, ld, n);
    for (size_t i = 0; i < n; i++) { /* x - max is rounded; e^x turns that into a relative error */
        const long double t = (long double)x[i] - max, want = expl(t) / sum, lw = t - logl(sum);
        assert_true(fabsl((long double)y[i] - want) <= (3 + spread) * 0x1p-24L * want + 0x1p-149L);
        assert_true(fabsl((long double)yd[i] - want) <= (5 + spread) * 0x1p-53L * want);
        assert_true(fabsl((long double)l[i] - lw) <=
                    0x1p-23L * fabsl(lw) + (spread + 3) * 0x1p-24L);
        assert_true(fabsl((long double)ld[i] - lw) <= 0x1p-51L * (fabsl(lw) + spread + 3));
    }
}

static void test_vmath__softmax_rows_are_close_to_the_truth(void **state) {
    (void)state;
    float x[1000];
    double xd[1000];
    uint64_t seed = 7;
    EACH_ISA(isa)
    for (size_t n = 1; n <= 1000; n = n < 40 ? n + 1 : n * 2 + 1) {
        for (size_t i = 0; i < n; i++) {
            x[i] = float_of(&seed) * (n % 2 ? 8.0f : 40.0f);
            xd[i] = (double)x[i];
        }
        check_softmax(pl_vmath_of((pl_isa)isa), x, xd, n);
    }
}

static void test_vmath__softmax_of_infinite_rows_is_nan(void **state) {
    (void)state;
    EACH_ISA(isa) {
        const pl_vmath *v = pl_vmath_of((pl_isa)isa);
        float low[3] = { -INFINITY, -INFINITY, -INFINITY }, mask[3] = { 1, -INFINITY, 1 }, y[3];
        v->f32.softmax(low, y, 3);
        assert_true(isnan(y[0]) && isnan(y[2]));
        v->f32.softmax(mask, y, 3);
        assert_true(y[0] == 0.5f && y[1] == 0.0f && y[2] == 0.5f);
    }
}

static void test_vmath__mean_and_variance_keep_their_digits(void **state) {
    (void)state;
    static float x[3000];
    static double xd[3000];
    uint64_t seed = 8;
    for (int i = 0; i < 3000; i++) { /* a large mean: the one-pass formula would lose everything */
        x[i] = 10000.0f + float_of(&seed);
        xd[i] = 1e8 + (double)float_of(&seed);
    }
    EACH_ISA(isa)
    for (size_t n = 1; n <= 3000; n = n < 70 ? n + 1 : n * 4) {
        long double m = 0, md = 0, s = 0, sd = 0;
        for (size_t i = 0; i < n; i++) {
            m += (long double)x[i];
            md += (long double)xd[i];
        }
        m /= (long double)n;
        md /= (long double)n;
        for (size_t i = 0; i < n; i++) {
            s += ((long double)x[i] - m) * ((long double)x[i] - m);
            sd += ((long double)xd[i] - md) * ((long double)xd[i] - md);
        }
        double mean, var;
        pl_vmath_of((pl_isa)isa)->f32.mean_var(x, n, &mean, &var);
        assert_true(fabsl((long double)mean - m) <= 1e-12L * m);
        assert_true(fabsl((long double)var - s / n) <= 1e-9L * s / n + 1e-20L);
        pl_vmath_of((pl_isa)isa)->f64.mean_var(xd, n, &mean, &var);
        assert_true(fabsl((long double)mean - md) <= 1e-14L * md);
        assert_true(fabsl((long double)var - sd / n) <= 1e-7L * sd / n + 1e-14L);
    }
}

/* The value of a half, by the definition of the format. */
static double half_value(uint16_t h) {
    const int e = (h >> 10) & 31, f = h & 1023;
    const double m = e == 0 ? ldexp(f, -24) : ldexp(1024 + f, e - 25);
    return h & 0x8000 ? -m : m;
}

static void test_vmath__f16_to_f32_is_exact_for_every_pattern(void **state) {
    (void)state;
    static uint16_t h[65536];
    static float y[65536], first[65536];
    for (int i = 0; i < 65536; i++)
        h[i] = (uint16_t)i;
    EACH_ISA(isa) {
        pl_vmath_of((pl_isa)isa)->f16_to_f32(h, y, 65536);
        for (int i = 0; i < 65536; i++) {
            const int e = (i >> 10) & 31, f = i & 1023;
            if (e == 31)
                assert_true(f ? isnan(y[i]) : y[i] == (i & 0x8000 ? -INFINITY : INFINITY));
            else
                assert_true((double)y[i] == half_value((uint16_t)i));
            assert_int_equal(!!signbit(y[i]), i >> 15);
        }
        if (isa == 0) memcpy(first, y, sizeof y);
        assert_memory_equal(first, y, sizeof y);
    }
}

/* Nearest of the two neighbours, ties to the even pattern: searched, not computed. */
static uint16_t half_nearest(double x) {
    const double a = fabs(x);
    int lo = 0, hi = 0x7c00;
    while (hi - lo > 1) {
        const int mid = (lo + hi) / 2;
        if (half_value((uint16_t)mid) <= a)
            lo = mid;
        else
            hi = mid;
    }
    const double below = half_value((uint16_t)lo);
    const double above = hi == 0x7c00 ? 65536.0 : half_value((uint16_t)hi);
    const int up = a - below > above - a || (a - below == above - a && (lo & 1));
    return (uint16_t)((up ? hi : lo) | (signbit(x) ? 0x8000 : 0));
}

static void test_vmath__f32_to_half_rounds_to_nearest_even(void **state) {
    (void)state;
    enum { N = 300000 };
    float *x = malloc(N * sizeof *x);
    uint16_t *y = malloc(2 * N * sizeof *y), *first = y + N;
    uint64_t seed = 9;
    for (int i = 0; i < N; i++) {
        uint32_t u = (uint32_t)mix_of(&seed);
        if (i % 3 == 0) u = (u & 0x8fffe000u) + 0x33000000u + (i % 2 ? 0x1000u : 0); /* ties */
        memcpy(&x[i], &u, 4);
    }
    for (int i = 0; i < 65536 && i < N; i++)
        if ((i & 0x7c00) != 0x7c00) x[i] = (float)half_value((uint16_t)i);
    const float edge[] = { 65519.996f,      65520.0f, -65520.0f, 0x1p-25f,
                           0x1.000002p-25f, 0x1p-24f, INFINITY,  -INFINITY };
    memcpy(x, edge, sizeof edge);
    EACH_ISA(isa) {
        pl_vmath_of((pl_isa)isa)->f32_to_f16(x, y, N);
        for (int i = 0; i < N; i++) {
            if (isnan(x[i]))
                assert_true((y[i] & 0x7c00) == 0x7c00 && (y[i] & 0x3ff) != 0);
            else
                assert_int_equal(y[i], half_nearest((double)x[i]));
        }
        if (isa == 0) memcpy(first, y, N * 2);
        assert_memory_equal(first, y, N * 2);
        pl_vmath_of((pl_isa)isa)->f32_to_bf16(x, y, N);
        for (int i = 0; i < N; i++) { /* the error is at most half a step, and ties go to even */
            float back;
            pl_vmath_of((pl_isa)isa)->bf16_to_f32(&y[i], &back, 1);
            if (isnan(x[i])) {
                assert_true(isnan(back));
                continue;
            }
            uint32_t u, v = (uint32_t)y[i] << 16;
            memcpy(&u, &x[i], 4);
            const int64_t d = (int64_t)u - (int64_t)v; /* the order of patterns is that of values */
            assert_true(llabs(d) < 0x8000 || (llabs(d) == 0x8000 && !(y[i] & 1)));
            assert_memory_equal(&back, &v, 4);
        }
    }
    free(x);
    free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vmath__f32_maps_stay_within_their_ulp_over_all_exponents),
        cmocka_unit_test(test_vmath__f32_maps_take_special_values_as_libm),
        cmocka_unit_test(test_vmath__an_element_does_not_depend_on_its_place),
        cmocka_unit_test(test_vmath__avx2_and_avx512_give_the_same_bits),
        cmocka_unit_test(test_vmath__f64_maps_stay_within_their_ulp),
        cmocka_unit_test(test_vmath__f64_exp_reaches_both_ends),
        cmocka_unit_test(test_vmath__sums_are_close_and_equal_on_every_isa),
        cmocka_unit_test(test_vmath__max_and_min_let_nan_win),
        cmocka_unit_test(test_vmath__arithmetic_equals_scalar_code_at_any_address),
        cmocka_unit_test(test_vmath__softmax_rows_are_close_to_the_truth),
        cmocka_unit_test(test_vmath__softmax_of_infinite_rows_is_nan),
        cmocka_unit_test(test_vmath__mean_and_variance_keep_their_digits),
        cmocka_unit_test(test_vmath__f16_to_f32_is_exact_for_every_pattern),
        cmocka_unit_test(test_vmath__f32_to_half_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

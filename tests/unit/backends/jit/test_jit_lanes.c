/* Loops on vectors of jit: every length of a row, the same bits at every place and with every
 * number of threads, sums against sums in double. Without AVX-512 the same holds for the loops that
 * the compiler vectorises: tests/run runs it for each PLUMB_CPU. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/backend.h"
#include "graph/text/text.h"
#include "ops/op.h"

static const int64_t lengths[] = { 1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 129, 1000 };
enum { N_LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static float mixed(int64_t i) {
    return (float)((i * 7919 + 13) % 2003 - 1001) / 250.0f;
}

/* Runs a graph with one input x of a float type; the output is the caller's. */
static pl_datum *run_of(pl_dtype dtype, const char *graph, const char *spec, int rank,
                        const int64_t *dims, float (*fill)(int64_t i)) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_backend *backend = NULL;
    pl_program *program = NULL;
    pl_tensor *t = NULL;
    pl_datum *in = NULL, *out = NULL;
    const pl_compile_options compile = { .seed = 1 };
    pl_status st = pl_model_parse_graph(graph, 17, &model, &err);
    if (st == PL_OK) st = pl_ops_resolve(model, &err);
    if (st == PL_OK) st = pl_tensor_new(dtype, rank, dims, &t, &err);
    for (int64_t i = 0; st == PL_OK && i < t->n_elements; i++) {
        const float x = fill(i);
        pl_store_f32(dtype, &x, (char *)t->data + (size_t)i * pl_dtype_bytes(dtype), 1);
    }
    if (st == PL_OK) st = pl_datum_of_tensor_take(t, &in, &err);
    if (st == PL_OK) st = pl_backend_open(spec, NULL, &backend, &err);
    if (st == PL_OK) st = pl_program_new(backend, model, &compile, &program, &err);
    if (st == PL_OK) st = pl_program_run(program, &in, &out, &err);
    if (st != PL_OK) fail_msg("%s", err.message);
    pl_datum_unref(in);
    pl_program_free(program);
    pl_backend_close(backend);
    pl_model_free(model);
    return out;
}

static pl_datum *run(const char *graph, const char *spec, int rank, const int64_t *dims,
                     float (*fill)(int64_t i)) {
    return run_of(PL_F32, graph, spec, rank, dims, fill);
}

static bool same_bits(const pl_datum *a, const pl_datum *b) {
    return a->tensor->n_elements == b->tensor->n_elements &&
           memcmp(a->tensor->data, b->tensor->data, pl_tensor_bytes(a->tensor)) == 0;
}

#define FUNCTIONS                                                                                  \
    "{ a = Exp(x) b = Tanh(a) c = Sigmoid(x) d = Erf(x) e = Softplus(x) f = Add(b, c) "            \
    "g = Div(d, e) h = Max(f, g) y = Relu(h) }"

/* In a long tensor and in short ones, whose ends are masked. */
static void test_lanes__bits_do_not_depend_on_the_place(void **state) {
    char graph[400];
    const int64_t n_long = 4096;
    (void)state;
    pl_datum *all =
        run("g (float[4096] x) => (float[4096] y) " FUNCTIONS, "jit:threads=1", 1, &n_long, mixed);
    for (size_t i = 0; i < N_LENGTHS; i++) {
        const int64_t n = lengths[i];
        if (n < 8) continue; /* left to the compiler, on one float at a time */
        snprintf(graph, sizeof(graph), "g (float[%lld] x) => (float[%lld] y) " FUNCTIONS,
                 (long long)n, (long long)n);
        pl_datum *some = run(graph, "jit:threads=1", 1, &n, mixed);
        if (memcmp(some->tensor->data, all->tensor->data, (size_t)n * sizeof(float)) != 0) {
            fail_msg("other bits in %lld elements", (long long)n);
        }
        pl_datum_unref(some);
    }
    pl_datum_unref(all);
}

/* Repeats every 300 elements, with what has bits of its own. */
static float periodic(int64_t i) {
    static const float odd[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, 200.0f, -200.0f };
    const int64_t k = i % 300;
    return k % 29 == 28 ? odd[k / 29 % 8] : mixed(k) * 3;
}

static float periodic_finite(int64_t i) {
    return mixed(i % 300) * 3;
}

/* Rows too short for a pipeline, and rows that fill it and leave a rest. */
static void test_lanes__a_pipeline_has_the_bits_of_the_plain_loop(void **state) {
    static const struct {
        const char *body;
        float (*fill)(int64_t i);
        int64_t rows, length;
    } cases[] = {
        { "{ a = Sigmoid(x) b = Abs(a) c = Add(b, one) d = Sqrt(c) e = Div(x, d) f = Neg(e) "
          "g1 = Exp(f) h = Add(g1, one) i = Div(e, h) j = Tanh(i) k = Mul(j, x) y = Add(k, a) }",
          periodic, 1, 20113 },
        { "{ a = Tanh(x) b = Softplus(a) c = Erf(b) d = Div(c, x) e = Exp(d) f = Max(e, a) "
          "g1 = Sqrt(f) y = Mul(g1, half) }",
          periodic, 1, 4099 },
        { "{ m = ReduceMax<axes = [1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last) "
          "p = Div(e, s) q = Sigmoid(p) r = Tanh(q) t = Log(r) u = Sqrt(r) v = Div(t, u) "
          "w = Tanh(v) y = Sigmoid(w) }",
          periodic_finite, 4, 3000 },
    };
    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        pl_datum *out[2];
        for (int k = 0; k < 2; k++) {
            char graph[700];
            const int64_t dims[2] = { cases[c].rows, k == 0 ? 300 : cases[c].length };
            snprintf(graph, sizeof(graph),
                     "g (float[%lld,%lld] x) => (float[%lld,%lld] y) <float one = {1}, "
                     "float half = {0.5}, int64[1] last = {1}> %s",
                     (long long)dims[0], (long long)dims[1], (long long)dims[0], (long long)dims[1],
                     cases[c].body);
            out[k] = run(graph, "jit:threads=1", 2, dims, cases[c].fill);
        }
        const uint32_t *few = out[0]->tensor->data, *many = out[1]->tensor->data;
        for (int64_t r = 0; r < cases[c].rows; r++)
            for (int64_t i = 0; c < 2 && i < cases[c].length; i++)
                if (many[r * cases[c].length + i] != few[r * 300 + i % 300])
                    fail_msg("case %zu, row %lld, element %lld: other bits", c, (long long)r,
                             (long long)i);
        const float *sum = out[1]->tensor->data; /* sums of other lengths: equal periods only */
        for (int64_t i = 300; c == 2 && i < 3000; i++)
            if (memcmp(&sum[i], &sum[i % 300], sizeof(float)) != 0)
                fail_msg("element %lld is not that of the first period", (long long)i);
        pl_datum_unref(out[0]);
        pl_datum_unref(out[1]);
    }
}

/* All of half's range: normal and subnormal, ties, what overflows, infinities and NaN. */
static float halves(int64_t i) {
    static const float odd[] = {
        0.0f,     -0.0f,     65504.0f, 0x1p-24f,   -0x1p-24f, 0x1p-14f,
        INFINITY, -INFINITY, NAN,      0x1.004p0f, 255.9f,    -0x1.8p-20f
    };
    enum { N_ODD = sizeof(odd) / sizeof(odd[0]) };
    if (i % 3 == 0) return odd[i / 3 % N_ODD];
    return ldexpf(mixed(i), (int)(i * 31 % 29) - 18);
}

/* Exact operations, rounded after each: the same bits as eager, at every place of a row. */
static void test_lanes__halves_are_rounded_as_eager_does(void **state) {
    char graph[400];
    (void)state;
    for (size_t i = 0; i < N_LENGTHS; i++) {
        const int64_t n = lengths[i];
        snprintf(graph, sizeof(graph),
                 "g (float16[%lld] x) => (float16[%lld] y) { a = Mul(x, x) b = Add(a, x) "
                 "c = Relu(b) d = Cast<to=1>(c) e = Sqrt(d) f = Cast<to=10>(e) y = Sub(f, x) }",
                 (long long)n, (long long)n);
        pl_datum *want = run_of(PL_F16, graph, "eager:threads=1", 1, &n, halves);
        pl_datum *got = run_of(PL_F16, graph, "jit:threads=1", 1, &n, halves);
        for (int64_t k = 0; k < n; k++) {
            uint16_t x, y;
            memcpy(&x, (const char *)want->tensor->data + 2 * k, sizeof(x));
            memcpy(&y, (const char *)got->tensor->data + 2 * k, sizeof(y));
            const bool nan = (x & 0x7fff) > 0x7c00 && (y & 0x7fff) > 0x7c00;
            if (x != y && !nan)
                fail_msg("element %lld of %lld: 0x%04x, expected 0x%04x", (long long)k,
                         (long long)n, y, x);
        }
        pl_datum_unref(want);
        pl_datum_unref(got);
    }
}

static void test_lanes__bits_do_not_depend_on_threads(void **state) {
    static const struct {
        const char *graph;
        int rank;
        int64_t dims[2];
    } cases[] = {
        { "g (float[100003] x) => (float[100003] y) " FUNCTIONS, 1, { 100003 } },
        { "g (float[700,101] x) => (float[700,101] y) { y = Softmax(x) }", 2, { 700, 101 } },
        { "g (float[64,1024] x) => (float[64,1024] y) { s = Softmax(x) y = Mul(s, x) }",
          2,
          { 64, 1024 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pl_datum *one = run(cases[i].graph, "jit:threads=1", cases[i].rank, cases[i].dims, mixed);
        pl_datum *two = run(cases[i].graph, "jit:threads=2", cases[i].rank, cases[i].dims, mixed);
        pl_datum *five = run(cases[i].graph, "jit:threads=5", cases[i].rank, cases[i].dims, mixed);
        assert_true(same_bits(one, two));
        assert_true(same_bits(one, five));
        pl_datum_unref(one);
        pl_datum_unref(two);
        pl_datum_unref(five);
    }
}

/* Softmax-13 as it is emitted: t = x - max, e = exp(t), s = sum of e, y = e * (1 / s) or e / s. The
 * bounds follow from these operations, on any CPU; u is half an ulp of one.
 * An element against the largest, whose e is 1 and in which s is the same: t is off by half its
 * ulp, exp by EXP_ULPS, and both quotients are rounded. All of them together: their sum is 1 but
 * for s, which the compiler may add up in any order (n - 1 roundings), and for three more of each
 * element. */
#define EXP_ULPS 1.09 /* src/backends/jit/README.md */
static void check_softmax(const float *x, const float *y, int64_t n) {
    const double u = 0x1p-24;
    int64_t top = 0;
    double all = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[top]) top = i;
    for (int64_t i = 0; i < n; i++) {
        const float t = x[i] - x[top];
        const double e = exp((double)x[i] - (double)x[top]);
        const double half = t == 0 ? 0 : ((double)nextafterf(t, -HUGE_VALF) - (double)t) / -2;
        const double room = e * (half + 2 * EXP_ULPS * u + 3 * u);
        all += (double)y[i];
        if (!(fabs((double)y[i] / (double)y[top] - e) <= room)) {
            fail_msg("softmax of %lld: element %lld is %.9g of the largest, expected %.9g, give or "
                     "take %.2g",
                     (long long)n, (long long)i, (double)y[i] / (double)y[top], e, room);
        }
    }
    if (!(fabs(all - 1) <= (double)(n + 2) * u)) {
        fail_msg("softmax of %lld: the elements add up to %.9g", (long long)n, all);
    }
}

static float alike(int64_t i) {
    (void)i;
    return 0.75f;
}

static void test_lanes__rows_of_every_length(void **state) {
    char graph[200];
    (void)state;
    for (size_t i = 0; i < N_LENGTHS; i++) {
        const int64_t n = lengths[i], dims[] = { 3, n };
        snprintf(graph, sizeof(graph),
                 "g (float[3,%lld] x) => (float[3,%lld] y) { y = Softmax(x) }", (long long)n,
                 (long long)n);
        static float (*const fills[])(int64_t) = { mixed, alike };
        for (size_t k = 0; k < 2; k++) {
            float x[1000];
            pl_datum *out = run(graph, "jit:threads=1", 2, dims, fills[k]);
            for (int64_t row = 0; row < 3; row++) {
                for (int64_t j = 0; j < n; j++)
                    x[j] = fills[k](row * n + j);
                check_softmax(x, (const float *)out->tensor->data + row * n, n);
            }
            pl_datum_unref(out);
        }
    }
}

static float scale_at(int64_t i) {
    return (float)(i % 5 + 1) / 17.0f;
}

/* Scales of rows or channels that are inputs go through a map with casts to float. */
static void test_lanes__scales_of_rows_and_channels(void **state) {
    static const char *const graphs[] = {
        "g (float[9] x) => (y) <uint8[9,2] a = {1, 200, 3, 40, 5, 6, 77, 8, 9, 10, 11, 12, 13, 14, "
        "15, 16, 17, 18}, uint8[9] za = {1, 2, 3, 4, 5, 6, 7, 8, 9}, int8[2,3] b = {-7, 60, 5, 4, "
        "-30, 2}, float s = {0.3}, int8 zb = {2}, float sy = {0.7}, uint8 zy = {100}> "
        "{ y = QLinearMatMul(a, x, za, b, s, zb, sy, zy) }",
        "g (float[9] x) => (y) <uint8[1,1,3] a = {1, 200, 3}, uint8 za = {7}, int8[9,1,2] w = {-7, "
        "60, 5, 4, -30, 2, 1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1}, float s = {0.3}, int8[9] zw = {0, "
        "0, 0, 1, 0, 0, 0, 0, 0}, float sy = {0.7}, uint8 zy = {100}> "
        "{ y = QLinearConv(a, s, za, w, x, zw, sy, zy) }",
    };
    const int64_t n = 9;
    (void)state;
    for (size_t i = 0; i < sizeof(graphs) / sizeof(graphs[0]); i++) {
        pl_datum *jit = run(graphs[i], "jit:threads=1", 1, &n, scale_at);
        pl_datum *eager = run(graphs[i], "eager", 1, &n, scale_at);
        assert_true(same_bits(jit, eager));
        pl_datum_unref(jit);
        pl_datum_unref(eager);
    }
}

static float special(int64_t i) {
    static const float values[] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 3.0f };
    return values[i % 8];
}

/* NaN, infinities and zeros as the operators have them, in full vectors and in masked ones. */
static void test_lanes__special_values(void **state) {
    static const struct {
        const char *op;
        float out[8];
    } cases[] = {
        { "Relu(x)", { NAN, INFINITY, 0, 0, 0, 1e-40f, 0, 3 } },
        { "Exp(x)", { NAN, INFINITY, 0, 1, 1, 1, 1, 20.085537f } },
        { "Tanh(x)", { NAN, 1, -1, 0, -0.0f, 1e-40f, -1e-40f, 0.995054754f } },
        { "Erf(x)", { NAN, 1, -1, 0, -0.0f, 1.12836e-40f, -1.12836e-40f, 0.99997791f } },
        { "Sigmoid(x)", { NAN, 1, 0, 0.5f, 0.5f, 0.5f, 0.5f, 0.952574127f } },
        { "Max(x, two)", { NAN, INFINITY, 2, 2, 2, 2, 2, 3 } },
        { "Min(x, two)", { NAN, 2, -INFINITY, 0, -0.0f, 1e-40f, -1e-40f, 2 } },
    };
    const int64_t n = 43;
    char graph[200];
    (void)state;
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        snprintf(graph, sizeof(graph),
                 "g (float[43] x) => (float[43] y) <float two = {2}> { y = %s }", cases[k].op);
        pl_datum *out = run(graph, "jit:threads=1", 1, &n, special);
        for (int64_t i = 0; i < n; i++) {
            const float y = ((const float *)out->tensor->data)[i], e = cases[k].out[i % 8];
            const float room = 3 * 0x1p-23f * fabsf(e) + 0x1p-148f;
            const bool good = isnan(e)   ? isnan(y)
                              : isinf(e) ? y == e
                                         : fabsf(y - e) <= room && signbit(y) == signbit(e);
            if (!good) fail_msg("%s of %g is %g", cases[k].op, (double)special(i), (double)y);
        }
        pl_datum_unref(out);
    }
}

/* ---- algebra: several operations as one ---- */

static double one_exp(double x) {
    return 1 + exp(x);
}
static double one_exp_less(double x) {
    return exp(-x) + 1;
}
static double over_root(double x) {
    return x / sqrt(fabs(x));
}
static double one_over_root(double x) {
    return 1 / sqrt(x);
}
static double twice_less(double x) {
    return 2 * x - 3;
}
static double ramp(double x) {
    return (x > 0 || isnan(x) ? x : 0) + 1;
}

static float wide(int64_t i) {
    const float x = ldexpf(1 + (float)(i * 7919 % 1009) / 1009.0f, (int)(i % 250) - 125);
    return i % 3 == 0 ? -x : x;
}

/* Each is rounded two times when its operations are written one by one. */
static void check_rounded(const char *what, const pl_datum *out, float (*fill)(int64_t),
                          double (*exact)(double)) {
    for (int64_t i = 0; i < out->tensor->n_elements; i++) {
        const float y = ((const float *)out->tensor->data)[i];
        const double e = exact((double)fill(i)), room = 1.6 * 0x1p-23 * fabs(e) + 0x1p-149;
        const bool good = isnan(e)             ? isnan(y)
                          : fabs(e) >= 0x1p128 ? (double)y == copysign(HUGE_VAL, e)
                                               : fabs((double)y - e) <= room;
        if (!good) {
            fail_msg("%s of %.9g is %.9g, expected %.9g", what, (double)fill(i), (double)y, e);
        }
    }
}

static void test_algebra__is_as_exact_as_one_by_one(void **state) {
    static const struct {
        const char *ops;
        double (*exact)(double);
    } cases[] = {
        { "e = Exp(x) y = Add(one, e)", one_exp },
        { "n = Neg(x) e = Exp(n) y = Add(e, one)", one_exp_less },
        { "a = Abs(x) r = Sqrt(a) y = Div(x, r)", over_root },
        { "r = Sqrt(x) y = Div(one, r)", one_over_root },
        { "m = Mul(two, x) y = Sub(m, three)", twice_less },
        { "r = Relu(x) y = Add(r, one)", ramp },
    };
    char graph[300];
    const int64_t n = 3003;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(graph, sizeof(graph),
                 "g (float[3003] x) => (float[3003] y) <float one = {1}, float two = {2}, "
                 "float three = {3}> { %s }",
                 cases[i].ops);
        static const char *const specs[] = { "jit:threads=1", "jit:threads=1,disable=algebra" };
        static float (*const fills[])(int64_t) = { mixed, wide, special };
        for (size_t k = 0; k < 6; k++) {
            pl_datum *out = run(graph, specs[k / 3], 1, &n, fills[k % 3]);
            check_rounded(cases[i].ops, out, fills[k % 3], cases[i].exact);
            pl_datum_unref(out);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes__scales_of_rows_and_channels),
        cmocka_unit_test(test_lanes__bits_do_not_depend_on_the_place),
        cmocka_unit_test(test_lanes__a_pipeline_has_the_bits_of_the_plain_loop),
        cmocka_unit_test(test_lanes__halves_are_rounded_as_eager_does),
        cmocka_unit_test(test_lanes__bits_do_not_depend_on_threads),
        cmocka_unit_test(test_lanes__rows_of_every_length),
        cmocka_unit_test(test_lanes__special_values),
        cmocka_unit_test(test_algebra__is_as_exact_as_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

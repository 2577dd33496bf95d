/* What follows a product or a convolution sees every element once, when it is final; Winograd's
 * algorithm and the blocked depthwise loops compute what the plain loops do. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"
#include "kernels/provider.h"

static float *fill(int64_t n, unsigned seed) {
    float *x = malloc((size_t)n * sizeof(*x));
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int)(seed >> 8) * 0x1p-23f - 1.0f;
    }
    return x;
}

/* Doubles each element of C and counts the visits. */
typedef struct visit {
    float *c;
    unsigned char *count;
    int64_t cols;
} visit;

static void visit_part(void *ctx, int64_t row0, int64_t row1, int64_t col0, int64_t col1) {
    const visit *v = ctx;
    for (int64_t r = row0; r < row1; r++)
        for (int64_t c = col0; c < col1; c++) {
            v->c[r * v->cols + c] *= 2;
            v->count[r * v->cols + c]++;
        }
}

static void check_visits(const float *plain, const visit *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (v->count[i] != 1) fail_msg("element %lld: %d visits", (long long)i, v->count[i]);
        if (v->c[i] != 2 * plain[i]) fail_msg("element %lld was not final", (long long)i);
    }
}

static void test_gemm__is_followed_once_for_each_element(void **state) {
    static const struct {
        int64_t m, n, k, batch;
        bool trans_b;
    } cases[] = {
        { 1, 700, 30, 1, false }, { 1, 90, 64, 1, true },    { 40, 130, 500, 1, false },
        { 5, 9, 3, 7, false },    { 200, 300, 70, 2, true }, { 33, 1, 20, 1, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            const int64_t m = cases[i].m, n = cases[i].n, k = cases[i].k, batch = cases[i].batch;
            float *a = fill(batch * m * k, 1), *b = fill(batch * k * n, 2);
            float *plain = fill(batch * m * n, 3), *c = fill(batch * m * n, 4);
            pl_pool *pool = pl_pool_new(threads);
            pl_gemm_shape s = { .m = m,
                                .n = n,
                                .k = k,
                                .trans_b = cases[i].trans_b,
                                .batch = batch,
                                .stride_a = m * k,
                                .stride_b = k * n,
                                .stride_c = m * n };
            assert_int_equal(pl_gemm_f32(pool, &s, 1, a, b, 0, plain, NULL, NULL), PL_OK);
            visit v = { c, calloc((size_t)(batch * m * n), 1), n };
            const pl_epilogue after = { visit_part, &v };
            s.after = &after;
            assert_int_equal(pl_gemm_f32(pool, &s, 1, a, b, 0, c, NULL, NULL), PL_OK);
            check_visits(plain, &v, batch * m * n);
            free(a), free(b), free(plain), free(c), free(v.count);
            pl_pool_free(pool);
        }
}

/* batch, c_in, c_out, groups, size, kernel, stride, pad */
static const int64_t convolutions[][8] = {
    { 2, 8, 12, 1, 9, 1, 1, 0 },    { 1, 8, 12, 1, 20, 3, 1, 1 },  { 1, 64, 48, 1, 7, 3, 1, 1 },
    { 2, 10, 10, 10, 14, 3, 1, 1 }, { 1, 6, 6, 6, 28, 3, 2, 1 },   { 1, 5, 5, 5, 16, 5, 1, 2 },
    { 1, 40, 40, 40, 7, 5, 1, 2 },  { 1, 4, 4, 4, 33, 5, 2, 2 },   { 1, 3, 9, 3, 8, 3, 1, 0 },
    { 1, 32, 40, 1, 14, 3, 1, 1 },  { 2, 40, 33, 1, 17, 3, 1, 1 }, { 1, 33, 32, 1, 21, 3, 1, 0 },
    { 1, 32, 32, 1, 44, 3, 1, 1 },
};
enum { N_CONVOLUTIONS = sizeof(convolutions) / sizeof(convolutions[0]) };

static pl_conv_shape shape_of(const int64_t *c) {
    const int64_t out = (c[4] + 2 * c[7] - c[5]) / c[6] + 1;
    return (pl_conv_shape){ .n_spatial = 2,
                            .batch = c[0],
                            .c_in = c[1],
                            .c_out = c[2],
                            .groups = c[3],
                            .in = { c[4], c[4] },
                            .out = { out, out },
                            .kernel = { c[5], c[5] },
                            .stride = { c[6], c[6] },
                            .dilation = { 1, 1 },
                            .pad_begin = { c[7], c[7] } };
}

typedef struct conv_data {
    float *x, *w, *bias, *plain, *y;
    int64_t n;
    pl_conv_shape s;
} conv_data;

static conv_data conv_make(const int64_t *c) {
    conv_data d = { .s = shape_of(c) };
    d.n = c[0] * c[2] * d.s.out[0] * d.s.out[1];
    d.x = fill(c[0] * c[1] * c[4] * c[4], 5);
    d.w = fill(c[2] * c[1] / c[3] * c[5] * c[5], 6);
    d.bias = fill(c[2], 7);
    d.plain = fill(d.n, 8);
    d.y = fill(d.n, 9);
    return d;
}

static void conv_release(conv_data *d) {
    free(d->x), free(d->w), free(d->bias), free(d->plain), free(d->y);
}

static void test_conv__is_followed_once_for_each_element(void **state) {
    (void)state;
    for (size_t i = 0; i < N_CONVOLUTIONS; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            conv_data d = conv_make(convolutions[i]);
            pl_pool *pool = pl_pool_new(threads);
            assert_int_equal(pl_conv_f32(pool, &d.s, d.x, d.w, d.bias, d.plain, NULL, NULL), PL_OK);
            visit v = { d.y, calloc((size_t)d.n, 1), d.s.out[0] * d.s.out[1] };
            const pl_epilogue after = { visit_part, &v };
            assert_int_equal(
                pl_conv_after_f32(pool, &d.s, d.x, d.w, d.bias, d.y, NULL, &after, NULL), PL_OK);
            check_visits(d.plain, &v, d.n);
            free(v.count);
            conv_release(&d);
            pl_pool_free(pool);
        }
}

/* Inputs and weights lie in [-1, 1], so |terms| sum to at most K + 1. A sum of K products is off by
 * at most about K u of that; Winograd adds the transforms: four additions with a growth of four. */
static void compare(const float *y, const float *plain, int64_t n, double limit) {
    for (int64_t i = 0; i < n; i++) {
        if (fabs((double)y[i] - (double)plain[i]) <= limit) continue;
        fail_msg("element %lld is %g, expected %g +- %g", (long long)i, (double)y[i],
                 (double)plain[i], limit);
    }
}

static void test_conv__agrees_with_the_plain_loops(void **state) {
    (void)state;
    for (size_t i = 0; i < N_CONVOLUTIONS; i++) {
        conv_data d = conv_make(convolutions[i]);
        const double k = (double)(convolutions[i][1] / convolutions[i][3]) *
                         (double)(convolutions[i][5] * convolutions[i][5]);
        assert_int_equal(pl_conv_plain_f32(&d.s, d.x, d.w, d.bias, d.plain, NULL), PL_OK);
        assert_int_equal(pl_conv_f32(NULL, &d.s, d.x, d.w, d.bias, d.y, NULL, NULL), PL_OK);
        compare(d.y, d.plain, d.n, 2 * k * (double)FLT_EPSILON * sqrt(k));
        conv_release(&d);
    }
}

static void test_winograd__agrees_and_is_followed_once(void **state) {
    size_t n_tried = 0;
    (void)state;
    for (size_t i = 0; i < N_CONVOLUTIONS; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            conv_data d = conv_make(convolutions[i]);
            d.s.by = &pl_provider_own;
            if (pl_conv_winograd_fits(&d.s)) {
                pl_pool *pool = pl_pool_new(threads);
                pl_conv_state *kept = NULL;
                visit v = { d.y, calloc((size_t)d.n, 1), d.s.out[0] * d.s.out[1] };
                const pl_epilogue after = { visit_part, &v };
                const double k = 9 * (double)d.s.c_in;
                n_tried++;
                assert_int_equal(pl_conv_plain_f32(&d.s, d.x, d.w, d.bias, d.plain, NULL), PL_OK);
                assert_int_equal(
                    pl_conv_winograd_f32(pool, &d.s, d.x, d.w, d.bias, d.y, &kept, &after, NULL),
                    PL_OK);
                for (int64_t e = 0; e < d.n; e++) {
                    assert_int_equal(v.count[e], 1);
                    d.y[e] /= 2;
                }
                compare(d.y, d.plain, d.n, 16 * k * (double)FLT_EPSILON * sqrt(k));
                pl_conv_state_free(kept);
                pl_pool_free(pool);
                free(v.count);
            }
            conv_release(&d);
        }
    assert_true(n_tried >= 6);
}

/* Inf and NaN come out where and as pl_conv_f32 has them, and are followed once; finite ones after
 * them run by Winograd again. */
static void test_winograd__keeps_infinities(void **state) {
    static const float odd[] = { INFINITY, NAN, -INFINITY };
    (void)state;
    size_t n_tried = 0;
    for (size_t i = 0; i < N_CONVOLUTIONS; i++)
        for (int in_weights = 0; in_weights < 2; in_weights++) {
            conv_data d = conv_make(convolutions[i]);
            d.s.by = &pl_provider_own;
            if (pl_conv_winograd_fits(&d.s)) {
                pl_pool *pool = pl_pool_new(3);
                pl_conv_state *kept = NULL;
                float *data = in_weights ? d.w : d.x;
                n_tried++;
                for (int k = 0; k < 3; k++)
                    data[7 + 100 * k] = odd[k];
                assert_int_equal(pl_conv_plain_f32(&d.s, d.x, d.w, d.bias, d.plain, NULL), PL_OK);
                for (int round = 0; round < 2; round++) {
                    visit v = { d.y, calloc((size_t)d.n, 1), d.s.out[0] * d.s.out[1] };
                    const pl_epilogue after = { visit_part, &v };
                    assert_int_equal(pl_conv_winograd_f32(pool, &d.s, d.x, d.w, d.bias, d.y, &kept,
                                                          &after, NULL),
                                     PL_OK);
                    for (int64_t e = 0; e < d.n; e++) {
                        const float y = d.y[e], p = d.plain[e];
                        assert_int_equal(v.count[e], 1);
                        assert_int_equal(isnan(y) != 0, isnan(p) != 0);
                        assert_true(isinf(y) == isinf(p) && (!isinf(p) || y == p));
                    }
                    free(v.count);
                }
                pl_conv_state_free(kept);
                pl_pool_free(pool);
            }
            conv_release(&d);
        }
    assert_true(n_tried >= 6);
}

static void test_winograd__refuses_other_shapes(void **state) {
    (void)state;
    float x = 0;
    pl_conv_state *kept = NULL;
    const pl_conv_shape s = shape_of(convolutions[0]);
    assert_int_equal(pl_conv_winograd_f32(NULL, &s, &x, &x, NULL, &x, &kept, NULL, NULL),
                     PL_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm__is_followed_once_for_each_element),
        cmocka_unit_test(test_conv__is_followed_once_for_each_element),
        cmocka_unit_test(test_conv__agrees_with_the_plain_loops),
        cmocka_unit_test(test_winograd__agrees_and_is_followed_once),
        cmocka_unit_test(test_winograd__keeps_infinities),
        cmocka_unit_test(test_winograd__refuses_other_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

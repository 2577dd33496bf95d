/* Pooling against its definition, written the other way round: for each output, every tap is looked
 * at. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernel_rig.h"
#include "kernels/pool/pooling.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static pl_pooling_shape random_shape(void) {
    pl_pooling_shape s = { .n_spatial = (int)pick(1, 3), .planes = pick(1, 5) };
    for (int i = 0; i < s.n_spatial; i++)
        do {
            s.in[i] = pick(1, s.n_spatial == 3 ? 8 : 40);
            s.kernel[i] = pick(1, 4);
            s.stride[i] = pick(1, 3);
            s.dilation[i] = mix() % 3 ? 1 : pick(1, 3);
            s.pad_begin[i] = pick(0, 3);
            s.pad_end[i] = pick(0, 3);
            const int64_t ceil = pick(0, 1) * (s.stride[i] - 1);
            s.out[i] = (s.in[i] + s.pad_begin[i] + s.pad_end[i] -
                        (s.kernel[i] - 1) * s.dilation[i] - 1 + ceil) /
                           s.stride[i] +
                       1;
        } while (s.out[i] < 1);
    return s;
}

static int64_t count(const int64_t *d, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        p *= d[i];
    return p;
}

/* Looks at output `at` and tap `tap`: 2 inside (its position in *cell), 1 in the padding, 0 beyond.
 */
static int look(const pl_pooling_shape *s, int64_t at, int64_t tap, int64_t *cell,
                int64_t *column) {
    int64_t row_major = 0, scale = 1, where[3] = { 0 };
    int kind = 2;
    for (int d = s->n_spatial - 1; d >= 0; d--) {
        const int64_t i =
            at % s->out[d] * s->stride[d] - s->pad_begin[d] + tap % s->kernel[d] * s->dilation[d];
        at /= s->out[d];
        tap /= s->kernel[d];
        if (i < -s->pad_begin[d] || i >= s->in[d] + s->pad_end[d]) return 0;
        if (i < 0 || i >= s->in[d]) kind = 1;
        where[d] = i;
        row_major += i * scale;
        scale *= s->in[d];
    }
    *cell = row_major;
    *column = 0;
    for (int d = s->n_spatial - 1; d >= 0; d--)
        *column = *column * s->in[d] + where[d];
    return kind;
}

static void test_pooling__max_and_its_indices_follow_the_definition(void **state) {
    (void)state;
    for (int i = 0; i < 300; i++) {
        const pl_pooling_shape s = random_shape();
        const int64_t in = count(s.in, s.n_spatial), out = count(s.out, s.n_spatial);
        const int64_t taps = count(s.kernel, s.n_spatial), nx = s.planes * in, ny = s.planes * out;
        const bool column_major = i & 1;
        float *x = malloc((size_t)nx * 4), *y = malloc((size_t)ny * 8), *y2 = y + ny;
        double *xd = malloc((size_t)nx * 8), *yd = malloc((size_t)ny * 8);
        uint8_t *xb = malloc((size_t)nx), *yb = malloc((size_t)ny);
        pl_i64 *index = malloc((size_t)ny * 8);
        for (int64_t j = 0; j < nx; j++) {
            xb[j] = (uint8_t)pick(0, 20); /* few values: many ties */
            x[j] = mix() % 50 == 0 ? NAN : (float)xb[j] - 10;
            xd[j] = (double)x[j];
        }
        assert_int_equal(pl_max_pool_f32(pool, &s, x, y, index, column_major, NULL), 0);
        assert_int_equal(pl_max_pool_f32(NULL, &s, x, y2, NULL, false, NULL), 0);
        assert_int_equal(pl_max_pool_f64(pool, &s, xd, yd, NULL, false, NULL), 0);
        assert_int_equal(pl_max_pool_u8(pool, &s, xb, yb, NULL, false, NULL), 0);
        for (int64_t at = 0; at < ny; at++) {
            const float *px = x + at / out * in;
            float best = -INFINITY;
            int64_t where = -1;
            int byte = 0;
            for (int64_t t = 0; t < taps; t++) {
                int64_t cell, column;
                if (look(&s, at % out, t, &cell, &column) != 2) continue;
                if (xb[at / out * in + cell] > byte) byte = xb[at / out * in + cell];
                if (where >= 0 && !(px[cell] > best || (isnan(px[cell]) && !isnan(best)))) continue;
                best = px[cell];
                where = at / out * in + (column_major ? column : cell);
            }
            assert_true(y[at] == best || (isnan(y[at]) && isnan(best)));
            assert_true(y2[at] == best || (isnan(y2[at]) && isnan(best)));
            assert_true(yd[at] == (double)best || (isnan(yd[at]) && isnan(best)));
            assert_int_equal(index[at], where);
            assert_int_equal(yb[at], byte);
        }
        free(x), free(y), free(xd), free(yd), free(xb), free(yb), free(index);
    }
}

static void test_pooling__signed_bytes_have_their_own_lowest_value(void **state) {
    (void)state;
    const int8_t x[4] = { -128, -100, -7, -50 };
    int8_t y[2];
    const pl_pooling_shape s = { 1, 1, { 4 }, { 2 }, { 2 }, { 2 }, { 1 }, { 0 }, { 0 } };
    assert_int_equal(pl_max_pool_i8(NULL, &s, x, y, NULL, false, NULL), 0);
    assert_int_equal(y[0], -100);
    assert_int_equal(y[1], -7);
}

static void test_pooling__average_counts_what_it_should(void **state) {
    (void)state;
    for (int i = 0; i < 300; i++) {
        const pl_pooling_shape s = random_shape();
        const int64_t in = count(s.in, s.n_spatial), out = count(s.out, s.n_spatial);
        const int64_t taps = count(s.kernel, s.n_spatial), nx = s.planes * in, ny = s.planes * out;
        const bool with_pad = i & 1;
        float *x = malloc((size_t)nx * 4), *y = malloc((size_t)ny * 4);
        double *xd = malloc((size_t)nx * 8), *yd = malloc((size_t)ny * 8);
        for (int64_t j = 0; j < nx; j++) {
            x[j] = (float)(mix() >> 40) * 0x1p-24f;
            xd[j] = (double)x[j];
        }
        assert_int_equal(pl_average_pool_f32(pool, &s, x, y, with_pad, NULL), 0);
        assert_int_equal(pl_average_pool_f64(pool, &s, xd, yd, with_pad, NULL), 0);
        for (int64_t at = 0; at < ny; at++) {
            long double sum = 0;
            int64_t n = 0;
            for (int64_t t = 0; t < taps; t++) {
                int64_t cell, column;
                const int kind = look(&s, at % out, t, &cell, &column);
                if (kind == 2) sum += (long double)x[at / out * in + cell];
                if (kind == 2 || (kind == 1 && with_pad)) n++;
            }
            if (n == 0) {
                assert_true(isnan(y[at]) && isnan(yd[at]));
                continue;
            }
            const long double want = sum / (long double)n;
            assert_true(fabsl((long double)y[at] - want) <= 0x1p-24L * want); /* rounded once */
            assert_true(fabsl((long double)yd[at] - want) <= (long double)taps * 0x1p-53L * want);
        }
        free(x), free(y), free(xd), free(yd);
    }
}

static void test_pooling__a_huge_window_costs_only_what_is_inside(void **state) {
    (void)state;
    const float x[3] = { 1, 5, 2 };
    float y[2];
    const pl_pooling_shape s = { 1,     1,     { 3 },         { 2 },        { 1000000000 },
                                 { 1 }, { 1 }, { 900000000 }, { 900000000 } };
    assert_int_equal(pl_max_pool_f32(NULL, &s, x, y, NULL, false, NULL), 0);
    assert_true(y[0] == 5 && y[1] == 5);
    assert_int_equal(pl_average_pool_f32(NULL, &s, x, y, false, NULL), 0);
    assert_true(y[0] == (float)(8.0 / 3));
    /* outputs of a row times taps: 2^64 - 1 */
    enum { OUT = 327685 };
    const pl_pooling_shape wide = {
        2,        1,        { 1, 1 },       { 1, OUT }, { 8401587, 6700417 },
        { 1, 1 }, { 1, 1 }, { 0, OUT - 1 }, { 0, 0 }
    };
    float *row = malloc(OUT * sizeof *row);
    assert_int_equal(pl_average_pool_f32(NULL, &wide, x, row, false, NULL), 0);
    assert_true(row[0] == 1 && row[OUT - 1] == 1);
    free(row);
}

static void test_pooling__bad_shapes_are_refused(void **state) {
    (void)state;
    float v[4] = { 0 };
    const pl_pooling_shape good = { 1, 1, { 4 }, { 2 }, { 2 }, { 2 }, { 1 }, { 0 }, { 0 } };
    pl_pooling_shape s = good;
    pl_err err = PL_ERR_INIT;
    s.n_spatial = 4;
    assert_int_equal(pl_max_pool_f32(NULL, &s, v, v, NULL, false, &err), PL_E_UNSUPPORTED);
    s = good;
    s.kernel[0] = 0;
    assert_int_equal(pl_average_pool_f32(NULL, &s, v, v, false, &err), PL_E_INVALID);
    s = good;
    s.pad_end[0] = INT64_MAX;
    assert_int_equal(pl_average_pool_f32(NULL, &s, v, v, false, &err), PL_E_LIMIT);
    s = good;
    pl_alloc_fail_after(0);
    assert_int_equal(pl_average_pool_f32(NULL, &s, v, v, false, &err), PL_E_MEMORY);
    pl_alloc_fail_after(1);
    assert_int_equal(pl_average_pool_f32(NULL, &s, v, v, false, &err), PL_E_MEMORY);
    pl_alloc_fail_after(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pooling__max_and_its_indices_follow_the_definition),
        cmocka_unit_test(test_pooling__signed_bytes_have_their_own_lowest_value),
        cmocka_unit_test(test_pooling__average_counts_what_it_should),
        cmocka_unit_test(test_pooling__a_huge_window_costs_only_what_is_inside),
        cmocka_unit_test(test_pooling__bad_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, pool_set_up, pool_tear_down);
}

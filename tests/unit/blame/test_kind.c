/* Kinds of error: each row of the table on data with that fault planted, and data that only looks
 * like it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "blame/kind.h"

enum { A = 4, B = 6, C = 10, N = A * B * C };

typedef struct data {
    pl_tensor *a, *d, *e; /* f64, [4,6,10] */
    double *pa, *pd, *pe;
    pl_arena *arena;
} data;

static void start(data *x, pl_dtype type) {
    const int64_t dims[3] = { A, B, C };
    assert_int_equal(pl_tensor_new(PL_F64, 3, dims, &x->a, NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_F64, 3, dims, &x->d, NULL), PL_OK);
    assert_int_equal(pl_tensor_new_zero(PL_F64, 3, dims, &x->e, NULL), PL_OK);
    x->pa = x->a->data;
    x->pd = x->d->data;
    x->pe = x->e->data;
    x->arena = pl_arena_new();
    for (int64_t i = 0; i < N; i++) {
        const double r = (double)(pl_rng_at(5, 0, (uint64_t)i) >> 11) * 0x1p-53;
        const bool real = pl_dtype_is_float(type);
        x->pd[i] = real ? 4 * r - 2 : floor(200 * r);
        x->pa[i] = real ? (double)(float)x->pd[i] : x->pd[i];
        x->pe[i] = real ? 0x1p-24 * fabs(x->pd[i]) : 0;
    }
}

static void stop(data *x) {
    pl_tensor_unref(x->a);
    pl_tensor_unref(x->d);
    pl_tensor_unref(x->e);
    pl_arena_free(x->arena);
}

static void expect(data *x, pl_dtype type, const char *text, const char *where) {
    pl_kind_fit fit;
    assert_int_equal(pl_kind_of(x->a, x->d, x->e, type, x->arena, &fit, NULL), PL_OK);
    if (strncmp(fit.text, text, strlen(text)) != 0 || (*text == '\0' && *fit.text != '\0'))
        fail_msg("the kind is '%s', expected '%s'", fit.text, text);
    if (where != NULL && strncmp(fit.where, where, strlen(where)) != 0)
        fail_msg("the place is '%s', expected '%s'", fit.where, where);
    stop(x);
}

static void expect_not(data *x, const char *text) {
    pl_kind_fit fit;
    assert_int_equal(pl_kind_of(x->a, x->d, x->e, PL_F32, x->arena, &fit, NULL), PL_OK);
    if (strstr(fit.text, text) != NULL) fail_msg("the kind is '%s'", fit.text);
    stop(x);
}

#define EACH(i) for (int64_t i = 0; i < N; i++)

static void test_kind__offset_scale_sign(void **state) {
    (void)state;
    data x;
    start(&x, PL_F32);
    EACH(i) x.pa[i] = (double)(float)(x.pd[i] + 0.125);
    expect(&x, PL_F32, "offset 0.125", "all");
    start(&x, PL_F32);
    EACH(i) x.pa[i] = (double)(float)(x.pd[i] * 1.001);
    expect(&x, PL_F32, "scale 1.001", "all");
    start(&x, PL_F32);
    EACH(i) x.pa[i] = -x.pa[i];
    expect(&x, PL_F32, "sign flip", "all");
    start(&x, PL_F32);
    EACH(i) x.pa[i] = (double)(float)(0.5 * x.pd[i] + 0.3);
    expect(&x, PL_F32, "linear: 0.5 x + 0.3", "all");
}

/* Codes without a sign: their negatives wrap around, and zeros are no negatives. */
static void test_kind__codes_without_sign(void **state) {
    (void)state;
    data x;
    start(&x, PL_U8);
    EACH(i) x.pa[i] = x.pd[i] > 0 ? 256 - x.pd[i] : 0;
    expect(&x, PL_U8, "sign flip", "all");
    start(&x, PL_U8);
    for (int64_t i = 40; i < 130; i++)
        x.pa[i] = 0;
    expect(&x, PL_U8, "zero region", NULL);
}

static void test_kind__nan_and_inf(void **state) {
    (void)state;
    data x;
    start(&x, PL_F32);
    x.pa[17] = (double)NAN;
    expect(&x, PL_F32, "NaN born here", NULL);
    start(&x, PL_F32);
    x.pa[17] = (double)INFINITY;
    expect(&x, PL_F32, "Inf born here", NULL);
    start(&x, PL_F32);
    x.pa[17] = x.pd[17] = (double)NAN; /* on both sides: no fault */
    x.pa[3] += 1;
    expect(&x, PL_F32, "one element", NULL);
}

static void test_kind__low_precision(void **state) {
    (void)state;
    data x;
    start(&x, PL_F32);
    EACH(i) x.pa[i] = (double)pl_bf16_to_f32(pl_bf16_from_f64(x.pd[i]));
    expect(&x, PL_F32, "low precision: bfloat16", "all");
    start(&x, PL_F32);
    EACH(i) x.pa[i] = (double)pl_f16_to_f32(pl_f16_from_f64(x.pd[i]));
    expect(&x, PL_F32, "low precision: float16", "all");
    start(&x, PL_F32); /* noise of that size is not representable */
    EACH(i) x.pa[i] = (double)(float)(x.pd[i] * (1 + 0x1p-9 * sin((double)i)));
    expect_not(&x, "low precision");
}

static void test_kind__places(void **state) {
    (void)state;
    data x;
    start(&x, PL_F32);
    EACH(i) if (i / C % B == 3) x.pa[i] = (double)(float)(1.5 * x.pd[i] + 0.2);
    expect(&x, PL_F32, "one channel: linear", "index 3 of axis 1");
    start(&x, PL_F32);
    EACH(i) if (i % C >= 8) x.pa[i] = (double)(float)(x.pd[i] + 0.5);
    expect(&x, PL_F32, "tail: offset 0.5", "tail: last 2 of axis 2");
    start(&x, PL_F32);
    EACH(i) if (i % C == 9) x.pa[i] = (double)(float)(x.pd[i] + 0.5);
    expect(&x, PL_F32, "tail: offset 0.5", "tail: last 1 of axis 2");
    start(&x, PL_F32);
    x.pa[100] += 1;
    expect(&x, PL_F32, "one element", "index");
    start(&x, PL_F32);
    for (int64_t i = 50; i < 110; i++)
        x.pa[i] = 0;
    expect(&x, PL_F32, "zero region", "elements 50 to 109");
}

static void test_kind__elements_in_wrong_places(void **state) {
    (void)state;
    data x;
    start(&x, PL_F32); /* [6,10] read as [10,6] */
    EACH(i) {
        const int64_t block = i / (B * C) * (B * C), k = i % (B * C);
        x.pa[i] = (double)(float)x.pd[block + k % B * C + k / B];
    }
    expect(&x, PL_F32, "axes 1 and 2 transposed", "all");
    start(&x, PL_F32);
    EACH(i) x.pa[i] = (double)(float)x.pd[i % C == 0 ? i + C - 1 : i - 1];
    expect(&x, PL_F32, "shifted by 1 along axis 2", "all");
    start(&x, PL_F32);
    EACH(i) x.pa[i] = (double)(float)x.pd[N - 1 - i];
    expect(&x, PL_F32, "correct elements in the wrong places", "all");
    start(&x, PL_F32);
    for (int64_t i = 0; i < 40; i++)
        x.pa[100 + i] = (double)(float)x.pd[7 + i];
    expect(&x, PL_F32, "stale region: holds the values of elements 7 to 46", "elements 100 to 139");
    start(&x, PL_F32);
    for (int64_t i = 0; i < 40; i++)
        x.pa[100 + i] = 1e20 * sin((double)i + 1);
    expect(&x, PL_F32, "stale or uninitialised region", "elements 100 to 139");
    start(&x, PL_F32); /* two elements off is no transposition */
    x.pa[3] += 1;
    x.pa[77] -= 2;
    expect_not(&x, "transposed");
}

static void test_kind__saturated(void **state) {
    (void)state;
    data x;
    start(&x, PL_F32);
    EACH(i) x.pa[i] = fmin(x.pa[i], 1.25);
    expect(&x, PL_F32, "saturated at 1.25", NULL);
    start(&x, PL_F32);
    EACH(i) x.pd[i] = fabs(x.pd[i]) + 1;
    EACH(i) x.pa[i] = 1; /* everything is beyond the limit */
    expect(&x, PL_F32, "saturated at 1", "all");
    start(&x, PL_F32); /* all equal, but within the range: no saturation */
    EACH(i) x.pa[i] = 0.25;
    expect(&x, PL_F32, "constant 0.25", "all");
}

static void test_kind__flushed_denormals(void **state) {
    (void)state;
    data x;
    start(&x, PL_F32);
    EACH(i) {
        x.pd[i] *= i % 3 == 0 ? 0x1p-130 : 1;
        x.pe[i] = 0;
        x.pa[i] = (double)(float)x.pd[i];
    }
    EACH(i) if (i % 3 == 0) x.pa[i] = 0;
    pl_kind_fit fit; /* within the slack at zero: not even bad */
    assert_int_equal(pl_kind_of(x.a, x.d, x.e, PL_F32, x.arena, &fit, NULL), PL_OK);
    assert_string_equal(fit.where, "");
    stop(&x);
}

static void test_kind__integers(void **state) {
    (void)state;
    data x;
    start(&x, PL_U8);
    EACH(i) x.pa[i] = fmin(rint(x.pd[i] * 1.05), 255);
    expect(&x, PL_U8, "scale 1.05", "all");
    start(&x, PL_U8);
    EACH(i) x.pa[i] = fmin(x.pd[i] + 12, 255);
    expect(&x, PL_U8, "offset 12", "all");
    start(&x, PL_U8); /* every other code one too small */
    EACH(i) if (i % 2 == 0 && x.pd[i] > 0) x.pa[i] = x.pd[i] - 1;
    expect(&x, PL_U8, "wrong rounding mode", NULL);
    start(&x, PL_U8); /* the large ones one too large */
    EACH(i) x.pa[i] = rint(x.pd[i] * 1.005);
    expect(&x, PL_U8, "scale 1.00", NULL);
    start(&x, PL_U8); /* one up, one down: neither scale nor offset */
    EACH(i) x.pa[i] = fmax(x.pd[i] + (i % 2 == 0 ? 1 : -1), 0);
    pl_kind_fit fit;
    assert_int_equal(pl_kind_of(x.a, x.d, x.e, PL_U8, x.arena, &fit, NULL), PL_OK);
    assert_null(strstr(fit.text, "scale"));
    assert_null(strstr(fit.text, "offset"));
    stop(&x);
}

/* Scalars and empty tensors have little to say, and say it. */
static void test_kind__few_elements(void **state) {
    (void)state;
    pl_tensor *a = NULL, *d = NULL;
    pl_kind_fit fit;
    pl_arena *arena = pl_arena_new();
    assert_int_equal(pl_tensor_new_zero(PL_F64, 0, NULL, &a, NULL), PL_OK);
    assert_int_equal(pl_tensor_new_zero(PL_F64, 0, NULL, &d, NULL), PL_OK);
    *(double *)a->data = 3;
    *(double *)d->data = 2;
    assert_int_equal(pl_kind_of(a, d, NULL, PL_F32, arena, &fit, NULL), PL_OK);
    assert_string_equal(fit.text, "offset 1, or scale 1.5");
    *(double *)d->data = 0;
    assert_int_equal(pl_kind_of(a, d, NULL, PL_F32, arena, &fit, NULL), PL_OK);
    assert_string_equal(fit.text, "offset 3");
    pl_tensor_unref(a);
    pl_tensor_unref(d);
    const int64_t none[2] = { 3, 0 };
    assert_int_equal(pl_tensor_new(PL_F64, 2, none, &a, NULL), PL_OK);
    assert_int_equal(pl_kind_of(a, a, NULL, PL_F32, arena, &fit, NULL), PL_OK);
    assert_string_equal(fit.kind, "other");
    pl_tensor_unref(a);
    pl_arena_free(arena);
}

static void test_kind__noise_has_no_name(void **state) {
    (void)state;
    data x;
    start(&x, PL_F32);
    EACH(i) x.pa[i] = (double)(float)(x.pd[i] + 0.1 * sin(7.0 * (double)i * (double)i + 1));
    expect(&x, PL_F32, "other", "all");
    start(&x, PL_F32); /* nothing wrong at all */
    pl_kind_fit fit;
    assert_int_equal(pl_kind_of(x.a, x.d, x.e, PL_F32, x.arena, &fit, NULL), PL_OK);
    assert_string_equal(fit.kind, "other");
    assert_string_equal(fit.where, "");
    stop(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kind__offset_scale_sign),
        cmocka_unit_test(test_kind__codes_without_sign),
        cmocka_unit_test(test_kind__nan_and_inf),
        cmocka_unit_test(test_kind__low_precision),
        cmocka_unit_test(test_kind__places),
        cmocka_unit_test(test_kind__elements_in_wrong_places),
        cmocka_unit_test(test_kind__saturated),
        cmocka_unit_test(test_kind__flushed_denormals),
        cmocka_unit_test(test_kind__integers),
        cmocka_unit_test(test_kind__few_elements),
        cmocka_unit_test(test_kind__noise_has_no_name),
    };
    return cmocka_run_group_tests_name("kind", tests, NULL, NULL);
}

/* Layout hypotheses: found by values, guessed by shapes, applied, and refused. */
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
#include "pair/layout.h"

typedef struct dims {
    int rank;
    int64_t d[6];
} dims;

static pl_tensor *random_tensor(dims s, uint64_t seed) {
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(PL_F32, s.rank, s.d, &t, NULL), PL_OK);
    for (int64_t i = 0; i < t->n_elements; i++)
        ((float *)t->data)[i] = (float)pl_rng_normal_at(seed, 0, (uint64_t)i);
    return t;
}

/* out[i] = in[perm]: out's axis k is in's axis perm[k]. Plain loops, independent of layout.c. */
static pl_tensor *permuted(const pl_tensor *t, const int *perm) {
    pl_tensor *out = NULL;
    int64_t d[6], step[6], at[6] = { 0 };
    for (int i = 0; i < t->rank; i++)
        d[i] = t->dims[perm[i]];
    for (int i = t->rank - 1, s = 1; i >= 0; i--) {
        step[i] = s;
        s *= (int)t->dims[i];
    }
    assert_int_equal(pl_tensor_new(PL_F32, t->rank, d, &out, NULL), PL_OK);
    for (int64_t n = 0; n < out->n_elements; n++) {
        int64_t from = 0;
        for (int i = 0; i < t->rank; i++)
            from += at[i] * step[perm[i]];
        ((float *)out->data)[n] = ((const float *)t->data)[from];
        for (int i = t->rank - 1; i >= 0 && ++at[i] == d[i]; i--)
            at[i] = 0;
    }
    return out;
}

static pl_tensor *reshaped(const pl_tensor *t, dims s) {
    pl_tensor *out = NULL;
    assert_int_equal(pl_tensor_reshape(t, s.rank, s.d, &out, NULL), PL_OK);
    return out;
}

/* [N,C,H,W] with zeros up to the dims s at the end of each axis. */
static pl_tensor *padded(const pl_tensor *t, dims s) {
    pl_tensor *out = NULL;
    int64_t at[6] = { 0 };
    assert_int_equal(pl_tensor_new_zero(PL_F32, s.rank, s.d, &out, NULL), PL_OK);
    for (int64_t n = 0; n < t->n_elements; n++) {
        int64_t to = 0;
        for (int i = 0; i < t->rank; i++)
            to = to * s.d[i] + at[i];
        ((float *)out->data)[to] = ((const float *)t->data)[n];
        for (int i = t->rank - 1; i >= 0 && ++at[i] == t->dims[i]; i--)
            at[i] = 0;
    }
    return out;
}

static pl_tensor *blocked(const pl_tensor *t, int64_t b) {
    const int64_t n = t->dims[0], c = t->dims[1], h = t->dims[2], w = t->dims[3];
    const int64_t n_blocks = (c + b - 1) / b;
    pl_tensor *out = NULL;
    assert_int_equal(
        pl_tensor_new_zero(PL_F32, 5, (const int64_t[]){ n, n_blocks, h, w, b }, &out, NULL),
        PL_OK);
    for (int64_t i = 0; i < t->n_elements; i++) {
        const int64_t x = i % w, y = i / w % h, k = i / w / h % c, m = i / w / h / c;
        ((float *)out->data)[(((m * n_blocks + k / b) * h + y) * w + x) * b + k % b] =
            ((const float *)t->data)[i];
    }
    return out;
}

/* The layout is found, named, and makes b equal to a. Takes b. */
static void expect_found_take(const pl_tensor *a, pl_tensor *b, const char *text) {
    pl_layout layout;
    pl_tensor *x = NULL, *y = NULL;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_layout_find(a, b, &layout, &err), PL_OK);
    assert_string_equal(layout.text, text);
    assert_true(layout.error == 0);
    assert_int_equal(pl_layout_apply(layout.text, a, b, &x, &y, &err), PL_OK);
    assert_true(pl_tensor_identical(x, y));
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    pl_tensor_unref(b);
}

static void test_layout__same_is_empty(void **state) {
    (void)state;
    pl_tensor *a = random_tensor((dims){ 4, { 2, 3, 4, 5 } }, 1);
    expect_found_take(a, pl_tensor_ref(a), "");
    pl_tensor_unref(a);
}

static void test_layout__finds_nhwc(void **state) {
    (void)state;
    pl_tensor *a = random_tensor((dims){ 4, { 2, 3, 6, 5 } }, 1);
    expect_found_take(a, permuted(a, (const int[]){ 0, 2, 3, 1 }), "transpose 0,3,1,2");
    expect_found_take(a, permuted(a, (const int[]){ 0, 3, 1, 2 }), "transpose 0,2,3,1");
    pl_tensor_unref(a);
    /* Equal height and width: only the values tell the two orders apart. */
    a = random_tensor((dims){ 4, { 1, 8, 8, 8 } }, 2);
    expect_found_take(a, permuted(a, (const int[]){ 0, 2, 3, 1 }), "transpose 0,3,1,2");
    expect_found_take(a, permuted(a, (const int[]){ 0, 1, 3, 2 }), "transpose 0,1,3,2");
    pl_tensor_unref(a);
}

static void test_layout__finds_squeeze_and_reshape(void **state) {
    (void)state;
    pl_tensor *a = random_tensor((dims){ 4, { 1, 12, 1, 5 } }, 1);
    expect_found_take(a, reshaped(a, (dims){ 2, { 12, 5 } }), "squeeze");
    expect_found_take(a, reshaped(a, (dims){ 3, { 4, 3, 5 } }), "reshape");
    pl_tensor *flat = reshaped(a, (dims){ 2, { 12, 5 } });
    pl_tensor *turned = permuted(flat, (const int[]){ 1, 0 });
    expect_found_take(a, turned, "squeeze; transpose 1,0");
    pl_tensor_unref(flat);
    pl_tensor_unref(a);
}

static void test_layout__finds_padding(void **state) {
    (void)state;
    pl_tensor *a = random_tensor((dims){ 4, { 1, 3, 6, 5 } }, 1);
    expect_found_take(a, padded(a, (dims){ 4, { 1, 8, 6, 5 } }), "pad 0,5,0,0");
    pl_tensor *nhwc = permuted(a, (const int[]){ 0, 2, 3, 1 });
    expect_found_take(a, padded(nhwc, (dims){ 4, { 1, 6, 5, 16 } }),
                      "transpose 0,3,1,2; pad 0,13,0,0");
    pl_tensor *more = padded(a, (dims){ 4, { 1, 8, 6, 5 } });
    expect_found_take(more, pl_tensor_ref(a), "a: pad 0,5,0,0");
    pl_tensor_unref(more);
    pl_tensor_unref(nhwc);
    pl_tensor_unref(a);
}

static void test_layout__finds_blocks(void **state) {
    (void)state;
    pl_tensor *a = random_tensor((dims){ 4, { 1, 20, 3, 4 } }, 1);
    expect_found_take(a, blocked(a, 16), "block 1,16");
    expect_found_take(a, blocked(a, 4), "block 1,4");
    pl_tensor *b = blocked(a, 8);
    expect_found_take(b, pl_tensor_ref(a), "a: block 1,8");
    pl_tensor_unref(b);
    pl_tensor_unref(a);
}

static void test_layout__noise_does_not_matter(void **state) {
    (void)state;
    pl_layout layout;
    pl_tensor *a = random_tensor((dims){ 4, { 1, 16, 9, 9 } }, 1);
    pl_tensor *b = permuted(a, (const int[]){ 0, 2, 3, 1 });
    for (int64_t i = 0; i < b->n_elements; i++)
        ((float *)b->data)[i] *= 1.01f;
    assert_int_equal(pl_layout_find(a, b, &layout, NULL), PL_OK);
    assert_string_equal(layout.text, "transpose 0,3,1,2");
    assert_true(layout.error < 0.011 && layout.second > 0.5);
    pl_tensor_unref(a);
    pl_tensor_unref(b);
}

/* Wrong everywhere is wrong values, not another layout. */
static void test_layout__other_values_stay_plain(void **state) {
    (void)state;
    pl_layout layout;
    pl_tensor *a = random_tensor((dims){ 4, { 1, 8, 8, 8 } }, 1);
    pl_tensor *b = random_tensor((dims){ 4, { 1, 8, 8, 8 } }, 2);
    assert_int_equal(pl_layout_find(a, b, &layout, NULL), PL_OK);
    assert_string_equal(layout.text, "");
    assert_true(layout.error > 1);
    pl_tensor_unref(a);
    pl_tensor_unref(b);
}

static void test_layout__nothing_fits(void **state) {
    (void)state;
    pl_layout layout;
    pl_tensor *a = random_tensor((dims){ 2, { 3, 5 } }, 1);
    pl_tensor *b = random_tensor((dims){ 2, { 2, 7 } }, 1);
    assert_int_equal(pl_layout_find(a, b, &layout, NULL), PL_OK);
    assert_true(isinf(layout.error));
    pl_tensor_unref(a);
    pl_tensor_unref(b);
}

static void test_layout__empty_and_scalar(void **state) {
    (void)state;
    pl_tensor *a = random_tensor((dims){ 2, { 0, 5 } }, 1);
    expect_found_take(a, random_tensor((dims){ 2, { 0, 5 } }, 1), "");
    pl_tensor_unref(a);
    a = random_tensor((dims){ 0, { 0 } }, 1);
    expect_found_take(a, random_tensor((dims){ 2, { 1, 1 } }, 1), "squeeze");
    pl_tensor_unref(a);
}

static void guess(dims a, dims b, const char *expected) {
    char text[PL_LAYOUT_TEXT_MAX];
    const bool found = pl_layout_guess(a.rank, a.d, b.rank, b.d, text);
    assert_int_equal(found, expected != NULL);
    if (expected != NULL) assert_string_equal(text, expected);
}

static void test_layout_guess__names_what_shapes_tell(void **state) {
    (void)state;
    guess((dims){ 2, { 3, 4 } }, (dims){ 2, { 3, 4 } }, "");
    guess((dims){ 3, { 1, 3, 4 } }, (dims){ 2, { 3, 4 } }, "squeeze");
    guess((dims){ 4, { 1, 64, 56, 56 } }, (dims){ 4, { 1, 56, 56, 64 } }, "transpose 0,3,1,2");
    guess((dims){ 4, { 1, 3, 8, 9 } }, (dims){ 4, { 1, 4, 8, 9 } }, "pad 0,1,0,0");
    guess((dims){ 2, { 6, 4 } }, (dims){ 2, { 3, 8 } }, NULL); /* could be anything */
    guess((dims){ 3, { 2, 3, 3 } }, (dims){ 3, { 3, 3, 2 } }, NULL);
}

static void test_layout_apply__refuses_what_does_not_fit(void **state) {
    static const char *const bad[] = { "",
                                       "transpose 0,1",
                                       "transpose 0,1,1,2",
                                       "transpose 0,3,1,9",
                                       "transpose 0,3,1,2",
                                       "pad 9,9,9,9",
                                       "pad 1",
                                       "block 1,16",
                                       "block 99999999999999999999,1",
                                       "codes",
                                       "transpose ",
                                       "transpose 0,",
                                       "transpose -1,0",
                                       "squeeze;",
                                       "; ",
                                       "a: ",
                                       "nonsense" };
    (void)state;
    pl_tensor *a = random_tensor((dims){ 4, { 1, 3, 6, 5 } }, 1);
    pl_tensor *b = random_tensor((dims){ 4, { 1, 3, 4, 5 } }, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pl_tensor *x = NULL, *y = NULL;
        pl_err err = PL_ERR_INIT;
        const pl_status st = pl_layout_apply(bad[i], a, b, &x, &y, &err);
        assert_true(st == PL_E_INVALID || st == PL_E_UNSUPPORTED);
        assert_true(err.message[0] != '\0');
        assert_null(x);
        assert_null(y);
    }
    pl_tensor_unref(a);
    pl_tensor_unref(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout__same_is_empty),
        cmocka_unit_test(test_layout__finds_nhwc),
        cmocka_unit_test(test_layout__finds_squeeze_and_reshape),
        cmocka_unit_test(test_layout__finds_padding),
        cmocka_unit_test(test_layout__finds_blocks),
        cmocka_unit_test(test_layout__noise_does_not_matter),
        cmocka_unit_test(test_layout__other_values_stay_plain),
        cmocka_unit_test(test_layout__nothing_fits),
        cmocka_unit_test(test_layout__empty_and_scalar),
        cmocka_unit_test(test_layout_guess__names_what_shapes_tell),
        cmocka_unit_test(test_layout_apply__refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

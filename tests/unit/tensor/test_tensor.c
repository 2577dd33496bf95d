/* Tensors: shapes and their limits, views, copies, casts, storage kinds. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/tensor.h"
#include "tensor_samples.h"

static void test_dims__product_and_overflow(void **state) {
    (void)state;
    int64_t n = -1;
    assert_true(pl_dims_product(0, NULL, &n) && n == 1);
    assert_true(pl_dims_product(3, (int64_t[]){ 2, 3, 4 }, &n) && n == 24);
    assert_true(pl_dims_product(3, (int64_t[]){ INT64_MAX, INT64_MAX, 0 }, &n) && n == 0);
    assert_false(pl_dims_product(2, (int64_t[]){ INT64_MAX, 2 }, &n));
    assert_false(pl_dims_product(2, (int64_t[]){ 0, -1 }, &n));
    assert_int_equal(n, 0); /* left alone by the failures */
}

static void test_dims__describe_truncates_safely(void **state) {
    (void)state;
    char text[8];
    const int64_t dims[] = { 1, 3, 224, 224 };
    assert_string_equal(pl_dims_describe(0, NULL, text, sizeof text), "[]");
    assert_string_equal(pl_dims_describe(2, dims, text, sizeof text), "[1,3]");
    assert_true(strlen(pl_dims_describe(4, dims, text, sizeof text)) < sizeof text);
    assert_string_equal(pl_dims_describe(4, dims, text, 1), "");
}

static void test_tensor__rejects_bad_shapes(void **state) {
    (void)state;
    pl_tensor *t = NULL;
    pl_err err = PL_ERR_INIT;
    int64_t many[PL_RANK_MAX + 1];
    for (int i = 0; i <= PL_RANK_MAX; i++)
        many[i] = 1;
    assert_int_equal(pl_tensor_new(PL_F32, PL_RANK_MAX + 1, many, &t, &err), PL_E_LIMIT);
    assert_int_equal(pl_tensor_new(PL_F32, -1, many, &t, &err), PL_E_LIMIT);
    assert_int_equal(pl_tensor_new(PL_F32, 1, (int64_t[]){ -2 }, &t, &err), PL_E_INVALID);
    assert_non_null(strstr(err.message, "[-2]"));
    assert_int_equal(pl_tensor_new(PL_F32, 2, (int64_t[]){ INT64_MAX, 2 }, &t, &err), PL_E_LIMIT);
    assert_int_equal(pl_tensor_new(PL_F64, 1, (int64_t[]){ INT64_MAX / 4 }, &t, &err), PL_E_LIMIT);
    assert_int_equal(pl_tensor_new(PL_UNDEFINED, 0, NULL, &t, &err), PL_E_INVALID);
    assert_int_equal(pl_tensor_new((pl_dtype)77, 0, NULL, &t, &err), PL_E_INVALID);
    assert_null(t);
}

static void test_tensor__is_aligned_zeroed_and_described(void **state) {
    (void)state;
    pl_tensor *t = NULL;
    char text[64];
    assert_int_equal(pl_tensor_new_zero(PL_F32, 2, (int64_t[]){ 3, 5 }, &t, NULL), PL_OK);
    assert_int_equal((uintptr_t)t->data % 64, 0);
    assert_int_equal(t->strides[0], 5);
    assert_int_equal(t->strides[1], 1);
    for (int64_t i = 0; i < 15; i++)
        assert_true(pl_tensor_get_f64(t, i) == 0.0);
    assert_string_equal(pl_tensor_describe(t, text, sizeof text), "float[3,5]");
    assert_int_equal(pl_tensor_bytes(t), 60);
    pl_tensor_unref(t);
    assert_int_equal(pl_tensor_new(PL_STRING, 0, NULL, &t, NULL), PL_OK);
    assert_string_equal(pl_tensor_describe(t, text, sizeof text), "string[]");
    assert_int_equal(((pl_string *)t->data)->n_bytes, 0);
    pl_tensor_unref(t);
    pl_tensor_unref(NULL);
    /* Empty, with strides that would overflow: refused, as in NumPy. */
    assert_int_equal(pl_tensor_new(PL_F32, 3, (int64_t[]){ 0, INT64_MAX, INT64_MAX }, &t, NULL),
                     PL_E_LIMIT);
}

static pl_tensor *iota(pl_dtype dtype, int rank, const int64_t *dims) {
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(dtype, rank, dims, &t, NULL), PL_OK);
    const size_t size = pl_dtype_bytes(dtype);
    for (int64_t i = 0; i < t->n_elements; i++)
        pl_store_i64(dtype, &i, (char *)t->data + (size_t)i * size, 1);
    return t;
}

static void test_view__copies_transposed_and_broadcast(void **state) {
    (void)state;
    const pl_dtype dtypes[] = { PL_U8, PL_I16, PL_F32, PL_F64, PL_C128 };
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        pl_tensor *t = iota(dtypes[k], 3, (int64_t[]){ 2, 3, 4 }), *v = NULL, *c = NULL, *b = NULL;
        /* (2,3,4) seen as (4,2,3) */
        assert_int_equal(
            pl_tensor_view(t, 3, (int64_t[]){ 4, 2, 3 }, (int64_t[]){ 1, 12, 4 }, 0, &v, NULL),
            PL_OK);
        assert_false(pl_tensor_is_contiguous(v));
        assert_int_equal(pl_tensor_contiguous(v, &c, NULL), PL_OK);
        assert_ptr_not_equal(c, v);
        for (int64_t i = 0, at = 0; i < 4; i++)
            for (int64_t j = 0; j < 2; j++)
                for (int64_t l = 0; l < 3; l++, at++)
                    assert_int_equal(pl_tensor_get_i64(c, at), j * 12 + l * 4 + i);
        /* Rows 1 and 2 of the second block, reversed, each twice. */
        assert_int_equal(
            pl_tensor_view(t, 3, (int64_t[]){ 2, 2, 4 }, (int64_t[]){ -4, 0, 1 }, 20, &b, NULL),
            PL_OK);
        pl_tensor_unref(c);
        assert_int_equal(pl_tensor_copy(b, &c, NULL), PL_OK);
        pl_tensor_unref(t); /* the views keep the storage */
        for (int64_t at = 0; at < 16; at++)
            assert_int_equal(pl_tensor_get_i64(c, at), (at < 8 ? 20 : 16) + at % 4);
        pl_tensor_unref(v);
        pl_tensor_unref(b);
        pl_tensor_unref(c);
    }
}

static void test_reshape__shares_storage_and_checks_counts(void **state) {
    (void)state;
    pl_tensor *t = iota(PL_I32, 2, (int64_t[]){ 3, 4 }), *r = NULL, *v = NULL;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_tensor_reshape(t, 1, (int64_t[]){ 12 }, &r, NULL), PL_OK);
    assert_ptr_equal(r->data, t->data);
    assert_int_equal(pl_tensor_reshape(t, 1, (int64_t[]){ 11 }, &v, &err), PL_E_INVALID);
    assert_non_null(strstr(err.message, "int32[3,4] to [11]"));
    assert_int_equal(pl_tensor_view(t, 2, (int64_t[]){ 4, 3 }, (int64_t[]){ 1, 4 }, 0, &v, NULL),
                     PL_OK);
    pl_tensor_unref(r);
    assert_int_equal(pl_tensor_reshape(v, 1, (int64_t[]){ 12 }, &r, &err), PL_E_INTERNAL);
    pl_tensor_unref(v);
    pl_tensor_unref(t);
}

static void test_tensor__copies_every_dtype(void **state) {
    (void)state;
    for (int k = 1; k < PL_DTYPE_COUNT; k++) {
        for (int s = 0; s < N_SAMPLE_SHAPES; s++) {
            pl_tensor *t = sample_tensor((pl_dtype)k, &sample_shapes[s]), *c = NULL, *same = NULL;
            assert_non_null(t);
            assert_int_equal(pl_tensor_copy(t, &c, NULL), PL_OK);
            assert_true(pl_tensor_identical(t, c));
            assert_int_equal(pl_tensor_contiguous(t, &same, NULL), PL_OK);
            assert_ptr_equal(same, t);
            if (k == PL_STRING && t->n_elements > 2)
                assert_ptr_not_equal(((pl_string *)t->data)[0].data,
                                     ((pl_string *)c->data)[0].data);
            if (t->n_elements > 0) {
                if (k == PL_STRING)
                    assert_int_equal(pl_tensor_set_string(c, 0, "other", 5, NULL), PL_OK);
                else
                    *(unsigned char *)c->data ^= 1;
                assert_false(pl_tensor_identical(t, c));
            }
            pl_tensor_unref(same);
            pl_tensor_unref(t);
            pl_tensor_unref(c);
        }
    }
}

static void test_cast__between_all_numeric_types(void **state) {
    (void)state;
    for (int from = 1; from < PL_DTYPE_COUNT; from++) {
        for (int to = 1; to < PL_DTYPE_COUNT; to++) {
            pl_tensor *t = iota(from == PL_STRING ? PL_F32 : (pl_dtype)from, 1, (int64_t[]){ 2 });
            pl_tensor *c = NULL;
            if (from == PL_STRING || to == PL_STRING) {
                pl_tensor_unref(t);
                continue;
            }
            const bool drops = pl_dtype_class_of((pl_dtype)from) == PL_CLASS_COMPLEX &&
                               pl_dtype_class_of((pl_dtype)to) != PL_CLASS_COMPLEX;
            const pl_status st = pl_tensor_cast(t, (pl_dtype)to, &c, NULL);
            assert_int_equal(st, drops ? PL_E_UNSUPPORTED : PL_OK);
            if (st == PL_OK) {
                assert_int_equal(c->dtype, to);
                assert_int_equal(pl_tensor_get_i64(c, 1), 1);
                if (from != PL_F8E8M0 && to != PL_F8E8M0) /* which has no zero */
                    assert_int_equal(pl_tensor_get_i64(c, 0), 0);
            }
            pl_tensor_unref(c);
            pl_tensor_unref(t);
        }
    }
}

static void test_cast__keeps_values_that_fit(void **state) {
    (void)state;
    pl_tensor *t = NULL, *c = NULL, *v = NULL;
    assert_int_equal(pl_tensor_new(PL_U64, 1, (int64_t[]){ 2 }, &t, NULL), PL_OK);
    memcpy(t->data, (uint64_t[]){ UINT64_MAX, (uint64_t)1 << 63 }, 16);
    assert_int_equal(pl_tensor_cast(t, PL_F32, &c, NULL), PL_OK);
    assert_true(pl_tensor_get_f64(c, 0) == 0x1p64 && pl_tensor_get_f64(c, 1) == 0x1p63);
    pl_tensor_unref(c);
    assert_int_equal(pl_tensor_cast(t, PL_I32, &c, NULL), PL_OK);
    assert_int_equal(pl_tensor_get_i64(c, 0), -1);
    pl_tensor_unref(c);
    pl_tensor_unref(t);
    /* A long strided source: blocks and views together. */
    t = iota(PL_I32, 2, (int64_t[]){ 3000, 2 });
    assert_int_equal(pl_tensor_view(t, 1, (int64_t[]){ 3000 }, (int64_t[]){ 2 }, 1, &v, NULL),
                     PL_OK);
    assert_int_equal(pl_tensor_cast(v, PL_F64, &c, NULL), PL_OK);
    for (int64_t i = 0; i < 3000; i++)
        assert_true(pl_tensor_get_f64(c, i) == (double)(2 * i + 1));
    pl_tensor_unref(v);
    pl_tensor_unref(t);
    pl_tensor_unref(c);
}

static void test_cast__refuses_strings_by_name(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = sample_tensor(PL_STRING, &sample_shapes[4]), *c = NULL;
    assert_int_equal(pl_tensor_cast(t, PL_F32, &c, &err), PL_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "string to float"));
    assert_int_equal(pl_tensor_cast(t, PL_STRING, &c, &err), PL_OK);
    pl_tensor_unref(c);
    pl_tensor_unref(t);
}

static void count_release(void *ctx) {
    ++*(int *)ctx;
}

static void test_borrow__releases_once_after_the_last_view(void **state) {
    (void)state;
    static const float data[4] = { 1, 2, 3, 4 };
    int n_released = 0;
    pl_tensor *t = NULL, *r = NULL;
    assert_int_equal(
        pl_tensor_borrow(PL_F32, 1, (int64_t[]){ 4 }, data, count_release, &n_released, &t, NULL),
        PL_OK);
    assert_int_equal(pl_tensor_reshape(t, 2, (int64_t[]){ 2, 2 }, &r, NULL), PL_OK);
    pl_tensor_unref(t);
    assert_int_equal(n_released, 0);
    assert_true(pl_tensor_get_f64(r, 3) == 4.0);
    pl_tensor_unref(pl_tensor_ref(r));
    assert_int_equal(n_released, 0);
    pl_tensor_unref(r);
    assert_int_equal(n_released, 1);
}

/* Every allocation fails once: a status, no leak (the sanitizer looks), no crash. */
static void test_tensor__survives_failing_allocations(void **state) {
    (void)state;
    pl_tensor *t = sample_tensor(PL_STRING, &sample_shapes[5]);
    for (long n = 0; n < 100; n++) {
        pl_tensor *c = NULL;
        pl_alloc_fail_after(n);
        const pl_status st = pl_tensor_copy(t, &c, NULL);
        pl_alloc_fail_after(-1);
        assert_true(st == PL_OK || (st == PL_E_MEMORY && !c));
        pl_tensor_unref(c);
        if (st == PL_OK) {
            pl_tensor_unref(t);
            return;
        }
    }
    fail();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dims__product_and_overflow),
        cmocka_unit_test(test_dims__describe_truncates_safely),
        cmocka_unit_test(test_tensor__rejects_bad_shapes),
        cmocka_unit_test(test_tensor__is_aligned_zeroed_and_described),
        cmocka_unit_test(test_view__copies_transposed_and_broadcast),
        cmocka_unit_test(test_reshape__shares_storage_and_checks_counts),
        cmocka_unit_test(test_tensor__copies_every_dtype),
        cmocka_unit_test(test_cast__between_all_numeric_types),
        cmocka_unit_test(test_cast__keeps_values_that_fit),
        cmocka_unit_test(test_cast__refuses_strings_by_name),
        cmocka_unit_test(test_borrow__releases_once_after_the_last_view),
        cmocka_unit_test(test_tensor__survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Elements that mean nothing, in a batch whose second item is shorter by one. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "graph/text/text.h"
#include "interp/dont_care.h"
#include "ops/infer.h"

/* 2 items of 3 rows of 8; `n` has the last position of each. */
#define MODEL(n, after)                                                                            \
    "(float[2,3,8] q, float[2,3,8] k, float[2,3,8] v) => (z) <int32[2] n = " n                     \
    ", int32 t = {3}> { y, a, b = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=2>"  \
    "(q, k, v, \"\", \"\", n, t) " after " }"

typedef struct found {
    pl_model *model;
    pl_dont_care nothing;
} found;

static found find(const char *text) {
    pl_err err = PL_ERR_INIT;
    found f = { NULL, { NULL, 0 } };
    pl_datum *in[3] = { NULL };
    const int64_t dims[] = { 2, 3, 8 };
    if (pl_model_parse_graph(text, 17, &f.model, &err) != PL_OK ||
        pl_ops_resolve(f.model, &err) != PL_OK || pl_model_infer(f.model, NULL, &err) != PL_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < 3; i++) {
        pl_tensor *t = NULL;
        assert_int_equal(pl_tensor_new(PL_F32, 3, dims, &t, NULL), PL_OK);
        for (int k = 0; k < 48; k++)
            ((float *)t->data)[k] = (float)((k * 7 + i * 5) % 11) / 4 - 1;
        assert_int_equal(pl_datum_of_tensor_take(t, &in[i], NULL), PL_OK);
    }
    if (pl_dont_care_find(f.model, in, 1, &f.nothing, &err) != PL_OK) fail_msg("%s", err.message);
    for (int i = 0; i < 3; i++)
        pl_datum_unref(in[i]);
    return f;
}

static const pl_ranges *of(const found *f, const char *value) {
    return pl_dont_care_of(&f->nothing, pl_graph_find(f->model->graph, value));
}

static void assert_range(const found *f, const char *value, int64_t from, int64_t to) {
    const pl_ranges *r = of(f, value);
    if (r == NULL || r->n != 1 || r->at[0] != from || r->at[1] != to)
        fail_msg("%s: %zu ranges, the first %lld to %lld", value, r == NULL ? 0 : r->n,
                 r == NULL ? 0 : (long long)r->at[0], r == NULL ? 0 : (long long)r->at[1]);
}

static void release(found *f) {
    pl_dont_care_release(&f->nothing);
    pl_model_free(f->model);
}

static void test_dont_care__nothing_in_full_batches(void **state) {
    (void)state;
    found f = find(MODEL("{2, 2}", "z = Relu(y)"));
    assert_null(f.nothing.of);
    release(&f);
}

static void test_dont_care__padded_rows_and_what_follows(void **state) {
    (void)state;
    found f = find(MODEL("{2, 1}", "z = Relu(y)"));
    assert_range(&f, "y", 40, 48);
    assert_range(&f, "z", 40, 48); /* also where it cuts to 0 */
    const pl_ranges *cache = of(&f, "a");
    assert_non_null(cache);
    assert_int_equal(cache->n, 2); /* the last place of both heads */
    assert_int_equal(pl_ranges_count(cache), 8);
    release(&f);
}

/* 6 rows of 8 of which sequences take `n`. */
static void test_dont_care__rows_behind_the_last_sequence(void **state) {
    (void)state;
#define PAGED(n)                                                                                   \
    "(float[2,3,8] x, float[2,3,8] u, float[2,3,8] w) => (z) <int64[2] s = {6, 8}, int64[4] c = "  \
    "{3, 2, 2, 4}, int32[3] o = {0, 2, " n "}, int32[2] p = {0, 0}, int32[2,2] t = {0, 1, 2, 0}> " \
    "{ q = Reshape(x, s) k = Reshape(u, c) v = Reshape(w, c) y = "                                 \
    "com.microsoft.PagedAttention<num_heads=2, kv_num_heads=2>(q, q, q, k, v, o, p, t) z = "       \
    "Relu(y) }"
    found f = find(PAGED("4"));
    assert_range(&f, "y", 32, 48);
    assert_range(&f, "z", 32, 48);
    release(&f);
    f = find(PAGED("6"));
    assert_null(f.nothing.of);
    release(&f);
}

static void test_dont_care__sums_depend_and_masks_do_not(void **state) {
    (void)state;
    found sum =
        find(MODEL("{2, 1}", "i = Constant<value_ints=[1]>() z = ReduceSum<keepdims=0>(y, i)"));
    assert_range(&sum, "z", 8, 16); /* the sums of the second item */
    found masked =
        find(MODEL("{2, 1}", "m = Constant<value = float[2,3,1] {1,1,1,1,1,0}>() z = Mul(y, m)"));
    assert_range(&masked, "y", 40, 48);
    assert_null(of(&masked, "z"));
    found other = find(MODEL("{2, 1}", "z = Add(q, k)"));
    assert_null(of(&other, "z"));
    release(&sum);
    release(&masked);
    release(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dont_care__nothing_in_full_batches),
        cmocka_unit_test(test_dont_care__padded_rows_and_what_follows),
        cmocka_unit_test(test_dont_care__rows_behind_the_last_sequence),
        cmocka_unit_test(test_dont_care__sums_depend_and_masks_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

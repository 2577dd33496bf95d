/* The predicate of the gate: what passes, what fails, by which rule, and where. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <string.h>

#include "flows/check/accuracy.h"

enum { N = 100 };

static pl_datum *floats(pl_dtype dtype, int64_t n, double base, double error, int64_t at,
                        double there) {
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    assert_int_equal(pl_tensor_new(dtype, 1, &n, &t, NULL), PL_OK);
    for (int64_t i = 0; i < n; i++) {
        double x = base + (double)i / 10 + error * (i % 2 == 0 ? 1 : -1);
        if (i == at) x = there;
        pl_store_f64(dtype, &x, (char *)t->data + (size_t)i * pl_dtype_bytes(dtype), 1);
    }
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    return d;
}

/* Consumes the data. */
static pl_accuracy_check compare_take(const pl_accuracy *a, pl_datum *ref, pl_datum *res,
                                      pl_datum *gold) {
    pl_accuracy_check c;
    assert_int_equal(pl_accuracy_compare(a, ref, res, gold, &c, NULL), PL_OK);
    pl_datum_unref(ref);
    pl_datum_unref(res);
    pl_datum_unref(gold);
    return c;
}

static void test_accuracy__judges_by_gold(void **state) {
    (void)state;
    const struct {
        double ref_error, res_error;
        int64_t at;
        double there;
        bool same;
        const char *rule;
    } rows[] = {
        { 0, 0, -1, 0, true, "exact" },
        { 1e-6, 1e-5, -1, 0, true, "rmse" },     /* within 16 times the reference */
        { 1e-6, 1e-2, -1, 0, false, "rmse" },    /* far beyond */
        { 1e-2, 0, -1, 0, true, "rmse" },        /* better than the reference */
        { 1e-6, 1e-6, 3, 1.301, false, "rmse" }, /* one element, off by 1e-3 */
        { 1e-6, 1e-6, 3, NAN, false, "nonfinite" },
        { 1e-6, 1e-6, 3, INFINITY, false, "nonfinite" },
    };
    pl_accuracy a;
    pl_accuracy_init(&a);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const pl_accuracy_check c =
            compare_take(&a, floats(PL_F32, N, 1, rows[i].ref_error, -1, 0),
                         floats(PL_F32, N, 1, rows[i].res_error, rows[i].at, rows[i].there),
                         floats(PL_F64, N, 1, 0, -1, 0));
        if (c.same != rows[i].same || strcmp(c.rule, rows[i].rule) != 0)
            fail_msg("row %zu: %s by %s: %s", i, c.same ? "same" : "differs", c.rule, c.why);
    }
}

static void test_accuracy__one_outlier_is_not_diluted(void **state) {
    (void)state;
    pl_accuracy a;
    pl_accuracy_init(&a);
    const pl_accuracy_check c =
        compare_take(&a, floats(PL_F32, 100000, 1, 0, -1, 0), floats(PL_F32, 100000, 1, 0, 50, 8.0),
                     floats(PL_F64, 100000, 1, 0, -1, 0));
    assert_false(c.same);
    assert_string_equal(c.rule, "largest");
    /* PyTorch's rule lets it pass. */
    a.profile = PL_PROFILE_TORCH;
    a.same.tol = 0.1;
    const pl_accuracy_check t =
        compare_take(&a, floats(PL_F32, 100000, 1, 0, -1, 0), floats(PL_F32, 100000, 1, 0, 50, 8.0),
                     floats(PL_F64, 100000, 1, 0, -1, 0));
    assert_true(t.same);
}

static void test_accuracy__nan_of_the_reference_alone_is_forgiven(void **state) {
    (void)state;
    pl_accuracy a;
    pl_accuracy_init(&a);
    const pl_accuracy_check c =
        compare_take(&a, floats(PL_F32, N, 1, 0, 4, (double)NAN), floats(PL_F32, N, 1, 0, -1, 0),
                     floats(PL_F64, N, 1, 0, -1, 0));
    assert_true(c.same);
    assert_string_equal(c.rule, "better than the reference");
}

static void test_accuracy__structure_type_and_shape_first(void **state) {
    (void)state;
    pl_accuracy a;
    pl_accuracy_init(&a);
    pl_accuracy_check c =
        compare_take(&a, floats(PL_F32, N, 1, 0, -1, 0), floats(PL_F32, N + 1, 1, 0, -1, 0), NULL);
    assert_false(c.same);
    assert_string_equal(c.rule, "shape");
    c = compare_take(&a, floats(PL_F32, N, 1, 0, -1, 0), floats(PL_F16, N, 1, 0, -1, 0), NULL);
    assert_false(c.same);
    assert_string_equal(c.rule, "dtype");
    a.any_float = true;
    c = compare_take(&a, floats(PL_F32, N, 1, 0, -1, 0), floats(PL_F64, N, 1, 0, -1, 0), NULL);
    assert_true(c.same);
}

static pl_datum *sequence_take(pl_datum *x, pl_datum *y) {
    pl_datum *items[2] = { x, y }, *d = NULL;
    assert_int_equal(
        pl_datum_new_sequence(PL_TYPE_TENSOR, PL_F32, items, y == NULL ? 1 : 2, &d, NULL), PL_OK);
    pl_datum_unref(x);
    pl_datum_unref(y);
    return d;
}

static void test_accuracy__walks_sequences(void **state) {
    (void)state;
    pl_accuracy a;
    pl_accuracy_init(&a);
    pl_accuracy_check c = compare_take(
        &a, sequence_take(floats(PL_F32, N, 1, 0, -1, 0), floats(PL_F32, N, 2, 0, -1, 0)),
        sequence_take(floats(PL_F32, N, 1, 0, -1, 0), floats(PL_F32, N, 2.5, 0, -1, 0)), NULL);
    assert_false(c.same);
    assert_string_equal(c.path, "[1]");
    c = compare_take(&a,
                     sequence_take(floats(PL_F32, N, 1, 0, -1, 0), floats(PL_F32, N, 2, 0, -1, 0)),
                     sequence_take(floats(PL_F32, N, 1, 0, -1, 0), NULL), NULL);
    assert_false(c.same);
    assert_string_equal(c.rule, "structure");
}

static void test_accuracy__integers_count(void **state) {
    (void)state;
    pl_accuracy a;
    pl_accuracy_init(&a);
    pl_accuracy_check c =
        compare_take(&a, floats(PL_I64, N, 1, 0, -1, 0), floats(PL_I64, N, 1, 0, 7, 99), NULL);
    assert_false(c.same);
    /* One code of 8 bits is rounding, when not strict; so is what fp64 rounds differently. */
    c = compare_take(&a, floats(PL_I8, N, 1, 0, -1, 0), floats(PL_I8, N, 1, 0, 7, 1), NULL);
    assert_true(c.same || c.acc.max_abs > 1);
    c = compare_take(&a, floats(PL_I64, N, 1, 0, -1, 0), floats(PL_I64, N, 1, 0, 7, 99),
                     floats(PL_I64, N, 1, 0, 7, 99));
    assert_true(c.same);
    assert_string_equal(c.rule, "fp64 rounds differently");
    a.strict = true;
    c = compare_take(&a, floats(PL_I64, N, 1, 0, -1, 0), floats(PL_I64, N, 1, 0, 7, 99), NULL);
    assert_false(c.same);
    assert_string_equal(c.rule, "equality");
}

static void test_accuracy__only_what_moves_is_excused(void **state) {
    (void)state;
    pl_accuracy a;
    pl_accuracy_init(&a);
    for (int moves = 0; moves < 2; moves++) {
        pl_datum *ref = floats(PL_F32, N, 1, 0, -1, 0), *res = floats(PL_F32, N, 1, 1e-2, -1, 0);
        pl_datum *gold = floats(PL_F64, N, 1, 0, -1, 0);
        pl_datum *moved = floats(PL_F64, N, 1, moves ? 1e-2 : 1e-4, -1, 0);
        pl_accuracy_check c;
        assert_int_equal(pl_accuracy_compare(&a, ref, res, gold, &c, NULL), PL_OK);
        assert_false(c.same);
        assert_int_equal(pl_accuracy_excuse(&a, gold, moved, &c, NULL), PL_OK);
        assert_int_equal(c.same, moves);
        if (moves) assert_string_equal(c.rule, "unstable");
        pl_datum_unref(ref);
        pl_datum_unref(res);
        pl_datum_unref(gold);
        pl_datum_unref(moved);
    }
}

/* The figures are those of an output of size 1. */
static void test_accuracy__figures_of_blame(void **state) {
    (void)state;
    pl_accuracy a;
    pl_accuracy_init(&a);
    pl_accuracy_figures f = { .inherited = true, .error = 0.9e-4, .scale = 1, .relative = 1e-3 };
    assert_false(pl_accuracy_output_fails(&a, &f)); /* below the tolerance */
    f.error = 1.1e-4;
    assert_true(pl_accuracy_output_fails(&a, &f));
    f.error = (double)NAN;
    assert_true(pl_accuracy_output_fails(&a, &f)); /* not known to be small */
    f.inherited = false;
    assert_false(pl_accuracy_output_fails(&a, &f)); /* no further from gold than the reference */
    a.tol = 0.05;
    f.no_gold = true;
    f.relative = 0.06;
    assert_true(pl_accuracy_output_fails(&a, &f));
    f.relative = 0;
    f.nonfinite = true;
    assert_true(pl_accuracy_output_fails(&a, &f));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy__judges_by_gold),
        cmocka_unit_test(test_accuracy__one_outlier_is_not_diluted),
        cmocka_unit_test(test_accuracy__nan_of_the_reference_alone_is_forgiven),
        cmocka_unit_test(test_accuracy__structure_type_and_shape_first),
        cmocka_unit_test(test_accuracy__walks_sequences),
        cmocka_unit_test(test_accuracy__integers_count),
        cmocka_unit_test(test_accuracy__only_what_moves_is_excused),
        cmocka_unit_test(test_accuracy__figures_of_blame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

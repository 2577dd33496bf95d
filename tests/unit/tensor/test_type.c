/* Types and data: text forms, equality, reference counts. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "tensor/datum.h"
#include "tensor/type.h"

static void assert_prints(const pl_type *type, const char *want) {
    pl_buf buf = PL_BUF_INIT;
    pl_type_print(&buf, type);
    assert_string_equal(pl_buf_str(&buf), want);
    pl_buf_release(&buf);
}

static void test_type__prints(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    const pl_dim dims[] = { { -1, "N" }, { 3, NULL }, PL_DIM_UNKNOWN };
    const pl_type *t = pl_type_tensor(arena, PL_F32, 3, dims);
    const pl_type *scalar = pl_type_tensor(arena, PL_I64, 0, NULL);
    const pl_type *unranked = pl_type_tensor_unranked(arena, PL_F16);
    assert_prints(NULL, "?");
    assert_prints(t, "float[N,3,?]");
    assert_prints(scalar, "int64[]");
    assert_prints(unranked, "float16");
    const pl_type *seq = pl_type_of(arena, PL_TYPE_SEQUENCE, t);
    assert_prints(seq, "seq(float[N,3,?])");
    assert_prints(pl_type_of(arena, PL_TYPE_OPTIONAL, seq), "optional(seq(float[N,3,?]))");
    assert_prints(pl_type_of(arena, PL_TYPE_OPTIONAL, NULL), "optional(?)");
    assert_prints(pl_type_of(arena, PL_TYPE_NONE, NULL), "?");
    pl_arena_free(arena);
}

static void test_type__compares(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    char other_n[] = "N";
    const pl_dim a[] = { { -1, "N" }, { 3, NULL } }, b[] = { { -1, other_n }, { 3, NULL } };
    const pl_dim c[] = { { -1, "M" }, { 3, NULL } }, d[] = { PL_DIM_UNKNOWN, { 3, NULL } };
    assert_true(pl_dim_equal(a[0], b[0]));
    assert_false(pl_dim_equal(a[0], c[0]));
    assert_false(pl_dim_equal(d[0], d[0])); /* unknown sizes may differ */
    assert_false(pl_dim_equal(a[0], a[1]));
    const pl_type *ta = pl_type_tensor(arena, PL_F32, 2, a),
                  *tb = pl_type_tensor(arena, PL_F32, 2, b);
    const pl_type *tc = pl_type_tensor(arena, PL_F32, 2, c),
                  *td = pl_type_tensor(arena, PL_F32, 2, d);
    assert_true(pl_type_equal(ta, tb));
    assert_false(pl_type_equal(ta, tc));
    assert_false(pl_type_equal(ta, td));
    assert_true(pl_type_equal(td, pl_type_tensor(arena, PL_F32, 2, d)));
    assert_false(pl_type_equal(ta, pl_type_tensor(arena, PL_F32, 1, a)));
    assert_false(pl_type_equal(ta, pl_type_tensor_unranked(arena, PL_F32)));
    assert_false(pl_type_equal(ta, NULL));
    assert_true(pl_type_equal(NULL, NULL));
    const pl_type *sa = pl_type_of(arena, PL_TYPE_SEQUENCE, ta);
    assert_true(pl_type_equal(sa, pl_type_of(arena, PL_TYPE_SEQUENCE, tb)));
    assert_false(pl_type_equal(sa, pl_type_of(arena, PL_TYPE_SEQUENCE, tc)));
    assert_false(pl_type_equal(sa, pl_type_of(arena, PL_TYPE_OPTIONAL, ta)));
    assert_false(pl_type_equal(sa, pl_type_of(arena, PL_TYPE_SEQUENCE, NULL)));
    pl_arena_free(arena);
}

static void test_type__concrete_needs_every_dim(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    const pl_dim known[] = { { 2, NULL }, { 3, "H" } }, open[] = { { 2, NULL }, { -1, "H" } };
    assert_true(pl_type_is_concrete(pl_type_tensor(arena, PL_F32, 2, known)));
    assert_true(pl_type_is_concrete(pl_type_tensor(arena, PL_F32, 0, NULL)));
    assert_false(pl_type_is_concrete(pl_type_tensor(arena, PL_F32, 2, open)));
    assert_false(pl_type_is_concrete(pl_type_tensor_unranked(arena, PL_F32)));
    assert_false(pl_type_is_concrete(NULL));
    pl_arena_free(arena);
}

static void test_datum__counts_and_describes(void **state) {
    (void)state;
    char text[96];
    pl_tensor *t = NULL;
    pl_datum *d = NULL, *seq = NULL, *opt = NULL, *none = NULL;
    assert_int_equal(pl_tensor_new_zero(PL_F32, 1, (int64_t[]){ 3 }, &t, NULL), PL_OK);
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    pl_datum *items[2] = { d, d };
    assert_int_equal(pl_datum_new_sequence(PL_TYPE_TENSOR, PL_F32, items, 2, &seq, NULL), PL_OK);
    assert_int_equal(pl_datum_new_optional(PL_TYPE_SEQUENCE, PL_F32, seq, &opt, NULL), PL_OK);
    assert_int_equal(pl_datum_new_optional(PL_TYPE_TENSOR, PL_I64, NULL, &none, NULL), PL_OK);
    assert_string_equal(pl_datum_describe(d, text, sizeof text), "float[3]");
    assert_string_equal(pl_datum_describe(seq, text, sizeof text), "seq(float) of 2");
    assert_string_equal(pl_datum_describe(opt, text, sizeof text), "optional(seq(float) of 2)");
    assert_string_equal(pl_datum_describe(none, text, sizeof text), "optional(int64), empty");
    assert_int_equal(pl_datum_bytes(opt), 24);
    assert_int_equal(pl_datum_bytes(none), 0);
    assert_int_equal(d->refs, 3);
    pl_datum_unref(seq);
    pl_datum_unref(opt);
    assert_int_equal(d->refs, 1);
    pl_datum_unref(d);
    pl_datum_unref(none);
    pl_datum_unref(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_type__prints),
        cmocka_unit_test(test_type__compares),
        cmocka_unit_test(test_type__concrete_needs_every_dim),
        cmocka_unit_test(test_datum__counts_and_describes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

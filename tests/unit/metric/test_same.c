/* PyTorch's same(): the 20 worked vectors of pytorch-repro.md 6.7, its options and its quirks; and
 * the plumb rule on what the torch rule lets through. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metric/same.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

#define INF ((double)INFINITY)
#define NOT ((double)NAN)

static pl_tensor *tensor_nd(pl_dtype dtype, int rank, const int64_t *dims) {
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(dtype, rank, dims, &t, NULL), PL_OK);
    return t;
}
/* n elements: the given ones, the last repeated. */
static pl_tensor *tensor(pl_dtype dtype, int64_t n, const double *x, int64_t n_x) {
    pl_tensor *t = tensor_nd(dtype, 1, &n);
    for (int64_t i = 0; i < n; i++)
        pl_store_f64(dtype, &x[i < n_x ? i : n_x - 1],
                     (char *)t->data + (size_t)i * pl_dtype_bytes(dtype), 1);
    return t;
}

typedef struct vector {
    const char *name;
    pl_dtype dtype;
    int64_t n;
    double ref[2], res[2], fp64[2];
    int n_values; /* of each; the last repeated up to n */
    bool no_fp64;
    const char *options;
    bool same;
    pl_same_rule rule;
} vector;

/* clang-format off */
static const vector vectors[] = {
    { "A", PL_F32, 1,     { 1.0 },      { 1.0019 },   { 1.0 },      1, false, "", true,  PL_RULE_ALLCLOSE },
    { "B", PL_F32, 400,   { 0.5 },      { 1.5 },      { 0.5 },      1, false, "", false, PL_RULE_RMSE },
    { "C", PL_F32, 10,    { 0.9 },      { 1.0 },      { 1.0 },      1, false, "", true,  PL_RULE_RMSE },
    { "D", PL_F32, 10,    { 1.004 },    { 1.010 },    { 1.0 },      1, false, "", true,  PL_RULE_RMSE },
    { "E", PL_F32, 1000,  { 1.004 },    { 1.010 },    { 1.0 },      1, false, "", false, PL_RULE_RMSE },
    { "F", PL_F16, 1000,  { 1.004 },    { 1.010 },    { 1.0 },      1, false, "", true,  PL_RULE_RMSE },
    { "G", PL_F32, 10,    { 1.004 },    { 1.014 },    { 1.0 },      1, false,
      "use_larger_multiplier_for_smaller_tensor", true, PL_RULE_RMSE },
    { "H", PL_F32, 10,    { 1.004 },    { 1.014 },    { 1.0 },      1, false, "", false, PL_RULE_RMSE },
    { "I", PL_F32, 2,     { NOT, 1 },   { NOT, 1 },   { NOT, 1 },   2, false, "", true,  PL_RULE_ALLCLOSE },
    { "J", PL_F32, 2,     { NOT, 1 },   { NOT, 5 },   { NOT, 1 },   2, false, "", true,  PL_RULE_BOTH_NAN },
    { "K", PL_F32, 2,     { NOT, 1 },   { 1, 1 },     { 1, 1 },     2, false, "", true,  PL_RULE_NAN_RESCUE },
    { "L", PL_F32, 2,     { 1, 1 },     { NOT, 1 },   { 1, 1 },     2, false, "", false, PL_RULE_RMSE },
    { "M", PL_F32, 2,     { INF, 1 },   { INF, 5 },   { INF, 1 },   2, false, "", true,  PL_RULE_BOTH_NAN },
    { "N", PL_F32, 1,     { INF },      { -INF },     { INF },      1, false, "", false, PL_RULE_RMSE },
    { "O", PL_F32, 1,     { 1 },        { 5 },        { 0 },        1, true,  "ignore_non_fp=1", true, PL_RULE_NON_FP },
    { "P", PL_F32, 1,     { 1 },        { 5 },        { 0 },        1, true,  "", false, PL_RULE_ALLCLOSE },
    { "R", PL_F32, 10,    { 1e-5 },     { 5e-4 },     { 1e-5 },     1, false, "", true,  PL_RULE_ALLCLOSE },
    { "S", PL_F32, 10000, { 0, 0 },     { 0.009, 0 }, { 0, 0 },     2, false, "", true,  PL_RULE_RMSE },
    { "T", PL_F32, 1,     { 1 },        { INF },      { 1 },        1, false, "", false, PL_RULE_RMSE },
};
/* clang-format on */

static pl_same_result run(const pl_tensor *ref, const pl_tensor *res, const pl_tensor *fp64,
                          const char *options) {
    plumb_same_options o;
    pl_same_result out;
    pl_err err = PL_ERR_INIT;
    pl_same_options_init(&o);
    if (pl_same_options_parse(options, &o, &err) != PL_OK) fail_msg("%s", err.message);
    if (pl_same_tensor(ref, res, fp64, &o, &out, &err) != PL_OK) fail_msg("%s", err.message);
    return out;
}

static void test_same__decides_the_worked_vectors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const vector *v = &vectors[i];
        pl_tensor *ref = tensor(v->dtype, v->n, v->ref, v->n_values);
        pl_tensor *res = tensor(v->dtype, v->n, v->res, v->n_values);
        pl_tensor *fp64 = tensor(PL_F64, v->n, v->fp64, v->n_values);
        const pl_same_result got = run(ref, res, v->no_fp64 ? NULL : fp64, v->options);
        if ((got.verdict == PL_SAME_YES) != v->same || got.rule != v->rule)
            fail_msg("vector %s: verdict %d by %s (%s)", v->name, (int)got.verdict,
                     pl_same_rule_name(got.rule), got.why);
        pl_tensor_unref(ref);
        pl_tensor_unref(res);
        pl_tensor_unref(fp64);
    }
}

/* Q: as E with 4096 elements, shape 64x64x1x1. */
static void test_same__pooled_features_get_multiplier_3(void **state) {
    (void)state;
    const int64_t dims[] = { 64, 64, 1, 1 }, flat[] = { 64, 64, 2, 1 };
    for (int k = 0; k < 2; k++) {
        pl_tensor *ref = tensor_nd(PL_F32, 4, k == 0 ? dims : flat);
        pl_tensor *res = tensor_nd(PL_F32, 4, k == 0 ? dims : flat);
        pl_tensor *fp64 = tensor_nd(PL_F64, 4, k == 0 ? dims : flat);
        for (int64_t i = 0; i < ref->n_elements; i++) {
            ((pl_f32 *)ref->data)[i] = 1.004f;
            ((pl_f32 *)res->data)[i] = 1.010f;
            ((pl_f64 *)fp64->data)[i] = 1;
        }
        const pl_same_result got = run(ref, res, fp64, "");
        assert_int_equal(got.verdict, k == 0 ? PL_SAME_YES : PL_SAME_NO);
        assert_true(got.multiplier == (k == 0 ? 3 : 2));
        pl_tensor_unref(ref);
        pl_tensor_unref(res);
        pl_tensor_unref(fp64);
    }
}

/* The figures printed in 6.7. */
static void test_same__reports_the_errors(void **state) {
    (void)state;
    const double a = 1.004, b = 1.014, g = 1;
    pl_tensor *ref = tensor(PL_F32, 10, &a, 1), *res = tensor(PL_F32, 10, &b, 1),
              *fp64 = tensor(PL_F64, 10, &g, 1);
    pl_same_result got = run(ref, res, fp64, "");
    assert_true(fabs(got.res_error - 0.014) < 1e-7 && fabs(got.ref_error - 0.004) < 1e-7);
    assert_true(got.multiplier == 3);
    assert_non_null(strstr(got.why, "0.01400"));
    got = run(ref, res, fp64, "force_max_multiplier=1");
    assert_true(got.verdict == PL_SAME_YES && got.multiplier == 10);
    got = run(ref, res, fp64, "tol=0.02");
    assert_int_equal(got.rule, PL_RULE_ALLCLOSE);
    pl_tensor_unref(ref);
    pl_tensor_unref(res);
    pl_tensor_unref(fp64);
}

static pl_same_result values(pl_dtype t, double a, double b, const char *options) {
    pl_tensor *ref = tensor(t, 1, &a, 1), *res = tensor(t, 1, &b, 1);
    const pl_same_result got = run(ref, res, NULL, options);
    pl_tensor_unref(ref);
    pl_tensor_unref(res);
    return got;
}

static void test_same__integers_have_a_relative_tolerance(void **state) {
    (void)state; /* N2: at tol 1e-3, 1000 and 1001 are "same", 1000 and 1003 are not */
    assert_int_equal(values(PL_I64, 1000, 1001, "").verdict, PL_SAME_YES);
    assert_int_equal(values(PL_I64, 999, 1000, "").verdict, PL_SAME_YES);
    assert_int_equal(values(PL_I64, 1000, 1003, "").verdict, PL_SAME_NO);
    assert_int_equal(values(PL_I64, 1000, 1001, "tol=0").verdict, PL_SAME_NO);
    assert_int_equal(values(PL_I64, 1000, 1003, "ignore_non_fp").verdict, PL_SAME_YES);
    assert_int_equal(values(PL_U64, 3, 3, "tol=0").verdict, PL_SAME_YES);
}

static void test_same__fp64_model_is_its_own_reference(void **state) {
    (void)state; /* N4: ref stands in for fp64, ref_error 0, bound tol / 10 */
    pl_same_result got = values(PL_F64, 1, 1.01, "");
    assert_true(got.verdict == PL_SAME_NO && got.rule == PL_RULE_RMSE && got.ref_error == 0);
    got = values(PL_F64, 1, 1.01, "ignore_non_fp"); /* T10 comes before T11 */
    assert_int_equal(got.verdict, PL_SAME_NO);
}

static void test_same__zero_tolerance_is_equality(void **state) {
    (void)state;
    assert_int_equal(values(PL_F32, 1, 1 + 0x1p-23, "tol=0").verdict, PL_SAME_NO);
    assert_int_equal(values(PL_F32, 0.0, -0.0, "tol=0").verdict, PL_SAME_YES);
    assert_int_equal(values(PL_F32, INF, INF, "tol=0").verdict, PL_SAME_YES);
    assert_int_equal(values(PL_F32, NOT, NOT, "tol=0").verdict, PL_SAME_YES);
    assert_int_equal(values(PL_F32, NOT, NOT, "equal_nan=0").verdict, PL_SAME_NO);
}

static void test_same__bools(void **state) {
    (void)state;
    const double a[] = { 1, 1, 1, 0 }, b[] = { 1, 1, 0, 0 }, z[] = { 0, 0, 0, 0 };
    pl_tensor *x = tensor(PL_BOOL, 4, a, 4), *y = tensor(PL_BOOL, 4, b, 4),
              *none = tensor(PL_BOOL, 4, z, 4);
    assert_int_equal(run(x, y, NULL, "").verdict, PL_SAME_NO);
    assert_int_equal(run(x, y, NULL, "").rule, PL_RULE_BOOL);
    assert_int_equal(run(x, x, NULL, "").verdict, PL_SAME_YES);
    assert_int_equal(run(x, y, NULL, "ignore_non_fp").verdict, PL_SAME_YES);
    assert_int_equal(run(x, y, NULL, "use_iou_for_bool").verdict, PL_SAME_NO); /* 2/3 */
    assert_int_equal(run(x, y, NULL, "use_iou_for_bool,iou_threshold=0.6").verdict, PL_SAME_YES);
    assert_int_equal(run(none, none, NULL, "use_iou_for_bool").verdict, PL_SAME_YES);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    pl_tensor_unref(none);
}

static void test_same__dtypes(void **state) {
    (void)state;
    const double v = 1;
    pl_tensor *f = tensor(PL_F32, 3, &v, 1), *h = tensor(PL_F16, 3, &v, 1);
    assert_int_equal(run(f, h, NULL, "").verdict, PL_SAME_NO);
    assert_int_equal(run(f, h, NULL, "").rule, PL_RULE_DTYPE);
    assert_int_equal(run(f, h, NULL, "exact_dtype=0").verdict, PL_SAME_YES);
    pl_tensor_unref(f);
    pl_tensor_unref(h);
}

static void test_same__broadcasts_as_allclose_does(void **state) {
    (void)state; /* shapes are never compared: () and (1,3) pass against (3,); (2,) raises */
    const double v = 1;
    const int64_t d13[] = { 1, 3 };
    pl_tensor *three = tensor(PL_F32, 3, &v, 1), *two = tensor(PL_F32, 2, &v, 1), *scalar = NULL,
              *row = NULL, *empty = tensor(PL_F32, 0, &v, 1);
    assert_int_equal(pl_tensor_new(PL_F32, 0, NULL, &scalar, NULL), PL_OK);
    *(pl_f32 *)scalar->data = 1;
    assert_int_equal(pl_tensor_reshape(three, 2, d13, &row, NULL), PL_OK);
    assert_int_equal(run(three, row, NULL, "").verdict, PL_SAME_YES);
    assert_int_equal(run(three, scalar, NULL, "").verdict, PL_SAME_YES);
    assert_int_equal(run(scalar, three, NULL, "").verdict, PL_SAME_YES);
    assert_int_equal(run(three, two, NULL, "").verdict, PL_SAME_RAISES);
    assert_int_equal(run(empty, empty, NULL, "").verdict, PL_SAME_YES); /* N5 */
    const pl_plumb_rule rule = { 1e-3, 1e-3, NULL, NULL };
    pl_same_result got;
    assert_int_equal(pl_same_plumb(three, row, &rule, &got, NULL), PL_OK);
    assert_true(got.verdict == PL_SAME_NO && got.rule == PL_RULE_STRUCTURE);
    pl_tensor_unref(empty);
    pl_tensor_unref(row);
    pl_tensor_unref(scalar);
    pl_tensor_unref(two);
    pl_tensor_unref(three);
}

static void test_same__cosine_mode(void **state) {
    (void)state;
    const double a[] = { 1, 2, 3 }, b[] = { 10, 20, 30 }, c[] = { -3, 2, 1 };
    pl_tensor *x = tensor(PL_F32, 3, a, 3), *y = tensor(PL_F32, 3, b, 3),
              *z = tensor(PL_F32, 3, c, 3);
    assert_int_equal(run(x, y, NULL, "cos_similarity").verdict, PL_SAME_YES);
    assert_int_equal(run(x, z, NULL, "cos_similarity").verdict, PL_SAME_NO);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    pl_tensor_unref(z);
}

/* torch.isclose in f16: 2048 + 2 is the next value; allowed = 0.001 + 2.05 rounds to 2.05. */
static void test_same__half_precision_rounds_each_step(void **state) {
    (void)state;
    assert_int_equal(values(PL_F16, 2048, 2050, "").verdict, PL_SAME_YES);
    assert_int_equal(values(PL_F16, 2048, 2052, "").verdict, PL_SAME_NO);
    assert_int_equal(values(PL_F16, 65504, -65504, "").verdict, PL_SAME_NO); /* overflows to Inf */
}

/* ---- sequences, optionals, dictionaries ---- */
static pl_datum *datum(double v) {
    pl_datum *d = NULL;
    assert_int_equal(pl_datum_of_tensor_take(tensor(PL_F32, 2, &v, 1), &d, NULL), PL_OK);
    return d;
}
static pl_datum *sequence(pl_datum *a, pl_datum *b, pl_type_kind kind) { /* takes its items */
    pl_datum *items[2] = { a, b }, *s = NULL;
    assert_int_equal(pl_datum_new_sequence(kind, PL_F32, items, b == NULL ? 1 : 2, &s, NULL),
                     PL_OK);
    pl_datum_unref(a);
    pl_datum_unref(b);
    return s;
}

static void test_same__walks_sequences_with_a_path(void **state) {
    (void)state;
    plumb_same_options o;
    pl_same_result out;
    pl_same_options_init(&o);
    pl_datum *ref = sequence(sequence(datum(1), datum(2), PL_TYPE_TENSOR),
                             sequence(datum(3), datum(4), PL_TYPE_TENSOR), PL_TYPE_SEQUENCE);
    pl_datum *res = sequence(sequence(datum(1), datum(2), PL_TYPE_TENSOR),
                             sequence(datum(9), datum(4), PL_TYPE_TENSOR), PL_TYPE_SEQUENCE);
    pl_datum *shorter = sequence(sequence(datum(1), datum(2), PL_TYPE_TENSOR),
                                 sequence(datum(3), NULL, PL_TYPE_TENSOR), PL_TYPE_SEQUENCE);
    assert_int_equal(pl_same(ref, ref, NULL, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_YES);
    assert_int_equal(pl_same(ref, res, NULL, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_NO);
    assert_string_equal(out.path, "[1][0]");
    assert_int_equal(pl_same(ref, shorter, NULL, &o, &out, NULL), PL_OK);
    assert_true(out.verdict == PL_SAME_NO && out.rule == PL_RULE_STRUCTURE);
    assert_string_equal(out.path, "[1]");
    const pl_plumb_rule rule = { 1e-3, 1e-3, NULL, NULL };
    assert_int_equal(pl_same_plumb_datum(ref, res, &rule, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_NO);
    assert_string_equal(out.path, "[1][0]");

    pl_datum *tensor_datum = datum(1), *none = NULL, *some = NULL;
    assert_int_equal(pl_same(ref, tensor_datum, NULL, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_RAISES);
    assert_int_equal(pl_datum_new_optional(PL_TYPE_TENSOR, PL_F32, NULL, &none, NULL), PL_OK);
    assert_int_equal(pl_datum_new_optional(PL_TYPE_TENSOR, PL_F32, tensor_datum, &some, NULL),
                     PL_OK);
    assert_int_equal(pl_same(none, none, NULL, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_YES);
    assert_int_equal(pl_same(none, tensor_datum, NULL, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_NO);
    assert_int_equal(pl_same(tensor_datum, none, NULL, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_RAISES);
    assert_int_equal(pl_same(some, tensor_datum, NULL, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_YES);

    const pl_same_entry a[] = { { "y", ref }, { "x", tensor_datum } },
                        b[] = { { "x", tensor_datum }, { "y", res } }, c[] = { { "x", ref } };
    assert_int_equal(pl_same_dict(a, 2, b, 2, NULL, 0, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_NO);
    assert_string_equal(out.path, "['y'][1][0]");
    assert_int_equal(pl_same_dict(a, 2, a, 2, a, 2, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_YES);
    assert_int_equal(pl_same_dict(a, 2, c, 1, NULL, 0, &o, &out, NULL), PL_OK);
    assert_int_equal(out.verdict, PL_SAME_RAISES);

    pl_datum_unref(some);
    pl_datum_unref(none);
    pl_datum_unref(tensor_datum);
    pl_datum_unref(shorter);
    pl_datum_unref(res);
    pl_datum_unref(ref);
}

static void test_same__parses_options(void **state) {
    (void)state;
    plumb_same_options o;
    pl_err err = PL_ERR_INIT;
    pl_same_options_init(&o);
    assert_int_equal(pl_same_options_parse("tol=1e-4,equal_nan=0,cos_similarity", &o, &err), PL_OK);
    assert_true(o.tol == 1e-4 && o.equal_nan == 0 && o.cos_similarity == 1 && o.exact_dtype == 1);
    static const char *const bad[] = { "tool=1", "tol=x",     "tol=-1", "tol=nan",
                                       "tol",    "tol=",      "=1",     "equal_nan=2",
                                       ",",      "tol=1e-3x", "tol=1=2" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const plumb_same_options before = o;
        assert_int_equal(pl_same_options_parse(bad[i], &o, &err), PL_E_USAGE);
        assert_memory_equal(&o, &before, sizeof o);
    }
    assert_int_equal(pl_same_options_parse("", &o, &err), PL_OK);
}

/* ---- the plumb rule ---- */
static void test_same__plumb_rule_sees_what_torch_misses(void **state) {
    (void)state;
    static const char misses[] = "JMS";
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const vector *v = &vectors[i];
        if (strchr(misses, v->name[0]) == NULL) continue;
        pl_tensor *ref = tensor(v->dtype, v->n, v->ref, v->n_values);
        pl_tensor *res = tensor(v->dtype, v->n, v->res, v->n_values);
        const pl_plumb_rule rule = { 1e-3, 1e-3, NULL, NULL };
        pl_same_result got;
        assert_int_equal(pl_same_plumb(ref, res, &rule, &got, NULL), PL_OK);
        assert_true(got.verdict == PL_SAME_NO && got.rule == PL_RULE_BOUND);
        assert_int_equal(got.index, v->name[0] == 'S' ? 0 : 1);
        pl_tensor_unref(ref);
        pl_tensor_unref(res);
    }
    const double a[] = { 1, NOT }, b[] = { NOT, 1 };
    pl_tensor *x = tensor(PL_F32, 2, a, 2), *y = tensor(PL_F32, 2, b, 2);
    const pl_plumb_rule rule = { 1e-3, 1e-3, NULL, NULL };
    pl_same_result got;
    assert_int_equal(pl_same_plumb(x, y, &rule, &got, NULL), PL_OK);
    assert_true(got.rule == PL_RULE_NONFINITE && got.index == 0);
    assert_int_equal(pl_same_plumb(x, x, &rule, &got, NULL), PL_OK);
    assert_int_equal(got.verdict, PL_SAME_YES);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
}

static void bounds(void *ctx, int64_t begin, size_t n, double *out) {
    const double *e = ctx;
    for (size_t i = 0; i < n; i++)
        out[i] = begin + (int64_t)i == 600 ? e[0] : e[1];
}

static void test_same__plumb_rule_takes_bounds(void **state) {
    (void)state;
    const double one = 1, two = 1.5;
    pl_tensor *ref = tensor(PL_F32, 1000, &one, 1), *res = tensor(PL_F32, 1000, &two, 1);
    double e[] = { 0.5, 0.5 };
    const pl_plumb_rule rule = { 0, 0, bounds, e };
    pl_same_result got;
    assert_int_equal(pl_same_plumb(ref, res, &rule, &got, NULL), PL_OK);
    assert_true(got.verdict == PL_SAME_YES && got.worst == 1 && got.res_error == 0.5);
    e[0] = 0.25;
    assert_int_equal(pl_same_plumb(ref, res, &rule, &got, NULL), PL_OK);
    assert_true(got.verdict == PL_SAME_NO && got.worst == 2 && got.index == 600);
    e[0] = NOT;
    assert_int_equal(pl_same_plumb(ref, res, &rule, &got, NULL), PL_OK);
    assert_true(got.verdict == PL_SAME_NO && got.index == 600);
    pl_tensor_unref(ref);
    pl_tensor_unref(res);
}

static void test_same__public_functions(void **state) {
    (void)state;
    const float a[] = { 1, 2 }, b[] = { 1, 3 };
    const int64_t n = 2, one = 1;
    plumb_tensor *x = NULL, *y = NULL, *z = NULL;
    assert_int_equal(plumb_tensor_new(PLUMB_FLOAT, 1, &n, a, sizeof a, &x, NULL), PLUMB_OK);
    assert_int_equal(plumb_tensor_new(PLUMB_FLOAT, 1, &n, b, sizeof b, &y, NULL), PLUMB_OK);
    assert_int_equal(plumb_tensor_new(PLUMB_FLOAT, 1, &one, b, 4, &z, NULL), PLUMB_OK);
    plumb_same_result r = { .size = sizeof(r) };
    assert_int_equal(plumb_same(x, y, NULL, NULL, &r, NULL), PLUMB_OK);
    assert_int_equal(r.same, 0);
    assert_string_equal(r.rule, "allclose");
    double values_[32];
    plumb_pair_class c;
    assert_true(plumb_metric_count() <= 32);
    assert_int_equal(plumb_measure(x, y, values_, &c, NULL), PLUMB_OK);
    assert_true(c == PLUMB_PAIR_FINITE && fabs(values_[0] - 10 * log10(18)) < 1e-12);
    assert_string_equal(plumb_metric_name(0), "psnr");
    assert_null(plumb_metric_name(plumb_metric_count()));
    assert_int_equal(plumb_measure(x, z, values_, &c, NULL), PLUMB_OK);
    assert_int_equal(c, PLUMB_PAIR_STRUCTURAL);
    plumb_tensor_free(x);
    plumb_tensor_free(y);
    plumb_tensor_free(z);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same__decides_the_worked_vectors),
        cmocka_unit_test(test_same__pooled_features_get_multiplier_3),
        cmocka_unit_test(test_same__reports_the_errors),
        cmocka_unit_test(test_same__integers_have_a_relative_tolerance),
        cmocka_unit_test(test_same__fp64_model_is_its_own_reference),
        cmocka_unit_test(test_same__zero_tolerance_is_equality),
        cmocka_unit_test(test_same__bools),
        cmocka_unit_test(test_same__dtypes),
        cmocka_unit_test(test_same__broadcasts_as_allclose_does),
        cmocka_unit_test(test_same__cosine_mode),
        cmocka_unit_test(test_same__half_precision_rounds_each_step),
        cmocka_unit_test(test_same__walks_sequences_with_a_path),
        cmocka_unit_test(test_same__parses_options),
        cmocka_unit_test(test_same__plumb_rule_sees_what_torch_misses),
        cmocka_unit_test(test_same__plumb_rule_takes_bounds),
        cmocka_unit_test(test_same__public_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

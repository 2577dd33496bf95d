/* The verdict on one pair, the user's limits, effective precision, baselines. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "metric/same.h"
#include "pair/effective.h"
#include "session/baseline.h"
#include "session/judge.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static pl_tensor *tensor_of(pl_dtype dtype, const double *x, int64_t n) {
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(dtype, 1, &n, &t, NULL), PL_OK);
    pl_store_f64(dtype, x, t->data, (size_t)n);
    return t;
}

static pl_judge judge_by(double tol) {
    pl_judge j = { .tol = tol, .metric = pl_metric_find("psnr") };
    pl_same_options_init(&j.same);
    return j;
}

static pl_judged judged_as(const pl_judge *j, const pl_judge_pair *pair, const double *a,
                           const double *r, int64_t n) {
    pl_tensor *ta = tensor_of(pair->dtype, a, n), *tr = tensor_of(pair->dtype, r, n);
    pl_judged out;
    assert_int_equal(pl_judge_tensors(j, NULL, pair, ta, tr, &out, NULL), PL_OK);
    pl_tensor_unref(ta);
    pl_tensor_unref(tr);
    return out;
}

static pl_judged judged(const pl_judge *j, pl_dtype dtype, const double *a, const double *r,
                        int64_t n) {
    const pl_judge_pair pair = {
        .value = "v", .op = "Conv", .dtype = dtype, .precision = pl_precision_of(dtype, dtype)
    };
    return judged_as(j, &pair, a, r, n);
}

/* r = {3, 4}: rms is sqrt(12.5) = 3.5355. The second element may be off by tol * 7.5355. */
static void test_judge__every_element_has_its_tolerance(void **state) {
    const pl_judge j = judge_by(0.1);
    const double r[] = { 3, 4 }, in[] = { 3, 4.75 }, out[] = { 3, 4.76 }, big[] = { 3, 40 };
    (void)state;
    assert_int_equal(judged(&j, PL_F64, r, r, 2).verdict, PL_VERDICT_SAME);
    assert_int_equal(judged(&j, PL_F64, in, r, 2).verdict, PL_VERDICT_WITHIN);
    const pl_judged bad = judged(&j, PL_F64, out, r, 2);
    assert_int_equal(bad.verdict, PL_VERDICT_MISMATCH);
    assert_non_null(strstr(bad.reason, "element 1 is 4.76, expected 4: 1.01 times"));
    assert_int_equal(judged(&j, PL_F64, big, r, 2).verdict, PL_VERDICT_MISMATCH);
}

/* One element of 100000 that is off must not drown in the others. */
static void test_judge__one_outlier_is_enough(void **state) {
    enum { N = 100000 };
    const pl_judge j = judge_by((double)NAN);
    double *a = pl_calloc(N, sizeof *a), *r = pl_calloc(N, sizeof *r);
    (void)state;
    for (int i = 0; i < N; i++)
        a[i] = r[i] = 1 + i % 7;
    a[77777] += 0.05;
    const pl_judged bad = judged(&j, PL_F32, a, r, N);
    assert_int_equal(bad.verdict, PL_VERDICT_MISMATCH);
    assert_non_null(strstr(bad.reason, "element 77777"));
    assert_int_equal(bad.colour, PL_YELLOW); /* 92 dB: the mean hides it */
    pl_free(a);
    pl_free(r);
}

static void test_judge__integers_are_exact(void **state) {
    const pl_judge j = judge_by((double)NAN), one_code = judge_by(1);
    const double r[] = { 1, 2 }, one[] = { 1, 3 };
    (void)state;
    assert_int_equal(judged(&j, PL_I64, one, r, 2).verdict, PL_VERDICT_MISMATCH);
    assert_int_equal(judged(&j, PL_BOOL, one, r, 2).verdict, PL_VERDICT_SAME); /* 2 is true */
    const pl_judged bad = judged(&j, PL_U8, one, r, 2);
    assert_int_equal(bad.verdict, PL_VERDICT_MISMATCH);
    assert_non_null(strstr(bad.reason, "option 'tol' of 1 accepts one code"));
    assert_int_equal(judged(&one_code, PL_U8, one, r, 2).verdict, PL_VERDICT_WITHIN);
}

/* Rounding moves a code here and there, by one. */
static void test_judge__codes_may_flip_where_reals_were_rounded(void **state) {
    const pl_judge j = judge_by((double)NAN);
    const pl_judge_pair pair = {
        .value = "v", .op = "", .dtype = PL_U8, .precision = PL_PRECISION_INT8, .rounded = true
    };
    const double r[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    double one[8], two[8], all[8];
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        one[i] = r[i] + (i == 3);
        two[i] = r[i] + (i == 3 ? 2 : 0);
        all[i] = r[i] + 1; /* a zero point that is off */
    }
    assert_int_equal(judged_as(&j, &pair, one, r, 8).verdict, PL_VERDICT_WITHIN);
    assert_int_equal(judged_as(&j, &pair, two, r, 8).verdict, PL_VERDICT_MISMATCH);
    assert_int_equal(judged_as(&j, &pair, all, r, 8).verdict, PL_VERDICT_MISMATCH);
}

/* Floats behind codes: in units of their step where it is known; one factor is never a flip. */
static void test_judge__floats_behind_codes(void **state) {
    const pl_judge j = judge_by((double)NAN);
    pl_judge_pair pair = {
        .value = "v", .op = "", .dtype = PL_F32, .precision = PL_PRECISION_INT8
    };
    const double r[8] = { -2, 1.5, 0.5, -1, 2, -0.5, 1, -1.5 };
    double flip[8], scaled[8], outlier[8];
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        flip[i] = r[i] + (i == 2 ? 0.05 : 0);
        outlier[i] = r[i] + (i == 2 ? 0.5 : 0);
        scaled[i] = 1.05 * r[i];
    }
    assert_int_equal(judged_as(&j, &pair, flip, r, 8).verdict, PL_VERDICT_WITHIN);
    assert_int_equal(judged_as(&j, &pair, scaled, r, 8).verdict, PL_VERDICT_MISMATCH);
    assert_int_equal(judged_as(&j, &pair, outlier, r, 8).verdict, PL_VERDICT_WITHIN);
    pair.step = 0.05;
    assert_int_equal(judged_as(&j, &pair, flip, r, 8).verdict, PL_VERDICT_WITHIN);
    const pl_judged bad = judged_as(&j, &pair, outlier, r, 8);
    assert_int_equal(bad.verdict, PL_VERDICT_MISMATCH);
    assert_non_null(strstr(bad.reason, "off by 10 steps of 0.05"));
}

static void test_judge__non_finite_on_one_side_fails(void **state) {
    const pl_judge j = judge_by(1e9);
    const double inf = (double)INFINITY, nan = (double)NAN;
    const double a[] = { 1, nan }, b[] = { 1, 2 }, c[] = { 1, inf }, d[] = { 1, -inf };
    (void)state;
    assert_int_equal(judged(&j, PL_F32, a, b, 2).verdict, PL_VERDICT_MISMATCH);
    assert_int_equal(judged(&j, PL_F32, b, c, 2).verdict, PL_VERDICT_MISMATCH);
    assert_int_equal(judged(&j, PL_F32, c, d, 2).verdict, PL_VERDICT_MISMATCH);
    assert_int_equal(judged(&j, PL_F32, a, a, 2).verdict, PL_VERDICT_SAME);
    assert_int_equal(judged(&j, PL_F32, c, c, 2).verdict, PL_VERDICT_SAME);
}

static void test_judge__zero_reference_is_measured_absolutely(void **state) {
    const pl_judge j = judge_by((double)NAN);
    const double zero[] = { 0, 0 }, near[] = { 1e-4, 0 }, far[] = { 1e-2, 0 };
    (void)state;
    assert_int_equal(judged(&j, PL_F32, near, zero, 2).verdict, PL_VERDICT_WITHIN);
    assert_int_equal(judged(&j, PL_F32, far, zero, 2).verdict, PL_VERDICT_MISMATCH);
}

static void test_judge__torch_profile_is_torch(void **state) {
    pl_judge j = judge_by((double)NAN);
    const double r[] = { 1, 1 }, a[] = { 1.0015, 1 };
    (void)state;
    j.profile = PL_PROFILE_TORCH;
    assert_int_equal(judged(&j, PL_F32, a, r, 2).verdict, PL_VERDICT_WITHIN); /* 1e-3 + 1e-3 |r| */
    j.same.tol = 1e-4;
    assert_int_equal(judged(&j, PL_F32, a, r, 2).verdict, PL_VERDICT_MISMATCH);
}

static void test_limits__first_row_that_fits_wins(void **state) {
    static const char text[] = "{\"limits\":[{\"op\":\"Gemm\",\"green\":1,\"yellow\":0},"
                               "{\"value\":\"^v$\",\"dtype\":\"float\",\"green\":20,\"yellow\":10},"
                               "{\"precision\":\"fp32\",\"green\":200,\"yellow\":150},"
                               "{\"metric\":\"mae\",\"green\":1,\"yellow\":2}]}";
    const double r[] = { 1, 1 }, a[] = { 1.1, 1 };
    pl_judge j = judge_by((double)NAN);
    pl_limits *limits = NULL;
    pl_limits_match m;
    (void)state;
    assert_int_equal(pl_limits_read(text, sizeof text - 1, "d/l.json", &limits, NULL), PL_OK);
    j.limits = limits;
    const pl_judged out = judged(&j, PL_F32, a, r, 2); /* 23 dB */
    assert_int_equal(out.colour, PL_GREEN);
    assert_string_equal(out.limits_from, "l.json row 2");
    assert_true(out.limits.green == 20);
    assert_true(pl_limits_find(limits, "psnr", "w", "Conv", PL_F32, PL_PRECISION_F32, &m));
    assert_string_equal(m.from, "l.json row 3");
    assert_true(pl_limits_find(limits, "mae", "w", "Conv", PL_F16, PL_PRECISION_F16, &m));
    assert_false(pl_limits_find(limits, "psnr", "w", "Conv", PL_F16, PL_PRECISION_F16, &m));
    pl_limits_free(limits);
}

static void test_precision__coarser_one_counts_but_exact_stays(void **state) {
    (void)state;
    assert_int_equal(pl_precision_coarser(PL_PRECISION_F32, PL_PRECISION_INT8), PL_PRECISION_INT8);
    assert_int_equal(pl_precision_coarser(PL_PRECISION_INT8, PL_PRECISION_F32), PL_PRECISION_INT8);
    assert_int_equal(pl_precision_coarser(PL_PRECISION_EXACT, PL_PRECISION_INT8),
                     PL_PRECISION_EXACT);
    assert_int_equal(pl_precision_coarser(PL_PRECISION_F32, PL_PRECISION_F64), PL_PRECISION_F32);
}

static pl_session *session_of(const char *value, const double *a, const double *r, int64_t n) {
    const pl_judge j = judge_by((double)NAN);
    pl_session *s = NULL;
    assert_int_equal(pl_session_new(&s, NULL), PL_OK);
    s->points = pl_arena_alloc(s->arena, sizeof *s->points);
    s->n_points = 1;
    pl_sync_point_init(s->points);
    const pl_judged out = judged(&j, PL_F32, a, r, n);
    s->points->value = value;
    s->points->measured = true;
    s->points->acc = out.acc;
    s->points->pair_class = out.pair_class;
    s->points->verdict = out.verdict;
    return s;
}

static void test_baseline__accepts_what_it_knows_and_no_more(void **state) {
    const double r[] = { 1, 1 }, known[] = { 1.1, 1 }, worse[] = { 1.3, 1 }, nan[] = { NAN, 1 };
    const struct {
        const char *value;
        const double *a;
        bool accepted;
    } cases[] = {
        { "v", known, true }, { "w", known, false }, { "v", worse, false }, { "v", nan, false }
    };
    pl_session *s = session_of("v", known, r, 2);
    pl_buf text = PL_BUF_INIT;
    pl_baseline *base = NULL;
    size_t n_unused;
    (void)state;
    pl_baseline_put(s, &text);
    pl_session_free(s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(pl_baseline_read(text.data, text.n_bytes, "b", &base, NULL), PL_OK);
        s = session_of(cases[i].value, cases[i].a, r, 2);
        assert_int_equal(pl_baseline_apply(base, s, &n_unused, NULL), PL_OK);
        assert_int_equal(s->points->accepted, cases[i].accepted);
        assert_int_equal(n_unused, strcmp(cases[i].value, "v") == 0 ? 0 : 1);
        pl_session_free(s);
        pl_baseline_free(base);
    }
    pl_buf_release(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judge__every_element_has_its_tolerance),
        cmocka_unit_test(test_judge__one_outlier_is_enough),
        cmocka_unit_test(test_judge__integers_are_exact),
        cmocka_unit_test(test_judge__codes_may_flip_where_reals_were_rounded),
        cmocka_unit_test(test_judge__floats_behind_codes),
        cmocka_unit_test(test_judge__non_finite_on_one_side_fails),
        cmocka_unit_test(test_judge__zero_reference_is_measured_absolutely),
        cmocka_unit_test(test_judge__torch_profile_is_torch),
        cmocka_unit_test(test_limits__first_row_that_fits_wins),
        cmocka_unit_test(test_precision__coarser_one_counts_but_exact_stays),
        cmocka_unit_test(test_baseline__accepts_what_it_knows_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

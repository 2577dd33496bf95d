/* The third check of the gate: an output that passes by its rms is held to the bound of each
 * element when one of them looks coarse. */
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
#include "graph/text/text.h"
#include "ops/infer.h"

enum { N = 64, SMALL = 50 };

static const char product[] = "(float[64] x) => (y) <float k = {3}> { y = Mul(x, k) }";
/* Sums that cancel: small results with an error of the large numbers. */
static const char cancels[] =
    "(float[64] x) => (y) <float big = {1000}> { a = Add(x, big) y = Sub(a, big) }";

typedef struct fixture {
    pl_model *model;
    pl_accuracy rule;
    pl_accuracy_check check;
    pl_datum *in[1], *ref, *res[1], *gold[1];
    pl_accuracy_moves moves;
} fixture;

static pl_datum *numbers(pl_dtype dtype, const double *x) {
    const int64_t n = N;
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    assert_int_equal(pl_tensor_new(dtype, 1, &n, &t, NULL), PL_OK);
    pl_store_f64(dtype, x, t->data, N);
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    return d;
}

/* x falls from 1000 to 1e-6; y as float computes it. */
static void set_up(fixture *f, const char *text) {
    pl_err err = PL_ERR_INIT;
    double x[N], exact[N], rounded[N];
    memset(f, 0, sizeof(*f));
    if (pl_model_parse_graph(text, 18, &f->model, &err) != PL_OK ||
        pl_ops_resolve(f->model, &err) != PL_OK || pl_model_infer(f->model, NULL, &err) != PL_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < N; i++) {
        const float s = (float)(1000 * pow(10, -9.0 * i / (N - 1)));
        volatile float a = s + 1000;
        x[i] = (double)s;
        exact[i] = text == product ? 3 * x[i] : x[i];
        rounded[i] = text == product ? (double)(3 * s) : (double)(a - 1000);
    }
    f->in[0] = numbers(PL_F32, x);
    f->gold[0] = numbers(PL_F64, exact);
    f->ref = numbers(PL_F32, rounded);
    f->res[0] = numbers(PL_F32, rounded);
    pl_accuracy_init(&f->rule);
    f->moves = (pl_accuracy_moves){
        .accuracy = &f->rule, .model = f->model, .in = f->in, .gold = f->gold
    };
    pl_accuracy_take_results(&f->moves, f->model, f->in, f->res);
}

static void tear_down(fixture *f) {
    pl_accuracy_moves_release(&f->moves);
    pl_datum_unref(f->in[0]);
    pl_datum_unref(f->gold[0]);
    pl_datum_unref(f->ref);
    pl_datum_unref(f->res[0]);
    pl_model_free(f->model);
}

static float *element(fixture *f, int i) {
    return (float *)f->res[0]->tensor->data + i;
}

/* The gate's figures, then the bound. */
static void ask(fixture *f) {
    assert_int_equal(pl_accuracy_compare(&f->rule, f->ref, f->res[0], f->gold[0], &f->check, NULL),
                     PL_OK);
    assert_true(f->check.same);
    assert_int_equal(pl_accuracy_bound(&f->moves, 0, 0, f->ref, &f->check, NULL), PL_OK);
}

static void test_accuracy_bound__leaves_a_clean_run_alone(void **state) {
    (void)state;
    fixture f;
    set_up(&f, product);
    *element(&f, 3) = nextafterf(*element(&f, 3), INFINITY);
    *element(&f, SMALL) = nextafterf(*element(&f, SMALL), 0);
    ask(&f);
    assert_true(f.check.same);
    assert_false(f.moves.judged); /* no replay was made for it */
    tear_down(&f);
}

static void test_accuracy_bound__finds_a_small_element(void **state) {
    (void)state;
    fixture f;
    set_up(&f, product);
    *element(&f, SMALL) *= 1.5F; /* 2e-4 beside 3000: the rms does not see it */
    ask(&f);
    assert_false(f.check.same);
    assert_string_equal(f.check.rule, "bound");
    assert_non_null(strstr(f.check.why, "its bound"));
    tear_down(&f);
}

static void test_accuracy_bound__lets_rounding_of_large_numbers_pass(void **state) {
    (void)state;
    fixture f;
    set_up(&f, cancels);
    *element(&f, SMALL) += 0x1p-14F; /* a last place of 1000: many times the element */
    ask(&f);
    assert_true(f.check.same);
    *element(&f, SMALL) += 0x1p-8F;
    pl_accuracy_take_results(&f.moves, f.model, f.in, f.res); /* other results: judged anew */
    assert_int_equal(pl_accuracy_compare(&f.rule, f.ref, f.res[0], f.gold[0], &f.check, NULL),
                     PL_OK);
    f.check.same = true;
    f.check.rule = "unstable"; /* excused by a discontinuity: always held to its bound */
    assert_int_equal(pl_accuracy_bound(&f.moves, 0, 0, f.ref, &f.check, NULL), PL_OK);
    assert_true(f.moves.judged);
    assert_false(f.check.same);
    tear_down(&f);
}

/* A tolerance of the user's, PyTorch's rule, another device: nobody asked for bounds. */
static void test_accuracy_bound__asks_only_where_it_applies(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        fixture f;
        set_up(&f, product);
        *element(&f, SMALL) *= 1.5F;
        if (i == 0) f.rule.tol = 0.01;
        if (i == 1) f.rule.profile = PL_PROFILE_TORCH;
        if (i == 1) f.rule.same.tol = 0.01;
        if (i == 2) pl_accuracy_take_results(&f.moves, NULL, NULL, NULL);
        ask(&f);
        assert_int_equal(f.check.same, i < 3);
        assert_int_equal(f.moves.judged, i == 3);
        tear_down(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy_bound__leaves_a_clean_run_alone),
        cmocka_unit_test(test_accuracy_bound__finds_a_small_element),
        cmocka_unit_test(test_accuracy_bound__lets_rounding_of_large_numbers_pass),
        cmocka_unit_test(test_accuracy_bound__asks_only_where_it_applies),
    };
    return cmocka_run_group_tests_name("accuracy_bound", tests, NULL, NULL);
}

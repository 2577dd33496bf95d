/* The interpreter: order, hooks, bodies, gold, lifetimes, and what it refuses. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/text/text.h"
#include "interp/interp.h"

typedef struct seen {
    char names[512];
    int64_t live_max; /* largest number of elements seen at once in one value */
    int n;
    pl_dtype last_dtype;
    int stop_after; /* > 0: the hook fails then */
} seen;

static pl_status note(void *ctx, const pl_node *node, const pl_value *value, const pl_datum *datum,
                      pl_err *err) {
    seen *s = ctx;
    assert_ptr_equal(value->producer, node);
    const size_t used = strlen(s->names);
    snprintf(s->names + used, sizeof(s->names) - used, "%s%s", used > 0 ? " " : "", value->name);
    s->n++;
    if (datum->kind == PL_TYPE_TENSOR) s->last_dtype = datum->tensor->dtype;
    if (s->stop_after > 0 && s->n == s->stop_after) return pl_fail(err, PL_E_LIMIT, "enough");
    return PL_OK;
}

static pl_model *parse(const char *text) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    if (pl_model_parse_graph(text, 17, &model, &err) != PL_OK) fail_msg("%s", err.message);
    return model;
}

static pl_datum *floats(int64_t n, const float *data) {
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    assert_int_equal(pl_tensor_new(PL_F32, 1, &n, &t, NULL), PL_OK);
    memcpy(t->data, data, (size_t)n * sizeof(float));
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    return d;
}

static pl_status run(pl_model *model, const pl_interp_options *options, pl_datum **in,
                     pl_datum **out, pl_err *err) {
    pl_interp *interp = NULL;
    PL_TRY(pl_interp_new(model, options, &interp, err));
    const pl_status st = pl_interp_run(interp, in, out, err);
    pl_interp_free(interp);
    return st;
}

static void test_hook__sees_every_value_in_order(void **state) {
    (void)state;
    pl_model *model = parse("(float[2] x) => (c) { a = Neg(x) b = Abs(a) c = Add(a, b) }");
    seen s = { "", 0, 0, PL_UNDEFINED, 0 };
    const pl_interp_options options = { .hook = note, .hook_ctx = &s };
    pl_datum *in[1] = { floats(2, (const float[]){ 1, -2 }) }, *out[1] = { NULL };
    assert_int_equal(run(model, &options, in, out, NULL), PL_OK);
    assert_string_equal(s.names, "a b c");
    assert_true(pl_tensor_get_f64(out[0]->tensor, 0) == 0);
    assert_true(pl_tensor_get_f64(out[0]->tensor, 1) == 4);
    pl_datum_unref(in[0]);
    pl_datum_unref(out[0]);
    pl_model_free(model);
}

static void test_hook__can_end_the_run(void **state) {
    (void)state;
    pl_model *model = parse("(float[2] x) => (c) { a = Neg(x) b = Abs(a) c = Add(a, b) }");
    seen s = { "", 0, 0, PL_UNDEFINED, 2 };
    const pl_interp_options options = { .hook = note, .hook_ctx = &s };
    pl_err err = PL_ERR_INIT;
    pl_datum *in[1] = { floats(2, (const float[]){ 1, -2 }) }, *out[1] = { NULL };
    assert_int_equal(run(model, &options, in, out, &err), PL_E_LIMIT);
    assert_string_equal(err.message, "enough");
    assert_string_equal(s.names, "a b");
    assert_null(out[0]);
    pl_datum_unref(in[0]);
    pl_model_free(model);
}

static void test_bodies__use_values_around_them(void **state) {
    (void)state;
    pl_model *model = parse("(bool c, float[2] x) => (y) { o = Neg(x) "
                            "y = If <then_branch = t () => (p) { p = Add(x, o) }, "
                            "else_branch = e () => (q) { q = Mul(o, o) }> (c) }");
    const pl_interp_options options = { 0 };
    pl_tensor *flag = NULL;
    pl_datum *in[2] = { NULL, floats(2, (const float[]){ 3, -2 }) }, *out[1] = { NULL };
    assert_int_equal(pl_tensor_new_zero(PL_BOOL, 0, NULL, &flag, NULL), PL_OK);
    assert_int_equal(pl_datum_of_tensor_take(flag, &in[0], NULL), PL_OK);
    pl_err err = PL_ERR_INIT;
    if (run(model, &options, in, out, &err) != PL_OK) fail_msg("%s", err.message);
    assert_true(pl_tensor_get_f64(out[0]->tensor, 0) == 9);
    assert_true(pl_tensor_get_f64(out[0]->tensor, 1) == 4);
    pl_datum_unref(out[0]);
    pl_datum_unref(in[0]);
    pl_datum_unref(in[1]);
    pl_model_free(model);
}

static void test_gold__raises_inputs_weights_and_attributes(void **state) {
    (void)state;
    pl_model *model = parse("(float[2] x) => (y) <float[2] w = {0.1, 0.2}> "
                            "{ a = Mul(x, w) b = Cast <to = 1> (a) y = Add(b, b) }");
    seen s = { "", 0, 0, PL_UNDEFINED, 0 };
    const pl_interp_options options = { .hook = note, .hook_ctx = &s, .fp64 = true };
    pl_datum *in[1] = { floats(2, (const float[]){ 3, 7 }) }, *out[1] = { NULL };
    assert_int_equal(run(model, &options, in, out, NULL), PL_OK);
    assert_int_equal(s.last_dtype, PL_F64);
    /* 0.1f as a double, times three, twice: no rounding to float on the way. */
    assert_true(pl_tensor_get_f64(out[0]->tensor, 0) == (double)0.1f * 3 * 2);
    pl_datum_unref(in[0]);
    pl_datum_unref(out[0]);
    pl_model_free(model);
}

static void test_inputs__are_checked(void **state) {
    (void)state;
    pl_model *model = parse("(float[2] x) => (y) { y = Neg(x) }");
    const pl_interp_options options = { 0 };
    pl_err err = PL_ERR_INIT;
    pl_datum *in[1] = { NULL }, *out[1] = { NULL };
    assert_int_equal(run(model, &options, in, out, &err), PL_E_USAGE);
    assert_non_null(strstr(err.message, "'x'"));
    in[0] = floats(3, (const float[]){ 1, 2, 3 });
    assert_int_equal(run(model, &options, in, out, &err), PL_E_INVALID);
    assert_non_null(strstr(err.message, "float[3]"));
    assert_non_null(strstr(err.message, "float[2]"));
    pl_datum_unref(in[0]);
    pl_model_free(model);
}

static void test_outputs__may_be_inputs_or_weights(void **state) {
    (void)state;
    pl_model *model = parse("(float[2] x) => (x, w) <float[2] w = {5, 6}> { }");
    const pl_interp_options options = { 0 };
    pl_datum *in[1] = { floats(2, (const float[]){ 1, 2 }) }, *out[2] = { NULL, NULL };
    assert_int_equal(run(model, &options, in, out, NULL), PL_OK);
    assert_true(pl_tensor_get_f64(out[0]->tensor, 1) == 2);
    assert_true(pl_tensor_get_f64(out[1]->tensor, 1) == 6);
    assert_ptr_equal(out[0]->tensor->data, in[0]->tensor->data); /* never copied */
    for (int i = 0; i < 2; i++)
        pl_datum_unref(out[i]);
    pl_datum_unref(in[0]);
    pl_model_free(model);
}

/* Every allocation fails once; each time a clean status, and nothing is lost (run under ASan). */
/* So many nodes that each table of the plan is a block of its own in the arena. */
static void test_new__survives_failing_allocations_of_a_long_model(void **state) {
    (void)state;
    enum { NODES = 4000 };
    pl_buf text = PL_BUF_INIT;
    pl_buf_puts(&text, "(float[1] x) => (v4000) { v0 = Neg(x)");
    for (int i = 0; i < NODES; i++)
        pl_buf_printf(&text, " v%d = Neg(v%d)", i + 1, i);
    pl_buf_puts(&text, " }");
    pl_model *model = parse(pl_buf_str(&text));
    pl_buf_release(&text);
    pl_status st = PL_E_MEMORY;
    for (long n = 0; n < 100 && st != PL_OK; n++) {
        const pl_interp_options options = { 0 };
        pl_interp *interp = NULL;
        pl_alloc_fail_after(n);
        st = pl_interp_new(model, &options, &interp, NULL);
        pl_alloc_fail_after(-1);
        assert_true(st == PL_OK || st == PL_E_MEMORY);
        pl_interp_free(interp);
    }
    assert_int_equal(st, PL_OK);
    pl_model_free(model);
}

static void test_run__survives_failing_allocations(void **state) {
    (void)state;
    pl_model *model = parse("(float[2] x) => (c) { a = Neg(x) b = Abs(a) c = Add(a, b) }");
    const pl_interp_options options = { 0 };
    pl_datum *in[1] = { floats(2, (const float[]){ 1, -2 }) };
    pl_status st = PL_E_MEMORY;
    for (long n = 0; st != PL_OK && n < 10000; n++) {
        pl_datum *out[1] = { NULL };
        pl_err err = PL_ERR_INIT;
        pl_alloc_fail_after(n);
        st = run(model, &options, in, out, &err);
        pl_alloc_fail_after(-1);
        if (st != PL_OK && st != PL_E_MEMORY) fail_msg("%ld: %s", n, err.message);
        pl_datum_unref(out[0]);
    }
    assert_int_equal(st, PL_OK);
    pl_datum_unref(in[0]);
    pl_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hook__sees_every_value_in_order),
        cmocka_unit_test(test_hook__can_end_the_run),
        cmocka_unit_test(test_bodies__use_values_around_them),
        cmocka_unit_test(test_gold__raises_inputs_weights_and_attributes),
        cmocka_unit_test(test_inputs__are_checked),
        cmocka_unit_test(test_outputs__may_be_inputs_or_weights),
        cmocka_unit_test(test_run__survives_failing_allocations),
        cmocka_unit_test(test_new__survives_failing_allocations_of_a_long_model),
    };
    return cmocka_run_group_tests_name("interp", tests, NULL, NULL);
}

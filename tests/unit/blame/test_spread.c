/* What rounding can do to outputs: nothing where nothing is rounded, little in floats, a step where
 * a value sits at a tie. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>

#include "blame/spread.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "ops/infer.h"

static pl_spread whole_spread_of(const char *text) {
    pl_err err = PL_ERR_INIT;
    const plumb_inputs source = { .seed = 3 };
    pl_model *model = NULL;
    pl_datum *in[4] = { NULL };
    pl_spread spread[4] = { { 0 } };
    if (pl_model_parse_graph(text, 18, &model, &err) != PL_OK ||
        pl_ops_resolve(model, &err) != PL_OK || pl_model_infer(model, NULL, &err) != PL_OK ||
        pl_inputs_make(model, &source, in, &err) != PL_OK ||
        pl_rounding_spread(model, in, NULL, NULL, 1, NULL, spread, &err) != PL_OK) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < model->graph->n_inputs; i++)
        pl_datum_unref(in[i]);
    pl_model_free(model);
    return spread[0];
}

static double spread_of(const char *text) {
    return whole_spread_of(text).rms;
}

static void test_spread__is_nothing_where_nothing_is_rounded(void **state) {
    (void)state;
    assert_true(spread_of("(float[2,64] x) => (y) { h = Relu(x) y = Neg(h) }") == 0);
}

static void test_spread__is_rounding_in_floats(void **state) {
    (void)state;
    const double spread = spread_of("(float[2,64] x) => (y) { h = Tanh(x) y = Mul(h, h) }");
    assert_true(spread > 0 && spread < 1e-6);
}

/* 0.3 / 0.2 is 1.5 but for a rounding: a code more or less. Away from a tie no code moves. */
static void test_spread__is_a_step_at_a_tie(void **state) {
    (void)state;
#define CODES(value)                                                                               \
    "(float[2,64] x) => (y) <float s = {0.2}, uint8 z = {0}, float v = {" value "}> "              \
    "{ o = Sub(x, x) t = Add(o, v) m = Mul(t, t) q = QuantizeLinear(m, s, z) "                     \
    "y = DequantizeLinear(q, s, z) }"
    const double tie = spread_of(CODES("0.547722557")); /* its square is 0.3 */
    assert_true(tie > 0.02 && tie < 0.2);
    assert_true(spread_of(CODES("0.5")) < 1e-6);
#undef CODES
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread__is_nothing_where_nothing_is_rounded),
        cmocka_unit_test(test_spread__is_rounding_in_floats),
        cmocka_unit_test(test_spread__is_a_step_at_a_tie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

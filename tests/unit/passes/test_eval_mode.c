/* Eval mode: what is switched off in which opset, what stays, and what is listed. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "graph/text/text.h"
#include "ops/op.h"
#include "passes/eval_mode.h"

static pl_model *eval_of(const char *text, int opset, pl_changes *changes) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_status st = pl_model_parse_graph(text, opset, &model, &err);
    if (st == PL_OK) st = pl_ops_resolve(model, &err);
    if (st == PL_OK) st = pl_model_eval_mode(model, changes, &err);
    if (st == PL_OK) st = pl_model_verify(model, &err);
    if (st == PL_OK) st = pl_ops_resolve(model, &err);
    if (st != PL_OK) fail_msg("opset %d %s: %s", opset, text, err.message);
    return model;
}

#define BN(outs, attrs)                                                                            \
    "(float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (" outs ") { " outs       \
    " = BatchNormalization" attrs "(x, s, b, m, v) }"

typedef struct example {
    const char *text;
    int opset;
    size_t n_changes, n_nodes; /* expected */
    const char *what;          /* of the first change; NULL = none */
} example;

/* clang-format off */
static const example examples[] = {
    { "(float[4] x) => (y) { y = Dropout(x) }", 1, 1, 1, "is_test 0 -> 1" },
    { "(float[4] x) => (y) { y = Dropout<is_test=1>(x) }", 6, 0, 1, NULL },
    { "(float[4] x) => (y) { y = Dropout<is_test=0>(x) }", 6, 1, 1, "is_test 0 -> 1" },
    { "(float[4] x) => (y) { y = Dropout(x) }", 7, 0, 1, NULL },
    { "(float[4] x) => (y) { y = Dropout(x) }", 10, 0, 1, NULL },
    { "(float[4] x) => (y) { y = Dropout(x) }", 12, 0, 1, NULL },
    { "(float[4] x) => (y) <float r = {0.5}, bool t = {1}> { y = Dropout(x, r, t) }", 12, 1, 1, "input training_mode removed" },
    { "(float[4] x) => (y) <float r = {0.5}, bool t = {0}> { y = Dropout(x, r, t) }", 13, 0, 1, NULL },
    { "(float[4] x, bool t) => (y) <float r = {0.5}> { y = Dropout(x, r, t) }", 22, 1, 1, "input training_mode removed" },
    { "(float[4] x) => (y) <float r = {0.5}> { t = Constant<value = bool {0}>() y = Dropout(x, r, t) }", 17, 0, 2, NULL },
    { BN("y", ""), 15, 0, 1, NULL },
    { BN("y, rm, rv", "<training_mode=1>"), 14, 1, 3, "training_mode 1 -> 0" },
    { BN("y, rm, rv", "<training_mode=1>"), 15, 1, 3, "training_mode 1 -> 0" },
    { BN("y", ""), 9, 0, 1, NULL },
    { BN("y, a, c, d, e", ""), 9, 1, 5, "training outputs removed" },
    { BN("y, a, c, d, e", ""), 7, 1, 5, "training outputs removed" },
    { BN("y, a, c, d, e", "<is_test=0>"), 6, 1, 5, "is_test 0 -> 1" },
    { BN("y", "<is_test=0>"), 6, 0, 1, NULL },
    { BN("y", "<is_test=1>"), 1, 0, 1, NULL },
    { "(float[4] x) => (y) { y = Relu(x) }", 17, 0, 1, NULL },
    { "(bool c, float[4] x, bool t) => (y) <float r = {0.5}> { y = If (c) <then_branch = a () => (z) { z = Dropout(x, r, t) }, "
      "else_branch = b () => (w) { w = Relu(x) }> }", 17, 1, 1, "input training_mode removed" },
};
/* clang-format on */

static void test_eval_mode__switches_training_off(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        const example *e = &examples[i];
        pl_changes changes = PL_CHANGES_INIT;
        pl_model *model = eval_of(e->text, e->opset, &changes);
        if (changes.n != e->n_changes || model->graph->n_nodes != e->n_nodes) {
            fail_msg("opset %d %s: %zu changes, %zu nodes", e->opset, e->text, changes.n,
                     model->graph->n_nodes);
        }
        if (e->what != NULL) assert_string_equal(changes.items[0].what, e->what);
        assert_false(pl_model_is_random(model));
        pl_changes_release(&changes);
        pl_model_free(model);
    }
}

static void test_eval_mode__statistics_become_the_given_ones(void **state) {
    (void)state;
    pl_model *model = eval_of(BN("y, rm, rv", "<training_mode=1>"), 15, NULL);
    const pl_graph *g = model->graph;
    assert_int_equal(g->n_outputs, 3);
    for (size_t i = 1; i < 3; i++) {
        const pl_node *node = g->outputs[i]->producer;
        assert_string_equal(node->op, "Identity");
        assert_ptr_equal(node->in[0], g->inputs[2 + i]);
    }
    assert_int_equal(g->outputs[0]->producer->n_out, 1);
    pl_model_free(model);
}

static void test_eval_mode__a_second_time_changes_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        pl_changes again = PL_CHANGES_INIT;
        pl_model *model = eval_of(examples[i].text, examples[i].opset, NULL);
        assert_int_equal(pl_model_eval_mode(model, &again, NULL), PL_OK);
        if (again.n != 0) fail_msg("opset %d %s", examples[i].opset, examples[i].text);
        pl_changes_release(&again);
        pl_model_free(model);
    }
}

static void test_eval_mode__old_rows_of_the_table_are_never_random(void **state) {
    (void)state;
    const pl_op_def *row = NULL;
    size_t n = 0;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (strcmp(row->name, "Dropout") != 0) continue;
        for (const pl_sample *s = row->samples; s->graph != NULL; s++, n++) {
            pl_model *model = eval_of(s->graph, row->since, NULL);
            assert_false(pl_model_is_random(model));
            pl_model_free(model);
        }
    }
    assert_true(n >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eval_mode__switches_training_off),
        cmocka_unit_test(test_eval_mode__statistics_become_the_given_ones),
        cmocka_unit_test(test_eval_mode__a_second_time_changes_nothing),
        cmocka_unit_test(test_eval_mode__old_rows_of_the_table_are_never_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

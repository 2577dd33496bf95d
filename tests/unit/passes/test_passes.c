/* The table of passes. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "graph/text/text.h"
#include "passes/passes.h"

static pl_model *parse(const char *text) {
    pl_model *model = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_model_parse(text, strlen(text), "test", &model, &err) != PL_OK)
        fail_msg("%s", err.message);
    return model;
}

static pl_model *parse_drop(void) {
    return parse("<ir_version: 8, opset_import: [\"\" : 17]> m (float[2] x) => (float[2] y)\n"
                 "<float r = {0.5}, bool t = {1}> { d = Dropout (x, r, t) y = Exp (d) }\n");
}

static void test_passes__rows_are_whole_and_names_unique(void **state) {
    (void)state;
    for (size_t i = 0; pl_passes[i] != NULL; i++) {
        assert_non_null(pl_passes[i]->run);
        assert_true(pl_passes[i]->summary != NULL && pl_passes[i]->summary[0] != '\0');
        assert_ptr_equal(pl_pass_find(pl_passes[i]->name), pl_passes[i]);
    }
    assert_null(pl_pass_find("no such pass"));
}

static void test_pass_run__resolves_what_the_row_needs(void **state) {
    (void)state;
    pl_model *model = parse_drop(); /* not resolved */
    pl_changes changes = PL_CHANGES_INIT;
    pl_pass_job job = { .model = model, .changes = &changes };
    assert_int_equal(pl_pass_run("eval", &job, NULL), PL_OK);
    assert_int_equal(pl_changes_count(&changes, PL_CHANGE_EVAL), 1);
    assert_null(job.made);
    pl_changes_release(&changes);
    pl_model_free(model);
}

static void test_pass_run__makes_another_model(void **state) {
    (void)state;
    pl_model *model = parse("<ir_version: 8, opset_import: [\"\" : 17]> m (float[2] x) => "
                            "(float[2] y) { y = Exp (x) }\n");
    pl_pass_job job = { .model = model, .value = "joint" };
    assert_int_equal(pl_pass_run("backward", &job, NULL), PL_OK);
    assert_non_null(job.made);
    assert_int_equal(job.made->graph->n_outputs, 2);
    assert_int_equal(model->graph->n_outputs, 1);
    pl_model_free(job.made);
    pl_model_free(model);
}

static void test_pass_run__names_what_is_wrong(void **state) {
    static const bool chosen[2] = { true, false };
    (void)state;
    pl_model *model = parse_drop();
    pl_err err = PL_ERR_INIT;
    pl_pass_job sideways = { .model = model, .value = "sideways" }, none = { .model = model };
    pl_pass_job nodes = { .model = model, .nodes = chosen };
    assert_int_equal(pl_pass_run("backward", &sideways, &err), PL_E_USAGE);
    assert_string_equal(err.message, "backward is 'sideways', expected joint, forward or backward");
    assert_int_equal(pl_pass_run("amp", &none, &err), PL_E_USAGE);
    assert_int_equal(pl_pass_run("fp64", &sideways, &err), PL_E_USAGE);
    assert_int_equal(pl_pass_run("eval", &nodes, &err), PL_E_USAGE);
    assert_int_equal(pl_pass_run("no such pass", &none, &err), PL_E_USAGE);
    pl_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passes__rows_are_whole_and_names_unique),
        cmocka_unit_test(test_pass_run__resolves_what_the_row_needs),
        cmocka_unit_test(test_pass_run__makes_another_model),
        cmocka_unit_test(test_pass_run__names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

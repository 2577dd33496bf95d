/* ONNX Runtime behind the vtable, against the interpreter; and that recording leaves it alone.
 *
 * Skipped without the library. Real models of .cache/models are recorded when they are there; the
 * environment PLUMB_TEST_MODELS=all takes every one of them and prints the table. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "base/file.h"
#include "flows/inputs.h"
#include "graph/text.h"
#include "onnx/onnx.h"
#include "ops/op.h"

typedef struct runs {
    pl_model *model;
    pl_backend *ort, *eager;
    pl_program *ort_program, *eager_program;
    pl_datum **in, **plain, **recorded, **reference;
    size_t n_in, n_out, n_seen;
    pl_err err;
} runs;

static bool have_ort(void) {
    pl_backend *b = NULL;
    const pl_backend_options guarded = { .guarded = true }; /* ORT leaks in whoever loads it */
    const bool found = pl_backend_open("ort", &guarded, &b, NULL) == PL_OK;
    pl_backend_close(b);
    return found;
}

static void check(const runs *r, pl_status st) {
    if (st != PL_OK) fail_msg("%s", r->err.message);
}

/* Compiles for ort (guarded) and makes inputs. */
static void runs_open(runs *r, const char *spec, const char *file, const char *io) {
    const pl_backend_options guarded = { .guarded = true, .timeout_seconds = 120 };
    const pl_compile_options compile = { .file = file, .threads = 1, .record = true };
    char texts[16][800];
    const char *files[16];
    plumb_inputs inputs = { .files = files };
    pl_ops_resolve(r->model, NULL);
    r->n_in = r->model->graph->n_inputs;
    r->n_out = r->model->graph->n_outputs;
    r->in = pl_calloc(r->n_in + 1, sizeof(pl_datum *));
    r->plain = pl_calloc(r->n_out + 1, sizeof(pl_datum *));
    r->recorded = pl_calloc(r->n_out + 1, sizeof(pl_datum *));
    r->reference = pl_calloc(r->n_out + 1, sizeof(pl_datum *));
    for (size_t i = 0; io != NULL && i < r->n_in && inputs.n_files < 16; i++) {
        char path[700];
        snprintf(path, sizeof(path), "%.600s/input_%zu.npy", io, i);
        if (!pl_path_exists(path)) continue;
        snprintf(texts[inputs.n_files], sizeof(texts[0]), "%.80s=%.700s",
                 r->model->graph->inputs[i]->name, path);
        files[inputs.n_files] = texts[inputs.n_files];
        inputs.n_files++;
    }
    check(r, pl_inputs_make(r->model, &inputs, r->in, &r->err));
    check(r, pl_backend_open(spec, &guarded, &r->ort, &r->err));
    check(r, pl_program_new(r->ort, r->model, &compile, &r->ort_program, &r->err));
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
}

static void runs_close(runs *r) {
    drop(r->in, r->n_in);
    drop(r->plain, r->n_out);
    drop(r->recorded, r->n_out);
    drop(r->reference, r->n_out);
    pl_program_free(r->ort_program);
    pl_program_free(r->eager_program);
    pl_backend_close(r->ort);
    pl_backend_close(r->eager);
    pl_model_free(r->model);
}

static plumb_status count_value(void *ctx, const plumb_seen *seen, plumb_error *err) {
    runs *r = ctx;
    (void)err;
    assert_non_null(seen->datum);
    r->n_seen++;
    return PLUMB_OK;
}

static void close_enough(const pl_tensor *a, const pl_tensor *b) {
    assert_true(pl_tensor_same_shape(a, b));
    for (int64_t i = 0; i < a->n_elements; i++) {
        assert_true(fabs(pl_tensor_get_f64(a, i) - pl_tensor_get_f64(b, i)) < 1e-5);
    }
}

static const char graph_text[] =
    "(float[2,8] x, float[8,4] w) => (float[2,4] y) {"
    " m = MatMul(x, w) t = Tanh(m) r = Relu(t) y = Softmax<axis = 1>(r) }";

static void test_ort__agrees_with_eager(void **state) {
    static const char *const specs[] = { "ort:opt=off", "ort:opt=basic,threads=1",
                                         "ort:opt=extended", "ort:opt=all,deterministic",
                                         "ort:disable=MatMulAddFusion+GeluFusion" };
    (void)state;
    if (!have_ort()) skip();
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        runs r = { .err = PL_ERR_INIT };
        check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
        runs_open(&r, specs[i], NULL, NULL);
        check(&r, pl_program_run(r.ort_program, r.in, r.plain, &r.err));
        check(&r, pl_backend_open("eager", NULL, &r.eager, &r.err));
        check(&r, pl_program_new(r.eager, r.model, NULL, &r.eager_program, &r.err));
        check(&r, pl_program_run(r.eager_program, r.in, r.reference, &r.err));
        close_enough(r.plain[0]->tensor, r.reference[0]->tensor);
        runs_close(&r);
    }
}

static void test_eager__shows_every_value(void **state) {
    runs r = { .err = PL_ERR_INIT };
    plumb_record_info info;
    const plumb_hook hook = { .value = count_value, .ctx = &r };
    (void)state;
    check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
    runs_open(&r, "eager", NULL, NULL);
    assert_int_equal(pl_program_hooks(r.ort_program), 4);
    check(&r, pl_program_run(r.ort_program, r.in, r.plain, &r.err));
    const pl_record_args args = { .hook = &hook, .plain = r.plain };
    check(&r, pl_program_record(r.ort_program, r.in, &args, r.recorded, &info, &r.err));
    assert_int_equal(r.n_seen, 4);
    assert_int_equal(info.n_seen, 4);
    assert_true(pl_datum_identical(r.plain[0], r.recorded[0]));
    runs_close(&r);
}

/* Records in one mode and insists that the outputs are the plain ones, bit for bit. */
static void record(runs *r, const char *spec, const char *file, const char *io, size_t mode,
                   uint64_t limit, plumb_record_info *info) {
    const plumb_hook hook = { .value = count_value, .ctx = r };
    runs_open(r, spec, file, io);
    check(r, pl_program_run(r->ort_program, r->in, r->plain, &r->err));
    const pl_record_args args = {
        .hook = &hook, .plain = r->plain, .mode = mode, .memory_limit = limit
    };
    check(r, pl_program_record(r->ort_program, r->in, &args, r->recorded, info, &r->err));
    assert_int_equal(r->n_seen, info->n_seen);
}

static void expect_identical(const runs *r, const char *name) {
    for (size_t i = 0; i < r->n_out; i++) {
        if (!pl_datum_identical(r->plain[i], r->recorded[i])) {
            fail_msg("%s: output %zu changed while it was recorded", name, i);
        }
    }
}

static void test_ort_record__sees_values_in_both_modes(void **state) {
    (void)state;
    if (!have_ort()) skip();
    for (size_t mode = 0; mode < 2; mode++) {
        for (uint64_t limit = 0; limit < 2; limit++) { /* a limit of 1 byte: one value a run */
            runs r = { .err = PL_ERR_INIT };
            plumb_record_info info;
            check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
            record(&r, "ort:opt=all,threads=1", NULL, NULL, mode, limit, &info);
            assert_int_equal(info.differs, 0);
            assert_int_equal(info.n_seen, 4);
            assert_int_equal(info.n_values, 4);
            expect_identical(&r, "graph");
            runs_close(&r);
        }
    }
}

static void test_ort_record__shows_only_what_is_wanted(void **state) {
    runs r = { .err = PL_ERR_INIT };
    plumb_record_info info;
    const char *const names[] = { "t" };
    const plumb_hook hook = { .value = count_value, .ctx = &r, .names = names, .n_names = 1 };
    (void)state;
    if (!have_ort()) skip();
    check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
    runs_open(&r, "ort:threads=1", NULL, NULL);
    const pl_record_args args = { .hook = &hook };
    check(&r, pl_program_record(r.ort_program, r.in, &args, r.recorded, &info, &r.err));
    assert_int_equal(r.n_seen, 1);
    runs_close(&r);
}

static void test_ort_executed__gives_the_optimised_graph(void **state) {
    runs r = { .err = PL_ERR_INIT };
    pl_bytes onnx = { 0 };
    pl_model *executed = NULL;
    (void)state;
    if (!have_ort()) skip();
    check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
    runs_open(&r, "ort:threads=1", NULL, NULL);
    check(&r, pl_program_executed(r.ort_program, &onnx, &r.err));
    check(&r, pl_model_read_bytes(onnx, NULL, NULL, "executed", &executed, &r.err));
    assert_int_equal(executed->graph->n_nodes, 4);
    pl_model_free(executed);
    runs_close(&r);
}

static void test_ort__tells_a_model_it_cannot_run(void **state) {
    pl_model *model = NULL;
    pl_backend *b = NULL;
    pl_program *p = NULL;
    pl_err err = PL_ERR_INIT;
    (void)state;
    if (!have_ort()) skip();
    assert_int_equal(
        pl_model_parse_graph("(float[2] x) => (float[2] y) { y = Nonsense(x) }", 17, &model, &err),
        PL_OK);
    const pl_backend_options guarded = { .guarded = true };
    assert_int_equal(pl_backend_open("ort", &guarded, &b, &err), PL_OK);
    assert_int_equal(pl_program_new(b, model, NULL, &p, &err), PL_E_BACKEND);
    assert_non_null(strstr(err.message, "Nonsense"));
    pl_backend_close(b);
    pl_model_free(model);
}

/* MODELS/NAME.onnx or MODELS/torch/NAME.onnx, on the inputs that tests/models made for it. */
static void record_model(const char *root, const char *name, bool print) {
    char path[700], io[700];
    runs r = { .err = PL_ERR_INIT };
    plumb_record_info info;
    snprintf(path, sizeof(path), "%s/%s.onnx", root, name);
    if (!pl_path_exists(path)) snprintf(path, sizeof(path), "%s/torch/%s.onnx", root, name);
    snprintf(io, sizeof(io), "%s/io/%s", root, name);
    if (!pl_path_exists(path)) return;
    check(&r, pl_model_read(path, &r.model, &r.err));
    record(&r, "ort:threads=1", path, io, 0, 0, &info);
    if (print) {
        printf("%-24s values %5zu seen %5zu hidden %5zu runs %zu %s\n", name, info.n_values,
               info.n_seen, info.n_hidden, info.n_runs, info.differs ? "DIFFERS" : "identical");
        fflush(stdout);
    }
    if (!print) {
        assert_int_equal(info.differs, 0);
        assert_true(info.n_seen > 0);
        expect_identical(&r, name);
    }
    runs_close(&r);
}

static void test_ort_record__leaves_real_models_alone(void **state) {
    static const char *const few[] = { "oww_embedding", "oww_mel", "ppocr_cls", "silero_v5",
                                       "retinaface_v1" };
    const char *wish = getenv("PLUMB_TEST_MODELS");
    char root[512], io[600];
    pl_dir_list list = { 0 };
    (void)state;
    const ssize_t n = readlink("/proc/self/exe", root, sizeof(root) - 20);
    assert_true(n > 0);
    root[n] = '\0';
    *strrchr(root, '/') = '\0';
    *strrchr(root, '/') = '\0';
    strcat(root, "/.cache/models");
    snprintf(io, sizeof(io), "%s/io", root);
    if (!have_ort() || !pl_path_is_dir(io)) skip();
    if (wish == NULL) {
        for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
            record_model(root, few[i], false);
        return;
    }
    assert_int_equal(pl_dir_list_read(io, &list, NULL), PL_OK);
    for (size_t i = 0; i < list.n_names; i++) {
        /* The inputs of control are numbered in another order than the model's. */
        if (strcmp(list.names[i], "control") != 0) record_model(root, list.names[i], true);
    }
    pl_dir_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eager__shows_every_value),
        cmocka_unit_test(test_ort__agrees_with_eager),
        cmocka_unit_test(test_ort_record__sees_values_in_both_modes),
        cmocka_unit_test(test_ort_record__shows_only_what_is_wanted),
        cmocka_unit_test(test_ort_executed__gives_the_optimised_graph),
        cmocka_unit_test(test_ort__tells_a_model_it_cannot_run),
        cmocka_unit_test(test_ort_record__leaves_real_models_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

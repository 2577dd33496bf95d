/* plumb.h version 1: options of other sizes, NULL everywhere, models and inputs in memory, cancel.
 */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <dirent.h>
#include <math.h>
#include <plumb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char model_text[] =
    "<ir_version: 8, opset_import: [\"\": 13]>\n"
    "g (float[2,3] x) => (float[2,3] y) <float[3] w = {1.5, -2, 0.5}>\n"
    "{ a = Mul(x, w) b = Exp(a) y = Relu(b) }\n";

static plumb_model *open_text(void) {
    plumb_model *model = NULL;
    plumb_error err = { 0 };
    assert_int_equal(plumb_model_open_memory(model_text, sizeof model_text - 1, NULL, &model, &err),
                     PLUMB_OK);
    return model;
}

static plumb_tensor *row(float first) {
    const int64_t dims[] = { 2, 3 };
    const float data[] = { first, 2, 3, -1, 0.5f, 0.25f };
    plumb_tensor *t = NULL;
    assert_int_equal(plumb_tensor_new(PLUMB_FLOAT, 2, dims, data, sizeof data, &t, NULL), PLUMB_OK);
    return t;
}

static char folder[200];

static const char *in_dir(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/plumb-test-api-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state) {
    (void)state;
    char command[260];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static size_t n_files(const char *dir) {
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* ---- version and options ---- */

static void test_api__tells_its_version(void **state) {
    (void)state;
    char text[40];
    snprintf(text, sizeof text, "%d.%d.%d", PLUMB_VERSION_MAJOR, PLUMB_VERSION_MINOR,
             PLUMB_VERSION_PATCH);
    assert_string_equal(plumb_version(), text);
    assert_int_equal(plumb_version_number(), PLUMB_VERSION_NUMBER);
    assert_string_equal(plumb_status_name(PLUMB_E_CANCELLED), "E_CANCELLED");
    assert_string_equal(plumb_status_name((plumb_status)99), "");
    assert_int_equal(plumb_exit_code(PLUMB_E_CANCELLED), 130);
}

static void test_options__have_the_defaults_of_the_command_line(void **state) {
    (void)state;
    plumb_minify_options minify;
    plumb_test_options test;
    plumb_same_options same;
    plumb_minify_options_init(&minify);
    plumb_test_options_init(&test);
    plumb_same_options_init(&same);
    assert_int_equal(minify.size, sizeof minify);
    assert_int_equal(minify.fail_code, -1);
    assert_true(test.rtol > 0.9e-3 && test.rtol < 1.1e-3 && test.atol > 0 && test.atol < 1e-6);
    assert_true(same.equal_nan == 1 && same.exact_dtype == 1);
    assert_int_equal(plumb_options_init(PLUMB_OPTIONS_RUN, NULL, 100), PLUMB_E_USAGE);
    assert_int_equal(plumb_options_init((plumb_options_kind)99, &same, sizeof same), PLUMB_E_USAGE);
}

/* An older header ends earlier: what is beyond its size is never read nor written. */
static void test_options__of_an_older_header_work(void **state) {
    (void)state;
    struct {
        size_t size;
        const plumb_inputs *inputs;
        const char *backend;
        unsigned char beyond[256];
    } old;
    memset(&old, 0xAA, sizeof old);
    const size_t size = offsetof(plumb_run_options, timeout);
    assert_int_equal(plumb_options_init(PLUMB_OPTIONS_RUN, &old, size), PLUMB_OK);
    assert_int_equal(old.size, size);
    assert_int_equal(old.beyond[0], 0xAA);
    plumb_model *model = open_text();
    plumb_run_result *result = NULL;
    plumb_error err = { 0 };
    assert_int_equal(plumb_run(model, (const plumb_run_options *)&old, &result, &err), PLUMB_OK);
    plumb_run_times times = { .size = sizeof times };
    assert_int_equal(plumb_run_result_times(result, &times), 1);
    assert_int_equal(times.n_runs, 1); /* the default of a field that it does not have */
    plumb_run_result_free(result);
    plumb_model_close(model);
}

static void test_options__of_a_newer_header_work_when_unused(void **state) {
    (void)state;
    struct {
        plumb_run_options known;
        int64_t more[4];
    } newer;
    plumb_model *model = open_text();
    plumb_run_result *result = NULL;
    plumb_error err = { 0 };
    assert_int_equal(plumb_options_init(PLUMB_OPTIONS_RUN, &newer, sizeof newer), PLUMB_OK);
    assert_int_equal(plumb_run(model, &newer.known, &result, &err), PLUMB_OK);
    plumb_run_result_free(result);
    newer.more[2] = 1;
    assert_int_equal(plumb_run(model, &newer.known, &result, &err), PLUMB_E_USAGE);
    assert_non_null(strstr(err.message, "plumb_run_options"));
    assert_null(result);
    plumb_run_options zero = { 0 };
    assert_int_equal(plumb_run(model, &zero, &result, &err), PLUMB_E_USAGE);
    assert_non_null(strstr(err.message, "plumb_run_options_init"));
    plumb_model_close(model);
}

/* ---- NULL ---- */

static void test_null__is_an_error_that_names_the_argument(void **state) {
    (void)state;
    plumb_error err = { 0 };
    plumb_model *model = open_text();
    plumb_session *session = NULL;
    char *text = NULL;
    assert_int_equal(plumb_analyze(NULL, NULL, &session, &err), PLUMB_E_USAGE);
    assert_non_null(strstr(err.message, "model"));
    assert_int_equal(plumb_analyze(model, NULL, NULL, &err), PLUMB_E_USAGE);
    assert_non_null(strstr(err.message, "out"));
    assert_int_equal(plumb_compare(NULL, "b", NULL, &session, &err), PLUMB_E_USAGE);
    assert_non_null(strstr(err.message, ": a"));
    assert_int_equal(plumb_store_verify("x", PLUMB_TEXT, NULL, &text, &err), PLUMB_E_USAGE);
    assert_non_null(strstr(err.message, "n_bad"));
    plumb_model *none = NULL;
    assert_int_equal(plumb_model_open_memory(NULL, 3, NULL, &none, &err), PLUMB_E_USAGE);
    assert_null(none);
    plumb_model_close(model);
}

/* Every fallible function, with all arguments NULL: an error, never a crash. */
static void test_null__never_crashes_a_call(void **state) {
    (void)state;
    const plumb_status all[] = {
        plumb_tensor_new(PLUMB_FLOAT, 1, NULL, NULL, 4, NULL, NULL),
        plumb_tensor_wrap(PLUMB_FLOAT, 1, NULL, NULL, 4, NULL, NULL, NULL, NULL),
        plumb_model_open(NULL, NULL, NULL),
        plumb_model_open_memory(NULL, 0, NULL, NULL, NULL),
        plumb_model_bytes(NULL, NULL, NULL, NULL),
        plumb_model_restrict(NULL, NULL, NULL, NULL, NULL),
        plumb_info(NULL, NULL, NULL, NULL),
        plumb_info_tensors(NULL, PLUMB_TEXT, NULL, NULL),
        plumb_model_transform(NULL, NULL, NULL, NULL),
        plumb_convert(NULL, NULL, NULL, NULL),
        plumb_ops(PLUMB_TEXT, NULL, NULL, NULL),
        plumb_run(NULL, NULL, NULL, NULL),
        plumb_run_result_write(NULL, NULL, NULL, NULL),
        plumb_check(NULL, NULL, NULL, NULL),
        plumb_check_result_write(NULL, NULL, NULL, NULL),
        plumb_test(NULL, 0, NULL, NULL, NULL),
        plumb_test_report_write(NULL, NULL, NULL, NULL),
        plumb_measure(NULL, NULL, NULL, NULL, NULL),
        plumb_measure_logits(NULL, NULL, NULL, 0, NULL, NULL),
        plumb_same_options_parse(NULL, NULL, NULL),
        plumb_same(NULL, NULL, NULL, NULL, NULL, NULL),
        plumb_generate(NULL, NULL, NULL, NULL),
        plumb_generate_explain(NULL, NULL, PLUMB_TEXT, NULL, NULL),
        plumb_generation_write(NULL, NULL, NULL, NULL),
        plumb_ids_read(NULL, NULL, NULL, NULL),
        plumb_recorder_open(NULL, NULL, NULL, NULL),
        plumb_recorder_write(NULL, NULL, PLUMB_FLOAT, 0, NULL, NULL, NULL, NULL),
        plumb_recorder_close(NULL, NULL),
        plumb_record(NULL, NULL, NULL, NULL),
        plumb_record_result_write(NULL, NULL, NULL, NULL),
        plumb_recording_open(NULL, NULL, NULL),
        plumb_recording_read(NULL, NULL, NULL, NULL),
        plumb_store_ls(NULL, PLUMB_TEXT, NULL, NULL),
        plumb_store_verify(NULL, PLUMB_TEXT, NULL, NULL, NULL),
        plumb_store_gc(NULL, 1, PLUMB_TEXT, NULL, NULL),
        plumb_compare(NULL, NULL, NULL, NULL, NULL),
        plumb_analyze(NULL, NULL, NULL, NULL),
        plumb_session_open(NULL, NULL, NULL),
        plumb_session_tensor(NULL, NULL, NULL, NULL, NULL),
        plumb_session_write(NULL, NULL, NULL, NULL),
        plumb_report(NULL, NULL, NULL, NULL, NULL),
        plumb_viewer_open(NULL, NULL, NULL, NULL),
        plumb_minify(NULL, NULL, NULL, NULL),
        plumb_minify_query(NULL, NULL, NULL, NULL),
        plumb_repro_write(NULL, NULL, NULL, NULL),
        plumb_repro_dump(NULL, NULL, NULL, NULL),
        plumb_repro_read(NULL, NULL, NULL),
        plumb_faults_missed(NULL, NULL, NULL, NULL),
        plumb_backends(PLUMB_TEXT, NULL, NULL),
        plumb_backend_list_new(NULL, NULL),
        plumb_wrap_backend(NULL, NULL, NULL, NULL, NULL),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(all[i], PLUMB_E_USAGE);
    assert_int_equal(plumb_write_check(NULL, NULL), PLUMB_OK); /* the defaults are known */
}

static void test_model__tells_types_and_nodes(void **state) {
    static const char text[] = "<ir_version: 8, opset_import: [\"\": 13]>\n"
                               "g (float[N,3] x, int64[4] s) => (float y)\n"
                               "{ a = Clip(x, , m)  m = Constant<value: tensor = float {2}>()\n"
                               "  y = Reshape(a, s) }\n";
    plumb_model *m = NULL;
    plumb_error err = { 0 };
    plumb_node node = { .size = sizeof node };
    int64_t dims[3] = { 7, 7, 7 };
    (void)state;
    if (plumb_model_open_memory(text, sizeof text - 1, NULL, &m, &err) != PLUMB_OK)
        fail_msg("%s", err.message);
    assert_int_equal(plumb_model_input_dims(m, 0, dims, 3), 2);
    assert_int_equal(dims[0], -1);
    assert_int_equal(dims[1], 3);
    assert_int_equal(dims[2], 7);
    assert_int_equal(plumb_model_input_dims(m, 1, NULL, 0), 1);
    assert_int_equal(plumb_model_input_dims(m, 2, NULL, 0), -1);
    assert_int_equal(plumb_model_input_dtype(m, 1), PLUMB_INT64);
    assert_int_equal(plumb_model_output_dtype(m, 0), PLUMB_FLOAT);
    assert_int_equal(plumb_model_nodes(m), 3);
    size_t at = 0;
    while (plumb_model_node(m, at, &node) && strcmp(node.op, "Clip") != 0)
        at++;
    assert_string_equal(node.op, "Clip");
    assert_string_equal(node.domain, "");
    assert_int_equal(node.n_inputs, 3);
    assert_int_equal(node.n_outputs, 1);
    assert_string_equal(plumb_model_node_input(m, at, 0), "x");
    assert_string_equal(plumb_model_node_input(m, at, 1), "");
    assert_string_equal(plumb_model_node_input(m, at, 2), "m");
    assert_null(plumb_model_node_input(m, at, 3));
    assert_string_equal(plumb_model_node_output(m, at, 0), "a");
    assert_int_equal(plumb_model_node(m, 3, &node), 0);
    plumb_model_close(m);
}

static void test_backends__are_a_list(void **state) {
    plumb_backend_list *list = NULL;
    plumb_backend_info info = { .size = sizeof info };
    plumb_error err = { 0 };
    bool eager = false, cmd = false;
    (void)state;
    if (plumb_backend_list_new(&list, &err) != PLUMB_OK) fail_msg("%s", err.message);
    assert_true(plumb_backend_list_count(list) >= 5);
    for (size_t i = 0; plumb_backend_list_get(list, i, &info); i++) {
        assert_true(info.available || info.reason[0] != '\0'); /* or it says why not */
        eager =
            eager || (strcmp(info.name, "eager") == 0 && info.available && *info.version != '\0');
        cmd = cmd || (strcmp(info.name, "cmd") == 0 && info.available && *info.reason != '\0');
    }
    assert_true(eager && cmd);
    plumb_backend_list_free(list);
}

static void test_null__has_no_contents(void **state) {
    (void)state;
    plumb_session_summary summary = { .size = sizeof summary, .exit_code = 7 };
    plumb_sync_point point = { .size = sizeof point, .is_output = 7 };
    assert_int_equal(plumb_session_get(NULL, &summary), 0);
    assert_int_equal(summary.exit_code, 0);
    assert_int_equal(plumb_session_point(NULL, 0, &point), 0);
    assert_int_equal(point.is_output, 0);
    assert_int_equal(plumb_session_point(NULL, 0, NULL), 0);
    assert_int_equal(plumb_session_side(NULL, 'a', NULL), 0);
    assert_int_equal(plumb_session_blame(NULL, 0, NULL), 0);
    assert_int_equal(plumb_session_points(NULL) + plumb_session_blames(NULL), 0);
    assert_true(plumb_session_find(NULL, "x") == PLUMB_NONE);
    assert_true(plumb_session_output(NULL, 0) == PLUMB_NONE);
    assert_true(isnan(plumb_session_metric(NULL, 0, "psnr")));
    assert_int_equal(plumb_session_count(NULL, "culprit"), 0);
    assert_string_equal(plumb_session_verdict(NULL), "");
    assert_string_equal(plumb_session_reason(NULL), "");
    assert_int_equal(plumb_session_exit_code(NULL), 0);
    assert_string_equal(plumb_session_note(NULL, 0), "");
    assert_string_equal(plumb_session_timing(NULL, 0, NULL), "");
    assert_int_equal(plumb_session_failing(NULL, 0) + plumb_session_smallest(NULL, 0), 0);
    assert_int_equal(plumb_run_result_outputs(NULL) + plumb_run_result_nodes(NULL), 0);
    assert_string_equal(plumb_run_result_name(NULL, 0), "");
    assert_string_equal(plumb_run_result_file(NULL, 0), "");
    assert_null(plumb_run_result_tensor(NULL, 0));
    assert_null(plumb_run_result_find(NULL, NULL));
    assert_int_equal(plumb_run_result_times(NULL, NULL), 0);
    assert_int_equal(plumb_run_result_node(NULL, 0, NULL), 0);
    assert_int_equal(plumb_check_result_exit_code(NULL), 0);
    assert_string_equal(plumb_check_result_status(NULL), "");
    assert_string_equal(plumb_check_result_error(NULL), "");
    assert_int_equal(plumb_check_result_output(NULL, plumb_check_result_outputs(NULL), NULL), 0);
    assert_int_equal(plumb_test_report_passed(NULL) + plumb_test_report_failed(NULL), 0);
    assert_int_equal(plumb_test_report_skipped(NULL) + plumb_test_report_cases(NULL), 0);
    assert_int_equal(plumb_test_report_case(NULL, 0, NULL), 0);
    assert_string_equal(plumb_record_result_path(NULL), "");
    assert_string_equal(plumb_record_result_note(NULL, plumb_record_result_notes(NULL)), "");
    assert_int_equal(plumb_record_result_values(NULL) + plumb_record_result_bytes(NULL), 0);
    assert_int_equal(plumb_record_result_observer_effect(NULL), 0);
    assert_true(plumb_record_result_seconds(NULL) <= 0);
    assert_string_equal(plumb_recording_format(NULL), "");
    assert_int_equal(plumb_recording_get(NULL, plumb_recording_count(NULL), NULL), 0);
    assert_int_equal(plumb_repro_get(NULL, NULL), 0);
    assert_string_equal(plumb_repro_other(NULL, 0, NULL), "");
    assert_int_equal(plumb_model_inputs(NULL) + plumb_model_outputs(NULL), 0);
    assert_int_equal(plumb_model_nodes(NULL), 0);
    assert_null(plumb_model_input_name(NULL, 0));
    assert_null(plumb_model_output_name(NULL, 0));
    assert_int_equal(plumb_model_input_dtype(NULL, 0), 0);
    assert_int_equal(plumb_model_output_dtype(NULL, 0), 0);
    assert_int_equal(plumb_model_input_dims(NULL, 0, NULL, 0), -1);
    assert_int_equal(plumb_model_output_dims(NULL, 0, NULL, 0), -1);
    assert_int_equal(plumb_model_node(NULL, 0, NULL), 0);
    assert_null(plumb_model_node_input(NULL, 0, 0));
    assert_null(plumb_model_node_output(NULL, 0, 0));
    assert_int_equal(plumb_backend_list_count(NULL), 0);
    assert_int_equal(plumb_backend_list_get(NULL, 0, NULL), 0);
    plumb_backend_list_free(NULL);
    assert_null(plumb_tensor_ref(NULL));
    assert_null(plumb_tensor_dims(NULL));
    assert_null(plumb_tensor_data(NULL));
    assert_int_equal(plumb_tensor_rank(NULL) + (int)plumb_tensor_dtype(NULL), 0);
    assert_int_equal(plumb_tensor_bytes(NULL) + (size_t)plumb_tensor_elements(NULL), 0);
    assert_string_equal(plumb_dtype_name((plumb_dtype)99), "");
    assert_string_equal(plumb_viewer_link(NULL), "");
    assert_null(plumb_wrapped_backend(NULL));
    assert_null(plumb_metric_name(1000));
    plumb_session_free(NULL);
    plumb_run_result_free(NULL);
    plumb_check_result_free(NULL);
    plumb_test_report_free(NULL);
    plumb_record_result_free(NULL);
    plumb_recording_close(NULL);
    plumb_repro_free(NULL);
    plumb_model_close(NULL);
    plumb_tensor_free(NULL);
    plumb_recorder_abandon(NULL);
    plumb_viewer_close(NULL);
    plumb_wrapped_free(NULL);
    plumb_free(NULL);
}

/* ---- tensors ---- */

static void count(void *ctx) {
    ++*(int *)ctx;
}

static void test_tensor__wraps_memory_until_the_last_reference(void **state) {
    (void)state;
    const int64_t dims[] = { 2 };
    const float data[] = { 1, 2 };
    int n_released = 0;
    plumb_tensor *t = NULL;
    plumb_error err = { 0 };
    assert_int_equal(
        plumb_tensor_wrap(PLUMB_FLOAT, 1, dims, data, sizeof data, count, &n_released, &t, &err),
        PLUMB_OK);
    assert_ptr_equal(plumb_tensor_data(t), data);
    plumb_tensor *other = plumb_tensor_ref(t);
    plumb_tensor_free(t);
    assert_int_equal(n_released, 0);
    plumb_tensor_free(other);
    assert_int_equal(n_released, 1);
    assert_int_equal(plumb_tensor_wrap(PLUMB_FLOAT, 1, dims, data, 3, count, &n_released, &t, &err),
                     PLUMB_E_USAGE);
    assert_int_equal(n_released, 1);
    assert_int_equal(plumb_tensor_new(PLUMB_FLOAT, 99, dims, data, 8, &t, &err), PLUMB_E_LIMIT);
    assert_int_equal(plumb_tensor_new((plumb_dtype)77, 1, dims, data, 8, &t, &err), PLUMB_E_USAGE);
}

static void test_tensor__holds_strings(void **state) {
    (void)state;
    const int64_t dims[] = { 2 };
    const plumb_string data[] = { { "one", 3 }, { NULL, 0 } };
    plumb_tensor *t = NULL;
    assert_int_equal(plumb_tensor_new(PLUMB_STRING, 1, dims, data, sizeof data, &t, NULL),
                     PLUMB_OK);
    const plumb_string *got = plumb_tensor_data(t);
    assert_int_equal(got[0].n_bytes, 3);
    assert_memory_equal(got[0].data, "one", 3);
    assert_int_equal(got[1].n_bytes, 0);
    plumb_tensor_free(t);
}

/* ---- running ---- */

static void test_run__takes_tensors_and_gives_tensors(void **state) {
    (void)state;
    plumb_model *model = open_text();
    plumb_tensor *x = row(1);
    const plumb_input in[] = { { "x", x } };
    plumb_inputs inputs;
    plumb_run_options options;
    plumb_run_result *result = NULL;
    plumb_error err = { 0 };
    plumb_inputs_init(&inputs);
    plumb_run_options_init(&options);
    inputs.tensors = in;
    inputs.n_tensors = 1;
    options.inputs = &inputs;
    options.profile = 1;
    assert_int_equal(plumb_run(model, &options, &result, &err), PLUMB_OK);
    plumb_model_close(model);
    plumb_tensor_free(x);
    assert_int_equal(plumb_run_result_outputs(result), 1);
    assert_string_equal(plumb_run_result_name(result, 0), "y");
    const plumb_tensor *y = plumb_run_result_find(result, "y");
    assert_non_null(y);
    const float *data = plumb_tensor_data(y);
    assert_true(fabsf(data[0] - expf(1.5f)) < 1e-5f);
    assert_int_equal(plumb_run_result_nodes(result), 3);
    plumb_node_time node = { .size = sizeof node };
    assert_int_equal(plumb_run_result_node(result, 1, &node), 1);
    assert_string_equal(node.op, "Exp");
    char *text = NULL;
    plumb_write_options write;
    plumb_write_options_init(&write);
    write.format = "json";
    assert_int_equal(plumb_run_result_write(result, &write, &text, &err), PLUMB_OK);
    assert_non_null(strstr(text, "\"timing\""));
    plumb_free(text);
    write.format = "csv";
    assert_int_equal(plumb_run_result_write(result, &write, &text, &err), PLUMB_E_USAGE);
    plumb_run_result_free(result);
}

static void test_run__names_an_input_that_the_model_lacks(void **state) {
    (void)state;
    plumb_model *model = open_text();
    plumb_tensor *x = row(1);
    const plumb_input in[] = { { "z", x } };
    plumb_inputs inputs;
    plumb_run_options options;
    plumb_run_result *result = NULL;
    plumb_error err = { 0 };
    plumb_inputs_init(&inputs);
    plumb_run_options_init(&options);
    inputs.tensors = in;
    inputs.n_tensors = 1;
    options.inputs = &inputs;
    assert_int_equal(plumb_run(model, &options, &result, &err), PLUMB_E_USAGE);
    assert_non_null(strstr(err.message, "'z'"));
    inputs.n_tensors = 2; /* the second has no name: not there */
    const plumb_input hole[] = { { "x", x }, { NULL, NULL } };
    inputs.tensors = hole;
    assert_int_equal(plumb_run(model, &options, &result, &err), PLUMB_E_USAGE);
    plumb_tensor_free(x);
    plumb_model_close(model);
}

static void test_check__keeps_its_result(void **state) {
    (void)state;
    plumb_model *model = open_text();
    plumb_check_result *result = NULL;
    plumb_error err = { 0 };
    plumb_check_options options;
    plumb_check_options_init(&options);
    /* The defaults are eager on both sides, which says nothing. */
    assert_int_equal(plumb_check(model, NULL, &result, &err), PLUMB_E_USAGE);
    options.reference = "jit";
    assert_int_equal(plumb_check(model, &options, &result, &err), PLUMB_OK);
    plumb_model_close(model);
    assert_string_equal(plumb_check_result_status(result), "pass");
    assert_int_equal(plumb_check_result_exit_code(result), 0);
    plumb_check_output out = { .size = sizeof out };
    assert_int_equal(plumb_check_result_output(result, 0, &out), 1);
    assert_string_equal(out.name, "y");
    assert_int_equal(out.same, 1);
    assert_non_null(out.tensor);
    char *text = NULL;
    plumb_write_options write;
    plumb_write_options_init(&write);
    const char *const formats[] = { NULL, "json", "junit", "csv", "md", "github", "sarif" };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        write.format = formats[i];
        assert_int_equal(plumb_check_result_write(result, &write, &text, &err), PLUMB_OK);
        plumb_free(text);
    }
    plumb_check_result_free(result);
}

/* ---- analysis ---- */

static void test_analyze__fills_a_session_from_memory(void **state) {
    (void)state;
    plumb_model *model = open_text();
    plumb_tensor *x[7];
    plumb_input in[7];
    for (int i = 0; i < 7; i++) {
        x[i] = row((float)i);
        in[i] = (plumb_input){ "x", x[i] };
    }
    plumb_inputs inputs;
    plumb_analyze_options options;
    plumb_session *session = NULL;
    plumb_error err = { 0 };
    plumb_inputs_init(&inputs);
    plumb_analyze_options_init(&options);
    inputs.tensors = in;
    inputs.n_tensors = 1;
    inputs.n_samples = 7;
    options.inputs = &inputs;
    options.backend = "jit:fuse=off"; /* every value is there */
    options.output = in_dir("session");
    assert_int_equal(plumb_analyze(model, &options, &session, &err), PLUMB_OK);
    plumb_model_close(model);
    for (int i = 0; i < 7; i++)
        plumb_tensor_free(x[i]);
    plumb_session_summary s = { .size = sizeof s };
    assert_int_equal(plumb_session_get(session, &s), 1);
    assert_string_equal(s.verdict, "agree");
    assert_string_equal(s.at_fault, "none");
    assert_int_equal(s.n_samples, 7);
    assert_int_equal(s.n_points, 3);
    assert_int_equal(s.n_outputs, 1);
    assert_int_equal(plumb_session_count(session, "same") + plumb_session_count(session, "within"),
                     3);
    plumb_sync_point p = { .size = sizeof p };
    assert_int_equal(plumb_session_point(session, plumb_session_find(session, "b"), &p), 1);
    assert_string_equal(p.op, "Exp");
    assert_int_equal(p.dtype_a, PLUMB_FLOAT);
    assert_true(p.rank_a == 2 && p.dims_a[1] == 3 && p.has_a && p.has_b);
    assert_true(isinf(plumb_session_metric(session, 1, "psnr")));
    plumb_tensor *a = NULL, *b = NULL;
    assert_int_equal(plumb_session_tensor(session, "b", "a", &a, &err), PLUMB_OK);
    assert_int_equal(plumb_session_tensor(session, "b", "b", &b, &err), PLUMB_OK);
    plumb_session *again = NULL;
    assert_int_equal(plumb_session_open(in_dir("session"), &again, &err), PLUMB_OK);
    assert_string_equal(plumb_session_verdict(again), "agree");
    plumb_session_free(again);
    plumb_session_free(session);
    assert_memory_equal(plumb_tensor_data(a), plumb_tensor_data(b), plumb_tensor_bytes(a));
    assert_true(fabsf(((const float *)plumb_tensor_data(a))[1] - expf(-4)) < 1e-6f);
    plumb_tensor_free(a);
    plumb_tensor_free(b);
}

/* ---- cancel ---- */

static int stop_at(void *ctx, const char *phase, int64_t done, int64_t total) {
    int *left = ctx;
    (void)done;
    (void)total;
    assert_non_null(phase);
    return (*left)-- <= 0;
}

static void test_cancel__ends_an_analysis_and_leaves_nothing(void **state) {
    (void)state;
    plumb_error err = { 0 };
    size_t n_cancelled = 0;
    for (int n = 0; n < 40; n += 3) {
        plumb_model *model = open_text();
        plumb_session *session = NULL;
        int left = n;
        const plumb_progress progress = { stop_at, &left };
        plumb_analyze_options options;
        plumb_analyze_options_init(&options);
        options.progress = &progress;
        options.reference = "jit";
        options.output = in_dir("cancelled");
        const plumb_status st = plumb_analyze(model, &options, &session, &err);
        plumb_model_close(model);
        if (st == PLUMB_OK) {
            plumb_session_free(session);
            break;
        }
        assert_int_equal(st, PLUMB_E_CANCELLED);
        assert_null(session);
        assert_int_equal(n_files(folder), 0);
        n_cancelled++;
    }
    assert_true(n_cancelled > 2);
}

static void test_cancel__ends_runs_records_and_checks(void **state) {
    (void)state;
    plumb_model *model = open_text();
    plumb_error err = { 0 };
    int left = 0;
    const plumb_progress progress = { stop_at, &left };
    plumb_run_options run;
    plumb_check_options check;
    plumb_record_options record;
    plumb_run_result *ran = NULL;
    plumb_check_result *checked = NULL;
    plumb_record_result *recorded = NULL;
    plumb_run_options_init(&run);
    plumb_check_options_init(&check);
    plumb_record_options_init(&record);
    run.progress = record.progress = &progress;
    run.output = in_dir("out");
    check.run = &run;
    check.reference = "jit";
    assert_int_equal(plumb_run(model, &run, &ran, &err), PLUMB_E_CANCELLED);
    left = 0;
    assert_int_equal(plumb_check(model, &check, &checked, &err), PLUMB_E_CANCELLED);
    left = 0;
    char path[400];
    snprintf(path, sizeof path, "%s", in_dir("r.safetensors"));
    record.output = path;
    assert_int_equal(plumb_record(model, &record, &recorded, &err), PLUMB_E_CANCELLED);
    assert_int_equal(n_files(folder), 0);
    plumb_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_api__tells_its_version),
        cmocka_unit_test(test_options__have_the_defaults_of_the_command_line),
        cmocka_unit_test(test_options__of_an_older_header_work),
        cmocka_unit_test(test_options__of_a_newer_header_work_when_unused),
        cmocka_unit_test(test_null__is_an_error_that_names_the_argument),
        cmocka_unit_test(test_null__never_crashes_a_call),
        cmocka_unit_test(test_null__has_no_contents),
        cmocka_unit_test(test_model__tells_types_and_nodes),
        cmocka_unit_test(test_backends__are_a_list),
        cmocka_unit_test(test_tensor__wraps_memory_until_the_last_reference),
        cmocka_unit_test(test_tensor__holds_strings),
        cmocka_unit_test(test_run__takes_tensors_and_gives_tensors),
        cmocka_unit_test(test_run__names_an_input_that_the_model_lacks),
        cmocka_unit_test_setup_teardown(test_check__keeps_its_result, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_analyze__fills_a_session_from_memory, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_cancel__ends_an_analysis_and_leaves_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_cancel__ends_runs_records_and_checks, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

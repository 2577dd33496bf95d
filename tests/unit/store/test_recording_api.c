/* plumb_recorder_* and plumb_record, as an engine and a program use them: plumb.h alone writes. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <plumb.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "fresh_dir.h"
#include "store/recording.h"
#include "write_over.h"

static pl_recording *open_recording(const char *path) {
    pl_recording *rec = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_recording_open(path, &rec, &err) != PL_OK) fail_msg("%s", err.message);
    assert_int_equal(pl_recording_check(rec, NULL), PL_OK);
    return rec;
}

static void check_floats(const pl_recording *rec, const char *key, const float *want, int64_t n) {
    pl_tensor *t = NULL;
    const pl_record *r = pl_recording_find(rec, key);
    if (r == NULL) fail_msg("there is no '%s'", key);
    assert_int_equal(pl_recording_read(rec, r, &t, NULL), PL_OK);
    assert_int_equal(t->n_elements, n);
    assert_memory_equal(t->data, want, (size_t)n * sizeof(float));
    pl_tensor_unref(t);
}

static void test_api__records_in_three_calls(void **state) {
    (void)state;
    const char *path = in_dir("three.safetensors");
    const float data[6] = { 1, 2, 3, 4, 5, 6 }, transposed[6] = { 1, 4, 2, 5, 3, 6 },
                reversed[6] = { 6, 5, 4, 3, 2, 1 };
    const int64_t dims[2] = { 3, 2 }, strides[2] = { 1, 3 }, six = 6, minus = -1, none = 0;
    plumb_recorder *r = NULL;
    plumb_error err = { 0 };
    assert_int_equal(plumb_recorder_open(path, NULL, &r, &err), PLUMB_OK);
    assert_int_equal(plumb_recorder_write(r, "dense", PLUMB_FLOAT, 1, &six, NULL, data, &err), 0);
    assert_int_equal(plumb_recorder_write(r, "view", PLUMB_FLOAT, 2, dims, strides, data, &err), 0);
    assert_int_equal(plumb_recorder_write(r, "back", PLUMB_FLOAT, 1, &six, &minus, data + 5, &err),
                     0);
    assert_int_equal(plumb_recorder_write(r, "scalar", PLUMB_FLOAT, 0, NULL, NULL, data, &err), 0);
    assert_int_equal(plumb_recorder_write(r, "empty", PLUMB_FLOAT, 1, &none, NULL, NULL, &err), 0);
    assert_int_equal(plumb_recorder_close(r, &err), PLUMB_OK);
    pl_recording *rec = open_recording(path);
    check_floats(rec, "dense", data, 6);
    check_floats(rec, "view", transposed, 6);
    check_floats(rec, "back", reversed, 6);
    check_floats(rec, "scalar", data, 1);
    assert_int_equal(pl_recording_find(rec, "empty")->dims[0], 0);
    assert_non_null(strstr(rec->provenance, "\"cpu\""));
    pl_recording_close(rec);
}

static void test_api__says_what_is_wrong_and_goes_on(void **state) {
    (void)state;
    const char *path = in_dir("wrong.safetensors");
    const float x = 1;
    const int64_t one = 1, minus = -1, huge[2] = { INT64_MAX, 2 };
    plumb_recorder *r = NULL;
    plumb_error err = { 0 };
    const plumb_recorder_options lost = { .size = sizeof(lost), .model = "/no/such/model.onnx" };
    assert_int_equal(plumb_recorder_open(path, &lost, &r, &err), PLUMB_E_NOT_FOUND);
    assert_int_equal(plumb_recorder_open(path, NULL, &r, &err), PLUMB_OK);
    assert_int_equal(plumb_recorder_write(r, NULL, PLUMB_FLOAT, 1, &one, NULL, &x, &err),
                     PLUMB_E_USAGE);
    assert_int_equal(plumb_recorder_write(r, "v", (plumb_dtype)99, 1, &one, NULL, &x, &err),
                     PLUMB_E_USAGE);
    assert_int_equal(plumb_recorder_write(r, "v", PLUMB_STRING, 1, &one, NULL, &x, &err),
                     PLUMB_E_USAGE);
    assert_int_equal(plumb_recorder_write(r, "v", PLUMB_FLOAT, 99, &one, NULL, &x, &err),
                     PLUMB_E_USAGE);
    assert_int_equal(plumb_recorder_write(r, "v", PLUMB_FLOAT, 1, NULL, NULL, &x, &err),
                     PLUMB_E_USAGE);
    assert_int_equal(plumb_recorder_write(r, "v", PLUMB_FLOAT, 1, &minus, NULL, &x, &err),
                     PLUMB_E_USAGE);
    assert_int_equal(plumb_recorder_write(r, "v", PLUMB_FLOAT, 2, huge, NULL, &x, &err),
                     PLUMB_E_USAGE);
    assert_int_equal(plumb_recorder_write(r, "v", PLUMB_FLOAT, 1, &one, NULL, NULL, &err),
                     PLUMB_E_USAGE);
    assert_non_null(strstr(err.message, "'v'"));
    assert_int_equal(plumb_recorder_write(r, "v", PLUMB_FLOAT, 1, &one, NULL, &x, NULL), PLUMB_OK);
    assert_int_equal(plumb_recorder_close(r, &err), PLUMB_OK);
    pl_recording *rec = open_recording(path);
    assert_int_equal(rec->n_records, 1);
    pl_recording_close(rec);
    assert_int_equal(plumb_recorder_open(path, NULL, &r, &err), PLUMB_E_EXISTS);
    assert_int_equal(plumb_recorder_open(in_dir("gone"), NULL, &r, &err), PLUMB_OK);
    plumb_recorder_abandon(r);
    assert_false(pl_path_exists(in_dir("gone")));
    plumb_recorder_abandon(NULL);
}

static void *write_some(void *ctx) {
    for (int i = 0; i < 100; i++) {
        float data[100];
        const int64_t n = 1 + i;
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        for (int k = 0; k <= i; k++)
            data[k] = (float)(i * 1000 + k);
        if (plumb_recorder_write(ctx, name, PLUMB_FLOAT, 1, &n, NULL, data, NULL) != 0) return ctx;
    }
    return NULL;
}

static void test_api__bears_threads(void **state) {
    (void)state;
    const char *path = in_dir("threads.safetensors");
    plumb_recorder *r = NULL;
    pthread_t threads[3];
    assert_int_equal(plumb_recorder_open(path, NULL, &r, NULL), PLUMB_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_some, r), 0);
    for (int i = 0; i < 3; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(plumb_recorder_close(r, NULL), PLUMB_OK);
    pl_recording *rec = open_recording(path);
    const float want[3] = { 2000, 2001, 2002 };
    assert_int_equal(rec->n_records, 300);
    check_floats(rec, "t2#2", want, 3);
    pl_recording_close(rec);
}

/* ---- plumb_record ---- */

static const char model_text[] =
    "<ir_version: 8, opset_import: [\"\": 13]>\n"
    "g (float[2] x) => (float[2] y) <float[2] w = {1.5, -2}> { a = Mul(x, w) y = Relu(a) }\n";

static plumb_status record(const char *out, plumb_error *err) {
    plumb_record_options options;
    plumb_inputs inputs;
    plumb_model *model = NULL;
    plumb_record_result *result = NULL;
    plumb_inputs_init(&inputs);
    plumb_record_options_init(&options);
    inputs.fill = PLUMB_FILL_ONES;
    options.inputs = &inputs;
    options.output = out;
    options.threads = 1;
    plumb_status st = plumb_model_open(in_dir("m.onnxtxt"), &model, err);
    if (st == PLUMB_OK) st = plumb_record(model, &options, &result, err);
    plumb_record_result_free(result);
    plumb_model_close(model);
    return st;
}

static void test_api__records_a_model(void **state) {
    (void)state;
    const float x[2] = { 1, 1 }, a[2] = { 1.5f, -2 }, y[2] = { 1.5f, 0 };
    plumb_error err = { 0 };
    char path[400];
    assert_int_equal(write_over(in_dir("m.onnxtxt"), model_text, sizeof model_text - 1, NULL),
                     PL_OK);
    snprintf(path, sizeof path, "%s", in_dir("m.safetensors"));
    assert_int_equal(record(path, &err), PLUMB_OK);
    pl_recording *rec = open_recording(path);
    assert_int_equal(rec->n_records, 3);
    check_floats(rec, "x", x, 2);
    check_floats(rec, "a", a, 2);
    check_floats(rec, "y", y, 2);
    assert_int_equal(pl_recording_find(rec, "x")->flags, PL_RECORD_INPUT);
    assert_int_equal(pl_recording_find(rec, "y")->flags, PL_RECORD_OUTPUT);
    assert_string_equal(pl_recording_find(rec, "a")->op, "Mul");
    assert_non_null(strstr(rec->graph, "\"op\":\"Relu\""));
    assert_non_null(strstr(rec->graph, "\"weights\":[{\"name\":\"w\""));
    pl_recording_close(rec);
}

static void test_api__leaves_nothing_when_memory_ends(void **state) {
    (void)state;
    char path[400];
    bool done = false;
    assert_int_equal(write_over(in_dir("m.onnxtxt"), model_text, sizeof model_text - 1, NULL),
                     PL_OK);
    snprintf(path, sizeof path, "%s", in_dir("memory.safetensors"));
    for (long n = 0; n < 5000 && !done; n++) {
        plumb_error err = { 0 };
        pl_alloc_fail_after(n);
        const plumb_status st = record(path, &err);
        pl_alloc_fail_after(-1);
        done = st == PLUMB_OK;
        if (done) break;
        /* The file itself is complete once its name is there: only the report failed. */
        if (pl_path_exists(path)) {
            pl_recording_close(open_recording(path));
            assert_int_equal(unlink(path), 0);
        }
    }
    assert_true(done);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_api__records_in_three_calls),
        cmocka_unit_test(test_api__says_what_is_wrong_and_goes_on),
        cmocka_unit_test(test_api__bears_threads),
        cmocka_unit_test(test_api__records_a_model),
        cmocka_unit_test(test_api__leaves_nothing_when_memory_ends),
    };
    return cmocka_run_group_tests_name("recording_api", tests, set_up, tear_down);
}

/* Other people's recordings: npz, npy folders, Core AI's folders, Polygraphy JSON, ONNX test data.
 * Files of others are written out by hand here, not by plumb. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "fresh_dir.h"
#include "store/recording.h"
#include "tensor/file/npz.h"
#include "tensor/file/tensor_proto.h"
#include "write_over.h"

/* numpy.save of array([1.5, -2.0], dtype=float32), version 1.0. */
static const char npy[] = "\x93NUMPY\x01\x00\x76\x00"
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
                          "                                                            \n"
                          "\x00\x00\xc0\x3f\x00\x00\x00\xc0";
/* base64.b64encode of exactly these bytes, by Python. */
static const char npy64[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZSwgJ3NoYXBlJzog"
    "KDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgIAoAAMA/AAAAwA==";

static void write_file(const char *name, const void *data, size_t n) {
    assert_int_equal(write_over(in_dir(name), data, n, NULL), PL_OK);
}

static void check_values(const pl_recording *rec, const char *key, pl_dtype dtype) {
    pl_tensor *t = NULL;
    pl_err err = PL_ERR_INIT;
    const pl_record *r = pl_recording_find(rec, key);
    if (r == NULL) fail_msg("there is no '%s'", key);
    if (pl_recording_read(rec, r, &t, &err) != PL_OK) fail_msg("%s", err.message);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal(t->rank, 1);
    assert_int_equal(t->dims[0], 2);
    assert_true(pl_tensor_get_f64(t, 0) == 1.5 && pl_tensor_get_f64(t, 1) == -2.0);
    pl_tensor_unref(t);
}

static pl_recording *open_recording(const char *name) {
    pl_recording *rec = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_recording_open(in_dir(name), &rec, &err) != PL_OK) fail_msg("%s", err.message);
    return rec;
}

/* Opens and reads all; the first failure. */
static pl_status try_all(const char *name, pl_err *err) {
    pl_recording *rec = NULL;
    pl_status st = pl_recording_open(in_dir(name), &rec, err);
    if (st == PL_OK) st = pl_recording_check(rec, err);
    pl_recording_close(rec);
    return st;
}

static void expect_fail(const char *name, pl_status want, const char *says) {
    pl_err err = PL_ERR_INIT;
    const pl_status st = try_all(name, &err);
    if (st != want || strstr(err.message, says) == NULL)
        fail_msg("status %d, expected %d; \"%s\", expected \"%s\"", (int)st, (int)want, err.message,
                 says);
}

static void test_import__reads_npz(void **state) {
    (void)state;
    const char *names[2] = { "a/b", "c" };
    const int64_t two = 2;
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(PL_F32, 1, &two, &t, NULL), PL_OK);
    memcpy(t->data, npy + 128, 8);
    const pl_tensor *tensors[2] = { t, t };
    assert_int_equal(pl_npz_write(in_dir("x.npz"), names, tensors, 2, NULL), PL_OK);
    pl_tensor_unref(t);
    pl_recording *rec = open_recording("x.npz");
    assert_string_equal(rec->format, "npz");
    assert_int_equal(rec->n_records, 2);
    check_values(rec, "a/b", PL_F32);
    check_values(rec, "c", PL_F32);
    pl_recording_close(rec);
    write_file("bad.npz", "PK\3\4 and so on", 15);
    expect_fail("bad.npz", PL_E_FORMAT, "bad.npz");
}

static void test_import__reads_folders_of_npy(void **state) {
    (void)state;
    assert_int_equal(sizeof npy - 1, 136);
    assert_int_equal(pl_path_make_dirs(in_dir("npy"), NULL), PL_OK);
    write_file("npy/conv1.npy", npy, sizeof npy - 1);
    write_file("npy/conv2.npy", npy, sizeof npy - 1);
    write_file("npy/notes.txt", "x", 1);
    pl_recording *rec = open_recording("npy");
    assert_string_equal(rec->format, "npy");
    assert_int_equal(rec->n_records, 2);
    check_values(rec, "conv2", PL_F32);
    pl_recording_close(rec);
    write_file("npy/conv1.npy", npy, sizeof npy - 2);
    expect_fail("npy", PL_E_FORMAT, "conv1.npy");
    assert_int_equal(pl_path_make_dirs(in_dir("empty"), NULL), PL_OK);
    expect_fail("empty", PL_E_FORMAT, "not a recording");
}

#define ITEM(name, file, more)                                                                     \
    "\"" name "\":{\"node_name\":\"" name "\",\"node_target\":\"aten.relu\",\"data_file\":\"" file \
    "\"" more "}"
#define CORE_AI(inputs, mid, outputs)                                                              \
    "{\"inputs\":{" inputs "},\"outputs\":{" outputs "},\"intermediates\":{" mid "},"              \
    "\"mappings\":{\"outputs\":[{\"id\":1.5}]}}"
#define FULL ",\"shape\":[2],\"torch_dtype\":\"torch.float32\",\"numel\":2"

static void test_import__reads_core_ai_folders(void **state) {
    (void)state;
    static const char good[] = CORE_AI(
        ITEM("x", "data/x_0000.npy", FULL), ITEM("relu", "data/x_0000.npy", ""),
        ITEM("out", "data/x_0000.npy", ",\"shape\":[2],\"torch_dtype\":\"torch.bfloat16\""));
    assert_int_equal(pl_path_make_dirs(in_dir("m.aimodelintermediates/data"), NULL), PL_OK);
    write_file("m.aimodelintermediates/data/x_0000.npy", npy, sizeof npy - 1);
    write_file("m.aimodelintermediates/metadata.json", good, sizeof good - 1);
    pl_recording *rec = open_recording("m.aimodelintermediates");
    assert_string_equal(rec->format, "aimodelintermediates");
    assert_int_equal(rec->n_records, 3);
    check_values(rec, "x", PL_F32);
    check_values(rec, "relu", PL_F32);
    check_values(rec, "out", PL_BF16); /* npy cannot say so */
    assert_int_equal(pl_recording_find(rec, "x")->flags, PL_RECORD_INPUT);
    assert_int_equal(pl_recording_find(rec, "relu")->flags, 0);
    assert_int_equal(pl_recording_find(rec, "out")->flags, PL_RECORD_OUTPUT);
    assert_string_equal(pl_recording_find(rec, "relu")->op, "aten.relu");
    assert_string_equal(rec->mappings, "{\"outputs\":[{\"id\":1.5}]}");
    pl_recording_close(rec);
}

static void test_import__refuses_bad_core_ai_folders(void **state) {
    (void)state;
    static const struct {
        const char *text;
        pl_status want;
        const char *says;
    } cases[] = {
        { "", PL_E_FORMAT, "metadata.json" },
        { "[]", PL_E_FORMAT, "inputs" },
        { "{\"inputs\":{},\"outputs\":{}}", PL_E_FORMAT, "intermediates" },
        { CORE_AI(ITEM("x", "data/none.npy", ""), "", ""), PL_E_NOT_FOUND, "none.npy" },
        { CORE_AI(ITEM("x", "../secret.npy", ""), "", ""), PL_E_INVALID, "outside" },
        { CORE_AI(ITEM("x", "/etc/passwd", ""), "", ""), PL_E_INVALID, "absolute" },
        { CORE_AI("\"x\":{}", "", ""), PL_E_FORMAT, "data_file" },
        { CORE_AI(ITEM("x", "data/x.npy", ",\"shape\":[3],\"torch_dtype\":\"torch.float\""), "",
                  ""),
          PL_E_FORMAT, "the metadata says" },
        { CORE_AI(ITEM("x", "data/x.npy", ",\"shape\":[-3],\"torch_dtype\":\"torch.float\""), "",
                  ""),
          PL_E_FORMAT, "shape" },
    };
    assert_int_equal(pl_path_make_dirs(in_dir("bad.aim/data"), NULL), PL_OK);
    write_file("secret.npy", npy, sizeof npy - 1);
    write_file("bad.aim/data/x.npy", npy, sizeof npy - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file("bad.aim/metadata.json", cases[i].text, strlen(cases[i].text));
        expect_fail("bad.aim", cases[i].want, cases[i].says);
    }
}

static void test_import__reads_polygraphy(void **state) {
    (void)state;
    pl_buf text = PL_BUF_INIT;
    pl_buf_printf(&text,
                  "{\n    \"lst\": [[\"ort\", ["
                  "{\"outputs\": {\"y\": {\"values\": {\"array\": \"%s\", \"polygraphy_class\": "
                  "\"ndarray\"}, \"polygraphy_class\": \"LazyArray\"}}, \"runtime\": 0.1, "
                  "\"runner_name\": \"ort\", \"polygraphy_class\": \"IterationResult\"},"
                  "{\"outputs\": {\"y\": {\"array\": \"%s\"}}, \"runtime\": null}]],"
                  "[\"trt\", [{\"outputs\": {\"y\": {\"array\": \"%s\"}}}]]],"
                  "\"polygraphy_class\": \"RunResults\"}",
                  npy64, npy64, npy64);
    write_file("out.json", text.data, text.n_bytes);
    pl_recording *rec = open_recording("out.json");
    assert_string_equal(rec->format, "polygraphy");
    assert_int_equal(rec->n_records, 3);
    check_values(rec, "y", PL_F32);
    check_values(rec, "y#1", PL_F32);
    check_values(rec, "trt/y", PL_F32);
    assert_string_equal(pl_recording_find(rec, "trt/y")->value, "y");
    assert_int_equal(pl_recording_find(rec, "y#1")->call, 1);
    assert_int_equal(pl_recording_find(rec, "y")->flags, PL_RECORD_OUTPUT);
    pl_recording_close(rec);
    pl_buf_reset(&text);
    pl_buf_printf(&text, "[{\"x\": {\"array\": \"%s\"}}]", npy64);
    write_file("in.json", text.data, text.n_bytes);
    rec = open_recording("in.json");
    assert_int_equal(pl_recording_find(rec, "x")->flags, PL_RECORD_INPUT);
    check_values(rec, "x", PL_F32);
    pl_recording_close(rec);
    pl_buf_release(&text);
}

static void test_import__refuses_bad_polygraphy(void **state) {
    (void)state;
    static const char *const bad[] = { "{",
                                       "{}",
                                       "[1]",
                                       "{\"lst\": 1}",
                                       "{\"lst\": [1]}",
                                       "{\"lst\": [[\"a\", 1]]}",
                                       "{\"lst\": [[\"a\", [{}]]]}",
                                       "[{\"x\": {\"array\": 1}}]",
                                       "[{\"x\": {\"array\": \"\"}}]",
                                       "[{\"x\": {\"array\": \"AAA\"}}]",
                                       "[{\"x\": {\"array\": \"A=AA\"}}]",
                                       "[{\"x\": {\"array\": \"====\"}}]",
                                       "[{\"x\": {\"array\": \"k05VTVBZAQB2AA==\"}}]" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file("bad.json", bad[i], strlen(bad[i]));
        expect_fail("bad.json", PL_E_FORMAT, "bad.json");
    }
}

static void test_import__reads_onnx_test_data(void **state) {
    (void)state;
    static const char *const files[3] = { "set/input_0.pb", "set/input_10.pb", "set/output_0.pb" };
    static const char *const names[3] = { "x", NULL, "y" };
    const int64_t two = 2;
    pl_tensor *t = NULL;
    assert_int_equal(pl_path_make_dirs(in_dir("set"), NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_F32, 1, &two, &t, NULL), PL_OK);
    memcpy(t->data, npy + 128, 8);
    for (int i = 0; i < 3; i++) {
        pl_buf buf = PL_BUF_INIT;
        pl_tensor_proto_write(&buf, names[i], t);
        write_file(files[i], buf.data, buf.n_bytes);
        pl_buf_release(&buf);
    }
    pl_tensor_unref(t);
    pl_recording *rec = open_recording("set");
    assert_string_equal(rec->format, "onnx-test-data");
    assert_int_equal(rec->n_records, 3);
    assert_string_equal(rec->records[0].key, "x");
    assert_string_equal(rec->records[1].key, "input_10");
    assert_int_equal(rec->records[2].flags, PL_RECORD_OUTPUT);
    check_values(rec, "y", PL_F32);
    check_values(rec, "input_10", PL_F32);
    pl_recording_close(rec);
    write_file("set/output_0.pb", "\xff\xff\xff", 3);
    expect_fail("set", PL_E_FORMAT, "output_0");
}

static void test_import__says_what_is_no_recording(void **state) {
    (void)state;
    pl_recording *rec = NULL;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_recording_open(in_dir("absent"), &rec, &err), PL_E_NOT_FOUND);
    write_file("text", "hello, world", 12);
    expect_fail("text", PL_E_FORMAT, "not a recording");
    write_file("text", "", 0);
    expect_fail("text", PL_E_FORMAT, "not a recording");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import__reads_npz),
        cmocka_unit_test(test_import__reads_folders_of_npy),
        cmocka_unit_test(test_import__reads_core_ai_folders),
        cmocka_unit_test(test_import__refuses_bad_core_ai_folders),
        cmocka_unit_test(test_import__reads_polygraphy),
        cmocka_unit_test(test_import__refuses_bad_polygraphy),
        cmocka_unit_test(test_import__reads_onnx_test_data),
        cmocka_unit_test(test_import__says_what_is_no_recording),
    };
    return cmocka_run_group_tests_name("recording_import", tests, set_up, tear_down);
}

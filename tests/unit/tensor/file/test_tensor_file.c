/* Any file of tensors: the format is found by content, chosen by suffix, and named in errors. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "fresh_dir.h"
#include "tensor/file/tensor_file.h"
#include "tensor_samples.h"
#include "write_over.h"

static pl_named_datum named(const char *name, pl_dtype dtype, int shape) {
    pl_named_datum item = { pl_strdup(name), NULL };
    assert_int_equal(
        pl_datum_of_tensor_take(sample_tensor(dtype, &sample_shapes[shape]), &item.datum, NULL),
        PL_OK);
    return item;
}

static void test_file__loads_what_it_saves(void **state) {
    (void)state;
    static const char *const suffixes[] = { "x.npy", "x.npz", "x.pb", "x.safetensors" };
    for (int k = 0; k < 4; k++) {
        const size_t n = k % 2 ? 2 : 1; /* npy and pb hold one */
        pl_named_datum items[2] = { named("b", PL_F64, 5), named("a", PL_I8, 4) };
        pl_tensor_file file = PL_TENSOR_FILE_INIT;
        assert_int_equal(pl_tensor_file_save(in_dir(suffixes[k]), items, n, NULL), PL_OK);
        assert_int_equal(pl_tensor_file_load(in_dir(suffixes[k]), NULL, &file, NULL), PL_OK);
        assert_int_equal(file.n_items, n);
        for (size_t i = 0; i < n; i++) {
            const pl_named_datum *want = &items[i];
            assert_string_equal(file.items[i].name, k == 0 ? "" : want->name);
            assert_true(pl_tensor_identical(file.items[i].datum->tensor, want->datum->tensor));
        }
        pl_tensor_file_release(&file);
        pl_tensor_file_release(&(pl_tensor_file){ NULL, 0 });
        for (int i = 0; i < 2; i++) {
            pl_free(items[i].name);
            pl_datum_unref(items[i].datum);
        }
    }
}

static void test_file__loads_by_content_not_by_name(void **state) {
    (void)state;
    pl_named_datum item = named("w", PL_F32, 4);
    pl_tensor_file file = PL_TENSOR_FILE_INIT;
    assert_int_equal(pl_tensor_file_save(in_dir("y.npz"), &item, 1, NULL), PL_OK);
    pl_file_map *map = NULL;
    assert_int_equal(pl_file_map_open(in_dir("y.npz"), &map, NULL), PL_OK);
    assert_int_equal(write_over(in_dir("y.dat"), map->data, map->n_bytes, NULL), PL_OK);
    pl_file_map_unref(map);
    assert_int_equal(pl_tensor_file_load(in_dir("y.dat"), NULL, &file, NULL), PL_OK);
    assert_string_equal(file.items[0].name, "w");
    pl_tensor_file_release(&file);
    pl_free(item.name);
    pl_datum_unref(item.datum);
}

static void test_file__saves_sequences_only_as_proto(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_named_datum item = named("w", PL_F32, 4), seq = { item.name, NULL };
    const pl_type tensor = { .kind = PL_TYPE_TENSOR, .dtype = PL_F32 };
    const pl_type type = { .kind = PL_TYPE_SEQUENCE, .elem = &tensor };
    pl_tensor_file file = PL_TENSOR_FILE_INIT;
    assert_int_equal(
        pl_datum_new_sequence(PL_TYPE_TENSOR, PL_F32, &item.datum, 1, &seq.datum, NULL), PL_OK);
    assert_int_equal(pl_tensor_file_save(in_dir("s.pb"), &seq, 1, NULL), PL_OK);
    assert_int_equal(pl_tensor_file_load(in_dir("s.pb"), &type, &file, NULL), PL_OK);
    assert_string_equal(file.items[0].name, "w");
    assert_int_equal(file.items[0].datum->n_items, 1);
    pl_tensor_file_release(&file);
    assert_int_equal(pl_tensor_file_save(in_dir("s.npz"), &seq, 1, &err), PL_E_UNSUPPORTED);
    assert_int_equal(pl_tensor_file_save(in_dir("s.safetensors"), &seq, 1, &err), PL_E_UNSUPPORTED);
    assert_int_equal(pl_tensor_file_save(in_dir("s.npy"), &seq, 1, &err), PL_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "s.npy"));
    pl_datum_unref(seq.datum);
    pl_datum_unref(item.datum);
    pl_free(item.name);
}

static void test_file__names_the_file_in_errors(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_tensor_file file = PL_TENSOR_FILE_INIT;
    assert_int_equal(pl_tensor_file_save(in_dir("x.txt"), NULL, 0, &err), PL_E_USAGE);
    assert_int_equal(pl_tensor_file_save(in_dir("x.npy"), NULL, 0, &err), PL_E_USAGE);
    assert_int_equal(write_over(in_dir("junk"), "hello, world!", 13, NULL), PL_OK);
    assert_int_equal(pl_tensor_file_load(in_dir("junk"), NULL, &file, &err), PL_E_FORMAT);
    assert_non_null(
        strstr(err.message, "junk: not an npy, npz, safetensors, GGUF or PyTorch file"));
    assert_int_equal(write_over(in_dir("empty.pb"), "", 0, NULL), PL_OK);
    assert_int_equal(pl_tensor_file_load(in_dir("empty.pb"), NULL, &file, &err), PL_E_FORMAT);
    assert_int_not_equal(pl_tensor_file_load(in_dir("missing.npy"), NULL, &file, &err), PL_OK);
    assert_int_equal(file.n_items, 0);
}

static void test_file__survives_failing_allocations(void **state) {
    (void)state;
    static const char *const names[] = { "f.npy", "f.npz", "f.pb", "f.safetensors" };
    pl_named_datum item = named("w", PL_I16, 5);
    for (int k = 0; k < 4; k++) {
        for (long n = 0;; n++) { /* saving */
            pl_alloc_fail_after(n);
            const pl_status st = pl_tensor_file_save(in_dir(names[k]), &item, 1, NULL);
            pl_alloc_fail_after(-1);
            if (st == PL_OK) break;
            assert_int_equal(st, PL_E_MEMORY);
        }
        for (long n = 0;; n++) { /* loading */
            pl_tensor_file file = PL_TENSOR_FILE_INIT;
            pl_alloc_fail_after(n);
            const pl_status st = pl_tensor_file_load(in_dir(names[k]), NULL, &file, NULL);
            pl_alloc_fail_after(-1);
            pl_tensor_file_release(&file);
            if (st == PL_OK) break;
            assert_int_equal(st, PL_E_MEMORY);
        }
    }
    pl_free(item.name);
    pl_datum_unref(item.datum);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file__loads_what_it_saves),
        cmocka_unit_test(test_file__loads_by_content_not_by_name),
        cmocka_unit_test(test_file__saves_sequences_only_as_proto),
        cmocka_unit_test(test_file__names_the_file_in_errors),
        cmocka_unit_test(test_file__survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

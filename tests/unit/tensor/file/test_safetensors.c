/* safetensors: every dtype through the packing and back, in place; hostile headers. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "fresh_dir.h"
#include "tensor/file/safetensors.h"
#include "tensor_samples.h"
#include "write_over.h"

/* Opens a file of this header and that many bytes of data. */
static pl_status open_text(const char *header, size_t n_header, size_t n_data, pl_safetensors **out,
                           pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_file_map *map = NULL;
    for (int i = 0; i < 8; i++)
        pl_buf_putc(&buf, (char)(uint8_t)((uint64_t)n_header >> (8 * i)));
    pl_buf_append(&buf, header, strlen(header));
    for (size_t i = 0; i < n_data; i++)
        pl_buf_putc(&buf, (char)i);
    assert_int_equal(write_over(in_dir("t.safetensors"), buf.data, buf.n_bytes, NULL), PL_OK);
    pl_buf_release(&buf);
    assert_int_equal(pl_file_map_open(in_dir("t.safetensors"), &map, NULL), PL_OK);
    const pl_status st = pl_safetensors_open(map, out, err);
    pl_file_map_unref(map);
    return st;
}

static pl_status write_all(const pl_safetensors_spec *specs, pl_tensor *const *tensors, size_t n,
                           pl_err *err) {
    static const pl_safetensors_pair metadata[] = { { "format", "pt" }, { "k\"", "v\n" } };
    pl_safetensors_writer *w = NULL;
    (void)unlink(in_dir("t.safetensors"));
    PL_TRY(pl_safetensors_writer_open(in_dir("t.safetensors"), specs, n, metadata, 2, &w, err));
    for (size_t i; (i = pl_safetensors_writer_next(w)) < n;) {
        const pl_status st = pl_safetensors_writer_put(w, tensors[i], err);
        if (st != PL_OK) {
            pl_safetensors_writer_abort_take(w);
            return st;
        }
    }
    return pl_safetensors_writer_commit_take(w, err);
}

static void test_safetensors__round_trips_every_dtype(void **state) {
    (void)state;
    pl_tensor *tensors[PL_DTYPE_COUNT * N_SAMPLE_SHAPES];
    pl_safetensors_spec specs[PL_DTYPE_COUNT * N_SAMPLE_SHAPES];
    char names[PL_DTYPE_COUNT * N_SAMPLE_SHAPES][40];
    size_t n = 0;
    for (int k = 1; k < PL_DTYPE_COUNT; k++)
        for (int s = 0; s < N_SAMPLE_SHAPES && k != PL_STRING; s++, n++) {
            tensors[n] = sample_tensor((pl_dtype)k, &sample_shapes[s]);
            snprintf(names[n], sizeof names[n], "%s \"%d\"", pl_dtype_name((pl_dtype)k), s);
            specs[n] =
                (pl_safetensors_spec){ names[n], (pl_dtype)k, tensors[n]->rank, tensors[n]->dims };
        }
    assert_int_equal(write_all(specs, tensors, n, NULL), PL_OK);
    pl_file_map *map = NULL;
    pl_safetensors *file = NULL;
    assert_int_equal(pl_file_map_open(in_dir("t.safetensors"), &map, NULL), PL_OK);
    assert_true(pl_safetensors_sniff(map->data, map->n_bytes));
    assert_int_equal(pl_safetensors_open(map, &file, NULL), PL_OK);
    assert_int_equal(file->n_entries, n);
    assert_int_equal(file->n_metadata, 2);
    assert_string_equal(pl_safetensors_metadata(file, "k\""), "v\n");
    assert_null(pl_safetensors_metadata(file, "missing"));
    assert_null(pl_safetensors_find(file, "missing"));
    for (size_t i = 0; i < n; i++) {
        pl_tensor *r = NULL;
        const pl_safetensors_entry *e = pl_safetensors_find(file, names[i]);
        assert_non_null(e);
        if (*pl_dtype_safetensors(e->dtype))
            assert_int_equal(e->offset % pl_dtype_bytes(e->dtype), 0);
        assert_int_equal(pl_safetensors_read(file, e, &r, NULL), PL_OK);
        assert_true(pl_tensor_identical(tensors[i], r));
        pl_tensor_unref(r);
        pl_tensor_unref(tensors[i]);
    }
    pl_safetensors_close(file);
    pl_file_map_unref(map);
}

static void test_safetensors__tensors_outlive_the_file(void **state) {
    (void)state;
    pl_safetensors *file = NULL;
    pl_tensor *t = NULL;
    static const char header[] =
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}  ";
    assert_int_equal(open_text(header, strlen(header), 4, &file, NULL), PL_OK);
    assert_int_equal(pl_safetensors_read(file, &file->entries[0], &t, NULL), PL_OK);
    pl_safetensors_close(file);
    assert_int_equal(pl_tensor_get_i64(t, 3), 3);
    pl_tensor_unref(t);
    pl_safetensors_close(NULL);
}

static void test_safetensors__refuses_hostile_headers(void **state) {
    (void)state;
    /* clang-format off */
    static const struct { pl_status status; size_t n_data; const char *header, *needle; } rows[] = {
        { PL_E_FORMAT, 0, "[]", "'{'" },
        { PL_E_FORMAT, 0, " {}", "'{'" },
        { PL_E_FORMAT, 4, "{}", "belong to no tensor" },
        { PL_E_FORMAT, 0, "{\"a\":1}", "tensor 'a'" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{}}", "twice" },
        { PL_E_UNSUPPORTED, 4, "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[1],\"data_offsets\":[0,4]}}", "F6_E2M3" },
        { PL_E_FORMAT, 4, "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "dtype" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "shape" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "data_offsets" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "non-negative" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", "non-negative" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "float[2]" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", "4 bytes of data" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "ascending" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "ascending" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", "two integers" },
        { PL_E_FORMAT, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,4]}}", "4 bytes" },
        { PL_E_LIMIT, 4, "{\"a\":{\"dtype\":\"U8\",\"shape\":[4,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "rank 18" },
        { PL_E_LIMIT, 4, "{\"a\":{\"dtype\":\"U8\",\"shape\":[4,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "rank 17" },
        { PL_E_FORMAT, 6, "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}", "overlaps" },
        { PL_E_FORMAT, 9, "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}}", "gap" },
        { PL_E_FORMAT, 4, "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "NUL" },
        { PL_E_FORMAT, 0, "{\"__metadata__\":{\"a\":1}}", "not a string" },
        { PL_E_FORMAT, 0, "{\"__metadata__\":[]}", "not an object" },
        { PL_E_FORMAT, 4, "{\"__metadata__\":{\"plumb.dtype.a\":\"string\"},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "'string'" },
        { PL_E_FORMAT, 4, "{\"__metadata__\":{\"plumb.dtype.a\":\"int4\"},\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "int8" },
        { PL_E_FORMAT, 4, "{\"__metadata__\":{\"plumb.dtype.a\":\"complex64\"},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "last dim" },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pl_safetensors *file = NULL;
        pl_err err = PL_ERR_INIT;
        const pl_status st =
            open_text(rows[i].header, strlen(rows[i].header), rows[i].n_data, &file, &err);
        if (st != rows[i].status || !strstr(err.message, rows[i].needle))
            fail_msg("%s\n%s: %s", rows[i].header, pl_status_name(st), err.message);
        assert_null(file);
    }
}

static void test_safetensors__refuses_header_lengths(void **state) {
    (void)state;
    pl_safetensors *file = NULL;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(open_text("{}", 3, 0, &file, &err), PL_E_FORMAT);
    assert_int_equal(open_text("{}", 0, 0, &file, &err), PL_E_FORMAT);
    assert_int_equal(open_text("{}", 100000001, 0, &file, &err), PL_E_LIMIT);
    assert_int_equal(open_text("{}", SIZE_MAX, 0, &file, &err), PL_E_LIMIT);
    assert_int_equal(open_text("{}", 1, 1, &file, &err), PL_E_FORMAT);
    assert_int_equal(open_text("", 0, 0, &file, &err), PL_E_FORMAT);
    assert_int_equal(open_text("{}", 2, 0, &file, &err), PL_OK);
    assert_int_equal(file->n_entries, 0);
    pl_safetensors_close(file);
}

static void test_safetensors__checks_values_of_small_types(void **state) {
    (void)state;
    pl_safetensors *file = NULL;
    pl_tensor *t = NULL;
    pl_err err = PL_ERR_INIT;
    static const char header[] =
        "{\"__metadata__\":{\"plumb.dtype.a\":\"int4\"},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}"; /* bytes 0..8 */
    assert_int_equal(open_text(header, strlen(header), 9, &file, NULL), PL_OK);
    assert_int_equal(pl_safetensors_read(file, &file->entries[0], &t, &err), PL_E_FORMAT);
    assert_non_null(strstr(err.message, "byte 8"));
    pl_safetensors_close(file);
}

static void test_safetensors__refuses_every_prefix(void **state) {
    (void)state;
    pl_tensor *t = sample_tensor(PL_I4, &sample_shapes[4]);
    const pl_safetensors_spec spec = { "w", PL_I4, t->rank, t->dims };
    assert_int_equal(write_all(&spec, &t, 1, NULL), PL_OK);
    pl_file_map *map = NULL;
    assert_int_equal(pl_file_map_open(in_dir("t.safetensors"), &map, NULL), PL_OK);
    for (size_t n = 0; n < map->n_bytes; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, map->data, n);
        pl_file_map part = { copy, n, NULL, 1, false, NULL }; /* a map that is never released */
        pl_safetensors *file = NULL;
        assert_int_not_equal(pl_safetensors_open(&part, &file, NULL), PL_OK);
        assert_int_equal(part.refs, 1);
        free(copy);
    }
    pl_file_map_unref(map);
    pl_tensor_unref(t);
}

static void test_writer__refuses_what_it_cannot_hold(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = sample_tensor(PL_F32, &sample_shapes[4]),
              *u = sample_tensor(PL_F32, &sample_shapes[1]);
    pl_safetensors_spec specs[2] = { { "a", PL_F32, 1, t->dims }, { "a", PL_F32, 1, t->dims } };
    pl_tensor *both[2] = { t, u };
    assert_int_equal(write_all(specs, both, 2, &err), PL_E_INVALID);
    assert_non_null(strstr(err.message, "'a'"));
    specs[1].name = "b";
    assert_int_equal(write_all(specs, both, 2, &err), PL_E_INVALID);
    assert_non_null(strstr(err.message, "'b' is float[1], but was announced as float[7]"));
    specs[0].name = "__metadata__";
    assert_int_equal(write_all(specs, both, 1, &err), PL_E_INVALID);
    specs[0].name = "\xFF";
    assert_int_equal(write_all(specs, both, 1, &err), PL_E_INVALID);
    specs[0] = (pl_safetensors_spec){ "s", PL_STRING, 1, t->dims };
    assert_int_equal(write_all(specs, both, 1, &err), PL_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "string"));
    /* A tensor that never came: no file. */
    const char *other = in_dir("other.safetensors");
    specs[0] = (pl_safetensors_spec){ "a", PL_F32, 1, t->dims };
    pl_safetensors_writer *w = NULL;
    assert_int_equal(pl_safetensors_writer_open(other, specs, 1, NULL, 0, &w, NULL), PL_OK);
    assert_int_equal(pl_safetensors_writer_commit_take(w, &err), PL_E_INTERNAL);
    assert_false(pl_path_exists(other));
    pl_tensor_unref(t);
    pl_tensor_unref(u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors__round_trips_every_dtype),
        cmocka_unit_test(test_safetensors__tensors_outlive_the_file),
        cmocka_unit_test(test_safetensors__refuses_hostile_headers),
        cmocka_unit_test(test_safetensors__refuses_header_lengths),
        cmocka_unit_test(test_safetensors__checks_values_of_small_types),
        cmocka_unit_test(test_safetensors__refuses_every_prefix),
        cmocka_unit_test(test_writer__refuses_what_it_cannot_hold),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

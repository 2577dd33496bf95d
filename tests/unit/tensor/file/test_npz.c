/* npz and the zip below it: round trips, damage anywhere, ZIP64, duplicates, overlap. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "fresh_dir.h"
#include "tensor/file/npz.h"
#include "tensor/file/zip.h"
#include "tensor_samples.h"

/* np.savez_compressed("x.npz", a=np.arange(6, dtype="<i4").reshape(2, 3)), numpy 1.24.2; the entry
 * has a ZIP64 extra field in its local header, as numpy always writes. */
#include "npz_deflated.inc"

typedef struct bag {
    char names[8][32];
    pl_tensor *tensors[8];
    size_t n;
} bag;

static pl_status keep_take(void *ctx, const char *name, pl_tensor *t, pl_err *err) {
    (void)err;
    bag *b = ctx;
    assert_true(b->n < 8);
    snprintf(b->names[b->n], sizeof b->names[0], "%s", name);
    b->tensors[b->n++] = t;
    return PL_OK;
}

static void bag_release(bag *b) {
    for (size_t i = 0; i < b->n; i++)
        pl_tensor_unref(b->tensors[i]);
    *b = (bag){ .n = 0 };
}

static pl_status read_copy(const void *data, size_t n, bag *b, pl_err *err) {
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, data, n);
    const pl_status st = pl_npz_read((pl_bytes){ copy, n }, NULL, keep_take, b, err);
    free(copy);
    return st;
}

static void write_sample(const char *path, bag *b) {
    const char *const names[] = { "a", "layer/b", "s\xC3\xA9" };
    const pl_dtype dtypes[] = { PL_F32, PL_I64, PL_BOOL };
    const pl_tensor *tensors[3];
    for (int i = 0; i < 3; i++)
        tensors[i] = b->tensors[i] = sample_tensor(dtypes[i], &sample_shapes[i == 1 ? 2 : 5]);
    b->n = 3;
    assert_int_equal(pl_npz_write(path, names, tensors, 3, NULL), PL_OK);
}

static void test_npz__round_trips_in_place(void **state) {
    (void)state;
    const char *path = in_dir("a.npz");
    bag written = { .n = 0 }, read = { .n = 0 };
    pl_file_map *map = NULL;
    write_sample(path, &written);
    assert_int_equal(pl_file_map_open(path, &map, NULL), PL_OK);
    assert_int_equal(
        pl_npz_read((pl_bytes){ map->data, map->n_bytes }, map, keep_take, &read, NULL), PL_OK);
    assert_int_equal(read.n, 3);
    assert_string_equal(read.names[1], "layer/b");
    for (size_t i = 0; i < 3; i++)
        assert_true(pl_tensor_identical(written.tensors[i], read.tensors[i]));
    const uint8_t *data = read.tensors[0]->data;
    assert_true(data > map->data && data < map->data + map->n_bytes);
    pl_file_map_unref(map);
    bag_release(&read);
    bag_release(&written);
}

static void test_npz__notices_any_damage(void **state) {
    (void)state;
    const char *path = in_dir("b.npz");
    bag b = { .n = 0 }, r = { .n = 0 };
    pl_file_map *map = NULL;
    write_sample(path, &b);
    assert_int_equal(pl_file_map_open(path, &map, NULL), PL_OK);
    for (size_t n = 0; n < map->n_bytes; n++) {
        assert_int_not_equal(read_copy(map->data, n, &r, NULL), PL_OK);
        bag_release(&r);
    }
    /* One flipped bit anywhere: never a crash, and never other values under the same names. */
    uint8_t *copy = malloc(map->n_bytes);
    for (size_t i = 0; i < map->n_bytes; i++) {
        memcpy(copy, map->data, map->n_bytes);
        copy[i] ^= (uint8_t)(1 << i % 8);
        if (read_copy(copy, map->n_bytes, &r, NULL) == PL_OK && r.n == 3)
            for (size_t k = 0; k < 3; k++)
                assert_true(pl_tensor_identical(r.tensors[k], b.tensors[k]));
        bag_release(&r);
    }
    free(copy);
    pl_file_map_unref(map);
    bag_release(&b);
}

static void test_npz__inflates(void **state) {
    (void)state;
    bag b = { .n = 0 };
    pl_err err = PL_ERR_INIT;
    const pl_status st = read_copy(npz_deflated, sizeof npz_deflated, &b, &err);
#ifdef HAVE_ZLIB
    assert_int_equal(st, PL_OK);
    assert_int_equal(b.n, 1);
    assert_string_equal(b.names[0], "a");
    for (int64_t i = 0; i < 6; i++)
        assert_int_equal(pl_tensor_get_i64(b.tensors[0], i), i);
    assert_int_equal(b.tensors[0]->dims[1], 3);
    bag_release(&b);
    for (size_t n = 0; n < sizeof npz_deflated; n++) {
        assert_int_not_equal(read_copy(npz_deflated, n, &b, NULL), PL_OK);
        bag_release(&b);
    }
#else
    assert_int_equal(st, PL_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "zlib"));
#endif
}

static void test_npz__refuses_names(void **state) {
    (void)state;
    const char *path = in_dir("c.npz");
    pl_tensor *t = sample_tensor(PL_U8, &sample_shapes[4]);
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_npz_write(path, (const char *const[]){ "x", "x" },
                                  (const pl_tensor *const[]){ t, t }, 2, &err),
                     PL_E_INVALID);
    assert_non_null(strstr(err.message, "'x'"));
    assert_false(pl_path_exists(path));
    pl_tensor_unref(t);
    /* Twice the same entry, and one that is no npy file. */
    for (int k = 0; k < 2; k++) {
        pl_zip_writer *w = NULL;
        (void)unlink(path);
        assert_int_equal(pl_zip_writer_open(path, &w, NULL), PL_OK);
        pl_buf npy = PL_BUF_INIT;
        t = sample_tensor(PL_U8, &sample_shapes[4]);
        assert_int_equal(pl_npy_write(&npy, t, NULL), PL_OK);
        const uint32_t crc = pl_crc32(0, npy.data, npy.n_bytes);
        for (int i = 0; i < 2; i++) {
            const char *name = k == 0 || i == 0 ? "x.npy" : "x.txt";
            assert_int_equal(pl_zip_writer_begin(w, name, npy.n_bytes, crc, NULL), PL_OK);
            assert_int_equal(pl_zip_writer_append(w, npy.data, npy.n_bytes, NULL), PL_OK);
        }
        assert_int_equal(pl_zip_writer_commit_take(w, NULL), PL_OK);
        pl_file_map *map = NULL;
        bag b = { .n = 0 };
        assert_int_equal(pl_file_map_open(path, &map, NULL), PL_OK);
        assert_int_equal(read_copy(map->data, map->n_bytes, &b, &err),
                         k == 0 ? PL_E_FORMAT : PL_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, k == 0 ? "two entries named 'x'" : "x.txt"));
        bag_release(&b);
        pl_file_map_unref(map);
        pl_buf_release(&npy);
        pl_tensor_unref(t);
    }
}

static void put_le(pl_buf *buf, uint64_t value, int n) {
    for (int i = 0; i < n; i++)
        pl_buf_putc(buf, (char)(uint8_t)(value >> (8 * i)));
}

/* A directory of two entries that name the same bytes. */
static void test_zip__refuses_overlap(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_buf_append(&buf, "PK\3\4", 4);
    put_le(&buf, 0, 8);
    put_le(&buf, 0, 8);
    put_le(&buf, 0, 6);
    put_le(&buf, 5, 2);
    put_le(&buf, 0, 2);
    pl_buf_append(&buf, "a.npyDATA", 9);
    const size_t directory = buf.n_bytes;
    for (int i = 0; i < 2; i++) {
        pl_buf_append(&buf, "PK\1\2", 4);
        put_le(&buf, 0, 8);
        put_le(&buf, 0, 4);
        put_le(&buf, pl_crc32(0, "DATA", 4), 4);
        put_le(&buf, 4, 4);
        put_le(&buf, 4, 4);
        put_le(&buf, 5, 2);
        put_le(&buf, 0, 8);
        put_le(&buf, 0, 4);
        put_le(&buf, 0, 4);
        pl_buf_append(&buf, i == 0 ? "a.npy" : "b.npy", 5);
    }
    const size_t end = buf.n_bytes;
    pl_buf_append(&buf, "PK\5\6", 4);
    put_le(&buf, 0, 4);
    put_le(&buf, 2, 2);
    put_le(&buf, 2, 2);
    put_le(&buf, end - directory, 4);
    put_le(&buf, directory, 4);
    put_le(&buf, 0, 2);
    pl_zip zip = { NULL, 0 };
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_zip_open((pl_bytes){ (uint8_t *)buf.data, buf.n_bytes }, &zip, &err),
                     PL_E_FORMAT);
    assert_non_null(strstr(err.message, "overlap"));
    /* The same with one entry is fine. */
    buf.data[end + 8] = buf.data[end + 10] = 1;
    assert_int_equal(pl_zip_open((pl_bytes){ (uint8_t *)buf.data, buf.n_bytes }, &zip, &err),
                     PL_OK);
    assert_int_equal(zip.n_entries, 1);
    pl_bytes out;
    void *owned = NULL;
    assert_int_equal(pl_zip_read(&zip.entries[0], &out, &owned, NULL), PL_OK);
    assert_memory_equal(out.data, "DATA", 4);
    pl_zip_release(&zip);
    pl_buf_release(&buf);
}

static void test_crc32__known_value(void **state) {
    (void)state;
    assert_true(pl_crc32(0, "123456789", 9) == 0xCBF43926u);
    assert_true(pl_crc32(pl_crc32(0, "1234", 4), "56789", 5) == 0xCBF43926u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npz__round_trips_in_place),
        cmocka_unit_test(test_npz__notices_any_damage),
        cmocka_unit_test(test_npz__inflates),
        cmocka_unit_test(test_npz__refuses_names),
        cmocka_unit_test(test_zip__refuses_overlap),
        cmocka_unit_test(test_crc32__known_value),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

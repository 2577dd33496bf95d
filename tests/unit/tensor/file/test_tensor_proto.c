/* TensorProto and its containers: every dtype and field, round trips, malformed messages. */
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
#include "tensor/file/tensor_proto.h"
#include "tensor_samples.h"
#include "write_over.h"

static pl_bytes bytes_of(const pl_buf *buf) {
    return (pl_bytes){ (const uint8_t *)pl_buf_str(buf), buf->n_bytes };
}

static pl_status read_buf(const pl_buf *buf, pl_tensor **out, pl_err *err) {
    return pl_tensor_proto_read(bytes_of(buf), NULL, NULL, out, err);
}

static void assert_fails(const pl_buf *buf, pl_status status, const char *needle) {
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = NULL;
    assert_int_equal(read_buf(buf, &t, &err), status);
    assert_null(t);
    if (!strstr(err.message, needle)) fail_msg("'%s' lacks '%s'", err.message, needle);
}

static void put_head(pl_buf *buf, pl_dtype dtype, int64_t dim) {
    pl_buf_reset(buf);
    pl_wire_put_int(buf, 1, dim);
    pl_wire_put_int(buf, 2, (int64_t)dtype);
}

static void test_proto__round_trips_every_dtype(void **state) {
    (void)state;
    for (int k = 1; k < PL_DTYPE_COUNT; k++) {
        for (int s = 0; s < N_SAMPLE_SHAPES; s++) {
            pl_buf buf = PL_BUF_INIT;
            pl_tensor *t = sample_tensor((pl_dtype)k, &sample_shapes[s]), *r = NULL;
            pl_tensor_proto_info info;
            pl_tensor_proto_write(&buf, "weight", t);
            assert_true(pl_buf_ok(&buf));
            assert_int_equal(pl_tensor_proto_read(bytes_of(&buf), NULL, &info, &r, NULL), PL_OK);
            assert_true(pl_tensor_identical(t, r));
            assert_int_equal(info.name.n_bytes, 6);
            assert_memory_equal(info.name.data, "weight", 6);
            assert_false(info.is_external);
            /* Cut anywhere: an error or (between fields) a clean message that lacks data. */
            for (size_t n = 0; n < buf.n_bytes; n++) {
                char *cut = malloc(n + 1); /* exact, so that the sanitizer sees overreads */
                pl_tensor *part = NULL;
                memcpy(cut, buf.data, n);
                const pl_status st =
                    pl_tensor_proto_read((pl_bytes){ (uint8_t *)cut, n }, NULL, NULL, &part, NULL);
                assert_true(st != PL_OK || part->dtype == t->dtype);
                pl_tensor_unref(part);
                free(cut);
            }
            pl_tensor_unref(t);
            pl_tensor_unref(r);
            pl_buf_release(&buf);
        }
    }
}

static void test_proto__reads_typed_fields(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_tensor *t = NULL;
    /* float_data, one packed and one not */
    put_head(&buf, PL_F32, 3);
    const float two[2] = { 1.5f, -2.0f };
    pl_wire_put_bytes(&buf, 4, two, sizeof two);
    pl_wire_put_float(&buf, 4, 7.0f);
    assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
    assert_true(pl_tensor_get_f64(t, 0) == 1.5 && pl_tensor_get_f64(t, 2) == 7.0);
    pl_tensor_unref(t);
    /* int32_data with negative numbers for every narrow integer */
    const pl_dtype ints[] = { PL_I8, PL_I16, PL_I32 };
    for (int k = 0; k < 3; k++) {
        put_head(&buf, ints[k], 2);
        pl_wire_put_int(&buf, 5, -3);
        pl_wire_put_int(&buf, 5, 100);
        assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
        assert_int_equal(pl_tensor_get_i64(t, 0), -3);
        assert_int_equal(pl_tensor_get_i64(t, 1), 100);
        pl_tensor_unref(t);
    }
    /* float16 keeps its bits in int32_data */
    put_head(&buf, PL_F16, 1);
    pl_wire_put_int(&buf, 5, 0xC000);
    assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
    assert_true(pl_tensor_get_f64(t, 0) == -2.0);
    pl_tensor_unref(t);
    put_head(&buf, PL_BOOL, 2);
    pl_wire_put_int(&buf, 5, 0);
    pl_wire_put_int(&buf, 5, 256); /* true although its low byte is zero */
    assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
    assert_int_equal(pl_tensor_get_i64(t, 0), 0);
    assert_int_equal(pl_tensor_get_i64(t, 1), 1);
    pl_tensor_unref(t);
    put_head(&buf, PL_I64, 1);
    pl_wire_put_int(&buf, 7, INT64_MIN);
    assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
    assert_true(pl_tensor_get_i64(t, 0) == INT64_MIN);
    pl_tensor_unref(t);
    put_head(&buf, PL_U32, 1);
    pl_wire_put_int(&buf, 11, 4000000000);
    assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
    assert_true(pl_tensor_get_i64(t, 0) == 4000000000);
    pl_tensor_unref(t);
    put_head(&buf, PL_C128, 1);
    pl_wire_put_double(&buf, 10, 3.0);
    pl_wire_put_double(&buf, 10, -4.0);
    assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
    assert_true(((double *)t->data)[0] == 3.0 && ((double *)t->data)[1] == -4.0);
    pl_tensor_unref(t);
    pl_buf_release(&buf);
}

/* onnx.proto: 4-bit and 2-bit elements are packed, low bits first, into the low byte of int32. */
static void test_proto__unpacks_subbyte_fields(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_tensor *t = NULL;
    put_head(&buf, PL_I4, 3);
    pl_wire_put_int(&buf, 5, 0x7F);
    pl_wire_put_int(&buf, 5, 0x08);
    assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
    assert_int_equal(pl_tensor_get_i64(t, 0), -1);
    assert_int_equal(pl_tensor_get_i64(t, 1), 7);
    assert_int_equal(pl_tensor_get_i64(t, 2), -8);
    pl_tensor_unref(t);
    put_head(&buf, PL_U2, 5);
    pl_wire_put_bytes(&buf, 9, "\xE4\x02", 2);
    assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(pl_tensor_get_i64(t, i), i);
    assert_int_equal(pl_tensor_get_i64(t, 4), 2);
    pl_tensor_unref(t);
    put_head(&buf, PL_I2, 4);
    pl_wire_put_bytes(&buf, 9, "\xE4", 1);
    assert_int_equal(read_buf(&buf, &t, NULL), PL_OK);
    const int64_t want[4] = { 0, 1, -2, -1 };
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(pl_tensor_get_i64(t, i), want[i]);
    pl_tensor_unref(t);
    pl_buf_release(&buf);
}

static void test_proto__uses_a_map_in_place(void **state) {
    (void)state;
    char dir[] = "/tmp/plumb-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/t.pb", dir);
    pl_buf buf = PL_BUF_INIT;
    pl_tensor *t = sample_tensor(PL_F32, &sample_shapes[4]), *r = NULL;
    pl_file_map *map = NULL;
    pl_tensor_proto_write(&buf, "x", t);
    assert_int_equal(write_over(path, buf.data, buf.n_bytes, NULL), PL_OK);
    assert_int_equal(pl_file_map_open(path, &map, NULL), PL_OK);
    assert_int_equal(
        pl_tensor_proto_read((pl_bytes){ map->data, map->n_bytes }, map, NULL, &r, NULL), PL_OK);
    assert_true((const uint8_t *)r->data > map->data &&
                (const uint8_t *)r->data < map->data + map->n_bytes);
    pl_file_map_unref(map); /* the tensor keeps it */
    assert_true(pl_tensor_identical(t, r));
    pl_tensor_unref(r);
    pl_tensor_unref(t);
    pl_buf_release(&buf);
    assert_int_equal(pl_dir_remove(dir, NULL), PL_OK);
}

static void test_proto__reports_external_data(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT, entry = PL_BUF_INIT;
    const char *const pairs[][2] = {
        { "location", "w.bin" }, { "offset", "4096" }, { "length", "12" }, { "future", "x" }
    };
    put_head(&buf, PL_F32, 3);
    for (int i = 0; i < 4; i++) {
        pl_buf_reset(&entry);
        pl_wire_put_string(&entry, 1, pairs[i][0]);
        pl_wire_put_string(&entry, 2, pairs[i][1]);
        pl_wire_put_bytes(&buf, 13, entry.data, entry.n_bytes);
    }
    pl_wire_put_int(&buf, 14, 1);
    pl_tensor *t = NULL;
    pl_tensor_proto_info info;
    assert_int_equal(pl_tensor_proto_read(bytes_of(&buf), NULL, &info, &t, NULL), PL_OK);
    assert_null(t);
    assert_true(info.is_external && info.ext_offset == 4096 && info.ext_length == 12);
    assert_memory_equal(info.ext_location.data, "w.bin", 5);
    assert_int_equal(info.dims[0], 3);
    assert_fails(&buf, PL_E_UNSUPPORTED, "external");
    put_head(&buf, PL_F32, 3);
    pl_buf_reset(&entry);
    pl_wire_put_string(&entry, 1, "offset");
    pl_wire_put_string(&entry, 2, "99999999999999999999");
    pl_wire_put_bytes(&buf, 13, entry.data, entry.n_bytes);
    assert_fails(&buf, PL_E_FORMAT, "offset");
    put_head(&buf, PL_F32, 3);
    pl_wire_put_int(&buf, 14, 1);
    assert_int_equal(pl_tensor_proto_read(bytes_of(&buf), NULL, &info, &t, NULL), PL_E_FORMAT);
    pl_buf_release(&buf);
    pl_buf_release(&entry);
}

static void test_proto__refuses_what_does_not_fit(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    put_head(&buf, PL_F32, 3);
    assert_fails(&buf, PL_E_FORMAT, "no data");
    pl_wire_put_bytes(&buf, 9, "12345678", 8);
    pl_wire_put_string(&buf, 8, "w1");
    assert_fails(&buf, PL_E_FORMAT, "tensor 'w1'");
    assert_fails(&buf, PL_E_FORMAT, "8 bytes");
    pl_wire_put_float(&buf, 4, 1.0f);
    assert_fails(&buf, PL_E_FORMAT, "both raw_data and float_data");
    put_head(&buf, PL_F32, 1);
    pl_wire_put_int(&buf, 5, 1);
    assert_fails(&buf, PL_E_FORMAT, "int32_data");
    put_head(&buf, PL_STRING, 1);
    pl_wire_put_bytes(&buf, 9, "a", 1);
    assert_fails(&buf, PL_E_FORMAT, "string");
    put_head(&buf, PL_F32, -1);
    assert_fails(&buf, PL_E_FORMAT, "negative dim -1");
    put_head(&buf, (pl_dtype)99, 1);
    assert_fails(&buf, PL_E_UNSUPPORTED, "99");
    pl_buf_reset(&buf);
    assert_fails(&buf, PL_E_FORMAT, "element type is missing");
    put_head(&buf, PL_F32, 1);
    pl_wire_put_bytes(&buf, 3, "", 0);
    assert_fails(&buf, PL_E_UNSUPPORTED, "segments");
    /* Shapes that overflow, with little data. */
    put_head(&buf, PL_F32, INT64_MAX);
    pl_wire_put_int(&buf, 1, INT64_MAX);
    pl_wire_put_bytes(&buf, 9, "1234", 4);
    assert_fails(&buf, PL_E_FORMAT, "4 bytes");
    put_head(&buf, PL_C64, INT64_MAX);
    pl_wire_put_float(&buf, 4, 1.0f);
    assert_fails(&buf, PL_E_FORMAT, "1 entries");
    put_head(&buf, PL_F32, 1);
    for (int i = 0; i < PL_RANK_MAX; i++)
        pl_wire_put_int(&buf, 1, 1);
    assert_fails(&buf, PL_E_LIMIT, "16 dims");
    pl_buf_release(&buf);
}

static pl_datum *sample_datum(pl_dtype dtype, int shape) {
    pl_datum *d = NULL;
    assert_int_equal(pl_datum_of_tensor_take(sample_tensor(dtype, &sample_shapes[shape]), &d, NULL),
                     PL_OK);
    return d;
}

static void test_datum_proto__round_trips_sequences_and_optionals(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    const pl_type *tensor = pl_type_tensor_unranked(arena, PL_F32);
    const pl_type *seq_type = pl_type_of(arena, PL_TYPE_SEQUENCE, tensor);
    const pl_type *opt_type = pl_type_of(arena, PL_TYPE_OPTIONAL, seq_type);
    pl_datum *items[2] = { sample_datum(PL_F32, 4), sample_datum(PL_F32, 5) };
    pl_datum *seq = NULL, *opt = NULL, *back = NULL;
    assert_int_equal(pl_datum_new_sequence(PL_TYPE_TENSOR, PL_F32, items, 2, &seq, NULL), PL_OK);
    assert_int_equal(pl_datum_new_optional(PL_TYPE_SEQUENCE, PL_F32, seq, &opt, NULL), PL_OK);
    pl_buf buf = PL_BUF_INIT;
    pl_datum_proto_write(&buf, "o", opt);
    assert_int_equal(pl_datum_proto_read(bytes_of(&buf), NULL, opt_type, &back, NULL), PL_OK);
    assert_int_equal(back->kind, PL_TYPE_OPTIONAL);
    assert_int_equal(back->elem_kind, PL_TYPE_SEQUENCE);
    assert_int_equal(back->items[0]->n_items, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(pl_tensor_identical(back->items[0]->items[i]->tensor, items[i]->tensor));
    for (size_t n = 0; n < buf.n_bytes; n++) { /* cut anywhere */
        pl_datum *part = NULL;
        char *cut = malloc(n + 1);
        memcpy(cut, buf.data, n);
        (void)pl_datum_proto_read((pl_bytes){ (uint8_t *)cut, n }, NULL, opt_type, &part, NULL);
        pl_datum_unref(part);
        free(cut);
    }
    pl_datum_unref(back);
    /* Empty ones take their element type from the caller. */
    assert_int_equal(
        pl_datum_proto_read((pl_bytes){ (const uint8_t *)"", 0 }, NULL, opt_type, &back, NULL),
        PL_OK);
    assert_int_equal(back->n_items, 0);
    assert_int_equal(back->elem_kind, PL_TYPE_SEQUENCE);
    assert_int_equal(back->elem_dtype, PL_F32);
    pl_datum_unref(back);
    assert_int_equal(
        pl_datum_proto_read((pl_bytes){ (const uint8_t *)"", 0 }, NULL, seq_type, &back, NULL),
        PL_OK);
    assert_int_equal(back->elem_kind, PL_TYPE_TENSOR);
    pl_datum_unref(back);
    pl_datum_unref(items[0]);
    pl_datum_unref(items[1]);
    pl_datum_unref(seq);
    pl_datum_unref(opt);
    pl_buf_release(&buf);
    pl_arena_free(arena);
}

static void test_datum_proto__limits_nesting_and_kinds(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    const pl_type *seq = pl_type_of(arena, PL_TYPE_SEQUENCE, NULL);
    pl_datum *d = NULL;
    pl_err err = PL_ERR_INIT;
    pl_buf inner = PL_BUF_INIT, outer = PL_BUF_INIT;
    for (int i = 0; i < 100; i++) { /* a sequence in a sequence in … */
        pl_buf_reset(&outer);
        pl_wire_put_bytes(&outer, 5, pl_buf_str(&inner), inner.n_bytes);
        pl_buf_reset(&inner);
        pl_buf_append(&inner, outer.data, outer.n_bytes);
    }
    assert_int_equal(pl_datum_proto_read(bytes_of(&outer), NULL, seq, &d, &err), PL_E_LIMIT);
    pl_buf_reset(&outer);
    pl_wire_put_bytes(&outer, 6, "", 0);
    assert_int_equal(pl_datum_proto_read(bytes_of(&outer), NULL, seq, &d, &err), PL_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "map"));
    pl_buf_reset(&outer);
    pl_wire_put_bytes(&outer, 5, "", 0);
    pl_buf_reset(&inner);
    pl_tensor *t = sample_tensor(PL_I64, &sample_shapes[1]);
    pl_tensor_proto_write(&inner, NULL, t);
    pl_wire_put_bytes(&outer, 3, inner.data, inner.n_bytes);
    assert_int_equal(pl_datum_proto_read(bytes_of(&outer), NULL, seq, &d, &err), PL_E_FORMAT);
    pl_tensor_unref(t);
    pl_buf_release(&inner);
    pl_buf_release(&outer);
    pl_arena_free(arena);
}

static void test_proto__survives_failing_allocations(void **state) {
    (void)state;
    const pl_dtype dtypes[] = { PL_STRING, PL_I4, PL_F32 };
    for (int k = 0; k < 3; k++) {
        pl_tensor *t = sample_tensor(dtypes[k], &sample_shapes[5]);
        pl_buf buf = PL_BUF_INIT;
        pl_tensor_proto_write(&buf, "x", t);
        for (long n = 0;; n++) {
            pl_tensor *r = NULL;
            pl_alloc_fail_after(n);
            const pl_status st = read_buf(&buf, &r, NULL);
            pl_alloc_fail_after(-1);
            assert_true(st == PL_OK || (st == PL_E_MEMORY && !r));
            pl_tensor_unref(r);
            if (st == PL_OK) break;
        }
        pl_buf_release(&buf);
        pl_tensor_unref(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proto__round_trips_every_dtype),
        cmocka_unit_test(test_proto__reads_typed_fields),
        cmocka_unit_test(test_proto__unpacks_subbyte_fields),
        cmocka_unit_test(test_proto__uses_a_map_in_place),
        cmocka_unit_test(test_proto__reports_external_data),
        cmocka_unit_test(test_proto__refuses_what_does_not_fit),
        cmocka_unit_test(test_datum_proto__round_trips_sequences_and_optionals),
        cmocka_unit_test(test_datum_proto__limits_nesting_and_kinds),
        cmocka_unit_test(test_proto__survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* npy: round trips, byte and element order, strings, malformed headers. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include "tensor/file/npy.h"
#include "tensor_samples.h"

/* Reads from an exact heap copy, so that the sanitizer sees overreads. */
static pl_status read_copy(const void *data, size_t n, pl_tensor **out, pl_err *err) {
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, data, n);
    const pl_status st = pl_npy_read((pl_bytes){ copy, n }, NULL, out, err);
    free(copy);
    return st;
}

/* A file of the given version with this header text and data. */
static void put_npy(pl_buf *buf, uint8_t major, const char *text, const void *data, size_t n) {
    const size_t n_text = strlen(text);
    pl_buf_reset(buf);
    pl_buf_append(buf, "\x93NUMPY", 6);
    pl_buf_putc(buf, (char)major);
    pl_buf_putc(buf, 0);
    for (int i = 0; i < (major == 1 ? 2 : 4); i++)
        pl_buf_putc(buf, (char)(uint8_t)(n_text >> (8 * i)));
    pl_buf_append(buf, text, n_text);
    pl_buf_append(buf, data, n);
}

static void assert_fails(const pl_buf *buf, pl_status want, const char *needle) {
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = NULL;
    const pl_status st = read_copy(buf->data, buf->n_bytes, &t, &err);
    if (st != want || !strstr(err.message, needle))
        fail_msg("%s, '%s'; expected '%s'", pl_status_name(st), err.message, needle);
    assert_null(t);
}

static void test_npy__round_trips_every_dtype(void **state) {
    (void)state;
    for (int k = 1; k < PL_DTYPE_COUNT; k++) {
        for (int s = 0; s < N_SAMPLE_SHAPES; s++) {
            pl_tensor *t = sample_tensor((pl_dtype)k, &sample_shapes[s]), *r = NULL;
            pl_buf buf = PL_BUF_INIT;
            pl_err err = PL_ERR_INIT;
            const pl_status st = pl_npy_write(&buf, t, &err);
            if (*pl_dtype_npy((pl_dtype)k)) {
                assert_int_equal(st, PL_OK);
                assert_int_equal((buf.n_bytes - pl_tensor_bytes(t)) % 64, 0);
                assert_int_equal(read_copy(buf.data, buf.n_bytes, &r, NULL), PL_OK);
                assert_true(pl_tensor_identical(t, r));
            } else {
                assert_int_equal(st, PL_E_UNSUPPORTED);
                assert_non_null(strstr(err.message, pl_dtype_name((pl_dtype)k)));
            }
            pl_tensor_unref(t);
            pl_tensor_unref(r);
            pl_buf_release(&buf);
        }
    }
}

static void test_npy__refuses_every_prefix(void **state) {
    (void)state;
    pl_tensor *t = sample_tensor(PL_F32, &sample_shapes[5]), *r = NULL;
    pl_buf buf = PL_BUF_INIT;
    assert_int_equal(pl_npy_write(&buf, t, NULL), PL_OK);
    for (size_t n = 0; n < buf.n_bytes; n++)
        assert_int_equal(read_copy(buf.data, n, &r, NULL), PL_E_FORMAT);
    pl_buf_putc(&buf, 'x');
    assert_fails(&buf, PL_E_FORMAT, "60 bytes, the file has 61");
    pl_tensor_unref(t);
    pl_buf_release(&buf);
}

static void test_npy__reads_orders_and_versions(void **state) {
    (void)state;
    static const uint8_t big[] = { 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6 };
    pl_buf buf = PL_BUF_INIT;
    pl_tensor *t = NULL;
    for (uint8_t major = 1; major <= 3; major++) {
        /* Big-endian, columns first: [[1,3,5],[2,4,6]]. Keys in another order, Python 2's L. */
        put_npy(&buf, major, "{\"shape\": (2L, 3L), 'fortran_order': True, 'descr': '>i2'}\n", big,
                sizeof big);
        assert_int_equal(read_copy(buf.data, buf.n_bytes, &t, NULL), PL_OK);
        static const int64_t want[6] = { 1, 3, 5, 2, 4, 6 };
        assert_int_equal(t->dtype, PL_I16);
        for (int64_t i = 0; i < 6; i++)
            assert_int_equal(pl_tensor_get_i64(t, i), want[i]);
        pl_tensor_unref(t);
        put_npy(&buf, major, "{'descr':'>i2','fortran_order':False,'shape':(6,),}", big,
                sizeof big);
        assert_int_equal(read_copy(buf.data, buf.n_bytes, &t, NULL), PL_OK);
        assert_int_equal(t->rank, 1);
        assert_int_equal(pl_tensor_get_i64(t, 5), 6);
        pl_tensor_unref(t);
    }
    /* Complex numbers swap their halves, not the whole. */
    static const uint8_t c[] = { 0x3F, 0x80, 0, 0, 0x40, 0, 0, 0 };
    put_npy(&buf, 1, "{'descr': '>c8', 'fortran_order': False, 'shape': ()}", c, 8);
    assert_int_equal(read_copy(buf.data, buf.n_bytes, &t, NULL), PL_OK);
    assert_true(((float *)t->data)[0] == 1.0f && ((float *)t->data)[1] == 2.0f);
    assert_int_equal(t->rank, 0);
    pl_tensor_unref(t);
    pl_buf_release(&buf);
}

static void test_npy__reads_strings(void **state) {
    (void)state;
    static const uint8_t u[] = { 'a', 0, 0, 0, 0xE9, 0, 0, 0, 0x00, 0xF6, 1, 0, 0, 0, 0, 0 };
    pl_buf buf = PL_BUF_INIT;
    pl_tensor *t = NULL;
    put_npy(&buf, 1, "{'descr': '<U2', 'fortran_order': False, 'shape': (2,)}", u, sizeof u);
    assert_int_equal(read_copy(buf.data, buf.n_bytes, &t, NULL), PL_OK);
    const pl_string *s = t->data;
    assert_int_equal(s[0].n_bytes, 3);
    assert_memory_equal(s[0].data, "a\xC3\xA9", 3);
    assert_int_equal(s[1].n_bytes, 4); /* U+1F600 */
    assert_memory_equal(s[1].data, "\xF0\x9F\x98\x80", 4);
    pl_tensor_unref(t);
    put_npy(&buf, 1, "{'descr': '|S3', 'fortran_order': False, 'shape': (2,)}", "abcx\0\0", 6);
    assert_int_equal(read_copy(buf.data, buf.n_bytes, &t, NULL), PL_OK);
    s = t->data;
    assert_int_equal(s[0].n_bytes, 3);
    assert_int_equal(s[1].n_bytes, 1);
    pl_tensor_unref(t);
    put_npy(&buf, 1, "{'descr': '>U1', 'fortran_order': False, 'shape': (1,)}", "\0\0\0\xE9", 4);
    assert_int_equal(read_copy(buf.data, buf.n_bytes, &t, NULL), PL_OK);
    s = t->data;
    assert_int_equal(s[0].n_bytes, 2);
    assert_memory_equal(s[0].data, "\xC3\xA9", 2);
    pl_tensor_unref(t);
    put_npy(&buf, 1, "{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}", "\0\xD8\0\0", 4);
    assert_fails(&buf, PL_E_FORMAT, "not Unicode");
    put_npy(&buf, 1, "{'descr': '<U0', 'fortran_order': False, 'shape': (999999999999,)}", "", 0);
    assert_fails(&buf, PL_E_UNSUPPORTED, "have size 0");
    pl_buf_release(&buf);
}

static void test_npy__names_types_it_lacks(void **state) {
    (void)state;
    static const char *const descrs[] = {
        "|O", "<f16", "<M8[ns]", "|V2", "<i3", "", "<", "<f", "x4"
    };
    pl_buf buf = PL_BUF_INIT;
    for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++) {
        char text[128], quoted[32];
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': ()}",
                 descrs[i]);
        snprintf(quoted, sizeof quoted, "'%s'", descrs[i]);
        put_npy(&buf, 1, text, "0123456789abcdef", 16);
        assert_fails(&buf, PL_E_UNSUPPORTED, quoted);
    }
    put_npy(&buf, 1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "0123", 4);
    assert_fails(&buf, PL_E_UNSUPPORTED, "structured");
    put_npy(&buf, 4, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "0123", 4);
    assert_fails(&buf, PL_E_UNSUPPORTED, "version 4.0");
    pl_buf_release(&buf);
}

static void test_npy__refuses_bad_headers(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "{}",
        "[]",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
        "{'descr': '<f4, 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}",
    };
    pl_buf buf = PL_BUF_INIT;
    pl_tensor *t = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_npy(&buf, 1, texts[i], "0123", 4);
        const pl_status st = read_copy(buf.data, buf.n_bytes, &t, NULL);
        if (st != PL_E_FORMAT && st != PL_E_LIMIT) fail_msg("%s: %s", texts[i], pl_status_name(st));
    }
    put_npy(&buf, 1, "{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,)}", "",
            0);
    assert_fails(&buf, PL_E_LIMIT, "63 bits");
    put_npy(&buf, 1,
            "{'descr':'<f4','fortran_order':False,'shape':(4294967296,4294967296,4294967296)}", "",
            0);
    assert_fails(&buf, PL_E_LIMIT, "too large");
    put_npy(&buf, 1,
            "{'descr':'<f4','fortran_order':False,'shape':(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
            "0123", 4);
    assert_fails(&buf, PL_E_LIMIT, "16 dims");
    pl_buf_reset(&buf);
    pl_buf_append(&buf, "\x93NUMPY\2\0\xFF\xFF\xFF\xFF{}", 14);
    assert_fails(&buf, PL_E_FORMAT, "4294967295");
    pl_buf_release(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy__round_trips_every_dtype),
        cmocka_unit_test(test_npy__refuses_every_prefix),
        cmocka_unit_test(test_npy__reads_orders_and_versions),
        cmocka_unit_test(test_npy__reads_strings),
        cmocka_unit_test(test_npy__names_types_it_lacks),
        cmocka_unit_test(test_npy__refuses_bad_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

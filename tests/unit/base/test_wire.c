/* Protobuf wire format. Byte strings are from the protobuf "Encoding" page or made by hand. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <float.h>
#include <string.h>

#include "base/alloc.h"
#include "base/wire.h"

static pl_wire wire_of(const char *bytes, size_t n) {
    return pl_wire_of((pl_bytes){ (const uint8_t *)bytes, n });
}

/* Reads all fields; returns their number, or -1 when the bytes are bad. */
static int count_fields(const char *bytes, size_t n) {
    /* An exact heap copy, so that the sanitizer sees any read beyond the end. */
    uint8_t *copy = pl_malloc(n);
    if (n > 0) memcpy(copy, bytes, n);
    pl_wire wire = pl_wire_of((pl_bytes){ copy, n });
    pl_wire_field field;
    int count = 0;
    while (pl_wire_next(&wire, &field))
        count++;
    if (wire.bad) assert_false(pl_wire_next(&wire, &field)); /* sticky */
    pl_free(copy);
    return wire.bad ? -1 : count;
}
#define COUNT(literal) count_fields(literal, sizeof(literal) - 1)

static void test_wire__reads_the_examples_of_the_specification(void **state) {
    (void)state;
    pl_wire_field field;
    pl_wire wire = wire_of("\x08\x96\x01", 3);
    assert_true(pl_wire_next(&wire, &field));
    assert_int_equal(field.number, 1);
    assert_int_equal(field.type, 0);
    assert_int_equal(field.integer, 150);
    assert_false(pl_wire_next(&wire, &field));
    assert_false(wire.bad);

    wire = wire_of("\x12\x07testing", 9);
    assert_true(pl_wire_next(&wire, &field));
    assert_int_equal(field.number, 2);
    assert_int_equal(field.type, 2);
    assert_int_equal(field.bytes.n_bytes, 7);
    assert_memory_equal(field.bytes.data, "testing", 7);
    assert_false(pl_wire_next(&wire, &field));
    assert_false(wire.bad);
}

static void test_wire__reads_fixed_fields(void **state) {
    (void)state;
    pl_wire_field field;
    pl_wire wire = wire_of("\x0D\x00\x00\x80\x3F\x11\x00\x00\x00\x00\x00\x00\x00\xC0", 14);
    assert_true(pl_wire_next(&wire, &field));
    assert_int_equal(field.type, 5);
    assert_true(field.integer == 0x3F800000);
    assert_true(pl_wire_float(&field) == 1.0f);
    assert_true(pl_wire_next(&wire, &field));
    assert_int_equal(field.type, 1);
    assert_true(pl_wire_double(&field) == -2.0);
    assert_false(pl_wire_next(&wire, &field));
    assert_false(wire.bad);
}

static void test_wire__takes_empty_input(void **state) {
    (void)state;
    pl_wire_field field;
    uint64_t value;
    pl_wire wire = pl_wire_of((pl_bytes){ NULL, 0 });
    assert_false(pl_wire_next(&wire, &field));
    assert_false(pl_wire_varint(&wire, &value));
    assert_false(wire.bad);
    assert_int_equal(COUNT("\x12\x00"), 1); /* an empty field at the very end */
}

static void test_wire__refuses_truncated_fields(void **state) {
    (void)state;
    static const char whole[] = "\x08\x96\x01\x12\x03"
                                "abc\x0D"
                                "1234\x11"
                                "12345678\x98\x06\x01";
    const size_t n = sizeof whole - 1;
    int good = 0;
    for (size_t cut = 0; cut <= n; cut++)
        good += count_fields(whole, cut) >= 0;
    assert_int_equal(good, 6); /* only at the five field ends and at 0 */
    assert_int_equal(count_fields(whole, n), 5);
}

static void test_wire__refuses_overlong_varints(void **state) {
    (void)state;
    assert_int_equal(COUNT("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"), 1);
    assert_int_equal(COUNT("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"), -1);     /* bit 64 */
    assert_int_equal(COUNT("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), -1); /* 11 bytes */
    assert_int_equal(COUNT("\x08\x80\x00"), 1); /* not shortest, yet allowed */
}

static void test_wire__refuses_lengths_beyond_the_end(void **state) {
    (void)state;
    assert_int_equal(COUNT("\x12\x01"), -1);
    assert_int_equal(COUNT("\x12\x05"
                           "abcd"),
                     -1);
    assert_int_equal(COUNT("\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"
                           "a"),
                     -1);
    assert_int_equal(COUNT("\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"
                           "a"),
                     -1);
}

static void test_wire__refuses_bad_tags(void **state) {
    (void)state;
    assert_int_equal(COUNT("\x00\x00"), -1); /* field number 0 */
    assert_int_equal(COUNT("\x02\x00"), -1);
    assert_int_equal(COUNT("\x0B\x0C"), -1); /* a group */
    assert_int_equal(COUNT("\x0C"), -1);
    assert_int_equal(COUNT("\x0E\x00"), -1); /* types 6 and 7 */
    assert_int_equal(COUNT("\x0F\x00"), -1);
    assert_int_equal(COUNT("\xF8\xFF\xFF\xFF\x0F\x00"), 1);  /* number 2^29 - 1 */
    assert_int_equal(COUNT("\x80\x80\x80\x80\x10\x00"), -1); /* number 2^29 */
}

static void test_wire_varint__reads_packed_values(void **state) {
    (void)state;
    static const uint64_t values[] = { 0, 1, 127, 128, 300, UINT32_MAX, UINT64_MAX, 1u << 14 };
    pl_buf buf = PL_BUF_INIT;
    for (size_t i = 0; i < 8; i++)
        pl_wire_put_varint(&buf, values[i]);
    pl_wire wire = wire_of(buf.data, buf.n_bytes);
    uint64_t value;
    for (size_t i = 0; i < 8; i++) {
        assert_true(pl_wire_varint(&wire, &value));
        assert_true(value == values[i]);
    }
    assert_false(pl_wire_varint(&wire, &value));
    assert_false(wire.bad);
    wire = wire_of("\x80", 1);
    assert_false(pl_wire_varint(&wire, &value));
    assert_true(wire.bad);
    pl_buf_release(&buf);
}

static void test_wire__writes_what_the_specification_shows(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_wire_put_int(&buf, 1, 150);
    pl_wire_put_string(&buf, 2, "testing");
    pl_wire_put_int(&buf, 1, -2);
    pl_wire_put_float(&buf, 1, 1.0f);
    pl_wire_put_double(&buf, 2, -2.0);
    pl_wire_put_bytes_head(&buf, 3, 3);
    pl_buf_puts(&buf, "abc");
    pl_wire_put_bytes(&buf, 16, NULL, 0);
    static const char want[] = "\x08\x96\x01\x12\x07testing\x08\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"
                               "\x01\x0D\x00\x00\x80\x3F\x11\x00\x00\x00\x00\x00\x00\x00\xC0\x1A"
                               "\x03"
                               "abc\x82\x01\x00";
    assert_int_equal(buf.n_bytes, sizeof want - 1);
    assert_memory_equal(buf.data, want, sizeof want - 1);
    pl_buf_release(&buf);
}

static void test_wire__round_trips_extremes(void **state) {
    (void)state;
    static const int64_t integers[] = { 0, 1, -1, INT64_MAX, INT64_MIN, 127, 128, 16383, 16384 };
    static const double doubles[] = { 0.0, -0.0, DBL_MAX, DBL_MIN, 5e-324, 0.1 };
    pl_buf buf = PL_BUF_INIT;
    for (size_t i = 0; i < 9; i++)
        pl_wire_put_int(&buf, (uint32_t)(i + 1) * 1000, integers[i]);
    for (size_t i = 0; i < 6; i++) {
        pl_wire_put_double(&buf, 7, doubles[i]);
        pl_wire_put_float(&buf, 8, (float)doubles[i == 2 ? 5 : i]);
    }
    pl_wire wire = wire_of(buf.data, buf.n_bytes);
    pl_wire_field field;
    for (size_t i = 0; i < 9; i++) {
        assert_true(pl_wire_next(&wire, &field));
        assert_int_equal(field.number, (i + 1) * 1000);
        assert_true((int64_t)field.integer == integers[i]);
    }
    for (size_t i = 0; i < 6; i++) {
        assert_true(pl_wire_next(&wire, &field));
        const double d = pl_wire_double(&field);
        assert_memory_equal(&d, &doubles[i], sizeof d);
        assert_true(pl_wire_next(&wire, &field));
        const float f = pl_wire_float(&field), want = (float)doubles[i == 2 ? 5 : i];
        assert_memory_equal(&f, &want, sizeof f);
    }
    assert_false(pl_wire_next(&wire, &field));
    assert_false(wire.bad);
    pl_buf_release(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire__reads_the_examples_of_the_specification),
        cmocka_unit_test(test_wire__reads_fixed_fields),
        cmocka_unit_test(test_wire__takes_empty_input),
        cmocka_unit_test(test_wire__refuses_truncated_fields),
        cmocka_unit_test(test_wire__refuses_overlong_varints),
        cmocka_unit_test(test_wire__refuses_lengths_beyond_the_end),
        cmocka_unit_test(test_wire__refuses_bad_tags),
        cmocka_unit_test(test_wire_varint__reads_packed_values),
        cmocka_unit_test(test_wire__writes_what_the_specification_shows),
        cmocka_unit_test(test_wire__round_trips_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

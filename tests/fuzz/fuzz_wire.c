/* Fuzzes the protobuf reader: every bytes field is read again as a message and as packed varints,
 * a few levels deep. What was read must lie inside what was given, and must come back the same
 * after it was written and read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LEVELS = 5 };

static void check(bool ok) {
    if (!ok) abort();
}

static void put_field(pl_buf *buf, const pl_wire_field *field) {
    switch (field->type) {
    case 0: pl_wire_put_int(buf, field->number, (int64_t)field->integer); break;
    case 1: pl_wire_put_double(buf, field->number, pl_wire_double(field)); break;
    case 2: pl_wire_put_bytes(buf, field->number, field->bytes.data, field->bytes.n_bytes); break;
    case 5: pl_wire_put_float(buf, field->number, pl_wire_float(field)); break;
    default: check(false);
    }
}

static void check_round_trip(const pl_wire_field *field) {
    pl_buf buf = PL_BUF_INIT;
    put_field(&buf, field);
    check(pl_buf_ok(&buf));
    pl_wire wire = pl_wire_of((pl_bytes){ (const uint8_t *)buf.data, buf.n_bytes });
    pl_wire_field again, none;
    check(pl_wire_next(&wire, &again));
    check(again.number == field->number && again.type == field->type);
    check(again.integer == field->integer && again.bytes.n_bytes == field->bytes.n_bytes);
    if (again.bytes.n_bytes > 0)
        check(memcmp(again.bytes.data, field->bytes.data, again.bytes.n_bytes) == 0);
    check(!pl_wire_next(&wire, &none) && !wire.bad);
    pl_buf_release(&buf);
}

static void walk_packed(pl_bytes bytes) {
    pl_wire wire = pl_wire_of(bytes);
    uint64_t value;
    size_t n = 0;
    while (pl_wire_varint(&wire, &value))
        n++;
    check(n <= bytes.n_bytes);
    check(wire.bad || wire.at == wire.end);
}

static void walk(pl_bytes bytes, int level) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field field;
    const uint8_t *before = wire.at;
    while (pl_wire_next(&wire, &field)) {
        check(wire.at > before && wire.at <= wire.end); /* moves on, stays inside */
        before = wire.at;
        check(field.number > 0);
        check_round_trip(&field);
        if (field.type != 2) continue;
        check(field.bytes.data >= bytes.data);
        check(field.bytes.data + field.bytes.n_bytes <= bytes.data + bytes.n_bytes);
        walk_packed(field.bytes);
        if (level < LEVELS) walk(field.bytes, level + 1);
    }
    check(!pl_wire_next(&wire, &field));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    walk((pl_bytes){ data, size }, 0);
    walk_packed((pl_bytes){ data, size });
    return 0;
}

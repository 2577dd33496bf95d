/* Protobuf wire format, as in "Encoding" of the protobuf documentation (proto2 and proto3 alike).
 * Every length is checked against the remaining bytes before it is used; positions never leave [at,
 * end]. */
#include "base/wire.h"

#include <string.h>

enum { VARINT_BYTES_MAX = 10 };

static bool wire_fail(pl_wire *wire) {
    wire->bad = true;
    wire->at = wire->end;
    return false;
}

/* A varint of more than one byte. Bits above 64 are an error: no writer produces them. */
static bool varint_long(pl_wire *wire, uint64_t *out) {
    const size_t left = (size_t)(wire->end - wire->at);
    const size_t n = left < VARINT_BYTES_MAX ? left : VARINT_BYTES_MAX;
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t byte = wire->at[i];
        if (i == VARINT_BYTES_MAX - 1 && byte > 1) return wire_fail(wire);
        value |= (byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            wire->at += i + 1;
            *out = value;
            return true;
        }
    }
    return wire_fail(wire);
}

/* Needs at least one byte; false means bad. */
static inline bool varint(pl_wire *wire, uint64_t *out) {
    if (wire->at < wire->end && *wire->at < 0x80) {
        *out = *wire->at++;
        return true;
    }
    return varint_long(wire, out);
}

bool pl_wire_varint(pl_wire *wire, uint64_t *out) {
    if (wire->bad || wire->at == wire->end) return false;
    return varint(wire, out);
}

static inline bool fixed(pl_wire *wire, size_t n_bytes, uint64_t *out) {
    if ((size_t)(wire->end - wire->at) < n_bytes) return wire_fail(wire);
    uint64_t value = 0;
    for (size_t i = 0; i < n_bytes; i++)
        value |= (uint64_t)wire->at[i] << (8 * i);
    wire->at += n_bytes;
    *out = value;
    return true;
}

static inline bool delimited(pl_wire *wire, pl_bytes *out) {
    uint64_t length;
    if (!varint(wire, &length)) return false;
    if (length > (uint64_t)(wire->end - wire->at)) return wire_fail(wire);
    *out = (pl_bytes){ wire->at, (size_t)length };
    wire->at += length;
    return true;
}

bool pl_wire_next(pl_wire *wire, pl_wire_field *field) {
    uint64_t tag;
    if (wire->bad || wire->at == wire->end) return false;
    if (!varint(wire, &tag)) return false;
    if (tag > UINT32_MAX || tag >> 3 == 0) return wire_fail(wire);
    field->number = (uint32_t)(tag >> 3);
    field->type = (uint32_t)(tag & 7);
    field->integer = 0;
    field->bytes = (pl_bytes){ NULL, 0 };
    switch (field->type) {
    case 0: return varint(wire, &field->integer);
    case 1: return fixed(wire, 8, &field->integer);
    case 2: return delimited(wire, &field->bytes);
    case 5: return fixed(wire, 4, &field->integer);
    default: return wire_fail(wire);
    }
}

float pl_wire_float(const pl_wire_field *field) {
    const uint32_t bits = (uint32_t)field->integer;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double pl_wire_double(const pl_wire_field *field) {
    double value;
    memcpy(&value, &field->integer, sizeof value);
    return value;
}

/* ---- writer ---- */

void pl_wire_put_varint(pl_buf *buf, uint64_t value) {
    uint8_t bytes[VARINT_BYTES_MAX];
    size_t n = 0;
    while (value >= 0x80) {
        bytes[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[n++] = (uint8_t)value;
    pl_buf_append(buf, bytes, n);
}

static void put_tag(pl_buf *buf, uint32_t number, uint32_t type) {
    pl_wire_put_varint(buf, (uint64_t)number << 3 | type);
}

static void put_fixed(pl_buf *buf, uint64_t bits, size_t n_bytes) {
    uint8_t bytes[8];
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
    pl_buf_append(buf, bytes, n_bytes);
}

void pl_wire_put_int(pl_buf *buf, uint32_t number, int64_t value) {
    put_tag(buf, number, 0);
    pl_wire_put_varint(buf, (uint64_t)value);
}

void pl_wire_put_bytes_head(pl_buf *buf, uint32_t number, size_t n_bytes) {
    put_tag(buf, number, 2);
    pl_wire_put_varint(buf, n_bytes);
}

void pl_wire_put_bytes(pl_buf *buf, uint32_t number, const void *data, size_t n_bytes) {
    pl_wire_put_bytes_head(buf, number, n_bytes);
    pl_buf_append(buf, data, n_bytes);
}

void pl_wire_put_string(pl_buf *buf, uint32_t number, const char *s) {
    pl_wire_put_bytes(buf, number, s, strlen(s));
}

void pl_wire_put_float(pl_buf *buf, uint32_t number, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_tag(buf, number, 5);
    put_fixed(buf, bits, 4);
}

void pl_wire_put_double(pl_buf *buf, uint32_t number, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_tag(buf, number, 1);
    put_fixed(buf, bits, 8);
}

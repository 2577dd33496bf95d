/* Protobuf wire primitives: a bounds-checked reader over borrowed bytes, and an appending writer.
 * Knows nothing of ONNX. Zero-copy: length-delimited fields come back as pointer and length. */
#ifndef PL_WIRE_H
#define PL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

typedef struct pl_bytes {
    const uint8_t *data;
    size_t n_bytes;
} pl_bytes;

typedef struct pl_wire {
    const uint8_t *at, *end;
    bool bad; /* sticky: truncated, overlong varint, unknown wire type, field number 0 */
} pl_wire;

typedef struct pl_wire_field {
    uint32_t number;
    uint32_t type;    /* 0 varint, 1 fixed64, 2 bytes, 5 fixed32 (groups, 3 and 4, are bad) */
    uint64_t integer; /* types 0, 1, 5 */
    pl_bytes bytes;   /* type 2 */
} pl_wire_field;

static inline pl_wire pl_wire_of(pl_bytes bytes) {
    /* NULL + 0 is undefined in C11, and an empty field may well be NULL. */
    return (pl_wire){ bytes.data, bytes.n_bytes == 0 ? bytes.data : bytes.data + bytes.n_bytes,
                      false };
}
/* False at the end and when bad; tell them apart by wire->bad. */
bool pl_wire_next(pl_wire *wire, pl_wire_field *field);
/* One varint, for packed fields. False at the end or when bad. */
bool pl_wire_varint(pl_wire *wire, uint64_t *out);
float pl_wire_float(const pl_wire_field *field);   /* type 5 */
double pl_wire_double(const pl_wire_field *field); /* type 1 */

/* Writer. Nested messages: build the inner buffer, then append it as bytes. */
void pl_wire_put_varint(pl_buf *buf, uint64_t value);
void pl_wire_put_int(pl_buf *buf, uint32_t number, int64_t value);
void pl_wire_put_bytes(pl_buf *buf, uint32_t number, const void *data, size_t n_bytes);
void pl_wire_put_string(pl_buf *buf, uint32_t number, const char *s);
void pl_wire_put_float(pl_buf *buf, uint32_t number, float value);
void pl_wire_put_double(pl_buf *buf, uint32_t number, double value);
/* Only the tag and length of a bytes field whose content the caller writes next. */
void pl_wire_put_bytes_head(pl_buf *buf, uint32_t number, size_t n_bytes);

#endif

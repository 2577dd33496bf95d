/* Named data in one memfd: how tensors travel between plumb and a guarded child.
 *
 *   8 bytes   "plumbblb"
 *   8 bytes   length of the description
 *   ...       description: protobuf wire format, field 1 repeated, one entry per item
 *   ...       data, 64-aligned, at the offsets that the entries name
 * Entry: 1 name, 2 kind (0 = no datum), 3 dtype, 4 dims (repeated), 5 offset, 6 bytes, 7 items
 * (repeated entries), 8 kind of the elements. Strings: 8-byte lengths, then the bytes.
 *
 * A written parcel is sealed: it cannot be changed or shrunk. A reader trusts nothing in it, and
 * refuses one without seals. Tensors use the mapping in place and keep it alive. */
#ifndef PL_GUARD_PARCEL_H
#define PL_GUARD_PARCEL_H

#include "tensor/datum.h"

typedef struct pl_parcel_item {
    char *name;      /* never NULL */
    pl_datum *datum; /* may be NULL */
} pl_parcel_item;

typedef struct pl_parcel {
    pl_parcel_item *items;
    size_t n_items;
} pl_parcel;

/* The caller closes fd. */
pl_status pl_parcel_write(const pl_parcel_item *items, size_t n_items, int *fd, pl_err *err);
/* `writable`: a private copy-on-write mapping, so that a backend that writes to its inputs is
 * caught by a hash instead of dying. The caller keeps fd. */
pl_status pl_parcel_read(int fd, bool writable, pl_parcel *out, pl_err *err);
void pl_parcel_release(pl_parcel *parcel);

/* Bytes in a sealed memfd. */
pl_status pl_parcel_write_bytes(const void *data, size_t n_bytes, int *fd, pl_err *err);

#endif

/* The bytes of a tensor as plumb stores and names them: dense, little-endian, C order, sub-byte
 * types one element to a byte. Strings are one 8-byte little-endian length and the bytes for each
 * element. Recordings, blobs and hashes all use exactly these bytes. */
#ifndef PL_BLOB_H
#define PL_BLOB_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/wire.h"
#include "tensor/tensor.h"

/* The name of a blob: equal blobs have equal names, and the name is enough to check the bytes. */
typedef struct pl_blob {
    pl_dtype dtype;
    uint64_t n_bytes;
    pl_hash128 hash; /* XXH3-128 of the bytes */
} pl_blob;

enum { PL_BLOB_NAME_MAX = 80 };

/* "float-4096-0123456789abcdef0123456789abcdef" */
void pl_blob_name(const pl_blob *blob, char out[PL_BLOB_NAME_MAX]);
bool pl_blob_parse(const char *name, pl_blob *out); /* only the form that pl_blob_name writes */
bool pl_blob_equal(const pl_blob *a, const pl_blob *b);
bool pl_hash128_parse(const char *hex, pl_hash128 *out); /* exactly 32 lower-case digits */

/* The dense bytes of a tensor: borrowed when it is contiguous, else a copy. */
typedef struct pl_dense {
    const void *data;
    size_t n_bytes;
    pl_tensor *owner; /* keeps data alive */
    pl_buf strings;
} pl_dense;
pl_status pl_dense_init(pl_dense *dense, const pl_tensor *t, pl_err *err);
void pl_dense_release(pl_dense *dense);
pl_blob pl_dense_blob(const pl_dense *dense, pl_dtype dtype);
/* A hash of its size and of at most PL_PROBE_BLOCKS blocks of PL_PROBE_BYTES, spread over it:
 * recognises a tensor without reading gigabytes. */
enum { PL_PROBE_BLOCKS = 1024, PL_PROBE_BYTES = 4096 };
pl_status pl_dense_probe(const pl_dense *dense, pl_hash128 *out, pl_err *err);

/* Restores a tensor from its bytes. The size must fit the shape, and every byte of a sub-byte type
 * must be a value of it (else PL_E_FORMAT). Other types use the bytes in place and keep `map`
 * alive. */
pl_status pl_dense_restore(pl_dtype dtype, int rank, const int64_t *dims, pl_bytes bytes,
                           pl_file_map *map, pl_tensor **out, pl_err *err);

#endif

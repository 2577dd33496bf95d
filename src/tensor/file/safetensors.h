/* safetensors files: named tensors behind a JSON header, used in place from the mapped file.
 *
 * The reader checks everything: header length, JSON, names, shapes, and that the offsets cover the
 * data exactly once. Types that the format lacks are stored as U8 with a metadata entry
 * (docs/formats/safetensors.md); the reader restores them. Not thread-safe while opening; reading
 * tensors is. */
#ifndef PL_SAFETENSORS_H
#define PL_SAFETENSORS_H

#include "base/json.h"
#include "tensor/tensor.h"

enum { PL_SAFETENSORS_HEADER_MAX = 100000000 };

typedef struct pl_safetensors_entry {
    const char *name; /* NUL-terminated UTF-8 */
    pl_dtype dtype;   /* restored */
    int rank;
    int64_t dims[PL_RANK_MAX];
    size_t offset, n_bytes; /* in the file */
} pl_safetensors_entry;

typedef struct pl_safetensors_pair {
    const char *key, *value;
} pl_safetensors_pair;

typedef struct pl_safetensors {
    pl_safetensors_entry *entries; /* in the order of the header */
    size_t n_entries;
    pl_safetensors_pair *metadata; /* without the plumb.dtype.* entries */
    size_t n_metadata;
    struct pl_safetensors_int *internal;
} pl_safetensors;

/* True when the bytes can be a safetensors file: a plausible header length and a '{'. */
bool pl_safetensors_sniff(const void *data, size_t n_bytes);
/* Keeps a reference to the map. */
pl_status pl_safetensors_open(pl_file_map *map, pl_safetensors **out, pl_err *err);
void pl_safetensors_close(pl_safetensors *st); /* tensors read stay valid; NULL is fine */
const pl_safetensors_entry *pl_safetensors_find(const pl_safetensors *st, const char *name);
const char *pl_safetensors_metadata(const pl_safetensors *st, const char *key); /* or NULL */
pl_status pl_safetensors_read(const pl_safetensors *st, const pl_safetensors_entry *entry,
                              pl_tensor **out, pl_err *err);

/* ---- writing ---- */

/* Writes the header entry of a tensor. A type that the format lacks is written as bytes, and the
 * metadata then has an entry for it. */
void pl_safetensors_put_entry(pl_json *json, const char *name, pl_dtype dtype, int rank,
                              const int64_t *dims, uint64_t begin, uint64_t n_bytes);
void pl_safetensors_put_type(pl_json *json, const char *name, pl_dtype dtype);

/* A tensor to be written; all specs are known before the first tensor. */
typedef struct pl_safetensors_spec {
    const char *name;
    pl_dtype dtype;
    int rank;
    const int64_t *dims;
} pl_safetensors_spec;

/* The order in the file is that of the official writer: larger elements first, then by name. */
typedef struct pl_safetensors_writer pl_safetensors_writer;
pl_status pl_safetensors_writer_open(const char *path, const pl_safetensors_spec *specs,
                                     size_t n_specs, const pl_safetensors_pair *metadata,
                                     size_t n_metadata, pl_safetensors_writer **out, pl_err *err);
/* Index of the spec whose tensor must come next; n_specs after the last. */
size_t pl_safetensors_writer_next(const pl_safetensors_writer *w);
pl_status pl_safetensors_writer_put(pl_safetensors_writer *w, const pl_tensor *t, pl_err *err);
/* Fails when a tensor is missing. The writer is freed either way. */
pl_status pl_safetensors_writer_commit_take(pl_safetensors_writer *w, pl_err *err);
void pl_safetensors_writer_abort_take(pl_safetensors_writer *w); /* NULL is fine */

#endif

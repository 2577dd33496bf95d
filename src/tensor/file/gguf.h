/* GGUF files (llama.cpp): metadata and named tensors, whose elements may lie in quantised blocks.
 *
 * Versions 2 and 3, little-endian. The reader checks everything: counts, lengths, types, that rows
 * are whole blocks, and that tensors follow one another as the writer puts them. Plain types (F32,
 * BF16, I8, …) are used in place from the mapped file; blocks are expanded to float when they are
 * read, with the same operations in the same order as llama.cpp, so that the bits are the same. Not
 * thread-safe while opening; reading tensors is. */
#ifndef PL_GGUF_H
#define PL_GGUF_H

#include "base/buf.h"
#include "base/wire.h"
#include "tensor/tensor.h"

enum { PL_GGUF_RANK_MAX = 4 };

/* A row of gguf_types.def. */
typedef struct pl_gguf_type {
    const char *name; /* as llama.cpp prints it: "Q4_K" */
    unsigned number;
    int64_t block;  /* elements of one block; 1 for plain types */
    size_t n_bytes; /* of one block */
    pl_dtype dtype; /* of the tensor that is read */
    /* One block to floats; NULL for plain types, and for blocks that plumb cannot expand. */
    void (*expand)(const uint8_t *block, float *to);
} pl_gguf_type;

typedef struct pl_gguf_entry {
    const char *name;
    const pl_gguf_type *type;
    int rank;
    int64_t dims[PL_RANK_MAX]; /* in C order: the reverse of the file's */
    size_t offset, n_bytes;    /* in the file */
} pl_gguf_entry;

/* The types of metadata, by the file's numbers. */
typedef enum pl_gguf_kind {
    PL_GGUF_U8,
    PL_GGUF_I8,
    PL_GGUF_U16,
    PL_GGUF_I16,
    PL_GGUF_U32,
    PL_GGUF_I32,
    PL_GGUF_F32,
    PL_GGUF_BOOL,
    PL_GGUF_TEXT,
    PL_GGUF_ARRAY,
    PL_GGUF_U64,
    PL_GGUF_I64,
    PL_GGUF_F64,
    PL_GGUF_KINDS
} pl_gguf_kind;

typedef struct pl_gguf_pair {
    const char *key;
    pl_gguf_kind kind; /* of the value, or of the items of an array */
    bool is_array;
    uint64_t n_items; /* 1 when it is not an array */
    pl_bytes bytes;   /* the value or the items, as in the file */
} pl_gguf_pair;

typedef struct pl_gguf {
    unsigned version;
    pl_gguf_entry *entries; /* in the order of the file */
    size_t n_entries;
    pl_gguf_pair *metadata;
    size_t n_metadata;
    struct pl_gguf_int *internal;
} pl_gguf;

bool pl_gguf_sniff(const void *data, size_t n_bytes);
/* Keeps a reference to the map. */
pl_status pl_gguf_open(pl_file_map *map, pl_gguf **out, pl_err *err);
void pl_gguf_close(pl_gguf *file); /* tensors read stay valid; NULL is fine */
/* PL_E_UNSUPPORTED, with its name, for a block type that plumb cannot expand. */
pl_status pl_gguf_read(const pl_gguf *file, const pl_gguf_entry *entry, pl_tensor **out,
                       pl_err *err);

/* What each block of Q4_1 and Q5_1 adds to its elements, as floats: the last axis has the blocks.
 * *out is NULL for other types. */
pl_status pl_gguf_read_minima(const pl_gguf *file, const pl_gguf_entry *entry, pl_tensor **out,
                              pl_err *err);

const pl_gguf_pair *pl_gguf_find(const pl_gguf *file, const char *key); /* or NULL */
const char *pl_gguf_kind_name(pl_gguf_kind kind);
/* A value as text, the items of an array up to `n_max` of them; control characters are replaced. */
void pl_gguf_put_value(pl_buf *out, const pl_gguf_pair *pair, size_t n_max);

const pl_gguf_type *pl_gguf_type_of(uint32_t number); /* NULL when unknown */
const pl_gguf_type *pl_gguf_type_at(size_t i);        /* all of them; NULL at the end */

#endif

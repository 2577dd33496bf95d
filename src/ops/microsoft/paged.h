/* PagedAttention: what its kernel, its bound and its undefined elements share. */
#ifndef PL_PAGED_H
#define PL_PAGED_H

#include "tensor/tensor.h"

/* Sequences lie side by side in the rows of the query (`starts`); the history of each is scattered
 * over blocks of the cache (`table`). */
typedef struct pl_paged {
    int64_t batch, tokens, n_blocks, block, columns; /* columns: blocks that a sequence may have */
    const int64_t *starts, *past, *table;            /* batch + 1, batch, batch x columns */
    const int64_t *slots;                            /* of each token; NULL = after the past */
} pl_paged;

enum {
    PL_PAGED_QUERY,
    PL_PAGED_KEY,
    PL_PAGED_VALUE,
    PL_PAGED_KEY_CACHE,
    PL_PAGED_VALUE_CACHE,
    PL_PAGED_STARTS,
    PL_PAGED_PAST,
    PL_PAGED_TABLE,
    PL_PAGED_COS,
    PL_PAGED_SIN,
    PL_PAGED_SLOTS,
    PL_PAGED_SINK,
    PL_PAGED_Q_NORM,
    PL_PAGED_K_NORM
};

/* Row of the cache, seen as rows of one position, where sequence b has `position`; -1 = its block
 * is not one of the cache. */
static inline int64_t pl_paged_row(const pl_paged *p, int64_t b, int64_t position) {
    const int64_t at = position / p->block;
    if (at < 0 || at >= p->columns) return -1;
    const int64_t block = p->table[b * p->columns + at];
    return block < 0 || block >= p->n_blocks ? -1 : block * p->block + position % p->block;
}

/* Where token t, the i-th new one of sequence b, is stored; -1 = nowhere. */
static inline int64_t pl_paged_slot(const pl_paged *p, int64_t b, int64_t t, int64_t i) {
    return p->slots != NULL ? p->slots[t] : pl_paged_row(p, b, p->past[b] + i);
}

/* First position that the new tokens of sequence b see. */
static inline int64_t pl_paged_first(const pl_paged *p, int64_t b, int64_t window) {
    const int64_t first = p->past[b] + 1 - window;
    return window > 0 && first > 0 ? first : 0;
}

#endif

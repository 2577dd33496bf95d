/* Numbers as unsigned keys in the same order, so that sorting needs one comparison for all types.
 *
 * Zeros of both signs are equal; every NaN has the same key, above all others (as NumPy sorts). */
#ifndef PL_SORT_KEY_H
#define PL_SORT_KEY_H

#include "tensor/dtype.h"

#define PL_KEY_NAN UINT64_MAX /* also the largest 64-bit integer; the only float with it is NaN */

/* Keys of n contiguous elements of a numeric or bool type. */
void pl_sort_keys(pl_dtype dtype, const void *from, uint64_t *to, size_t n);

/* A heap of numbered keys. On top is the smallest key, among equal keys the largest number. */
typedef struct pl_sort_entry {
    uint64_t key;
    int64_t at;
} pl_sort_entry;
static inline bool pl_sort_before(const pl_sort_entry *a, const pl_sort_entry *b) {
    return a->key != b->key ? a->key < b->key : a->at > b->at;
}
/* Sifts entry i down; the heaps below it must be valid. */
void pl_sort_sift_down(pl_sort_entry *heap, int64_t n, int64_t i);

#endif

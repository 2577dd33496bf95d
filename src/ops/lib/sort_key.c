/* Sort keys (floats by their bits as double, integers with the sign bit flipped), and a heap of
 * them. */
#include "ops/lib/sort_key.h"

#include <string.h>

enum { BLOCK = 512 };
static const uint64_t SIGN = (uint64_t)1 << 63;

static void keys_of_floats(pl_dtype dtype, const void *from, uint64_t *to, size_t n) {
    double values[BLOCK];
    pl_load_f64(dtype, from, values, n);
    for (size_t i = 0; i < n; i++) {
        const double x = values[i] + 0.0; /* -0 becomes 0 */
        uint64_t bits;
        memcpy(&bits, &x, sizeof(bits));
        bits = (bits & SIGN) != 0 ? ~bits : bits | SIGN;
        to[i] = x != x ? PL_KEY_NAN : bits;
    }
}

static void keys_of_integers(pl_dtype dtype, const void *from, uint64_t *to, size_t n) {
    int64_t values[BLOCK];
    const uint64_t turn = dtype == PL_U64 ? 0 : SIGN;
    pl_load_i64(dtype, from, values, n);
    for (size_t i = 0; i < n; i++)
        to[i] = (uint64_t)values[i] ^ turn;
}

void pl_sort_keys(pl_dtype dtype, const void *from, uint64_t *to, size_t n) {
    const size_t size = pl_dtype_bytes(dtype);
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t m = n - at < BLOCK ? n - at : BLOCK;
        const char *x = (const char *)from + at * size;
        if (pl_dtype_is_float(dtype)) {
            keys_of_floats(dtype, x, to + at, m);
        } else {
            keys_of_integers(dtype, x, to + at, m);
        }
    }
}

void pl_sort_sift_down(pl_sort_entry *heap, int64_t n, int64_t i) {
    const pl_sort_entry moved = heap[i];
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && pl_sort_before(&heap[child + 1], &heap[child])) child++;
        if (!pl_sort_before(&heap[child], &moved)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

/* Ranges of elements, and replacing what they hold. */
#include "tensor/ranges.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

void pl_ranges_release(pl_ranges *r) {
    pl_free(r->at);
    *r = (pl_ranges){ NULL, 0, 0 };
}

pl_status pl_ranges_add(pl_ranges *r, int64_t from, int64_t to, pl_err *err) {
    if (from >= to) return PL_OK;
    if (r->n > 0 && r->at[2 * r->n - 1] >= from) {
        if (to > r->at[2 * r->n - 1]) r->at[2 * r->n - 1] = to;
        return PL_OK;
    }
    if (!PL_ARRAY_ROOM_FOR(r->at, 2 * r->n + 2, &r->capacity)) return pl_fail_memory(err, r->n);
    r->at[2 * r->n] = from;
    r->at[2 * r->n + 1] = to;
    r->n++;
    return PL_OK;
}

pl_status pl_ranges_join(const pl_ranges *x, const pl_ranges *y, pl_ranges *out, pl_err *err) {
    size_t i = 0, k = 0;
    while (i < x->n || k < y->n) {
        const bool first = k == y->n || (i < x->n && x->at[2 * i] <= y->at[2 * k]);
        const int64_t *p = first ? &x->at[2 * i++] : &y->at[2 * k++];
        PL_TRY(pl_ranges_add(out, p[0], p[1], err));
    }
    return PL_OK;
}

int64_t pl_ranges_count(const pl_ranges *r) {
    int64_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->at[2 * i + 1] - r->at[2 * i];
    return n;
}

/* Elements from..to - 1 of x, converted. */
static void copy_converted(const pl_tensor *x, pl_tensor *y, int64_t from, int64_t to) {
    enum { BLOCK = 512 };
    double block[BLOCK];
    const size_t size_x = pl_dtype_bytes(x->dtype), size_y = pl_dtype_bytes(y->dtype);
    for (int64_t at = from; at < to; at += BLOCK) {
        const size_t n = (size_t)(to - at < BLOCK ? to - at : BLOCK);
        pl_load_f64(x->dtype, (const char *)x->data + (size_t)at * size_x, block, n);
        pl_store_f64(y->dtype, block, (char *)y->data + (size_t)at * size_y, n);
    }
}

static void replace(const pl_ranges *r, const pl_tensor *from, pl_tensor *to) {
    const size_t size = pl_dtype_bytes(to->dtype);
    for (size_t i = 0; i < r->n; i++) {
        const int64_t begin = r->at[2 * i];
        const int64_t end = r->at[2 * i + 1] < to->n_elements ? r->at[2 * i + 1] : to->n_elements;
        if (begin >= end) continue;
        char *at = (char *)to->data + (size_t)begin * size;
        if (from == NULL) {
            memset(at, 0, (size_t)(end - begin) * size);
        } else if (from->dtype == to->dtype) {
            memcpy(at, (const char *)from->data + (size_t)begin * size,
                   (size_t)(end - begin) * size);
        } else {
            copy_converted(from, to, begin, end);
        }
    }
}

pl_status pl_ranges_replace(const pl_ranges *r, const pl_tensor *t, const pl_tensor *from,
                            pl_tensor **out, pl_err *err) {
    pl_tensor *copy = NULL, *dense = NULL;
    if (t->dtype == PL_STRING || (from != NULL && !pl_tensor_same_shape(t, from))) {
        *out = pl_tensor_ref(t);
        return PL_OK;
    }
    pl_status st = PL_OK;
    if (from != NULL) PL_TRY_GOTO(done, st, pl_tensor_contiguous(from, &dense, err));
    PL_TRY_GOTO(done, st, pl_tensor_copy(t, &copy, err));
    replace(r, dense, copy);
    *out = copy;
done:
    pl_tensor_unref(dense);
    return st;
}

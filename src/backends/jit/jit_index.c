/* Affine maps of indices: composing, comparing, strides. */
#include <string.h>

#include "backends/jit/jit_int.h"

pl_emit_index jit_index_identity(int rank) {
    pl_emit_index at;
    memset(&at, 0, sizeof(at));
    at.rows = at.cols = rank;
    for (int d = 0; d < rank; d++)
        at.c[d][d] = 1;
    return at;
}

pl_emit_index jit_index_compose(const pl_emit_index *a, const pl_emit_index *b) {
    pl_emit_index r;
    memset(&r, 0, sizeof(r));
    r.rows = a->rows;
    r.cols = b->cols;
    for (int i = 0; i < a->rows; i++) {
        r.k[i] = a->k[i];
        for (int m = 0; m < a->cols; m++) {
            r.k[i] += a->c[i][m] * b->k[m];
            for (int j = 0; j < b->cols; j++)
                r.c[i][j] += a->c[i][m] * b->c[m][j];
        }
    }
    return r;
}

bool jit_index_equal(const pl_emit_index *a, const pl_emit_index *b, const int64_t *dims) {
    if (a->rows != b->rows || a->cols != b->cols) return false;
    for (int i = 0; i < a->rows; i++) {
        if (a->k[i] != b->k[i]) return false;
        for (int j = 0; j < a->cols; j++)
            if (dims[j] != 1 && a->c[i][j] != b->c[i][j]) return false;
    }
    return true;
}

void jit_strides(int rank, const int64_t *dims, int64_t *out) {
    int64_t n = 1;
    for (int d = rank - 1; d >= 0; d--) {
        out[d] = n;
        n *= dims[d];
    }
}

void jit_ref_flat(const jit_plan *plan, const jit_ref *ref, int64_t *c, int64_t *k) {
    const jit_prim *p = &plan->prims[ref->prim];
    int64_t strides[JIT_RANK];
    jit_strides(p->rank, p->dims, strides);
    if (ref->flat) strides[0] = 1;
    *k = 0;
    for (int j = 0; j < JIT_RANK; j++)
        c[j] = 0;
    for (int i = 0; i < ref->at.rows; i++) {
        *k += strides[i] * ref->at.k[i];
        for (int j = 0; j < ref->at.cols; j++)
            c[j] += strides[i] * ref->at.c[i][j];
    }
}

bool jit_ref_is_whole(const jit_plan *plan, const jit_ref *ref) {
    int64_t c[JIT_RANK], k, expected[JIT_RANK], n = 1;
    jit_ref_flat(plan, ref, c, &k);
    jit_strides(ref->rank, ref->dims, expected);
    for (int d = 0; d < ref->rank; d++) {
        n *= ref->dims[d];
        if (ref->dims[d] != 1 && c[d] != expected[d]) return false;
    }
    return k == 0 && n == plan->prims[ref->prim].n;
}

bool jit_reshape_strides(int rank, const int64_t *dims, const int64_t *strides, int to_rank,
                         const int64_t *to, int64_t *out) {
    int64_t from_dims[JIT_RANK], from_strides[JIT_RANK];
    int n = 0;
    for (int d = 0; d < rank; d++) {
        if (dims[d] == 1) continue;
        if (n > 0 && from_strides[n - 1] == strides[d] * dims[d]) { /* contiguous: merge */
            from_dims[n - 1] *= dims[d];
            from_strides[n - 1] = strides[d];
        } else {
            from_dims[n] = dims[d];
            from_strides[n++] = strides[d];
        }
    }
    int i = n - 1;
    int64_t left = n > 0 ? from_dims[n - 1] : 1, stride = n > 0 ? from_strides[n - 1] : 1;
    for (int d = to_rank - 1; d >= 0; d--) {
        if (to[d] == 1) {
            out[d] = 0;
            continue;
        }
        if (left == 1) {
            if (--i < 0) return false;
            left = from_dims[i];
            stride = from_strides[i];
        }
        if (left % to[d] != 0) return false;
        out[d] = stride;
        stride *= to[d];
        left /= to[d];
    }
    return left == 1 && i <= 0;
}

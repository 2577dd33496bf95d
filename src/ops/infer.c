/* Helpers of shape rules, and the rules that many operators share. */
#include "ops/infer.h"

#include <stdarg.h>

bool pl_infer_has(const pl_infer *c, int i) {
    return i < c->n_in && c->in[i] != NULL;
}

pl_dtype pl_infer_dtype_of(const pl_infer *c, int i) {
    if (!pl_infer_has(c, i) || c->in[i]->kind != PL_TYPE_TENSOR) return PL_UNDEFINED;
    return c->in[i]->dtype;
}

int pl_infer_rank(const pl_infer *c, int i) {
    if (!pl_infer_has(c, i) || c->in[i]->kind != PL_TYPE_TENSOR || !c->in[i]->has_rank) return -1;
    return c->in[i]->rank;
}

pl_dim pl_infer_dim(const pl_infer *c, int i, int axis) {
    const int rank = pl_infer_rank(c, i);
    if (axis < 0 || axis >= rank) return PL_DIM_UNKNOWN;
    return c->in[i]->dims[axis];
}

const int64_t *pl_infer_ints(pl_infer *c, int i, size_t *n) {
    *n = 0;
    if (!pl_infer_has(c, i)) return NULL;
    const pl_tensor *t = c->in_tensor[i];
    if (t != NULL) {
        if (!pl_dtype_is_integer(t->dtype) || t->rank > 1) return NULL;
        int64_t *ints = pl_arena_array(c->arena, (size_t)t->n_elements, sizeof(*ints));
        if (ints == NULL) return NULL;
        pl_load_i64(t->dtype, t->data, ints, (size_t)t->n_elements);
        *n = (size_t)t->n_elements;
        return ints;
    }
    const pl_content *content = c->in_content[i];
    if (content == NULL) return NULL;
    int64_t *ints = pl_arena_array(c->arena, content->n, sizeof(*ints));
    if (ints == NULL) return NULL;
    for (size_t k = 0; k < content->n; k++) {
        if (!content->known[k]) return NULL;
        ints[k] = content->dims[k].value;
    }
    *n = content->n;
    return ints;
}

static pl_dtype dtype_under(bool fp64, pl_dtype dtype) {
    const bool raised = dtype == PL_F32 || dtype == PL_F16 || dtype == PL_BF16;
    return fp64 && raised ? PL_F64 : dtype;
}

pl_dtype pl_infer_dtype(const pl_infer *c, pl_dtype dtype) {
    return dtype_under(c->fp64, dtype);
}

pl_status pl_infer_axis(const pl_infer *c, int64_t axis, int rank, int *out) {
    if (rank == 0) {
        return pl_infer_fail(c, "axis is %lld, but the input is a scalar (rank 0) and has no axes",
                             (long long)axis);
    }
    if (axis < -rank || axis >= rank) {
        return pl_infer_fail(c, "axis is %lld, expected %d to %d", (long long)axis, -rank,
                             rank - 1);
    }
    *out = (int)(axis < 0 ? axis + rank : axis);
    return PL_OK;
}

pl_status pl_infer_set(pl_infer *c, int i, pl_dtype dtype, int rank, const pl_dim *dims) {
    if (i >= c->n_out) return PL_OK;
    if (rank < 0) return pl_infer_set_unranked(c, i, dtype);
    if (rank > PL_RANK_MAX) {
        return pl_node_fail(c->err, PL_E_LIMIT, c->node, "output %d has rank %d, the limit is %d",
                            i, rank, PL_RANK_MAX);
    }
    c->out[i] = pl_type_tensor(c->arena, dtype, rank, dims);
    return c->out[i] == NULL ? pl_fail_memory(c->err, sizeof(pl_type)) : PL_OK;
}

pl_status pl_infer_set_unranked(pl_infer *c, int i, pl_dtype dtype) {
    if (i >= c->n_out) return PL_OK;
    c->out[i] = pl_type_tensor_unranked(c->arena, dtype);
    return c->out[i] == NULL ? pl_fail_memory(c->err, sizeof(pl_type)) : PL_OK;
}

pl_status pl_infer_set_type(pl_infer *c, int i, const pl_type *type) {
    if (i < c->n_out) c->out[i] = type;
    return PL_OK;
}

pl_status pl_infer_set_like(pl_infer *c, int i, int input) {
    if (i < c->n_out && pl_infer_has(c, input) && c->in[input]->kind != PL_TYPE_NONE) {
        c->out[i] = c->in[input];
    }
    return PL_OK;
}

pl_status pl_infer_fail(const pl_infer *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)pl_vfail(c->err, PL_E_INVALID, format, args);
    va_end(args);
    char text[600];
    return pl_err_wrap(c->err, PL_E_INVALID, "%s", pl_node_describe(c->node, text, sizeof(text)));
}

pl_status pl_infer_broadcast_dim(const pl_infer *c, pl_dim a, pl_dim b, pl_dim *out) {
    if (pl_dim_known(a) && a.value == 1) {
        *out = b;
    } else if (pl_dim_known(b) && b.value == 1) {
        *out = a;
    } else if (pl_dim_known(a) && pl_dim_known(b)) {
        if (a.value != b.value) {
            return pl_infer_fail(c, "dims %lld and %lld cannot be broadcast together",
                                 (long long)a.value, (long long)b.value);
        }
        *out = a;
    } else if (pl_dim_known(a)) {
        *out = a; /* the other dim must be 1 or equal */
    } else if (pl_dim_known(b)) {
        *out = b;
    } else {
        *out = pl_dim_equal(a, b) ? a : PL_DIM_UNKNOWN;
    }
    return PL_OK;
}

pl_status pl_infer_broadcast_inputs(pl_infer *c, int first, int last, int *rank, pl_dim *out) {
    *rank = 0;
    for (int i = first; i <= last; i++) {
        if (!pl_infer_has(c, i)) continue;
        const int r = pl_infer_rank(c, i);
        if (r < 0) {
            *rank = -1;
            return PL_OK;
        }
        if (r > *rank) *rank = r;
    }
    for (int d = 0; d < *rank; d++)
        out[d] = pl_dim_of(1);
    for (int i = first; i <= last; i++) {
        if (!pl_infer_has(c, i)) continue;
        const int r = pl_infer_rank(c, i);
        for (int d = 0; d < r; d++) {
            pl_dim *slot = &out[*rank - r + d];
            PL_TRY(pl_infer_broadcast_dim(c, *slot, c->in[i]->dims[d], slot));
        }
    }
    return PL_OK;
}

static pl_status merge_dims(pl_infer *c, const pl_type *a, const pl_type *b, pl_type *out) {
    if (a->rank != b->rank) {
        return pl_infer_fail(c, "ranks %d and %d contradict each other", a->rank, b->rank);
    }
    pl_dim *dims = pl_arena_array(c->arena, (size_t)a->rank, sizeof(*dims));
    if (dims == NULL) return pl_fail_memory(c->err, sizeof(*dims));
    for (int d = 0; d < a->rank; d++) {
        const pl_dim x = a->dims[d], y = b->dims[d];
        if (pl_dim_known(x) && pl_dim_known(y) && x.value != y.value) {
            return pl_infer_fail(c, "dim %d is %lld, but %lld elsewhere", d, (long long)x.value,
                                 (long long)y.value);
        }
        dims[d] = pl_dim_known(x) || (x.name != NULL && !pl_dim_known(y)) ? x : y;
    }
    out->dims = dims;
    return PL_OK;
}

pl_status pl_infer_merge(pl_infer *c, const pl_type *a, const pl_type *b, const pl_type **out) {
    if (a == NULL || a->kind == PL_TYPE_NONE) {
        *out = b;
        return PL_OK;
    }
    *out = a;
    if (b == NULL || b->kind == PL_TYPE_NONE) return PL_OK;
    if (a->kind != b->kind) return pl_infer_fail(c, "a tensor, but a sequence elsewhere");
    if (a->kind != PL_TYPE_TENSOR) return PL_OK;
    pl_type *merged = pl_arena_alloc(c->arena, sizeof(*merged));
    if (merged == NULL) return pl_fail_memory(c->err, sizeof(*merged));
    *merged = a->has_rank ? *a : *b;
    merged->dtype = a->dtype == PL_UNDEFINED ? b->dtype : a->dtype;
    if (a->dtype != PL_UNDEFINED && b->dtype != PL_UNDEFINED && a->dtype != b->dtype) {
        return pl_infer_fail(c, "type %s, but %s elsewhere", pl_dtype_name(a->dtype),
                             pl_dtype_name(b->dtype));
    }
    if (a->has_rank && b->has_rank) PL_TRY(merge_dims(c, a, b, merged));
    *out = merged;
    return PL_OK;
}

/* ---- shared rules ---- */

pl_status pl_infer_same_as_first(pl_infer *c) {
    for (int i = 0; i < c->n_out; i++)
        PL_TRY(pl_infer_set_like(c, i, 0));
    return PL_OK;
}

static pl_status broadcast_all(pl_infer *c, pl_dtype dtype) {
    pl_dim dims[PL_RANK_MAX];
    int rank = 0;
    PL_TRY(pl_infer_broadcast_inputs(c, 0, c->n_in - 1, &rank, dims));
    return pl_infer_set(c, 0, dtype, rank, dims);
}

pl_status pl_infer_broadcast(pl_infer *c) {
    return broadcast_all(c, pl_infer_dtype_of(c, 0));
}

pl_status pl_infer_broadcast_bool(pl_infer *c) {
    return broadcast_all(c, PL_BOOL);
}

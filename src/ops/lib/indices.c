/* Reading indices, with bounds. */
#include "ops/lib/indices.h"

pl_status pl_indices_read(pl_eval *c, const pl_tensor *indices, int64_t bound, int64_t **out) {
    const int64_t n = indices->n_elements;
    int64_t *list = pl_scratch(c, (size_t)n, sizeof(*list));
    if (list == NULL) return pl_eval_memory(c);
    pl_load_i64(indices->dtype, indices->data, list, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = list[i] < 0 ? list[i] + bound : list[i];
        if (at < 0 || at >= bound) {
            return pl_eval_fail(
                c, "index %lld (element %lld of the indices) is outside %lld to %lld",
                (long long)list[i], (long long)i, (long long)-bound, (long long)(bound - 1));
        }
        list[i] = at;
    }
    *out = list;
    return PL_OK;
}

pl_status pl_tuple_offsets(pl_eval *c, const pl_tensor *data, const pl_tensor *indices,
                           int batch_dims, int64_t **out) {
    const int64_t width = indices->dims[indices->rank - 1];
    const int64_t n = width == 0 ? 0 : indices->n_elements / width;
    int64_t *offsets = pl_scratch(c, (size_t)n, sizeof(*offsets));
    int64_t *list = pl_scratch(c, (size_t)indices->n_elements, sizeof(*list));
    int64_t n_batch = 1;
    if (offsets == NULL || list == NULL) return pl_eval_memory(c);
    *out = offsets;
    if (n == 0) return PL_OK;
    pl_load_i64(indices->dtype, indices->data, list, (size_t)indices->n_elements);
    for (int d = 0; d < batch_dims; d++)
        n_batch *= data->dims[d];
    const int64_t per_batch = n / n_batch; /* n > 0: no batch dim is 0 */
    const int64_t batch_stride = batch_dims == 0 ? 0 : data->strides[batch_dims - 1];
    for (int64_t i = 0; i < n; i++) {
        offsets[i] = i / per_batch * batch_stride;
        for (int64_t k = 0; k < width; k++) {
            const int axis = batch_dims + (int)k;
            const int64_t given = list[i * width + k], bound = data->dims[axis];
            const int64_t at = given < 0 ? given + bound : given;
            if (at < 0 || at >= bound) {
                return pl_eval_fail(c, "index %lld (tuple %lld) is outside %lld to %lld of axis %d",
                                    (long long)given, (long long)i, (long long)-bound,
                                    (long long)(bound - 1), axis);
            }
            offsets[i] += at * data->strides[axis];
        }
    }
    return PL_OK;
}

void pl_along_init(pl_along *a, const pl_tensor *data, const pl_tensor *indices, int axis) {
    const int last = indices->rank - 1;
    *a = (pl_along){ .rank = indices->rank, .axis_stride = data->strides[axis], .n_rows = 1 };
    for (int d = 0; d <= last; d++) {
        a->dims[d] = indices->dims[d];
        a->strides[d] = d == axis ? 0 : data->strides[d];
    }
    if (indices->n_elements == 0) {
        a->n_rows = 0;
        return;
    }
    a->n = a->dims[last];
    a->step = a->strides[last];
    a->n_rows = indices->n_elements / a->n;
}

int64_t pl_along_base(const pl_along *a, int64_t row) {
    int64_t offset = 0;
    for (int d = a->rank - 2; d >= 0; d--) {
        offset += row % a->dims[d] * a->strides[d];
        row /= a->dims[d];
    }
    return offset;
}

pl_status pl_along_infer(pl_infer *c, int *axis, int *rank) {
    const int r = pl_infer_rank(c, 0), q = pl_infer_rank(c, 1);
    *rank = q >= 0 ? q : r;
    if (r >= 0 && q >= 0 && r != q) {
        return pl_infer_fail(c, "the indices have rank %d, the data %d", q, r);
    }
    if (*rank < 0) return PL_OK;
    if (*rank == 0) return pl_infer_fail(c, "the data has rank 0, expected at least 1");
    PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), *rank, axis));
    for (int d = 0; r >= 0 && q >= 0 && d < r; d++) {
        const pl_dim mine = pl_infer_dim(c, 1, d), full = pl_infer_dim(c, 0, d);
        if (d == *axis || !pl_dim_known(mine) || !pl_dim_known(full)) continue;
        if (mine.value <= full.value) continue;
        return pl_infer_fail(c, "dim %d of the indices is %lld, the data has %lld", d,
                             (long long)mine.value, (long long)full.value);
    }
    return PL_OK;
}

/* Broadcasting by attributes, opsets 1 to 6. */
#include "ops/lib/legacy_broadcast.h"

/* Dim of A that the first dim of B aligns with. */
static pl_status first_dim(const pl_infer *c, int ra, int rb, int *first) {
    *first = ra - rb;
    if (pl_attr_has(c->node, "axis")) {
        const int64_t axis = pl_attr_int(c->node, "axis");
        if (axis < -ra || axis > ra) {
            return pl_infer_fail(c, "axis is %lld, A has rank %d", (long long)axis, ra);
        }
        *first = (int)(axis < 0 ? axis + ra : axis);
    }
    if (*first < 0 || *first + rb > ra) {
        return pl_infer_fail(c, "B of rank %d at dim %d does not fit A of rank %d", rb, *first, ra);
    }
    return PL_OK;
}

pl_status pl_infer_legacy_broadcast(pl_infer *c, pl_dtype dtype) {
    const int ra = pl_infer_rank(c, 0), rb = pl_infer_rank(c, 1);
    if (pl_attr_int(c->node, "broadcast") == 0) {
        pl_dim dims[PL_RANK_MAX];
        int rank = 0;
        PL_TRY(pl_infer_broadcast_inputs(c, 0, 1, &rank, dims));
        return pl_infer_set(c, 0, dtype, rank, dims);
    }
    if (ra < 0) return pl_infer_set_unranked(c, 0, dtype);
    int first = 0;
    if (rb >= 0) PL_TRY(first_dim(c, ra, rb, &first));
    for (int d = 0; d < rb; d++) {
        const pl_dim x = c->in[0]->dims[first + d], y = c->in[1]->dims[d];
        if (!pl_dim_known(x) || !pl_dim_known(y) || x.value == y.value || y.value == 1) continue;
        return pl_infer_fail(c, "dim %d of B is %lld, expected %lld like dim %d of A", d,
                             (long long)y.value, (long long)x.value, first + d);
    }
    return pl_infer_set(c, 0, dtype, ra, c->in[0]->dims);
}

/* Dims of B for NumPy broadcasting; false when B needs no change. */
static bool operand_dims(const pl_node *node, const pl_tensor *a, const pl_tensor *b, int *rank,
                         int64_t *dims) {
    if (node->opset >= 7 || pl_attr_int(node, "broadcast") == 0 || !pl_attr_has(node, "axis"))
        return false;
    const int64_t axis = pl_attr_int(node, "axis");
    *rank = (int)(axis < 0 ? -axis : a->rank - axis); /* checked by the shape rule */
    for (int d = 0; d < *rank; d++)
        dims[d] = d < b->rank ? b->dims[d] : 1;
    return true;
}

pl_status pl_legacy_operand(const pl_eval *c, pl_tensor **out) {
    const pl_tensor *a = pl_in(c, 0), *b = pl_in(c, 1);
    int64_t dims[PL_RANK_MAX];
    int rank = 0;
    *out = NULL;
    if (!operand_dims(c->node, a, b, &rank, dims)) {
        *out = pl_tensor_ref(b);
        return PL_OK;
    }
    return pl_tensor_reshape(b, rank, dims, out, c->err);
}

pl_status pl_eval_two(pl_eval *c, const pl_binary_ops *ops) {
    if (c->node->opset >= 7) return pl_eval_binary(c, ops, NULL);
    pl_tensor *y = NULL;
    PL_TRY(pl_legacy_operand(c, &y));
    const pl_status st = pl_eval_binary_on(c, ops, NULL, pl_in(c, 0), y, pl_out(c, 0));
    pl_tensor_unref(y);
    return st;
}

pl_status pl_b_each_legacy(pl_bound *c, pl_b_element fn) {
    int64_t dims[PL_RANK_MAX];
    int rank = 0;
    if (!operand_dims(c->node, pl_b_in(c, 0), pl_b_in(c, 1), &rank, dims)) return pl_b_each(c, fn);
    return pl_b_each_as(c, rank, dims, fn);
}

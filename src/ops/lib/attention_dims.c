/* Dims of attention operators in shape rules. */
#include "ops/lib/attention_dims.h"

#include "base/size.h"

pl_status pl_meet_agree(const pl_infer *c, const char *what, pl_dim found, pl_dim *dim) {
    if (pl_dim_known(*dim) && pl_dim_known(found) && found.value != dim->value) {
        return pl_infer_fail(c, "%s is %lld in one input and %lld in another", what,
                             (long long)dim->value, (long long)found.value);
    }
    const bool better = pl_dim_known(found) || dim->name == NULL;
    if (!pl_dim_known(*dim) && better) *dim = found;
    return PL_OK;
}

pl_status pl_meet_divide(const pl_infer *c, const char *what, pl_dim dim, int64_t by, pl_dim *out) {
    *out = by == 1 ? dim : PL_DIM_UNKNOWN;
    if (!pl_dim_known(dim)) return PL_OK;
    if (by <= 0 || dim.value % by != 0) {
        return pl_infer_fail(c, "%s is %lld, expected a multiple of %lld", what,
                             (long long)dim.value, (long long)by);
    }
    *out = pl_dim_of(dim.value / by);
    return PL_OK;
}

pl_status pl_meet_multiply(const pl_infer *c, pl_dim dim, int64_t by, pl_dim *out) {
    *out = by == 1 ? dim : PL_DIM_UNKNOWN;
    if (!pl_dim_known(dim)) return PL_OK;
    int64_t product = 0;
    if (!pl_i64_mul(dim.value, by, &product)) return pl_infer_fail(c, "a dim overflows");
    *out = pl_dim_of(product);
    return PL_OK;
}

pl_status pl_meet_sum(const pl_infer *c, pl_dim a, pl_dim b, pl_dim *out) {
    *out = PL_DIM_UNKNOWN;
    if (pl_dim_known(a) && a.value == 0) *out = b;
    if (!pl_dim_known(a) || !pl_dim_known(b)) return PL_OK;
    int64_t sum = 0;
    if (!pl_i64_add(a.value, b.value, &sum)) return pl_infer_fail(c, "a dim overflows");
    *out = pl_dim_of(sum);
    return PL_OK;
}

pl_status pl_meet_rank(const pl_infer *c, int i, const char *what, int rank, bool *known) {
    const int found = pl_infer_rank(c, i);
    *known = found >= 0;
    if (found < 0 || found == rank) return PL_OK;
    return pl_infer_fail(c, "%s has rank %d, expected %d", what, found, rank);
}

pl_status pl_meet_broadcast(const pl_infer *c, int i, const char *what, int rank,
                            const pl_dim *dims) {
    const int found = pl_infer_rank(c, i);
    if (found < 0) return PL_OK;
    if (found > rank) {
        return pl_infer_fail(c, "%s has rank %d, expected at most %d", what, found, rank);
    }
    for (int d = 0; d < found; d++) {
        const pl_dim x = pl_infer_dim(c, i, d), y = dims[rank - found + d];
        if (!pl_dim_known(x) || !pl_dim_known(y) || x.value == 1 || x.value == y.value) continue;
        return pl_infer_fail(c, "dim %d of %s is %lld, expected 1 or %lld", d, what,
                             (long long)x.value, (long long)y.value);
    }
    return PL_OK;
}

pl_status pl_meet_heads(const pl_infer *c, const char *attr, int64_t *out) {
    *out = pl_attr_int(c->node, attr);
    if (*out >= 1) return PL_OK;
    return pl_infer_fail(c, "%s is %lld, expected at least 1", attr, (long long)*out);
}

pl_status pl_meet_length(pl_infer *c, int i, const char *what, pl_dim *out) {
    *out = PL_DIM_UNKNOWN;
    if (pl_infer_rank(c, i) > 1) return pl_infer_fail(c, "%s is not one length", what);
    size_t n = 0;
    const int64_t *ints = pl_infer_ints(c, i, &n);
    if (ints == NULL) return PL_OK;
    if (n != 1 || ints[0] < 0) return pl_infer_fail(c, "%s is not one length", what);
    *out = pl_dim_of(ints[0]);
    return PL_OK;
}

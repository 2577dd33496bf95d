/* Emission of normalisations: statistics by sums over axes in double, then one map. */
#include "ops/lib/emit_norm.h"

#include <stdio.h>

pl_ref pl_emit_divide(pl_emit *c, pl_dtype dtype, pl_ref sum, int64_t n) {
    char expr[100];
    snprintf(expr, sizeof(expr), "$0 / %a", (double)n);
    return pl_emit_map1(c, dtype, expr, sum);
}

static pl_ref inverse_root(pl_emit *c, pl_ref variance, double epsilon) {
    char expr[120];
    snprintf(expr, sizeof(expr), "1 / __builtin_sqrt($0 + %a)", epsilon);
    return pl_emit_map1(c, PL_F64, expr, variance);
}

pl_ref pl_emit_normalised(pl_emit *c, pl_emit_norm *q) {
    pl_ref y = q->x, square;
    q->mean = -1;
    if (q->rms) {
        square = pl_emit_map1(c, PL_F64, "(double)$0 * (double)$0", q->x);
    } else {
        q->mean =
            pl_emit_divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, q->x, q->axes), q->n);
        square = pl_emit_map2(c, PL_F64, "($0 - $1) * ($0 - $1)", q->x, q->mean);
    }
    const pl_ref variance =
        pl_emit_divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, square, q->axes), q->n);
    q->inverse = inverse_root(c, variance, q->epsilon);
    const pl_ref narrow = pl_emit_map1(c, q->wide, "$0", q->inverse);
    if (!q->rms) {
        y = pl_emit_map2(c, q->wide, "$0 - $1", y, pl_emit_map1(c, q->wide, "$0", q->mean));
    }
    return pl_emit_map2(c, q->wide, "$0 * $1", y, narrow);
}
pl_ref pl_emit_scaled(pl_emit *c, pl_dtype wide, pl_ref y, pl_ref scale, pl_ref bias) {
    if (scale != PL_EMIT_NONE) y = pl_emit_map2(c, wide, "$0 * $1", y, scale);
    if (bias != PL_EMIT_NONE) y = pl_emit_map2(c, wide, "$0 + $1", y, bias);
    return y;
}

static pl_ref in_or_none(pl_emit *c, int i) {
    return pl_emit_has(c, i) ? pl_emit_in(c, i) : PL_EMIT_NONE;
}

pl_status pl_emit_statistic(pl_emit *c, int i, pl_ref value) {
    int64_t dims[PL_EMIT_RANK_MAX];
    if (!pl_emit_wants(c, i)) return PL_OK;
    pl_emit_out_dims(c, i, dims);
    const pl_ref y = pl_emit_map1(c, c->out[i]->dtype, "$0", value);
    return pl_emit_out(c, i, pl_emit_reshape(c, y, c->out[i]->rank, dims));
}

/* In double where the statistics are asked for in double, as in norm.c. */
static pl_dtype row_type(const pl_emit *c) {
    const bool has = pl_attr_has(c->node, "stash_type");
    if (has && pl_attr_int(c->node, "stash_type") == PL_F64) return PL_F64;
    return pl_emit_compute(c->in[0]->dtype);
}

pl_status pl_emit_rows(pl_emit *c, const pl_emit_row_norm *r) {
    const int rank = pl_emit_rank(c, 0);
    pl_emit_norm q = { .x = r->x,
                       .wide = row_type(c),
                       .axes = pl_emit_axes_from(r->first, rank),
                       .rms = r->rms,
                       .epsilon = pl_attr_float(c->node, "epsilon") };
    q.n = pl_emit_count(c, q.axes);
    const pl_ref y = pl_emit_normalised(c, &q);
    if (!r->rms && r->mean_out > 0) PL_TRY(pl_emit_statistic(c, r->mean_out, q.mean));
    if (r->inverse_out > 0) PL_TRY(pl_emit_statistic(c, r->inverse_out, q.inverse));
    const pl_ref scale = r->scale < 0 ? PL_EMIT_NONE : in_or_none(c, r->scale);
    const pl_ref bias = r->bias < 0 ? PL_EMIT_NONE : in_or_none(c, r->bias);
    return pl_emit_out(
        c, 0, pl_emit_map1(c, c->out[0]->dtype, "$0", pl_emit_scaled(c, q.wide, y, scale, bias)));
}

/* Error bounds of the normalisations of norm.c (docs/blame.md). */
#include <math.h>
#include <stdio.h>

#include "base/size.h"
#include "ops/lib/bound_nn.h"
#include "ops/lib/float_io.h"
#include "ops/nn/norm_int.h"
#include "ops/nn/norm_rules.h"

/* Input i and its error for each element of x. */
static pl_status spread_input(pl_bound *c, int i, const pl_tensor *like, const double **x,
                              const double **e) {
    const pl_tensor *t = pl_b_in(c, i);
    *x = *e = NULL;
    if (t == NULL) return PL_OK;
    const double *data = pl_b_x(c, i);
    if (data == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_spread(c, t, data, like, x));
    return pl_b_spread(c, t, pl_b_e(c, i), like, e);
}

static pl_status rows_bound(pl_bound *c, bool rms, int mean_out, int inverse_out) {
    const pl_tensor *x = pl_b_in(c, 0), *y = pl_b_out(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    if (x->n_elements == 0) return PL_OK;
    const pl_axis_view view = pl_axis_view_of(x, axis, x->rank);
    pl_b_norm norm = { .rows = view.outer,
                       .n = view.n,
                       .rms = rms,
                       .epsilon = pl_attr_float(c->node, "epsilon"),
                       .x = pl_b_x(c, 0),
                       .ex = pl_b_e(c, 0),
                       .y = pl_b_y(c, 0) };
    if (norm.x == NULL || (y != NULL && norm.y == NULL)) return pl_fail_memory(c->err, 1);
    PL_TRY(spread_input(c, 1, x, &norm.scale, &norm.e_scale));
    PL_TRY(spread_input(c, 2, x, &norm.bias, &norm.e_bias));
    PL_TRY(pl_b_new(c, 0, &norm.e));
    if (mean_out > 0) PL_TRY(pl_b_new(c, mean_out, &norm.e_mean));
    PL_TRY(pl_b_new(c, inverse_out, &norm.e_inverse));
    pl_b_norm_rule(c, &norm);
    return PL_OK;
}

pl_status pl_layer_norm_bound(pl_bound *c) {
    return rows_bound(c, false, 1, 2);
}
pl_status pl_rms_norm_bound(pl_bound *c) {
    return rows_bound(c, true, 0, 1);
}

/* A scale per channel or per group, repeated for each element of x. */
static pl_status spread_channels(pl_bound *c, int i, const pl_tensor *x, const double **out,
                                 const double **out_e) {
    const pl_tensor *t = pl_b_in(c, i);
    const pl_axis_view view = pl_axis_view_of(x, 1, 2);
    const double *data = pl_b_x(c, i), *e = pl_b_e(c, i);
    if (data == NULL) return pl_fail_memory(c->err, 1);
    const int64_t share = t->n_elements == 0 ? 1 : view.n / t->n_elements;
    double *to = pl_arena_array(c->scratch, (size_t)x->n_elements, sizeof(double));
    double *to_e =
        e == NULL ? NULL : pl_arena_array(c->scratch, (size_t)x->n_elements, sizeof(double));
    if (to == NULL || (e != NULL && to_e == NULL)) return pl_fail_memory(c->err, 1);
    for (int64_t k = 0; k < x->n_elements; k++) {
        const int64_t at = k / view.inner % view.n / share;
        to[k] = data[at];
        if (e != NULL) to_e[k] = e[at];
    }
    *out = to;
    *out_e = to_e;
    return PL_OK;
}

static pl_status groups_bound(pl_bound *c, int64_t groups) {
    const pl_tensor *x = pl_b_in(c, 0);
    pl_b_norm norm = { .epsilon = pl_attr_float(c->node, "epsilon"),
                       .x = pl_b_x(c, 0),
                       .ex = pl_b_e(c, 0),
                       .y = pl_b_y(c, 0) };
    if (x->n_elements == 0 || pl_b_out(c, 0) == NULL) return PL_OK;
    if (norm.x == NULL || norm.y == NULL) return pl_fail_memory(c->err, 1);
    norm.rows = x->dims[0] * groups;
    norm.n = x->n_elements / norm.rows;
    PL_TRY(spread_channels(c, 1, x, &norm.scale, &norm.e_scale));
    PL_TRY(spread_channels(c, 2, x, &norm.bias, &norm.e_bias));
    PL_TRY(pl_b_new(c, 0, &norm.e));
    pl_b_norm_rule(c, &norm);
    return PL_OK;
}

pl_status pl_instance_norm_bound(pl_bound *c) {
    return groups_bound(c, pl_b_in(c, 0)->dims[1]);
}
pl_status pl_group_norm_bound(pl_bound *c) {
    return groups_bound(c, pl_attr_int(c->node, "num_groups"));
}

/* y = x / norm: both round, and the error of the row changes the norm. */
pl_status pl_lp_norm_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    const double *px = pl_b_x(c, 0), *ex = pl_b_e(c, 0), *py = pl_b_y(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis"), p = pl_attr_int(c->node, "p");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || x->n_elements == 0) return PL_OK;
    if (px == NULL || py == NULL) return pl_fail_memory(c->err, 1);
    const pl_axis_view v = pl_axis_view_of(x, axis, axis + 1);
    const double own = c->u_acc * (pl_b_chain((double)v.n) / (double)p + 2);
    for (int64_t row = 0; row < v.outer * v.inner; row++) {
        const int64_t at = row / v.inner * v.n * v.inner + row % v.inner;
        double sum = 0, moved = 0;
        for (int64_t k = at; k < at + v.n * v.inner; k += v.inner) {
            sum += p == 1 ? fabs(px[k]) : px[k] * px[k];
            if (ex != NULL) moved += p == 1 ? ex[k] : ex[k] * ex[k];
        }
        const double norm = p == 1 ? sum : sqrt(sum);
        if (p == 2) moved = sqrt(moved);
        for (int64_t k = at; k < at + v.n * v.inner; k += v.inner) {
            e[k] = own * fabs(py[k]);
            if (ex != NULL) e[k] += (ex[k] + fabs(py[k]) * moved) / (norm > 0 ? norm : 1);
        }
    }
    pl_b_add_stored(c, py, e, x->n_elements);
    return PL_OK;
}

/* y = x / t^beta, t = bias + alpha/size * sum of squares. */
pl_status pl_lrn_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    const double *px = pl_b_x(c, 0), *ex = pl_b_e(c, 0), *py = pl_b_y(c, 0);
    const int64_t size = pl_attr_int(c->node, "size");
    const double beta = pl_attr_float(c->node, "beta"), bias = pl_attr_float(c->node, "bias");
    const double alpha = pl_attr_float(c->node, "alpha") / (double)size;
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || x->n_elements == 0) return PL_OK;
    if (px == NULL || py == NULL) return pl_fail_memory(c->err, 1);
    const pl_axis_view v = pl_axis_view_of(x, 1, 2);
    for (int64_t i = 0; i < x->n_elements; i++) {
        const int64_t channel = i / v.inner % v.n;
        double sum = 0, moved = 0;
        const int64_t last = pl_i64_min(size / 2, v.n - 1 - channel);
        for (int64_t d = pl_i64_max(-(size - 1) / 2, -channel); d <= last; d++) {
            const double z = px[i + d * v.inner];
            sum += z * z;
            if (ex != NULL) moved += 2 * fabs(z) * ex[i + d * v.inner];
        }
        const double t = bias + alpha * sum, magnitude = fabs(bias) + fabs(alpha) * sum;
        const double own = c->u_acc * (pl_b_chain((double)size) + 2) * magnitude;
        const double rel = fabs(beta) * (own + fabs(alpha) * moved) / fabs(t);
        e[i] = fabs(py[i]) * (rel + 4 * c->u_acc);
        if (ex != NULL) e[i] += ex[i] / pow(fabs(t), beta);
    }
    pl_b_add_stored(c, py, e, x->n_elements);
    return PL_OK;
}

/* Expanded as in its function body (ONNX MeanVarianceNormalization-13). */
pl_status pl_mvn_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    char axes[8 * PL_RANK_MAX] = "";
    size_t n = 0;
    if (x->n_elements == 0) return PL_OK;
    const uint32_t set = pl_mvn_axes(c->node, x->rank);
    for (int d = 0; d < x->rank; d++) {
        if ((set >> d & 1) == 0) continue;
        n += (size_t)snprintf(axes + n, sizeof(axes) - n, "%s%d", n > 0 ? ", " : "", d);
    }
    if (n == 0) return pl_b_unknown(c);
    if (c->node->opset < 9 && pl_attr_int(c->node, "normalize_variance") == 0) {
        return pl_b_expand(c, pl_arena_printf(c->scratch,
                                              "(i0) => (o0) { m = ReduceMean<axes=[%s]>(i0) "
                                              "o0 = Sub(i0, m) }",
                                              axes));
    }
    return pl_b_expand(
        c, pl_arena_printf(c->scratch,
                           "(i0) => (o0) <float tiny = {1e-9}> { m = ReduceMean<axes=[%s]>(i0) "
                           "d = Sub(i0, m) m2 = Mul(m, m) x2 = Mul(i0, i0) "
                           "e2 = ReduceMean<axes=[%s]>(x2) v = Sub(e2, m2) s = Sqrt(v) "
                           "t = Add(s, tiny) o0 = Div(d, t) }",
                           axes, axes));
}

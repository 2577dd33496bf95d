/* Error bounds of reductions and running sums.
 *
 * The error of a sum of K terms is at most u_acc c(K) sum|x| in any order of additions; the result
 * is then rounded to its own type. Inherited errors add up for sums. For means they add in
 * quadrature: the same worst error in every element of a map does not happen. */
#include <math.h>
#include <string.h>

#include "ops/bound.h"
#include "ops/lib/float_io.h"
#include "ops/math/reduce.h"
#include "ops/math/reduce_rules.h"

typedef struct parts { /* inputs and intermediate results of one rule */
    bool reduced[PL_RANK_MAX];
    double k; /* terms of one result */
    const pl_tensor *x, *y;
    const double *out; /* y as doubles */
    double *e;         /* to fill */
    double tiny;       /* of the accumulator type */
} parts;

static pl_status parts_init(pl_bound *c, parts *p) {
    memset(p, 0, sizeof(*p));
    p->x = pl_b_in(c, 0);
    p->y = pl_b_out(c, 0);
    if (p->y == NULL || p->x == NULL) return PL_OK;
    int64_t axes[PL_RANK_MAX];
    size_t n = 0;
    const pl_tensor *given = pl_b_in(c, 1);
    for (; given != NULL && (int64_t)n < given->n_elements && n < PL_RANK_MAX; n++)
        axes[n] = pl_tensor_get_i64(given, (int64_t)n);
    pl_reduced_axes(c->node, p->x->rank, given == NULL ? NULL : axes, n, p->reduced);
    if (p->y->n_elements > 0) p->k = (double)p->x->n_elements / (double)p->y->n_elements;
    p->tiny = c->tiny < 0x1p-126 ? c->tiny : 0x1p-126;
    PL_TRY(pl_b_new(c, 0, &p->e));
    p->out = pl_b_y(c, 0);
    return p->out == NULL ? pl_fail_memory(c->err, 1) : PL_OK;
}

/* Reduces x over the node's axes by another operation; in scratch. */
static pl_status reduce_as(pl_bound *c, const parts *p, pl_reduce_kind kind, const pl_tensor *x,
                           const double **out) {
    pl_eval eval = {
        .node = c->node, .pool = c->pool, .scratch = c->scratch, .fp64 = true, .err = c->err
    };
    double *data = pl_arena_array(c->scratch, (size_t)p->y->n_elements + 1, sizeof(double));
    if (data == NULL) return pl_fail_memory(c->err, (size_t)p->y->n_elements);
    pl_tensor y = *p->y;
    y.dtype = PL_F64;
    y.data = data;
    *out = data;
    return pl_reduce(&eval, kind, x, p->reduced, &y);
}

/* Applies fn(x, e) to every element, then reduces. */
typedef double (*term_fn)(const pl_bound *c, double x, double e);
static pl_status reduce_terms(pl_bound *c, const parts *p, pl_reduce_kind kind, term_fn fn,
                              const double **out) {
    const double *x = pl_b_x(c, 0), *e = pl_b_e(c, 0);
    pl_tensor *terms = NULL;
    if (x == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_tensor_new(PL_F64, p->x->rank, p->x->dims, &terms, c->err));
    pl_f64 *t = terms->data;
    for (int64_t i = 0; i < p->x->n_elements; i++)
        t[i] = fn(c, x[i], e == NULL ? 0 : e[i]);
    const pl_status st = reduce_as(c, p, kind, terms, out);
    pl_tensor_unref(terms);
    return st;
}

static double size_of(const pl_bound *c, double x, double e) {
    (void)c, (void)e;
    return fabs(x);
}
static double largest_of(const pl_bound *c, double x, double e) {
    (void)c;
    return fabs(x) + e;
}
/* Change of x^2 when x changes by e. */
static double square_change(const pl_bound *c, double x, double e) {
    (void)c;
    return (2 * fabs(x) + e) * e;
}

/* Integer sums wrap identically everywhere: no local error. */
static double accumulator(const pl_bound *c) {
    return pl_dtype_is_float(c->out_native[0]) ? c->u_acc : 0;
}
static bool is_exact(const pl_bound *c) {
    return !pl_dtype_is_float(c->out_native[0]) && !pl_b_any_error(c);
}

/* ---- sums and means ---- */

static pl_status sum_bound(pl_bound *c, bool mean) {
    parts p;
    const double *size = NULL, *inherited = NULL;
    if (is_exact(c)) return PL_OK;
    PL_TRY(parts_init(c, &p));
    if (p.y == NULL || p.y->n_elements == 0) return PL_OK;
    PL_TRY(reduce_terms(c, &p, PL_REDUCE_SUM, size_of, &size));
    if (c->e_in[0] != NULL)
        PL_TRY(reduce_as(c, &p, mean ? PL_REDUCE_L2 : PL_REDUCE_SUM, c->e_in[0], &inherited));
    /* As in bound_dot.c: the part that grows with K applies to the growing sum |y|, not to
     * sum|x|. */
    static const double STEADY = 4;
    const double own = p.k > 1 ? accumulator(c) * pl_b_chain(p.k) : 0, n = mean ? p.k : 1;
    const double steady = fmin(own, STEADY * accumulator(c)), drift = own - steady;
    for (int64_t i = 0; i < p.y->n_elements; i++) {
        p.e[i] = steady * size[i] / n + drift * fabs(p.out[i]);
        p.e[i] += p.k > 1 ? pl_b_stored(c, p.out[i]) : 0;
        if (inherited != NULL) p.e[i] += inherited[i] / n;
    }
    return PL_OK;
}
pl_status pl_reduce_sum_bound(pl_bound *c) {
    return sum_bound(c, false);
}
pl_status pl_reduce_mean_bound(pl_bound *c) {
    return sum_bound(c, true);
}

/* ---- squares ---- */

pl_status pl_reduce_sum_square_bound(pl_bound *c) {
    parts p;
    const double *inherited = NULL;
    if (is_exact(c)) return PL_OK;
    PL_TRY(parts_init(c, &p));
    if (p.y == NULL || p.y->n_elements == 0) return PL_OK;
    if (c->e_in[0] != NULL) PL_TRY(reduce_terms(c, &p, PL_REDUCE_SUM, square_change, &inherited));
    for (int64_t i = 0; i < p.y->n_elements; i++) {
        p.e[i] = accumulator(c) * pl_b_chain(p.k) * p.out[i] + pl_b_stored(c, p.out[i]);
        p.e[i] += fmin(p.k * p.tiny, p.out[i]);
        if (inherited != NULL) p.e[i] += inherited[i];
    }
    return PL_OK;
}

/* Squares of floats above 2^64 overflow in every runtime, although the root would not. */
static double square_limit(const pl_bound *c) {
    return c->u_acc < 0x1p-40 ? HUGE_VAL : 0x1p128;
}

pl_status pl_reduce_l2_bound(pl_bound *c) {
    parts p;
    const double *inherited = NULL;
    PL_TRY(parts_init(c, &p));
    if (p.y == NULL || p.y->n_elements == 0) return PL_OK;
    if (c->e_in[0] != NULL) PL_TRY(reduce_terms(c, &p, PL_REDUCE_SUM, square_change, &inherited));
    const bool is_float = pl_dtype_is_float(c->out_native[0]);
    for (int64_t i = 0; i < p.y->n_elements; i++) {
        const double y = p.out[i], square = y * y;
        /* Squares below the smallest normal number may be flushed to 0. */
        double change = c->u_acc * pl_b_chain(p.k) * square + fmin(p.k * p.tiny, 3 * square);
        if (inherited != NULL) change += inherited[i];
        /* Not change / 2y: equal to it for small changes, but finite for y = 0. */
        p.e[i] = change == 0 ? 0
                             : change / (sqrt(square + change) + y) + pl_b_round(c, y) +
                                   pl_b_maths(c, PL_MATHS_SQRT, 1, y);
        if (isfinite(y) && square >= square_limit(c)) p.e[i] = HUGE_VAL;
        if (!is_float) p.e[i] = 1; /* truncated from a floating-point root */
    }
    return PL_OK;
}

/* ---- logarithms ---- */

static double log_change(double value, double change) {
    if (change == 0) return 0;
    return value > change ? change / (value - change) : HUGE_VAL;
}

pl_status pl_reduce_log_sum_bound(pl_bound *c) {
    parts p;
    const double *size = NULL, *inherited = NULL;
    PL_TRY(parts_init(c, &p));
    if (p.y == NULL || p.y->n_elements == 0) return PL_OK;
    PL_TRY(reduce_terms(c, &p, PL_REDUCE_SUM, size_of, &size));
    if (c->e_in[0] != NULL) PL_TRY(reduce_as(c, &p, PL_REDUCE_SUM, c->e_in[0], &inherited));
    for (int64_t i = 0; i < p.y->n_elements; i++) {
        const double change = (p.k > 1 ? c->u_acc * pl_b_chain(p.k) * size[i] : 0) +
                              (inherited == NULL ? 0 : inherited[i]);
        p.e[i] = 2 * pl_b_round(c, p.out[i]) + pl_b_maths(c, PL_MATHS_LOG, 1, p.out[i]) +
                 log_change(exp(p.out[i]), change);
        if (!pl_dtype_is_float(c->out_native[0])) p.e[i] = 1;
    }
    return PL_OK;
}

/* The terms exp(x - y) sum to 1; each errs by u(2 + |x - y|) plus the error of its x. */
pl_status pl_reduce_log_sum_exp_bound(pl_bound *c) {
    parts p;
    pl_tensor *weighted = NULL;
    const double *x = pl_b_x(c, 0), *e = pl_b_e(c, 0), *sum = NULL;
    PL_TRY(parts_init(c, &p));
    if (p.y == NULL || p.y->n_elements == 0) return PL_OK;
    if (x == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_tensor_new(PL_F64, p.x->rank, p.x->dims, &weighted, c->err));
    pl_f64 *w = weighted->data;
    int64_t stride[PL_RANK_MAX], step = 1, index[PL_RANK_MAX] = { 0 }, at = 0;
    for (int d = p.x->rank - 1; d >= 0; d--) {
        stride[d] = p.reduced[d] ? 0 : step;
        step *= p.reduced[d] ? 1 : p.x->dims[d];
    }
    for (int64_t i = 0; i < p.x->n_elements; i++) {
        const double far = p.out[at] - x[i];
        w[i] = isfinite(far)
                   ? exp(-far) * (c->u_acc * (2 + fabs(far)) + pl_b_maths(c, PL_MATHS_EXP, far, 1) +
                                  (e == NULL ? 0 : expm1(e[i])))
                   : 0;
        for (int d = p.x->rank - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < p.x->dims[d]) break;
            at -= stride[d] * p.x->dims[d];
            index[d] = 0;
        }
    }
    const pl_status st = reduce_as(c, &p, PL_REDUCE_SUM, weighted, &sum);
    pl_tensor_unref(weighted);
    for (int64_t i = 0; st == PL_OK && i < p.y->n_elements; i++) {
        p.e[i] = sum[i] + c->u_acc * pl_b_chain(p.k) + 2 * pl_b_round(c, p.out[i]);
        if (!pl_dtype_is_float(c->out_native[0])) p.e[i] = 1;
    }
    return st;
}

/* ---- products and extremes ---- */

/* K relative roundings in a row. Their sizes do not shrink by cancellation as in sums. */
static double product_chain(double k) {
    return fmin(fmax(k - 1, 0), 2 + sqrt(k));
}

pl_status pl_reduce_prod_bound(pl_bound *c) {
    parts p;
    const double *size = NULL, *largest = NULL;
    if (is_exact(c)) return PL_OK;
    PL_TRY(parts_init(c, &p));
    if (p.y == NULL || p.y->n_elements == 0) return PL_OK;
    if (c->e_in[0] != NULL) {
        PL_TRY(reduce_terms(c, &p, PL_REDUCE_PROD, size_of, &size));
        PL_TRY(reduce_terms(c, &p, PL_REDUCE_PROD, largest_of, &largest));
    }
    for (int64_t i = 0; i < p.y->n_elements; i++) {
        const double y = fabs(p.out[i]);
        p.e[i] = accumulator(c) * product_chain(p.k) * y + pl_b_stored(c, y);
        if (largest != NULL && largest[i] > size[i]) p.e[i] += largest[i] - size[i];
    }
    return PL_OK;
}

pl_status pl_reduce_extreme_bound(pl_bound *c) {
    parts p;
    const double *largest = NULL;
    if (!pl_b_any_error(c)) return PL_OK;
    PL_TRY(parts_init(c, &p));
    if (p.y == NULL || p.y->n_elements == 0 || c->e_in[0] == NULL) return PL_OK;
    PL_TRY(reduce_as(c, &p, PL_REDUCE_MAX, c->e_in[0], &largest));
    memcpy(p.e, largest, (size_t)p.y->n_elements * sizeof(double));
    return PL_OK;
}

/* ---- along one axis ---- */

/* The distance to the farthest index that could win as well. */
pl_status pl_arg_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    double *out = NULL;
    if (!pl_b_any_error(c) || pl_b_out(c, 0) == NULL || x->n_elements == 0) return PL_OK;
    int64_t axis = pl_attr_int(c->node, "axis");
    if (axis < 0) axis += x->rank;
    const pl_axis_view v = pl_axis_view_of(x, (int)axis, (int)axis + 1);
    PL_TRY(pl_b_new(c, 0, &out));
    const double *data = pl_b_x(c, 0), *e = pl_b_e(c, 0), *y = pl_b_y(c, 0);
    if (data == NULL || y == NULL) return pl_fail_memory(c->err, 1);
    for (int64_t s = 0; s < v.outer * v.inner; s++) {
        const int64_t from = s / v.inner * v.n * v.inner + s % v.inner;
        const int64_t won = from + (int64_t)y[s] * v.inner;
        for (int64_t i = 0; i < v.n; i++) {
            const int64_t at = from + i * v.inner;
            const double reach = 8 * (e[at] + e[won]);
            if (reach > 0 && fabs(data[at] - data[won]) <= reach)
                out[s] = fmax(out[s], fabs((double)i - y[s]));
        }
    }
    return PL_OK;
}

/* Runs the node's kernel on |x|, plus e if asked for. */
static pl_status cumulate_sizes(pl_bound *c, bool with_error, pl_tensor **out) {
    const double *x = pl_b_x(c, 0), *e = with_error ? pl_b_e(c, 0) : NULL;
    const pl_tensor *t = pl_b_in(c, 0);
    pl_tensor *sizes = NULL;
    if (x == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_tensor_new(PL_F64, t->rank, t->dims, &sizes, c->err));
    pl_f64 *s = sizes->data;
    for (int64_t i = 0; i < t->n_elements; i++)
        s[i] = fabs(x[i]) + (e == NULL ? 0 : e[i]);
    const pl_status st = pl_b_apply(c, (pl_tensor *const[]){ sizes, NULL }, PL_F64, 0, out);
    pl_tensor_unref(sizes);
    return st;
}

static pl_status cumulate_bound(pl_bound *c, bool product) {
    const pl_tensor *x = pl_b_in(c, 0);
    pl_tensor *size = NULL, *largest = NULL;
    pl_status st = PL_OK;
    double *out = NULL;
    if (is_exact(c) || pl_b_out(c, 0) == NULL || x->n_elements == 0) return PL_OK;
    if (!pl_dtype_is_float(c->out_native[0])) return pl_b_unknown(c);
    int64_t axis = pl_tensor_get_i64(pl_b_in(c, 1), 0);
    if (axis < 0) axis += x->rank;
    const pl_axis_view v = pl_axis_view_of(x, (int)axis, (int)axis + 1);
    const bool reverse = pl_attr_int(c->node, "reverse") != 0;
    const int64_t own = pl_attr_int(c->node, "exclusive") != 0 ? 0 : 1;
    PL_TRY(pl_b_new(c, 0, &out));
    const double *y = pl_b_y(c, 0);
    if (y == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY_GOTO(done, st, cumulate_sizes(c, false, &size));
    if (c->e_in[0] != NULL) PL_TRY_GOTO(done, st, cumulate_sizes(c, true, &largest));
    const pl_f64 *s = size->data, *l = largest == NULL ? NULL : largest->data;
    for (int64_t i = 0; i < x->n_elements; i++) {
        const int64_t at = i / v.inner % v.n;
        const double k = (double)((reverse ? v.n - 1 - at : at) + own);
        if (k > 1) out[i] = c->u_acc * (product ? product_chain(k) : pl_b_chain(k)) * s[i];
        if (k > 1) out[i] += pl_b_stored(c, y[i]);
        if (l != NULL && l[i] > s[i]) out[i] += l[i] - s[i];
    }
done:
    pl_tensor_unref(size);
    pl_tensor_unref(largest);
    return st;
}
pl_status pl_cum_sum_bound(pl_bound *c) {
    return cumulate_bound(c, false);
}
pl_status pl_cum_prod_bound(pl_bound *c) {
    return cumulate_bound(c, true);
}

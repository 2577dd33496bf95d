/* Errors of products of codes, and of rounding them to codes again.
 *
 * Sums of codes are exact. Runtimes may differ in the scaling (a few float roundings) and in codes
 * that were uncertain before; those errors go through the corresponding float operator. */
#include "ops/quant/product_error.h"

#include <math.h>

/* ---- operands ---- */

/* t[k] = t[k] - z or t[k] * z. Input i has one value, one per index of `axis`, or a shape that
 * broadcasts. */
static pl_status combine(pl_bound *c, pl_tensor *t, int i, int axis, bool multiply) {
    const pl_tensor *z = i < 0 ? NULL : pl_b_in(c, i);
    if (z == NULL || z->n_elements == 0) return PL_OK;
    const double *values = pl_b_x(c, i);
    if (values == NULL) return pl_fail_memory(c->err, 1);
    int64_t step[PL_RANK_MAX] = { 0 }, index[PL_RANK_MAX] = { 0 }, from = 0;
    if (z->n_elements > 1 && z->rank > 1 && z->rank == t->rank) {
        for (int d = 0; d < t->rank; d++)
            step[d] = z->dims[d] == 1 ? 0 : z->strides[d];
    } else if (z->n_elements > 1 && axis >= 0 && axis < t->rank) {
        step[axis] = z->n_elements == t->dims[axis] ? 1 : 0;
    }
    double *v = t->data;
    for (int64_t k = 0; k < t->n_elements; k++) {
        v[k] = multiply ? v[k] * values[from] : v[k] - values[from];
        for (int d = t->rank - 1; d >= 0; d--) {
            from += step[d];
            if (++index[d] < t->dims[d]) break;
            from -= step[d] * t->dims[d];
            index[d] = 0;
        }
    }
    return PL_OK;
}

pl_status pl_b_real_value(pl_bound *c, pl_b_operand o, pl_tensor **out) {
    PL_TRY(pl_tensor_cast(pl_b_in(c, o.x), PL_F64, out, c->err));
    PL_TRY(combine(c, *out, o.zero, o.axis, false));
    return combine(c, *out, o.scale, o.axis, true);
}

static void each(pl_tensor *t, pl_b_map_fn fn) {
    double *v = t->data;
    for (int64_t i = 0; i < t->n_elements; i++)
        v[i] = fn(v[i]);
}

pl_status pl_b_real_error(pl_bound *c, pl_b_operand o, pl_tensor **out) {
    const double ez = o.zero < 0 ? 0 : pl_b_largest(c, o.zero);
    if (pl_b_e(c, o.x) == NULL && ez == 0) return PL_OK;
    const pl_tensor *x = pl_b_in(c, o.x);
    PL_TRY(pl_tensor_new_zero(PL_F64, x->rank, x->dims, out, c->err));
    double *e = (*out)->data;
    for (int64_t i = 0; i < x->n_elements; i++)
        e[i] = ez + (pl_b_e(c, o.x) == NULL ? 0 : pl_b_e(c, o.x)[i]);
    PL_TRY(combine(c, *out, o.scale, o.axis, true));
    each(*out, pl_b_abs);
    return PL_OK;
}

/* ---- products ---- */

pl_status pl_b_add_term(pl_bound *c, const pl_b_int_product *p, pl_tensor *x, pl_tensor *y,
                        pl_tensor **sum) {
    pl_tensor *px = NULL, *py = NULL, *term = NULL;
    pl_status st = PL_OK;
    if (x == NULL || y == NULL) return PL_OK;
    PL_TRY_GOTO(done, st, pl_b_map(c, x, p->power, &px));
    PL_TRY_GOTO(done, st, pl_b_map(c, y, p->power, &py));
    PL_TRY_GOTO(done, st, pl_b_call(c, p->op, p->opset, (pl_tensor *const[]){ px, py }, 2, &term));
    if (*sum == NULL) {
        *sum = term;
        term = NULL;
    } else {
        double *to = (*sum)->data;
        for (int64_t i = 0; i < term->n_elements; i++)
            to[i] += ((const double *)term->data)[i];
    }
done:
    pl_tensor_unref(px);
    pl_tensor_unref(py);
    pl_tensor_unref(term);
    return st;
}

/* Takes the root of the sum, but not of alpha, which the operator multiplied in once. */
static void finish_error(const pl_b_int_product *p, pl_tensor *sum) {
    double *e = sum == NULL ? NULL : sum->data;
    for (int64_t i = 0; e != NULL && i < sum->n_elements; i++)
        e[i] = p->alpha == 0 ? 0 : p->root(e[i] / p->alpha) * fabs(p->alpha);
}

pl_status pl_b_product_error(pl_bound *c, const pl_b_int_product *p, pl_tensor **out) {
    pl_tensor *a = NULL, *b = NULL, *ea = NULL, *eb = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_b_real_error(c, p->a, &ea));
    PL_TRY_GOTO(done, st, pl_b_real_error(c, p->b, &eb));
    if (ea == NULL && eb == NULL) goto done;
    PL_TRY_GOTO(done, st, pl_b_real_value(c, p->a, &a));
    PL_TRY_GOTO(done, st, pl_b_real_value(c, p->b, &b));
    PL_TRY_GOTO(done, st, pl_b_add_term(c, p, ea, b, out));
    PL_TRY_GOTO(done, st, pl_b_add_term(c, p, a, eb, out));
    PL_TRY_GOTO(done, st, pl_b_add_term(c, p, ea, eb, out));
    finish_error(p, *out);
done:
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    pl_tensor_unref(ea);
    pl_tensor_unref(eb);
    return st;
}

int pl_b_rank(const pl_bound *c, int i) {
    const pl_tensor *t = pl_b_in(c, i);
    return t == NULL ? 0 : t->rank;
}

/* ---- rounding to codes ---- */

/* Scales that are powers of two: multiplying by them does not round. */
static bool powers_of_two(pl_bound *c, int i) {
    const pl_tensor *s = pl_b_in(c, i);
    const double *v = pl_b_x(c, i);
    int exponent = 0;
    for (int64_t k = 0; v != NULL && k < s->n_elements; k++)
        if (frexp(fabs(v[k]), &exponent) != 0.5) return false;
    return true;
}

pl_status pl_b_requantize(pl_bound *c, const pl_b_requant *q) {
    pl_tensor *p = NULL, **in = pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(*in));
    const double *sy = pl_b_x(c, q->scales[0]), *zero = pl_b_x(c, q->zero);
    if (pl_b_out(c, 0) == NULL) return PL_OK;
    if (in == NULL || sy == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_steps(c, in, &p));
    const pl_dtype native = c->in_native[q->scales[0]];
    const double to_steps = 1 / fabs(sy[0]);
    pl_b_codes r = { .dtype = c->out_native[0],
                     .saturate = true,
                     .p = p,
                     .zero = zero == NULL ? 0 : zero[0],
                     .zero_error = pl_b_largest(c, q->zero) };
    bool exact = !q->inexact && pl_b_unrounded(c, p, native);
    double slack = pl_b_round_slack(native);
    for (const int *s = q->scales; *s >= 0; s++) {
        exact = exact && powers_of_two(c, *s);
        slack += 8 * pl_b_scale_error(c, *s);
    }
    r.slack = exact ? 0 : slack;
    r.offset = (exact ? 0 : q->own * to_steps) + 8 * q->inherited * to_steps;
    if (q->e != NULL) {
        double *e = pl_arena_array(c->scratch, (size_t)p->n_elements, sizeof(double));
        for (int64_t i = 0; e != NULL && i < p->n_elements; i++)
            e[i] = 8 * q->e[i] * to_steps;
        r.e = e;
    }
    const pl_status st =
        q->e != NULL && r.e == NULL ? pl_fail_memory(c->err, 1) : pl_b_set_codes(c, &r);
    pl_tensor_unref(p);
    return st;
}

/* float8: the sum itself is in float. Adds c(K) u sum|terms| to *e, which may be NULL. */
static pl_status add_float_sum(pl_bound *c, const pl_b_int_product *p, pl_tensor **e) {
    const pl_b_int_product sizes = { p->op, p->opset, p->a, p->b, pl_b_abs, pl_b_abs, 1 };
    const pl_tensor *x = pl_b_in(c, p->a.x);
    const double k = x->rank == 0 ? 1 : (double)x->dims[x->rank - 1];
    pl_tensor *a = NULL, *b = NULL, *sum = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_b_real_value(c, p->a, &a));
    PL_TRY_GOTO(done, st, pl_b_real_value(c, p->b, &b));
    PL_TRY_GOTO(done, st, pl_b_add_term(c, &sizes, a, b, &sum));
    double *to = sum->data;
    for (int64_t i = 0; i < sum->n_elements; i++)
        to[i] =
            0x1p-24 * pl_b_chain(k) * to[i] + (*e == NULL ? 0 : ((const double *)(*e)->data)[i]);
    pl_tensor_unref(*e);
    *e = sum;
done:
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    return st;
}

pl_status pl_b_requantize_product(pl_bound *c, const pl_b_int_product *p, int y_scale, int y_zero) {
    const int scales[] = { y_scale, p->a.scale, p->b.scale, -1 };
    const bool in_float = pl_dtype_is_float(c->in_native[p->a.x]);
    pl_tensor *e = NULL;
    pl_status st = pl_b_product_error(c, p, &e);
    if (st == PL_OK && in_float && pl_b_out(c, 0) != NULL) st = add_float_sum(c, p, &e);
    const pl_b_requant q = {
        .scales = scales, .zero = y_zero, .e = e == NULL ? NULL : e->data, .inexact = in_float
    };
    if (st == PL_OK) st = pl_b_requantize(c, &q);
    pl_tensor_unref(e);
    return st;
}

pl_status pl_b_integer_bound(pl_bound *c, const pl_b_int_product *p) {
    pl_tensor *e = NULL;
    if (pl_b_out(c, 0) == NULL) return PL_OK;
    const pl_status st = pl_b_product_error(c, p, &e);
    if (st != PL_OK || e == NULL) {
        pl_tensor_unref(e);
        return st;
    }
    return pl_b_set_take(c, 0, e);
}

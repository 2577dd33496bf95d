/* Error bounds of quantised operators: products of codes, and the QLinear family.
 *
 * Sums of codes are exact. What a runtime may differ by is the scaling (a few roundings of float)
 * and codes that were uncertain already; these go through the float operator of the same shape. */
#include <math.h>

#include "ops/bound_quant.h"

/* ---- operands ---- */

typedef struct operand {
    int x, scale, zero; /* inputs; -1 = none */
    int axis;           /* along which scale and zero point vary, when they have many values */
} operand;

/* t[k] = t[k] - z or t[k] * z, where input i has one value, one for each index of `axis`, or a
 * shape that broadcasts. */
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

/* (x - zero) * scale in double. */
static pl_status real_value(pl_bound *c, operand o, pl_tensor **out) {
    PL_TRY(pl_tensor_cast(pl_b_in(c, o.x), PL_F64, out, c->err));
    PL_TRY(combine(c, *out, o.zero, o.axis, false));
    return combine(c, *out, o.scale, o.axis, true);
}

static void each(pl_tensor *t, pl_b_map_fn fn) {
    double *v = t->data;
    for (int64_t i = 0; i < t->n_elements; i++)
        v[i] = fn(v[i]);
}

/* Its error: (Ex + Ez) * |scale|. *out stays NULL when it is exact. */
static pl_status real_error(pl_bound *c, operand o, pl_tensor **out) {
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

typedef struct product {
    const char *op; /* the operator on floats, with the attributes of this node */
    int opset;
    operand a, b;
    pl_b_map_fn power, root; /* errors add as they are (abs) or in quadrature (square, sqrt) */
    double alpha;            /* that the operator multiplies by */
} product;

/* root(op(power(x), power(y))) added to *sum, which starts as NULL. Consumes neither. */
static pl_status add_term(pl_bound *c, const product *p, pl_tensor *x, pl_tensor *y,
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

/* The root of the sum: not of alpha, which multiplied it once. */
static void finish_error(const product *p, pl_tensor *sum) {
    double *e = sum == NULL ? NULL : sum->data;
    for (int64_t i = 0; e != NULL && i < sum->n_elements; i++)
        e[i] = p->alpha == 0 ? 0 : p->root(e[i] / p->alpha) * fabs(p->alpha);
}

/* What uncertain codes of both operands come to; NULL when there are none. */
static pl_status product_error(pl_bound *c, const product *p, pl_tensor **out) {
    pl_tensor *a = NULL, *b = NULL, *ea = NULL, *eb = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, real_error(c, p->a, &ea));
    PL_TRY_GOTO(done, st, real_error(c, p->b, &eb));
    if (ea == NULL && eb == NULL) goto done;
    PL_TRY_GOTO(done, st, real_value(c, p->a, &a));
    PL_TRY_GOTO(done, st, real_value(c, p->b, &b));
    PL_TRY_GOTO(done, st, add_term(c, p, ea, b, out));
    PL_TRY_GOTO(done, st, add_term(c, p, a, eb, out));
    PL_TRY_GOTO(done, st, add_term(c, p, ea, eb, out));
    finish_error(p, *out);
done:
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    pl_tensor_unref(ea);
    pl_tensor_unref(eb);
    return st;
}

static int rank_of(const pl_bound *c, int i) {
    const pl_tensor *t = pl_b_in(c, i);
    return t == NULL ? 0 : t->rank;
}

/* Sums of integers: exact but for uncertain codes. */
static pl_status integer_bound(pl_bound *c, const product *p) {
    pl_tensor *e = NULL;
    if (pl_b_out(c, 0) == NULL) return PL_OK;
    const pl_status st = product_error(c, p, &e);
    if (st != PL_OK || e == NULL) {
        pl_tensor_unref(e);
        return st;
    }
    return pl_b_set_take(c, 0, e);
}

pl_status pl_matmul_integer_bound(pl_bound *c) {
    const product p = {
        "MatMul", 13, { 0, -1, 2, rank_of(c, 0) - 2 }, { 1, -1, 3, rank_of(c, 1) - 1 }, pl_b_abs,
        pl_b_abs, 1
    };
    return integer_bound(c, &p);
}

pl_status pl_conv_integer_bound(pl_bound *c) {
    const product p = { "Conv", 11, { 0, -1, 2, -1 }, { 1, -1, 3, 0 }, pl_b_abs, pl_b_abs, 1 };
    return integer_bound(c, &p);
}

/* ---- rounding to codes ---- */

/* Multiplying by it rounds nothing. */
static bool powers_of_two(pl_bound *c, int i) {
    const pl_tensor *s = pl_b_in(c, i);
    const double *v = pl_b_x(c, i);
    int exponent = 0;
    for (int64_t k = 0; v != NULL && k < s->n_elements; k++)
        if (frexp(fabs(v[k]), &exponent) != 0.5) return false;
    return true;
}

typedef struct requant {
    const int *scales; /* all scale inputs, that of the output first; ends with -1 */
    int zero;          /* zero point of the output */
    const double *e;   /* inherited error of each element in real units; NULL = none */
    double inherited;  /* the same for all */
    double own;        /* what the runtime's own arithmetic adds, in real units */
    bool inexact;      /* the function is no chain of + * alone */
} requant;

static pl_status requantize(pl_bound *c, const requant *q) {
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
static pl_status add_float_sum(pl_bound *c, const product *p, pl_tensor **e) {
    const product sizes = { p->op, p->opset, p->a, p->b, pl_b_abs, pl_b_abs, 1 };
    const pl_tensor *x = pl_b_in(c, p->a.x);
    const double k = x->rank == 0 ? 1 : (double)x->dims[x->rank - 1];
    pl_tensor *a = NULL, *b = NULL, *sum = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, real_value(c, p->a, &a));
    PL_TRY_GOTO(done, st, real_value(c, p->b, &b));
    PL_TRY_GOTO(done, st, add_term(c, &sizes, a, b, &sum));
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

static pl_status requantize_product(pl_bound *c, const product *p, int y_scale, int y_zero) {
    const int scales[] = { y_scale, p->a.scale, p->b.scale, -1 };
    const bool in_float = pl_dtype_is_float(c->in_native[p->a.x]);
    pl_tensor *e = NULL;
    pl_status st = product_error(c, p, &e);
    if (st == PL_OK && in_float && pl_b_out(c, 0) != NULL) st = add_float_sum(c, p, &e);
    const requant q = {
        .scales = scales, .zero = y_zero, .e = e == NULL ? NULL : e->data, .inexact = in_float
    };
    if (st == PL_OK) st = requantize(c, &q);
    pl_tensor_unref(e);
    return st;
}

pl_status pl_qlinear_matmul_bound(pl_bound *c) {
    const product p = {
        "MatMul", 13, { 0, 1, 2, rank_of(c, 0) - 2 }, { 3, 4, 5, rank_of(c, 3) - 1 }, pl_b_square,
        sqrt,     1
    };
    return requantize_product(c, &p, 6, 7);
}

pl_status pl_qlinear_conv_bound(pl_bound *c) {
    const product p = { "Conv", 11, { 0, 1, 2, -1 }, { 3, 4, 5, 0 }, pl_b_square, sqrt, 1 };
    return requantize_product(c, &p, 6, 7);
}

/* ---- QLinear element-wise and means ---- */

/* max |(x - zero) * scale| of an operand. */
static pl_status magnitude(pl_bound *c, operand o, double *out) {
    pl_tensor *t = NULL;
    const pl_status st = real_value(c, o, &t);
    if (st == PL_OK) *out = pl_tensor_max_abs(t);
    pl_tensor_unref(t);
    return st;
}

static double inherited_of(pl_bound *c, operand o) {
    const double *s = pl_b_x(c, o.scale);
    const double e = pl_b_largest(c, o.x) + pl_b_largest(c, o.zero);
    return s == NULL || e == 0 ? 0 : e * fabs(s[0]);
}

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C_SCALE, C_ZERO };
static const operand OF_A = { A, A_SCALE, A_ZERO, -1 }, OF_B = { B, B_SCALE, B_ZERO, -1 };
static const int BINARY_SCALES[] = { C_SCALE, A_SCALE, B_SCALE, -1 };

pl_status pl_qlinear_add_bound(pl_bound *c) {
    requant q = { .scales = BINARY_SCALES, .zero = C_ZERO };
    double a = 0, b = 0;
    pl_tensor *in[2] = { NULL, NULL }, *e = NULL;
    pl_status st = PL_OK;
    PL_TRY(magnitude(c, OF_A, &a));
    PL_TRY(magnitude(c, OF_B, &b));
    q.own = pl_b_round_slack(c->in_native[C_SCALE]) * (a + b);
    PL_TRY_GOTO(done, st, real_error(c, OF_A, &in[0]));
    PL_TRY_GOTO(done, st, real_error(c, OF_B, &in[1]));
    if (in[0] != NULL || in[1] != NULL) {
        for (int k = 0; k < 2; k++) {
            const pl_tensor *t = pl_b_in(c, k == 0 ? A : B);
            if (in[k] != NULL) continue;
            PL_TRY_GOTO(done, st, pl_tensor_new_zero(PL_F64, t->rank, t->dims, &in[k], c->err));
        }
        PL_TRY_GOTO(done, st, pl_b_call(c, "Add", 14, in, 2, &e));
        q.e = e->data;
    }
    st = requantize(c, &q);
done:
    pl_tensor_unref(in[0]);
    pl_tensor_unref(in[1]);
    pl_tensor_unref(e);
    return st;
}

pl_status pl_qlinear_mul_bound(pl_bound *c) {
    const product p = { "Mul", 14, OF_A, OF_B, pl_b_abs, pl_b_abs, 1 };
    return requantize_product(c, &p, C_SCALE, C_ZERO);
}

/* One tensor in: errors times `gain`, and `own` for what the function itself rounds. */
static pl_status unary_bound(pl_bound *c, double gain, double own, bool inexact) {
    static const int scales[] = { 3, 1, -1 };
    const operand x = { 0, 1, 2, -1 };
    const requant q = { .scales = scales,
                        .zero = 4,
                        .inherited = gain * inherited_of(c, x),
                        .own = own,
                        .inexact = inexact };
    return requantize(c, &q);
}

pl_status pl_qlinear_sigmoid_bound(pl_bound *c) {
    return unary_bound(c, 0.25, 8 * 4 * 0x1p-24, true);
}

pl_status pl_qlinear_leaky_relu_bound(pl_bound *c) {
    return unary_bound(c, fmax(1, fabs(pl_attr_float(c->node, "alpha"))), 0, true);
}

/* ONNX Runtime looks exponentials up as integers of at least 20 bits. */
pl_status pl_qlinear_softmax_bound(pl_bound *c) {
    return unary_bound(c, 0.5, 0x1p-20, true);
}

pl_status pl_qlinear_mean_bound(pl_bound *c) {
    double most = 0;
    PL_TRY(magnitude(c, (operand){ 0, 1, 2, -1 }, &most));
    return unary_bound(c, 1, pl_b_round_slack(c->in_native[3]) * most, true);
}

pl_status pl_qlinear_where_bound(pl_bound *c) {
    static const int scales[] = { 7, 2, 5, -1 };
    const operand x = { 1, 2, 3, -1 }, y = { 4, 5, 6, -1 };
    requant q = { .scales = scales, .zero = 8 };
    q.inherited = fmax(inherited_of(c, x), inherited_of(c, y));
    if (pl_b_largest(c, 0) > 0) { /* either side */
        double most[2] = { 0, 0 };
        PL_TRY(magnitude(c, x, &most[0]));
        PL_TRY(magnitude(c, y, &most[1]));
        q.inherited += most[0] + most[1];
    }
    return requantize(c, &q);
}

pl_status pl_qlinear_concat_bound(pl_bound *c) {
    int *scales = pl_arena_array(c->scratch, (size_t)c->n_in + 2, sizeof(int));
    requant q = { .scales = scales, .zero = 1 };
    int n = 0;
    if (scales == NULL) return pl_fail_memory(c->err, 1);
    scales[n++] = 0;
    for (int i = 2; i + 2 < c->n_in; i += 3) {
        q.inherited = fmax(q.inherited, inherited_of(c, (operand){ i, i + 1, i + 2, -1 }));
        scales[n++] = i + 1;
    }
    scales[n] = -1;
    return requantize(c, &q);
}

/* ---- integer products that are scaled to floats ---- */

typedef struct scaled { /* y = product * scales (+ bias) */
    const product *p;
    const pl_tensor *e; /* of the product in real units; NULL = exact */
    int bias;           /* -1 = none */
    double own;         /* relative error of the scaled product */
} scaled;

static pl_status scaled_bound(pl_bound *c, const scaled *s) {
    const pl_tensor *y = pl_b_out(c, 0), *bias = s->bias < 0 ? NULL : pl_b_in(c, s->bias);
    const double *v = pl_b_y(c, 0), *b = s->bias < 0 ? NULL : pl_b_x(c, s->bias);
    const double *eb = s->bias < 0 ? NULL : pl_b_e(c, s->bias);
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL) return PL_OK;
    if (v == NULL) return pl_fail_memory(c->err, 1);
    for (int64_t i = 0; i < y->n_elements; i++) {
        const double more = bias == NULL ? 0 : b[i % bias->n_elements];
        e[i] = s->own * fabs(v[i] - more) + c->u * (fabs(v[i]) + fabs(more));
        if (eb != NULL && bias != NULL) e[i] += eb[i % bias->n_elements];
        if (s->e != NULL) e[i] += ((const double *)s->e->data)[i];
    }
    return PL_OK;
}

static pl_status product_to_float(pl_bound *c, const product *p, int bias) {
    pl_tensor *e = NULL;
    pl_status st = product_error(c, p, &e);
    const scaled s = { .p = p,
                       .e = e,
                       .bias = bias,
                       .own = 3 * c->u_acc + pl_b_scale_error(c, p->a.scale) +
                              pl_b_scale_error(c, p->b.scale) };
    if (st == PL_OK) st = scaled_bound(c, &s);
    pl_tensor_unref(e);
    return st;
}

pl_status pl_matmul_integer_to_float_bound(pl_bound *c) {
    const product p = {
        "MatMul", 13, { 0, 2, 4, rank_of(c, 0) - 2 }, { 1, 3, 5, rank_of(c, 1) - 1 }, pl_b_square,
        sqrt,     1
    };
    return product_to_float(c, &p, 6);
}

pl_status pl_qgemm_bound(pl_bound *c) {
    const int columns = pl_attr_int(c->node, "transB") != 0 ? 0 : 1;
    const product p = { "Gemm",
                        13,
                        { 0, 1, 2, -1 },
                        { 3, 4, 5, columns },
                        pl_b_square,
                        sqrt,
                        pl_attr_float(c->node, "alpha") };
    if (pl_b_out(c, 0) == NULL) return PL_OK;
    if (pl_b_in(c, 7) == NULL) return product_to_float(c, &p, -1);
    return requantize_product(c, &p, 7, 8);
}

/* The codes of input 0 are made inside: those near a tie may be either. *step_error: what an
 * uncertain range makes of the step, relative. */
static pl_status dynamic_codes(pl_bound *c, pl_tensor **out, double *step_error) {
    const pl_tensor *a = pl_b_in(c, 0);
    const double *x = pl_b_x(c, 0), *ex = pl_b_e(c, 0);
    double low = 0, high = 0;
    PL_TRY(pl_tensor_new_zero(PL_F64, a->rank, a->dims, out, c->err));
    if (x == NULL && a->n_elements > 0) return pl_fail_memory(c->err, 1);
    for (int64_t i = 0; i < a->n_elements; i++) {
        low = fmin(low, x[i]);
        high = fmax(high, x[i]);
    }
    if (high == low) return PL_OK;
    *step_error = 2 * pl_b_largest(c, 0) / (high - low);
    const double step = (high - low) / 255, slack = pl_b_round_slack(PL_F32) * 2;
    const double zero = -low / step, near = slack * zero + 8 * pl_b_largest(c, 0) / step;
    /* Another zero point moves the ends of the range by one code. */
    const bool ends = rint(zero - near) != rint(zero + near);
    double *e = (*out)->data;
    for (int64_t i = 0; i < a->n_elements; i++) {
        const double p = x[i] / step, d = slack * fabs(p) + (ex == NULL ? 0 : 8 * ex[i] / step);
        double codes = rint(p + d) - rint(p - d);
        if (ends && (p + rint(zero) < 1 || p + rint(zero) > 254)) codes += 1;
        e[i] = codes * step;
    }
    return PL_OK;
}

pl_status pl_dynamic_quantize_matmul_bound(pl_bound *c) {
    const product p = {
        "MatMul", 13, { 0, -1, -1, -1 }, { 1, 2, 3, rank_of(c, 1) - 1 }, pl_b_square, sqrt, 1
    };
    pl_tensor *codes = NULL, *b = NULL, *e = NULL;
    pl_status st = PL_OK;
    double step_error = 0;
    if (pl_b_out(c, 0) == NULL) return PL_OK;
    PL_TRY_GOTO(done, st, dynamic_codes(c, &codes, &step_error));
    PL_TRY_GOTO(done, st, real_value(c, p.b, &b));
    PL_TRY_GOTO(done, st, add_term(c, &p, codes, b, &e));
    each(e, sqrt);
    const scaled s = {
        .p = &p, .e = e, .bias = 4, .own = 5 * c->u_acc + step_error + pl_b_scale_error(c, 2)
    };
    st = scaled_bound(c, &s);
done:
    pl_tensor_unref(codes);
    pl_tensor_unref(b);
    pl_tensor_unref(e);
    return st;
}

/* Error bounds of ONNX Runtime's QLinear family and of its integer products. */
#include <math.h>

#include "ops/quant/product_error.h"
#include "ops/quant/qlinear_rules.h"

/* ---- operands ---- */

static void each(pl_tensor *t, pl_b_map_fn fn) {
    double *v = t->data;
    for (int64_t i = 0; i < t->n_elements; i++)
        v[i] = fn(v[i]);
}

/* ---- QLinear element-wise and means ---- */

/* max |(x - zero) * scale| of an operand. */
static pl_status magnitude(pl_bound *c, pl_b_operand o, double *out) {
    pl_tensor *t = NULL;
    const pl_status st = pl_b_real_value(c, o, &t);
    if (st == PL_OK) *out = pl_tensor_max_abs(t);
    pl_tensor_unref(t);
    return st;
}

static double inherited_of(pl_bound *c, pl_b_operand o) {
    const double *s = pl_b_x(c, o.scale);
    const double e = pl_b_largest(c, o.x) + pl_b_largest(c, o.zero);
    return s == NULL || e == 0 ? 0 : e * fabs(s[0]);
}

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C_SCALE, C_ZERO };
static const pl_b_operand OF_A = { A, A_SCALE, A_ZERO, -1 }, OF_B = { B, B_SCALE, B_ZERO, -1 };
static const int BINARY_SCALES[] = { C_SCALE, A_SCALE, B_SCALE, -1 };

pl_status pl_qlinear_add_bound(pl_bound *c) {
    pl_b_requant q = { .scales = BINARY_SCALES, .zero = C_ZERO };
    double a = 0, b = 0;
    pl_tensor *in[2] = { NULL, NULL }, *e = NULL;
    pl_status st = PL_OK;
    PL_TRY(magnitude(c, OF_A, &a));
    PL_TRY(magnitude(c, OF_B, &b));
    q.own = pl_b_round_slack(c->in_native[C_SCALE]) * (a + b);
    PL_TRY_GOTO(done, st, pl_b_real_error(c, OF_A, &in[0]));
    PL_TRY_GOTO(done, st, pl_b_real_error(c, OF_B, &in[1]));
    if (in[0] != NULL || in[1] != NULL) {
        for (int k = 0; k < 2; k++) {
            const pl_tensor *t = pl_b_in(c, k == 0 ? A : B);
            if (in[k] != NULL) continue;
            PL_TRY_GOTO(done, st, pl_tensor_new_zero(PL_F64, t->rank, t->dims, &in[k], c->err));
        }
        PL_TRY_GOTO(done, st, pl_b_call(c, "Add", 14, in, 2, &e));
        q.e = e->data;
    }
    st = pl_b_requantize(c, &q);
done:
    pl_tensor_unref(in[0]);
    pl_tensor_unref(in[1]);
    pl_tensor_unref(e);
    return st;
}

pl_status pl_qlinear_mul_bound(pl_bound *c) {
    const pl_b_int_product p = { "Mul", 14, OF_A, OF_B, pl_b_abs, pl_b_abs, 1 };
    return pl_b_requantize_product(c, &p, C_SCALE, C_ZERO);
}

/* One input: its errors times `gain`, plus the local error `own` of the function. */
static pl_status unary_bound(pl_bound *c, double gain, double own, bool inexact) {
    static const int scales[] = { 3, 1, -1 };
    const pl_b_operand x = { 0, 1, 2, -1 };
    const pl_b_requant q = { .scales = scales,
                             .zero = 4,
                             .inherited = gain * inherited_of(c, x),
                             .own = own,
                             .inexact = inexact };
    return pl_b_requantize(c, &q);
}

pl_status pl_qlinear_sigmoid_bound(pl_bound *c) {
    return unary_bound(c, 0.25, 8 * 4 * 0x1p-24, true);
}

pl_status pl_qlinear_leaky_relu_bound(pl_bound *c) {
    return unary_bound(c, fmax(1, fabs(pl_attr_float(c->node, "alpha"))), 0, true);
}

/* ONNX Runtime looks exponentials up in tables of integers with at least 20 bits. */
pl_status pl_qlinear_softmax_bound(pl_bound *c) {
    return unary_bound(c, 0.5, 0x1p-20, true);
}

pl_status pl_qlinear_mean_bound(pl_bound *c) {
    double most = 0;
    PL_TRY(magnitude(c, (pl_b_operand){ 0, 1, 2, -1 }, &most));
    return unary_bound(c, 1, pl_b_round_slack(c->in_native[3]) * most, true);
}

pl_status pl_qlinear_where_bound(pl_bound *c) {
    static const int scales[] = { 7, 2, 5, -1 };
    const pl_b_operand x = { 1, 2, 3, -1 }, y = { 4, 5, 6, -1 };
    pl_b_requant q = { .scales = scales, .zero = 8 };
    q.inherited = fmax(inherited_of(c, x), inherited_of(c, y));
    if (pl_b_largest(c, 0) > 0) { /* either side may be selected */
        double most[2] = { 0, 0 };
        PL_TRY(magnitude(c, x, &most[0]));
        PL_TRY(magnitude(c, y, &most[1]));
        q.inherited += most[0] + most[1];
    }
    return pl_b_requantize(c, &q);
}

pl_status pl_qlinear_concat_bound(pl_bound *c) {
    int *scales = pl_arena_array(c->scratch, (size_t)c->n_in + 2, sizeof(int));
    pl_b_requant q = { .scales = scales, .zero = 1 };
    int n = 0;
    if (scales == NULL) return pl_fail_memory(c->err, 1);
    scales[n++] = 0;
    for (int i = 2; i + 2 < c->n_in; i += 3) {
        q.inherited = fmax(q.inherited, inherited_of(c, (pl_b_operand){ i, i + 1, i + 2, -1 }));
        scales[n++] = i + 1;
    }
    scales[n] = -1;
    return pl_b_requantize(c, &q);
}

/* ---- integer products that are scaled to floats ---- */

typedef struct scaled { /* y = integer product * scales (+ bias) */
    const pl_b_int_product *p;
    const pl_tensor *e; /* error of the product in real units; NULL = exact */
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

static pl_status product_to_float(pl_bound *c, const pl_b_int_product *p, int bias) {
    pl_tensor *e = NULL;
    pl_status st = pl_b_product_error(c, p, &e);
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
    const pl_b_int_product p = { "MatMul",
                                 13,
                                 { 0, 2, 4, pl_b_rank(c, 0) - 2 },
                                 { 1, 3, 5, pl_b_rank(c, 1) - 1 },
                                 pl_b_square,
                                 sqrt,
                                 1 };
    return product_to_float(c, &p, 6);
}

pl_status pl_qgemm_bound(pl_bound *c) {
    const int columns = pl_attr_int(c->node, "transB") != 0 ? 0 : 1;
    const pl_b_int_product p = { "Gemm",
                                 13,
                                 { 0, 1, 2, -1 },
                                 { 3, 4, 5, columns },
                                 pl_b_square,
                                 sqrt,
                                 pl_attr_float(c->node, "alpha") };
    if (pl_b_out(c, 0) == NULL) return PL_OK;
    if (pl_b_in(c, 7) == NULL) return product_to_float(c, &p, -1);
    return pl_b_requantize_product(c, &p, 7, 8);
}

/* Input 0 is quantised inside the operator: codes near a tie may round either way. *step_error:
 * relative error of the step, from the error of the range. */
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
    /* A different zero point moves the ends of the range by one code. */
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
    const pl_b_int_product p = {
        "MatMul", 13, { 0, -1, -1, -1 }, { 1, 2, 3, pl_b_rank(c, 1) - 1 }, pl_b_square, sqrt, 1
    };
    pl_tensor *codes = NULL, *b = NULL, *e = NULL;
    pl_status st = PL_OK;
    double step_error = 0;
    if (pl_b_out(c, 0) == NULL) return PL_OK;
    PL_TRY_GOTO(done, st, dynamic_codes(c, &codes, &step_error));
    PL_TRY_GOTO(done, st, pl_b_real_value(c, p.b, &b));
    PL_TRY_GOTO(done, st, pl_b_add_term(c, &p, codes, b, &e));
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

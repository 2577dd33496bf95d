/* The bound of products of quantised operands: sums are exact, codes are those that a rounding of
 * p +- 8E may give (blame.md section 2, QuantizeLinear and MatMulInteger). */
#include <math.h>
#include <stdio.h>

#include "ops/bound_nn.h"
#include "ops/bound_quant.h"

enum { T_A, T_B, T_A_ZERO, T_B_ZERO, T_BIAS, T_A_SCALE, T_B_SCALE, T_Y_SCALE, N_TERMS };

/* The term of input i; a single number (`otherwise`) when it is left out. A list gets n_after dims
 * of 1 behind it. */
static pl_status param_term(pl_bound *c, int i, int n_after, double otherwise, pl_b_term *out) {
    *out = (pl_b_term){ .native = PL_UNDEFINED };
    if (i >= 0) PL_TRY(pl_b_term_of_input(c, i, out));
    if (out->x == NULL) {
        PL_TRY(pl_tensor_new_zero(PL_F64, 0, NULL, &out->x, c->err));
        ((double *)out->x->data)[0] = otherwise;
        out->native = c->out_native[0];
        return PL_OK;
    }
    if (out->x->rank != 1 || n_after == 0) return PL_OK;
    int64_t dims[PL_RANK_MAX] = { out->x->dims[0] };
    pl_tensor *x = NULL, *e = NULL;
    for (int d = 1; d <= n_after; d++)
        dims[d] = 1;
    PL_TRY(pl_tensor_reshape(out->x, n_after + 1, dims, &x, c->err));
    pl_tensor_unref(out->x);
    out->x = x;
    if (out->e == NULL) return PL_OK;
    PL_TRY(pl_tensor_reshape(out->e, n_after + 1, dims, &e, c->err));
    pl_tensor_unref(out->e);
    out->e = e;
    return PL_OK;
}

static pl_status load_terms(pl_bound *c, const pl_b_codes *k, pl_b_term *t) {
    const pl_tensor *b = pl_b_in(c, k->b);
    const int per_row = k->is_conv ? 0 : 1;               /* [M] is [M, 1] */
    const int per_channel = k->is_conv ? b->rank - 1 : 0; /* [C] of weights: [C, 1, …] */
    PL_TRY(pl_b_term_of_input(c, k->a, &t[T_A]));
    PL_TRY(pl_b_term_of_input(c, k->b, &t[T_B]));
    PL_TRY(param_term(c, k->a_zero, per_row, 0, &t[T_A_ZERO]));
    PL_TRY(param_term(c, k->b_zero, per_channel, 0, &t[T_B_ZERO]));
    /* Behind the sums: [C] of the output is [C, 1, …] without the batch. */
    const int per_plane = k->is_conv ? b->rank - 2 : 0;
    PL_TRY(param_term(c, k->bias, per_plane, 0, &t[T_BIAS]));
    PL_TRY(param_term(c, k->a_scale, per_row, 1, &t[T_A_SCALE]));
    PL_TRY(param_term(c, k->b_scale, per_plane, 1, &t[T_B_SCALE]));
    return param_term(c, k->y_scale, 0, 1, &t[T_Y_SCALE]);
}

static bool all_float(const pl_tensor *t) {
    const double *x = t->data;
    for (int64_t i = 0; i < t->n_elements; i++) {
        if ((double)(float)x[i] != x[i] && !isnan(x[i])) return false;
    }
    return true;
}

/* Codes that p - slack .. p + slack may be rounded to, against the one that the replay has. */
static pl_status reachable(pl_bound *c, const pl_b_codes *k, const pl_b_term *p,
                           const pl_b_term *factor) {
    const double *y = pl_b_y(c, 0), *x = p->x->data, *ex = p->e == NULL ? NULL : p->e->data;
    const pl_tensor *zero = pl_b_in(c, k->y_zero);
    const double z = zero == NULL ? 0 : pl_tensor_get_f64(zero, 0);
    const bool is_signed = c->out_native[0] == PL_I8;
    const double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    double *e = NULL;
    bool known = true;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || y == NULL) return PL_OK;
    for (int64_t i = 0; ex != NULL && known && i < p->x->n_elements; i++)
        known = ex[i] == 0;
    const bool exact = known && all_float(factor->x) && all_float(p->x);
    for (int64_t i = 0; i < p->x->n_elements; i++) {
        const double slack =
            exact ? 0 : 8 * ((ex == NULL ? 0 : ex[i]) + 4 * 0x1p-24 * fabs(x[i]));
        const double up = fmin(fmax(rint(x[i] + slack) + z, low), high);
        const double down = fmin(fmax(rint(x[i] - slack) + z, low), high);
        e[i] = fmax(0, fmax(up - y[i], y[i] - down));
    }
    return PL_OK;
}

pl_status pl_b_codes_rule(pl_bound *c, const pl_b_codes *k) {
    const bool scaled = k->y_scale >= 0;
    if (pl_b_out(c, 0) == NULL || (!scaled && !pl_b_any_error(c))) return PL_OK;
    if (!pl_dtype_is_integer(c->out_native[0]) || !pl_dtype_is_integer(c->in_native[k->a]))
        return pl_b_unknown(c); /* float8 */
    char text[512];
    snprintf(text, sizeof(text),
             "(a, b, za, zb, bias, sa, sb, sy) => (y, f) { p = Sub(a, za) q = Sub(b, zb) "
             "attrs_r = %s(p, q) s = Add(attrs_r, bias) m = Mul(sa, sb) f = Div(m, sy) "
             "y = Mul(s, f) }",
             k->is_conv ? "Conv" : "MatMul");
    pl_bound inner = *c; /* integers: nothing is rounded on the way */
    inner.u = inner.u_acc = 0;
    pl_b_program *program = NULL;
    pl_b_term in[N_TERMS] = { { 0 } }, out[2] = { { 0 } };
    pl_status st = load_terms(c, k, in);
    if (st == PL_OK) st = pl_b_program_new(&inner, text, &program);
    if (st == PL_OK) st = pl_b_program_run(&inner, program, in, N_TERMS, out, 2);
    if (st == PL_OK && scaled) st = reachable(c, k, &out[0], &out[1]);
    if (st == PL_OK && !scaled && out[0].e != NULL)
        st = pl_b_set_take(c, 0, pl_tensor_ref(out[0].e));
    for (size_t i = 0; i < N_TERMS; i++)
        pl_b_term_release(&in[i]);
    pl_b_term_release(&out[0]);
    pl_b_term_release(&out[1]);
    pl_b_program_free(program);
    return st;
}

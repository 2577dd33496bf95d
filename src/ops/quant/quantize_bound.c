/* Reachable codes, and the rules of QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. */
#include <math.h>

#include "ops/quant/bound_codes.h"
#include "ops/quant/quant_loops.h"
#include "ops/quant/quantize_rules.h"

enum { GRAIN = 4096 };

/* ---- reachable codes ---- */

double pl_b_round_slack(pl_dtype native) {
    const double u = pl_dtype_unit_roundoff(native);
    if (native == PL_F64) return 32 * u; /* the replay is no more precise than that */
    return 16 * 0x1p-24 + (u > 0x1p-24 ? 2 * u : 0);
}

static bool representable(double x, pl_dtype native) {
    unsigned char packed[8];
    double back = 0;
    if (native == PL_F64 || isnan(x)) return true;
    pl_store_f64(native, &x, packed, 1);
    pl_load_f64(native, packed, &back, 1);
    return back == x;
}

bool pl_b_unrounded(pl_bound *c, const pl_tensor *p, pl_dtype native) {
    for (int i = 0; i < c->n_in; i++)
        if (!c->exact(c, i)) return false;
    const double *x = p->data;
    for (int64_t i = 0; i < p->n_elements; i++)
        if (!representable(x[i], native)) return false;
    return true;
}

typedef struct codes_job {
    const pl_b_codes *r;
    const double *p, *y;
    double *out;
} codes_job;

/* How far the codes at both ends of the uncertain range are from the actual one. */
static double reach(const codes_job *j, int64_t i) {
    const pl_b_codes *r = j->r;
    const double p = j->p[i], y = j->y[i];
    const pl_quant_target t = { r->dtype, 1, r->zeros != NULL ? r->zeros[i] : r->zero,
                                r->saturate };
    double e = (r->e != NULL ? r->e[i] : 0) + r->slack * fabs(p) + r->offset, code[2];
    unsigned char packed[16];
    if (isnan(p)) return HUGE_VAL; /* the code of NaN is undefined */
    if (isinf(p)) e = 0;
    const double ends[2] = { p - e, p + e };
    pl_quant_store_f64(&t, ends, packed, 2);
    pl_load_f64(r->dtype, packed, code, 2);
    const double most = fmax(fabs(code[0] - y), fabs(code[1] - y));
    return (isnan(most) ? 0 : most) + r->zero_error;
}

static void reach_range(void *ctx, int64_t begin, int64_t end) {
    const codes_job *j = ctx;
    for (int64_t i = begin; i < end; i++)
        j->out[i] = reach(j, i);
}

pl_status pl_b_set_codes(pl_bound *c, const pl_b_codes *r) {
    codes_job j = { .r = r, .p = r->p->data };
    PL_TRY(pl_b_new(c, 0, &j.out));
    if (j.out == NULL) return PL_OK;
    j.y = pl_b_y(c, 0);
    if (j.y == NULL) return pl_fail_memory(c->err, 1);
    pl_pool_for(c->pool, r->p->n_elements, GRAIN, reach_range, &j);
    return PL_OK;
}

double pl_b_scale_error(pl_bound *c, int i) {
    const double *s = pl_b_x(c, i), *e = pl_b_e(c, i);
    double most = 0;
    for (int64_t k = 0; s != NULL && e != NULL && k < c->e_in[i]->n_elements; k++)
        most = fmax(most, e[k] / fabs(s[k]));
    return most;
}

/* A tensor of the shape of input 0, all `value`, of this type. */
static pl_status constant_like(pl_bound *c, pl_dtype dtype, double value, pl_tensor **out) {
    const pl_tensor *x = pl_b_in(c, 0);
    PL_TRY(pl_tensor_new_zero(dtype, x->rank, x->dims, out, c->err));
    char *at = (*out)->data;
    for (int64_t i = 0; i < x->n_elements; i++)
        pl_store_f64(dtype, &value, at + (size_t)i * pl_dtype_bytes(dtype), 1);
    return PL_OK;
}

static pl_tensor **replacements(pl_bound *c) {
    return pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(pl_tensor *));
}

/* ---- QuantizeLinear ---- */

/* 8 Ex / s of each element, in scratch. 1/s is the operator's result for 1 before rounding. */
static pl_status inherited_steps(pl_bound *c, const double **out) {
    const pl_tensor *x = pl_b_in(c, 0);
    const double *e = pl_b_e(c, 0);
    pl_tensor **in = replacements(c), *inverse = NULL;
    pl_status st = PL_OK;
    *out = NULL;
    if (e == NULL) return PL_OK;
    double *steps = pl_arena_array(c->scratch, (size_t)x->n_elements, sizeof(double));
    if (in == NULL || steps == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY_GOTO(done, st, constant_like(c, x->dtype, 1, &in[0]));
    PL_TRY_GOTO(done, st, pl_b_steps(c, in, &inverse));
    for (int64_t i = 0; i < x->n_elements; i++)
        steps[i] = 8 * e[i] * fabs(((const double *)inverse->data)[i]);
    *out = steps;
done:
    if (in != NULL) pl_tensor_unref(in[0]);
    pl_tensor_unref(inverse);
    return st;
}

/* Zero point of each element: the code for 0. */
static pl_status zero_codes(pl_bound *c, pl_tensor **out) {
    pl_tensor **in = replacements(c);
    if (in == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(constant_like(c, pl_b_in(c, 0)->dtype, 0, &in[0]));
    const pl_status st = pl_b_apply(c, in, PL_F64, 0, out);
    pl_tensor_unref(in[0]);
    return st;
}

pl_status pl_quantize_bound(pl_bound *c) {
    pl_tensor *p = NULL, *zeros = NULL, **in = replacements(c);
    pl_status st = PL_OK;
    pl_b_codes r = { .dtype = c->out_native[0],
                     .saturate = !pl_attr_has(c->node, "saturate") ||
                                 pl_attr_int(c->node, "saturate") != 0 };
    if (pl_b_out(c, 0) == NULL) return PL_OK;
    if (in == NULL) return pl_fail_memory(c->err, 1);
    pl_dtype native = pl_attr_has(c->node, "precision")
                          ? (pl_dtype)pl_attr_int(c->node, "precision")
                          : c->in_native[1];
    if (native == PL_UNDEFINED || native == PL_F8E8M0 || native == PL_I32) native = PL_F32;
    PL_TRY_GOTO(done, st, pl_b_steps(c, in, &p));
    PL_TRY_GOTO(done, st, inherited_steps(c, &r.e));
    PL_TRY_GOTO(done, st, zero_codes(c, &zeros));
    r.p = p;
    r.zeros = zeros->data;
    r.zero_error = pl_b_largest(c, 2);
    /* Values that needed no rounding get no slack. */
    if (pl_b_unrounded(c, p, native)) {
        r.e = NULL;
    } else {
        r.slack = pl_b_round_slack(native) + 8 * pl_b_scale_error(c, 1);
    }
    st = pl_b_set_codes(c, &r);
done:
    pl_tensor_unref(p);
    pl_tensor_unref(zeros);
    return st;
}

/* ---- DequantizeLinear ---- */

/* The scale of each element: the value of one code. */
static pl_status scale_of_each(pl_bound *c, pl_tensor **out) {
    pl_tensor **in = replacements(c), *low = NULL;
    pl_status st = PL_OK;
    if (in == NULL) return pl_fail_memory(c->err, 1);
    const pl_dtype dtype = pl_b_in(c, 0)->dtype;
    PL_TRY_GOTO(done, st, constant_like(c, dtype, 0, &in[0]));
    PL_TRY_GOTO(done, st, pl_b_apply(c, in, PL_F64, 0, &low));
    pl_tensor_unref(in[0]);
    in[0] = NULL;
    PL_TRY_GOTO(done, st, constant_like(c, dtype, 1, &in[0]));
    PL_TRY_GOTO(done, st, pl_b_apply(c, in, PL_F64, 0, out));
    double *s = (*out)->data;
    for (int64_t i = 0; i < low->n_elements; i++)
        s[i] = fabs(s[i] - ((const double *)low->data)[i]);
done:
    pl_tensor_unref(in[0]);
    pl_tensor_unref(low);
    return st;
}

pl_status pl_dequantize_bound(pl_bound *c) {
    const pl_tensor *y = pl_b_out(c, 0);
    const double *v = pl_b_y(c, 0), *ex = pl_b_e(c, 0);
    const double ez = pl_b_largest(c, 2), es = pl_b_scale_error(c, 1);
    pl_tensor *scales = NULL;
    double *e = NULL;
    if (y == NULL) return PL_OK;
    if (v == NULL) return pl_fail_memory(c->err, 1);
    if (ex != NULL || ez > 0) PL_TRY(scale_of_each(c, &scales));
    const double *s = scales == NULL ? NULL : scales->data;
    const pl_status st = pl_b_new(c, 0, &e);
    /* int32 minus its zero point is rounded to float before scaling. */
    const double own = (c->in_native[0] == PL_I32 ? 2 : 1) * c->u + es;
    for (int64_t i = 0; st == PL_OK && i < y->n_elements; i++) {
        e[i] = own * fabs(v[i]);
        if (s != NULL) e[i] += s[i] * ((ex == NULL ? 0 : ex[i]) + ez);
    }
    pl_tensor_unref(scales);
    return st;
}

/* ---- DynamicQuantizeLinear ---- */

/* Scale and zero point have errors of their own, which consumers of the codes inherit. */
pl_status pl_dynamic_quantize_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    const double *v = pl_b_x(c, 0), *ex = pl_b_e(c, 0);
    pl_tensor *p = NULL, **in = replacements(c);
    double low = 0, high = 0;
    if (v == NULL && x->n_elements > 0) return pl_fail_memory(c->err, 1);
    if (in == NULL) return pl_fail_memory(c->err, 1);
    for (int64_t i = 0; i < x->n_elements; i++) {
        low = fmin(low, v[i]);
        high = fmax(high, v[i]);
    }
    const double range = high - low, step = range == 0 ? 1 : range / 255;
    const double inherited = pl_b_largest(c, 0), u = pl_dtype_unit_roundoff(c->in_native[0]);
    const double rel = 2 * u + (range == 0 ? 0 : 2 * inherited / range); /* of the scale */
    const double pz = fmin(255, fmax(0, -low / step)), slack = 8 * (2 * u + rel);
    const double ez = slack * pz + 8 * inherited / step;
    const double up = fmin(255, rint(pz + ez)), down = fmax(0, rint(pz - ez));
    const double zero = rint(pz), zero_error = fmax(up - zero, zero - down);
    if (range != 0) PL_TRY(pl_b_fill(c, 1, rel * step));
    PL_TRY(pl_b_fill(c, 2, zero_error));
    if (pl_b_out(c, 0) == NULL) return PL_OK;
    double *e = NULL;
    if (ex != NULL) {
        e = pl_arena_array(c->scratch, (size_t)x->n_elements, sizeof(double));
        if (e == NULL) return pl_fail_memory(c->err, 1);
        for (int64_t i = 0; i < x->n_elements; i++)
            e[i] = 8 * ex[i] / step;
    }
    PL_TRY(pl_b_steps(c, in, &p));
    const pl_b_codes r = {
        .dtype = PL_U8, .p = p, .e = e, .slack = slack, .zero = zero, .zero_error = zero_error
    };
    const pl_status st = pl_b_set_codes(c, &r);
    pl_tensor_unref(p);
    return st;
}

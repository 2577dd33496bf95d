/* Error bounds of arithmetic. + - * / are rounded once, to nearest, on every machine, so their
 * local error is u|y|. Integers have no local error, only what they inherit. */
#include <math.h>

#include "ops/lib/legacy_broadcast.h"
#include "ops/math/binary_rules.h"

/* Does the node compute integers from exact inputs? Then it is exact. */
static bool is_exact(const pl_bound *c) {
    return !pl_dtype_is_float(c->out_native[0]) && !pl_b_any_error(c);
}
static double larger_change(double y, double low, double high) {
    return fmax(fabs(high - y), fabs(y - low));
}
/* a * e, where 0 * infinity is 0. */
static double scaled(double a, double e) {
    return e == 0 ? 0 : fabs(a) * e;
}

static double add_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)x;
    return pl_b_round(c, y) + e[0] + e[1];
}
pl_status pl_add_bound(pl_bound *c) {
    return is_exact(c) ? PL_OK : pl_b_each_legacy(c, add_element);
}

static double mul_element(const pl_bound *c, const double *x, const double *e, double y) {
    return pl_b_round(c, y) + scaled(x[1], e[0]) + scaled(x[0], e[1]) + e[0] * e[1];
}
pl_status pl_mul_bound(pl_bound *c) {
    return is_exact(c) ? PL_OK : pl_b_each_legacy(c, mul_element);
}

/* A divisor that may be 0 leaves the quotient unbounded; so does a subnormal one, which some
 * runtimes read as 0. */
static double quotient_error(const double *x, const double *e, double quotient) {
    const double divisor = fabs(x[1]);
    if (e[0] == 0 && e[1] == 0) return 0;
    return divisor > e[1] ? (e[0] + scaled(quotient, e[1])) / (divisor - e[1]) : HUGE_VAL;
}
static double div_element(const pl_bound *c, const double *x, const double *e, double y) {
    if (x[1] != 0 && fabs(x[1]) < c->tiny && isfinite(y)) return HUGE_VAL;
    return pl_b_round(c, y) + pl_b_maths(c, PL_MATHS_DIV, x[0], y) + quotient_error(x, e, y);
}
static double div_int_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c;
    const double p = x[0] / x[1], error = 8 * quotient_error(x, e, p);
    return error == 0 ? 0 : larger_change(y, trunc(p - error), trunc(p + error));
}
pl_status pl_div_bound(pl_bound *c) {
    if (is_exact(c)) return PL_OK;
    return pl_b_each_legacy(c, pl_dtype_is_float(c->out_native[0]) ? div_element : div_int_element);
}

/* The remainder is exact for floats, too; one addition gives it the sign of the divisor. It jumps
 * by the divisor at multiples of it. */
static double mod_element(const pl_bound *c, const double *x, const double *e, double y) {
    const double turns = floor(fabs(x[0] / x[1])), error = e[0] + scaled(turns, e[1]);
    const double reach = 8 * (e[0] + scaled(turns + 1, e[1])); /* also just below a multiple */
    if (reach > 0 && (fabs(y) <= reach || fabs(x[1]) - fabs(y) <= reach))
        return fabs(x[1]) + error + e[1];
    return error + (c->p[0] == 0 ? pl_b_round(c, y) : 0);
}
pl_status pl_mod_bound(pl_bound *c) {
    c->p[0] = (double)pl_attr_int(c->node, "fmod");
    return is_exact(c) ? PL_OK : pl_b_each(c, mod_element);
}

/* Effect of an error e of the base on |x|^p, by the steepest slope nearby. */
static double base_error(double x, double p, double e, double y) {
    const double a = fabs(x);
    if (e == 0 || p == 0) return 0;
    if (p >= 1) return p * pow(a + e, p - 1) * e;
    if (a > 2 * e) return fabs(p) * pow(a - e, p - 1) * e;
    return p > 0 ? pow(a + e, p) + fabs(y) : HUGE_VAL;
}
static double pow_error(const double *x, const double *e, double y) {
    const double by_exponent = e[1] == 0 || x[0] == 0 ? 0 : fabs(y * log(fabs(x[0]))) * e[1];
    return base_error(x[0], x[1], e[0], y) + by_exponent;
}
/* Devices compute exp2(p log2(x)), so the error of the exponent grows with p. */
static double pow_maths(const pl_bound *c, const double *x, double y) {
    const double l = x[0] == 0 ? 0 : log(fabs(x[0])), exponent = x[1] * l;
    if (c->arithmetic == NULL) return 0;
    return pl_b_maths(c, PL_MATHS_EXP, exponent, y) +
           fabs(y * x[1]) * pl_b_maths(c, PL_MATHS_LOG, x[0], l);
}
static double pow_element(const pl_bound *c, const double *x, const double *e, double y) {
    if (!isfinite(y)) return 0;
    return 2 * pl_b_round(c, y) + pow_maths(c, x, y) + pow_error(x, e, y);
}
/* With a float operand the power is computed in floating point and then truncated. */
static double pow_int_element(const pl_bound *c, const double *x, const double *e, double y) {
    const double p = pow(x[0], x[1]);
    const double error = 8 * (2 * c->u * fabs(p) + pow_error(x, e, p));
    if (error == 0 || !isfinite(p)) return 0;
    return larger_change(y, trunc(p - error), trunc(p + error));
}
pl_status pl_pow_bound(pl_bound *c) {
    if (is_exact(c) && c->u == 0) return PL_OK;
    return pl_b_each_legacy(c, pl_dtype_is_float(c->out_native[0]) ? pow_element : pow_int_element);
}

static double prelu_element(const pl_bound *c, const double *x, const double *e, double y) {
    const double above = x[0] + 8 * e[0] > 0 ? e[0] : 0;
    const bool negative = x[0] - 8 * e[0] < 0;
    const double below = negative ? scaled(x[1], e[0]) + scaled(x[0], e[1]) + e[0] * e[1] : 0;
    return (x[0] < 0 ? pl_b_round(c, y) : 0) + fmax(above, below);
}
pl_status pl_prelu_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *slope = pl_b_in(c, 1);
    if (is_exact(c)) return PL_OK;
    if (c->node->opset >= 7 || slope->rank != 1 || x->rank < 2) return pl_b_each(c, prelu_element);
    int64_t dims[PL_RANK_MAX] = { slope->dims[0] }; /* PRelu-1 and -6: per channel */
    for (int d = 1; d < x->rank - 1; d++)
        dims[d] = 1;
    return pl_b_each_as(c, x->rank - 1, dims, prelu_element);
}

/* ---- any number of inputs ---- */

/* y is one of the inputs. Others count where they could be the extreme as well. */
static double extreme_element(const pl_bound *c, const double *x, const double *e, double y) {
    double winner = 0, error = 0;
    for (int i = 0; i < c->n_in; i++)
        if (x[i] == y) winner = fmax(winner, e[i]);
    for (int i = 0; i < c->n_in; i++)
        if (fabs(x[i] - y) <= 8 * (e[i] + winner)) error = fmax(error, e[i]);
    return error;
}
pl_status pl_extreme_bound(pl_bound *c) {
    return pl_b_any_error(c) ? pl_b_each(c, extreme_element) : PL_OK;
}

/* With three or more terms, partial sums may exceed the result; their roundings add in
 * quadrature. */
static double sum_error(const pl_bound *c, const double *x, const double *e, double sum) {
    double error = 0, size = 0;
    for (int i = 0; i < c->n_in; i++) {
        error += e[i];
        size += fabs(x[i]);
    }
    if (c->n_in == 1) return error;
    return error + pl_b_round(c, sum) + c->u_acc * sqrt(c->n_in - 2) * size;
}
static double sum_element(const pl_bound *c, const double *x, const double *e, double y) {
    return sum_error(c, x, e, y);
}
pl_status pl_sum_bound(pl_bound *c) {
    return pl_b_each(c, sum_element);
}
static double mean_element(const pl_bound *c, const double *x, const double *e, double y) {
    if (c->n_in == 1) return e[0];
    return pl_b_round(c, y) + sum_error(c, x, e, y * c->n_in) / c->n_in;
}
pl_status pl_mean_bound(pl_bound *c) {
    return pl_b_each(c, mean_element);
}

/* Bits of an inexact integer may be anything. */
static double bits_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)x, (void)y;
    return e[0] > 0 || e[1] > 0 ? HUGE_VAL : 0;
}
pl_status pl_bits_bound(pl_bound *c) {
    return pl_b_any_error(c) ? pl_b_each(c, bits_element) : PL_OK;
}

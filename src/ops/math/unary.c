/* Element-wise functions of one input: arithmetic, exponentials, trigonometry, rounding.
 *
 * The hot f32 functions go to the vector maths of src/kernels; the others go element
 * by element, to kernels/soft.h for float types and to libm for double. */
#include <float.h>
#include <math.h>

#include "kernels/soft.h"
#include "ops/bound.h"
#include "ops/grad.h"
#include "ops/infer.h"
#include "ops/lib/elementwise.h"
#include "ops/math/unary_rules.h"

extern const pl_op_def pl_ops_unary[];

/* ---- formulas ---- */

/* From libm, by name. */
#define LIBM(name, fn)                                                                             \
    PL_UNARY_PLAIN(name, fn##f(x), fn(x))                                                          \
    static pl_status name##_eval(pl_eval *c) {                                                     \
        static const pl_unary_ops ops = { .f32 = name##_f32, .f64 = name##_f64 };                  \
        return pl_eval_unary(c, &ops, NULL);                                                       \
    }

LIBM(ceil, ceil)
LIBM(floor, floor)
LIBM(sqrt, sqrt)
/* Round-11: halves to even, the default mode of rint. */
LIBM(round, rint)

/* Floats with the same bits on every machine; doubles from libm. */
#define SOFT(name)                                                                                 \
    PL_UNARY_PLAIN(name, (float)pl_soft_##name((double)x), name(x))                                \
    static pl_status name##_eval(pl_eval *c) {                                                     \
        static const pl_unary_ops ops = { .f32 = name##_f32, .f64 = name##_f64 };                  \
        return pl_eval_unary(c, &ops, NULL);                                                       \
    }

SOFT(acos)
SOFT(acosh)
SOFT(asin)
SOFT(asinh)
SOFT(atan)
SOFT(atanh)
SOFT(cos)
SOFT(cosh)
SOFT(sin)
SOFT(sinh)
SOFT(tan)

/* From the vector maths. */
#define VMATH(name, fn)                                                                            \
    PL_UNARY_VMATH(name, fn)                                                                       \
    static pl_status name##_eval(pl_eval *c) {                                                     \
        static const pl_unary_ops ops = { .f32 = name##_f32, .f64 = name##_f64 };                  \
        return pl_eval_unary(c, &ops, NULL);                                                       \
    }

VMATH(erf, erf)
VMATH(exp, exp)
VMATH(log, log)
VMATH(tanh, tanh)

PL_UNARY_PLAIN(reciprocal, 1.0f / x, 1.0 / x)
static pl_status reciprocal_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .f32 = reciprocal_f32, .f64 = reciprocal_f64 };
    return pl_eval_unary(c, &ops, NULL);
}

PL_UNARY_PLAIN(abs, fabsf(x), fabs(x))
static void abs_i64(const void *p, const pl_i64 *x, pl_i64 *y, size_t n) {
    (void)p;
    /* Through unsigned: INT64_MIN wraps to itself instead of overflowing. */
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? (int64_t)(0u - (uint64_t)x[i]) : x[i];
}
static void abs_u64(const void *p, const pl_u64 *x, pl_u64 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i];
}
static pl_status abs_eval(pl_eval *c) {
    static const pl_unary_ops ops = { abs_f32, abs_f64, abs_i64, abs_u64, NULL, NULL };
    return pl_eval_unary(c, &ops, NULL);
}

PL_UNARY_PLAIN(neg, -x, -x)
static void neg_i64(const void *p, const pl_i64 *x, pl_i64 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = (int64_t)(0u - (uint64_t)x[i]);
}
static pl_status neg_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .f32 = neg_f32, .f64 = neg_f64, .i64 = neg_i64 };
    return pl_eval_unary(c, &ops, NULL);
}

/* Sign-13: NaN stays NaN, as in NumPy. */
PL_UNARY_PLAIN(sign, isnan(x) ? x : (float)((x > 0) - (x < 0)),
               isnan(x) ? x : (double)((x > 0) - (x < 0)))
static void sign_i64(const void *p, const pl_i64 *x, pl_i64 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] > 0) - (x[i] < 0);
}
static void sign_u64(const void *p, const pl_u64 *x, pl_u64 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] > 0;
}
static pl_status sign_eval(pl_eval *c) {
    static const pl_unary_ops ops = { sign_f32, sign_f64, sign_i64, sign_u64, NULL, NULL };
    return pl_eval_unary(c, &ops, NULL);
}

static void is_nan(const void *p, const pl_f64 *x, pl_u8 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = (uint8_t)(isnan(x[i]) != 0);
}
static pl_status is_nan_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .f64_b = is_nan };
    return pl_eval_unary(c, &ops, NULL);
}

typedef struct is_inf_attrs {
    bool positive, negative;
} is_inf_attrs;
static void is_inf(const void *p, const pl_f64 *x, pl_u8 *y, size_t n) {
    const is_inf_attrs *a = p;
    for (size_t i = 0; i < n; i++) {
        y[i] = isinf(x[i]) && (x[i] > 0 ? a->positive : a->negative);
    }
}
static pl_status is_inf_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .f64_b = is_inf };
    const is_inf_attrs a = { pl_attr_int(c->node, "detect_positive") != 0,
                             pl_attr_int(c->node, "detect_negative") != 0 };
    return pl_eval_unary(c, &ops, &a);
}

static void not_b(const void *p, const pl_u8 *x, pl_u8 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] == 0;
}
static pl_status not_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .b = not_b };
    return pl_eval_unary(c, &ops, NULL);
}

static void bitwise_not_i64(const void *p, const pl_i64 *x, pl_i64 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = ~x[i];
}
static pl_status bitwise_not_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .i64 = bitwise_not_i64 };
    return pl_eval_unary(c, &ops, NULL);
}

/* ---- error bounds (docs/blame.md): rounding, then what an error e of x becomes ---- */

/* A float below the smallest normal number, which some runtimes read as zero. */
static bool is_denormal(const pl_bound *c, double x) {
    return c->u > 0 && x != 0 && fabs(x) < c->tiny;
}

/* The magnitude does not change, so the error does not either. */
static double pass_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)x, (void)y;
    return e[0];
}
static pl_status pass_bound(pl_bound *c) {
    return pl_b_any_error(c) ? pl_b_each(c, pass_element) : PL_OK;
}

#define BOUND(name, LOCAL, PROPAGATED)                                                             \
    static double name##_element(const pl_bound *c, const double *px, const double *pe,            \
                                 double y) {                                                       \
        const double x = px[0], e = pe[0], u = c->u;                                               \
        if (!isfinite(x) || !isfinite(y)) return 0;                                                \
        return (LOCAL) + (y != 0 ? c->tiny : 0) + (e > 0 ? (PROPAGATED) : 0);                      \
    }                                                                                              \
    static pl_status name##_bound(pl_bound *c) {                                                   \
        return pl_b_each(c, name##_element);                                                       \
    }

static double larger_change(double y, double low, double high) {
    return fmax(fabs(high - y), fabs(y - low));
}
static double unit(double x) { /* clamps to the domain of asin */
    return x < -1 ? -1 : x > 1 ? 1 : x;
}

/* Devices compute asinh, acosh and atanh as log(x + sqrt(x^2 +- 1)) and log((1 + x) / (1 - x)) / 2,
 * which cancel near 0: a few roundings of the argument, then the logarithm. */
static double log_of_sum(const pl_bound *c, double x, double y) {
    const double error = pl_b_maths(c, PL_MATHS_LOG, x, y);
    return error == 0 ? 0 : error + pl_b_maths(c, PL_MATHS_SQRT, x, 1) + 2 * c->u_acc;
}

/* Functions that implementations approximate differently: 2u where runtimes were measured, 3u where
 * not, 4u where a runtime needed it. A second-order term is added where the first derivative can
 * vanish. */
BOUND(exp, u *y *(2 + fabs(x)) + pl_b_maths(c, PL_MATHS_EXP, x, y), y *expm1(e))
BOUND(tanh, u *(2 * fabs(y) + fabs(x) * (1 - y * y)) + pl_b_maths(c, PL_MATHS_TANH, x, y),
      ((1 - y * y) + 0.4 * e) * e)
BOUND(sin, 2 * u * fabs(y) + pl_b_maths(c, PL_MATHS_SIN, x, y), (fabs(cos(x)) + 0.5 * e) * e)
BOUND(cos, 2 * u * fabs(y) + pl_b_maths(c, PL_MATHS_SIN, x, y), (fabs(sin(x)) + 0.5 * e) * e)
BOUND(sqrt, is_denormal(c, x) ? y : 2 * u * y + pl_b_maths(c, PL_MATHS_SQRT, x, y),
      larger_change(y, sqrt(fmax(x - e, 0)), sqrt(x + e)))
BOUND(log, is_denormal(c, x) ? HUGE_VAL : 2 * u * fabs(y) + pl_b_maths(c, PL_MATHS_LOG, x, y),
      x > e ? e / (x - e) : HUGE_VAL)
BOUND(reciprocal,
      is_denormal(c, x) ? HUGE_VAL : 2 * u * fabs(y) + pl_b_maths(c, PL_MATHS_DIV, x, y),
      fabs(x) > e ? e / (fabs(x) - e) * fabs(y) : HUGE_VAL)
BOUND(acos, 4 * u * fabs(y) + pl_b_maths(c, PL_MATHS_ASIN, x, y),
      larger_change(y, acos(unit(x - e)), acos(unit(x + e))))
BOUND(asin, 4 * u * fabs(y) + pl_b_maths(c, PL_MATHS_ASIN, x, y),
      larger_change(y, asin(unit(x - e)), asin(unit(x + e))))
BOUND(acosh, 3 * u * fabs(y) + log_of_sum(c, fabs(x), y),
      larger_change(y, acosh(fmax(x - e, 1)), acosh(x + e)))
BOUND(asinh, 3 * u * fabs(y) + log_of_sum(c, fabs(x), y), (1 / sqrt(1 + x * x) + 0.4 * e) * e)
BOUND(atan, 3 * u * fabs(y) + pl_b_maths(c, PL_MATHS_ATAN, x, y), (1 / (1 + x * x) + 0.4 * e) * e)
BOUND(atanh, 3 * u * fabs(y) + log_of_sum(c, 1, y),
      fabs(x) + e < 1 ? larger_change(y, atanh(x - e), atanh(x + e)) : HUGE_VAL)
BOUND(cosh, u *y *(2 + fabs(x)) + pl_b_maths(c, PL_MATHS_EXP, x, y), sinh(fabs(x) + e) * e)
BOUND(sinh, u *(2 * fabs(y) + fabs(x) * cosh(x)) + pl_b_maths(c, PL_MATHS_EXP, x, cosh(x)),
      cosh(fabs(x) + e) * e)
BOUND(tan, 3 * u * fabs(y) + (1 + fabs(y)) * (1 + fabs(y)) * pl_b_maths(c, PL_MATHS_SIN, x, 1),
      (1 + y * y) * e < 0.5 ? 2 * (1 + y * y) * e : HUGE_VAL)

/* Integers go through float, whose erf reaches 1 earlier than the exact one. */
BOUND(erf_float, u *(2 * fabs(y) + fabs(x) * M_2_SQRTPI * exp(-x * x)),
      (M_2_SQRTPI * exp(-x * x) + 0.5 * e) * e)
static double one_code(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)x, (void)e, (void)y;
    return 1;
}
static pl_status erf_bound(pl_bound *c) {
    return pl_dtype_is_float(c->out_native[0]) ? erf_float_bound(c) : pl_b_each(c, one_code);
}

/* Step functions: any value that x can reach within its error. */
static double sign_of(double x) {
    return (double)((x > 0) - (x < 0));
}
#define STEPS(name, fn)                                                                            \
    static double name##_element(const pl_bound *c, const double *x, const double *e, double y) {  \
        (void)c;                                                                                   \
        if (e[0] == 0 || isnan(x[0])) return 0;                                                    \
        return larger_change(y, fn(x[0] - 8 * e[0]), fn(x[0] + 8 * e[0]));                         \
    }                                                                                              \
    static pl_status name##_bound(pl_bound *c) {                                                   \
        if (!pl_b_any_error(c) || c->exact(c, 0)) return PL_OK;                                    \
        return pl_b_each(c, name##_element);                                                       \
    }
STEPS(ceil, ceil)
STEPS(floor, floor)
STEPS(round, rint)
STEPS(sign, sign_of)

/* A value that is finite in fp64 may overflow in the model's own type. */
static double is_inf_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)y;
    return isfinite(x[0]) && fabs(x[0]) + 8 * e[0] >= c->p[0];
}
static pl_status is_inf_bound(pl_bound *c) {
    c->p[0] = c->in_native[0] == PL_F16   ? 65504
              : c->in_native[0] == PL_F64 ? DBL_MAX
                                          : (double)FLT_MAX;
    return pl_b_each(c, is_inf_element);
}
/* An error cannot turn a number into NaN. */
static pl_status is_nan_bound(pl_bound *c) {
    (void)c;
    return PL_OK;
}

/* ---- gradients ---- */

#define GRAD(name, EXPR)                                                                           \
    static pl_status name##_grad(pl_grad *c) {                                                     \
        pl_value *x = c->node->in[0], *y = c->node->out[0], *dy = c->dy[0];                        \
        (void)x, (void)y, (void)dy;                                                                \
        c->dx[0] = (EXPR);                                                                         \
        return c->st;                                                                              \
    }
#define SQUARE(v) pl_g_mul(c, v, v)

/* a x^2 + b */
static pl_value *parabola(pl_grad *c, pl_value *x, double a, double b) {
    pl_value *square = SQUARE(x), *number = pl_g_number(c, x, b);
    return a > 0 ? pl_g_add(c, square, number) : pl_g_sub(c, number, square);
}

/* dy / (a x^2 + b), or over its root. At least in float, because the square may overflow. */
static pl_value *over(pl_grad *c, pl_value *x, double a, double b, bool root) {
    pl_value *below = parabola(c, pl_g_widened(c, x), a, b);
    if (root) below = pl_g1(c, "Sqrt", below);
    return pl_g_cast_like(c, pl_g_div(c, pl_g_widened(c, c->dy[0]), below), x);
}

GRAD(abs, pl_g_mul(c, dy, pl_g1(c, "Sign", x)))
GRAD(acos, pl_g_neg(c, over(c, x, -1, 1, true)))
GRAD(acosh, over(c, x, 1, -1, true))
GRAD(asin, over(c, x, -1, 1, true))
GRAD(asinh, over(c, x, 1, 1, true))
GRAD(atan, over(c, x, 1, 1, false))
GRAD(atanh, over(c, x, -1, 1, false))
GRAD(cos, pl_g_neg(c, pl_g_mul(c, dy, pl_g1(c, "Sin", x))))
GRAD(cosh, pl_g_mul(c, dy, pl_g1(c, "Sinh", x)))
GRAD(erf, pl_g_mul(c, pl_g_mul(c, dy, pl_g_number(c, x, M_2_SQRTPI)),
                   pl_g1(c, "Exp", pl_g_neg(c, SQUARE(x)))))
GRAD(exp, pl_g_mul(c, dy, y))
GRAD(log, pl_g_div(c, dy, x))
GRAD(neg, pl_g_neg(c, dy))
GRAD(reciprocal, pl_g_neg(c, pl_g_mul(c, dy, SQUARE(y))))
GRAD(sin, pl_g_mul(c, dy, pl_g1(c, "Cos", x)))
GRAD(sinh, pl_g_mul(c, dy, pl_g1(c, "Cosh", x)))
GRAD(sqrt, pl_g_div(c, dy, pl_g_mul(c, y, pl_g_number(c, y, 2))))
GRAD(tan, pl_g_mul(c, dy, parabola(c, y, 1, 1)))
GRAD(tanh, pl_g_mul(c, dy, parabola(c, y, -1, 1)))
#define ceil_grad PL_GRAD_ZERO
#define floor_grad PL_GRAD_ZERO
#define round_grad PL_GRAD_ZERO

/* ---- rows ---- */

static pl_status infer_bool_like_first(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    return pl_infer_set(c, 0, PL_BOOL, rank, rank < 0 ? NULL : c->in[0]->dims);
}

#define X_ANY(types) .in = PL_PORTS({ "X", types, 0 }), .out = PL_PORTS({ "Y", types, 0 })
#define REAL(name_, since_, fn, amp, ranges)                                                       \
    {                                                                                              \
        .name = name_, .since = since_, .flags = PL_OP_ELEMENTWISE, X_ANY(PL_T_FLOAT),             \
        PL_OLD_ATTRS, .infer = pl_infer_same_as_first, .eval = fn##_eval, .grad = fn##_grad,       \
        .bound = fn##_bound, .emit = pl_emit_##fn, .autocast = amp,                                \
        .samples = PL_SAMPLES(                                                                     \
            { "(float[2,3,4] x) => (y) { y = " name_ "(x) }", ranges, 0 },                         \
            { "(float16[64] x) => (y) { y = " name_ "(x) }", ranges, PL_SAMPLE_NO_GRAD })          \
    }
/* consumed_inputs of opset 1 to 5 was a hint for in-place work; ignored. */
#define PL_OLD_ATTRS .attrs = PL_ATTRS(PL_A_LIST("consumed_inputs", INTS))

/* clang-format off */
const pl_op_def pl_ops_unary[] = {
    { .name = "Abs", .since = 1, .flags = PL_OP_ELEMENTWISE, X_ANY(PL_T_NUMERIC), PL_OLD_ATTRS,
      .infer = pl_infer_same_as_first, .eval = abs_eval, .grad = abs_grad, .bound = pass_bound, .emit = pl_emit_abs, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Abs(x) }", NULL, 0 },
                            { "(int8[5] x) => (y) { y = Abs(x) }", "x=-9:9", PL_SAMPLE_NO_GRAD }) },
    REAL("Acos", 7, acos, PL_AMP_FP32, "x=-0.9:0.9"),
    REAL("Acosh", 9, acosh, PL_AMP_KEEP, "x=1.1:4"),
    REAL("Asin", 7, asin, PL_AMP_FP32, "x=-0.9:0.9"),
    REAL("Asinh", 9, asinh, PL_AMP_KEEP, NULL),
    REAL("Atan", 7, atan, PL_AMP_KEEP, NULL),
    REAL("Atanh", 9, atanh, PL_AMP_KEEP, "x=-0.9:0.9"),
    { .name = "BitwiseNot", .since = 18, .flags = PL_OP_ELEMENTWISE, X_ANY(PL_T_INT),
      .infer = pl_infer_same_as_first, .eval = bitwise_not_eval, .grad = PL_GRAD_UNDEFINED,
      .bound = pass_bound, .emit = pl_emit_bitwise_not, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(int32[2,3] x) => (y) { y = BitwiseNot(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    REAL("Ceil", 1, ceil, PL_AMP_KEEP, NULL),
    REAL("Cos", 7, cos, PL_AMP_KEEP, NULL),
    REAL("Cosh", 9, cosh, PL_AMP_FP32, NULL),
    { .name = "Erf", .since = 9, .flags = PL_OP_ELEMENTWISE, X_ANY(PL_T_NUMERIC),
      .infer = pl_infer_same_as_first, .eval = erf_eval, .grad = erf_grad, .bound = erf_bound, .emit = pl_emit_erf, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Erf(x) }", NULL, 0 }) },
    REAL("Exp", 1, exp, PL_AMP_FP32, NULL),
    REAL("Floor", 1, floor, PL_AMP_KEEP, NULL),
    { .name = "IsInf", .since = 10, .flags = PL_OP_ELEMENTWISE,
      .in = PL_PORTS({ "X", PL_T_FLOAT | PL_T_FLOAT8, 0 }), .out = PL_PORTS({ "Y", PL_T_BOOL, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("detect_negative", 1), PL_A_INT("detect_positive", 1)),
      .infer = infer_bool_like_first, .eval = is_inf_eval, .grad = PL_GRAD_UNDEFINED,
      .bound = is_inf_bound, .emit = pl_emit_is_inf, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = IsInf<detect_negative=0>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "IsNaN", .since = 9, .flags = PL_OP_ELEMENTWISE,
      .in = PL_PORTS({ "X", PL_T_FLOAT | PL_T_FLOAT8, 0 }), .out = PL_PORTS({ "Y", PL_T_BOOL, 0 }),
      .infer = infer_bool_like_first, .eval = is_nan_eval, .grad = PL_GRAD_UNDEFINED,
      .bound = is_nan_bound, .emit = pl_emit_is_nan, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = IsNaN(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    REAL("Log", 1, log, PL_AMP_FP32, "x=0.1:4"),
    { .name = "Neg", .since = 1, .flags = PL_OP_ELEMENTWISE, X_ANY(PL_T_FLOAT | PL_T_SIGNED), PL_OLD_ATTRS,
      .infer = pl_infer_same_as_first, .eval = neg_eval, .grad = neg_grad, .bound = pass_bound, .emit = pl_emit_neg, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Neg(x) }", NULL, 0 }) },
    { .name = "Not", .since = 1, .flags = PL_OP_ELEMENTWISE, X_ANY(PL_T_BOOL),
      .infer = pl_infer_same_as_first, .eval = not_eval, .grad = PL_GRAD_UNDEFINED,
      .bound = pass_bound, .emit = pl_emit_not, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(bool[2,3] x) => (y) { y = Not(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    REAL("Reciprocal", 1, reciprocal, PL_AMP_FP32, "x=0.5:2"),
    REAL("Round", 11, round, PL_AMP_KEEP, NULL),
    { .name = "Sign", .since = 9, .flags = PL_OP_ELEMENTWISE, X_ANY(PL_T_NUMERIC),
      .infer = pl_infer_same_as_first, .eval = sign_eval, .grad = PL_GRAD_ZERO,
      .bound = sign_bound, .emit = pl_emit_sign, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Sign(x) }", NULL, 0 }) },
    REAL("Sin", 7, sin, PL_AMP_KEEP, NULL),
    REAL("Sinh", 9, sinh, PL_AMP_FP32, NULL),
    REAL("Sqrt", 1, sqrt, PL_AMP_KEEP, "x=0.1:4"),
    REAL("Tan", 7, tan, PL_AMP_FP32, "x=-1:1"),
    REAL("Tanh", 1, tanh, PL_AMP_KEEP, NULL),
    { 0 },
};
/* clang-format on */

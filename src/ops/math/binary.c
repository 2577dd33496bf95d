/* Arithmetic of two or more inputs, with broadcasting.
 *
 * Floats go to the vector maths of src/kernels. Integers wrap; division truncates towards zero and
 * division and remainder by zero give 0 (as in NumPy; ONNX does not define it). Broadcasting before
 * opset 7: legacy_broadcast.h. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernels/soft.h"
#include "kernels/vmath.h"
#include "ops/grad.h"
#include "ops/infer.h"
#include "ops/lib/content_map.h"
#include "ops/lib/elementwise.h"
#include "ops/lib/legacy_broadcast.h"
#include "ops/math/binary_rules.h"

extern const pl_op_def pl_ops_binary[];

/* ---- formulas ---- */

/* fn: two arrays, fn_s: an array and a scalar, fn_r: a scalar and an array. */
#define VMATH_LOOP(name, T, F, scalar, fn, fn_s, fn_r)                                             \
    static void name(const void *p, const T *x, size_t sx, const T *y, size_t sy, T *z,            \
                     size_t n) {                                                                   \
        (void)p;                                                                                   \
        if (sx != 0 && sy != 0) {                                                                  \
            pl_vmath_get()->F.fn(x, y, z, n);                                                      \
        } else if (sx != 0) {                                                                      \
            pl_vmath_get()->F.fn_s(x, y[0], z, n);                                                 \
        } else if (sy != 0) {                                                                      \
            pl_vmath_get()->F.fn_r(y, x[0], z, n);                                                 \
        } else {                                                                                   \
            scalar r;                                                                              \
            pl_vmath_get()->F.fn(x, y, &r, 1);                                                     \
            for (size_t i = 0; i < n; i++)                                                         \
                z[i] = r;                                                                          \
        }                                                                                          \
    }
#define VMATH(name, fn, fn_s, fn_r)                                                                \
    VMATH_LOOP(name##_f32, pl_f32, f32, float, fn, fn_s, fn_r)                                     \
    VMATH_LOOP(name##_f64, pl_f64, f64, double, fn, fn_s, fn_r)

VMATH(add, add, add_s, add_s)
VMATH(sub, sub, sub_s, rsub_s)
VMATH(mul, mul, mul_s, mul_s)
VMATH(div, div, div_s, rdiv_s)
VMATH(max, max, max_s, max_s)
VMATH(min, min, min_s, min_s)

PL_BINARY_LOOP(add_i64, pl_i64, pl_i64, (uint64_t)x + (uint64_t)y)
PL_BINARY_LOOP(sub_i64, pl_i64, pl_i64, (uint64_t)x - (uint64_t)y)
PL_BINARY_LOOP(mul_i64, pl_i64, pl_i64, (uint64_t)x *(uint64_t)y)
PL_BINARY_LOOP(max_i64, pl_i64, pl_i64, x > y ? x : y)
PL_BINARY_LOOP(max_u64, pl_u64, pl_u64, x > y ? x : y)
PL_BINARY_LOOP(min_i64, pl_i64, pl_i64, x < y ? x : y)
PL_BINARY_LOOP(min_u64, pl_u64, pl_u64, x < y ? x : y)

static int64_t divide(int64_t x, int64_t y) {
    if (y == 0) return 0;
    return y == -1 ? (int64_t)(0u - (uint64_t)x) : x / y; /* INT64_MIN wraps */
}
PL_BINARY_LOOP(div_i64, pl_i64, pl_i64, divide(x, y))
PL_BINARY_LOOP(div_u64, pl_u64, pl_u64, y == 0 ? 0 : x / y)

static const pl_binary_ops add_ops = { .f32 = add_f32, .f64 = add_f64, .i64 = add_i64 };
static const pl_binary_ops sub_ops = { .f32 = sub_f32, .f64 = sub_f64, .i64 = sub_i64 };
static const pl_binary_ops mul_ops = { .f32 = mul_f32, .f64 = mul_f64, .i64 = mul_i64 };
static const pl_binary_ops div_ops = {
    .f32 = div_f32, .f64 = div_f64, .i64 = div_i64, .u64 = div_u64
};
static const pl_binary_ops max_ops = {
    .f32 = max_f32, .f64 = max_f64, .i64 = max_i64, .u64 = max_u64
};
static const pl_binary_ops min_ops = {
    .f32 = min_f32, .f64 = min_f64, .i64 = min_i64, .u64 = min_u64
};

/* Mod with fmod=0 has the sign of the divisor, as Python's %; with fmod=1 that of the dividend. */
static int64_t modulo(int64_t x, int64_t y) {
    if (y == 0 || y == -1) return 0;
    const int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static int64_t remainder_of(int64_t x, int64_t y) {
    return y == 0 || y == -1 ? 0 : x % y;
}
PL_BINARY_LOOP(mod_i64, pl_i64, pl_i64, modulo(x, y))
PL_BINARY_LOOP(rem_i64, pl_i64, pl_i64, remainder_of(x, y))
PL_BINARY_LOOP(mod_u64, pl_u64, pl_u64, y == 0 ? 0 : x % y)
PL_BINARY_LOOP(rem_f32, pl_f32, pl_f32, fmodf(x, y))
PL_BINARY_LOOP(rem_f64, pl_f64, pl_f64, fmod(x, y))
/* Mod-10 to -13 require fmod=1 for floats, but models (and ONNX's own tests of 1.5) leave it 0. */
static double modulo_float(double x, double y) {
    const double r = fmod(x, y);
    if (r == 0) return copysign(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}
PL_BINARY_LOOP(mod_f64, pl_f64, pl_f64, modulo_float(x, y))

/* BitShift: only unsigned types, which arrive zero-extended; bits shifted out are lost. */
PL_BINARY_LOOP(left_i64, pl_i64, pl_i64, (uint64_t)y > 63 ? 0 : (uint64_t)x << y)
PL_BINARY_LOOP(right_i64, pl_i64, pl_i64, (uint64_t)y > 63 ? 0 : (uint64_t)x >> y)

PL_BINARY_LOOP(prelu_f32, pl_f32, pl_f32, x < 0 ? y * x : x)
PL_BINARY_LOOP(prelu_f64, pl_f64, pl_f64, x < 0 ? y * x : x)
PL_BINARY_LOOP(prelu_i64, pl_i64, pl_i64, x < 0 ? (int64_t)((uint64_t)y * (uint64_t)x) : x)
PL_BINARY_LOOP(prelu_u64, pl_u64, pl_u64, ((void)y, x))

/* ---- kernels: two inputs ---- */

static pl_status add_eval(pl_eval *c) {
    return pl_eval_two(c, &add_ops);
}
static pl_status sub_eval(pl_eval *c) {
    return pl_eval_two(c, &sub_ops);
}
static pl_status mul_eval(pl_eval *c) {
    return pl_eval_two(c, &mul_ops);
}
static pl_status div_eval(pl_eval *c) {
    return pl_eval_two(c, &div_ops);
}

static pl_status mod_eval(pl_eval *c) {
    static const pl_binary_ops python = { .f64 = mod_f64, .i64 = mod_i64, .u64 = mod_u64 };
    static const pl_binary_ops as_c = {
        .f32 = rem_f32, .f64 = rem_f64, .i64 = rem_i64, .u64 = mod_u64
    };
    return pl_eval_binary(c, pl_attr_int(c->node, "fmod") != 0 ? &as_c : &python, NULL);
}

static pl_status bit_shift_eval(pl_eval *c) {
    static const pl_binary_ops left = { .i64 = left_i64 }, right = { .i64 = right_i64 };
    return pl_eval_binary(c, pl_attr_string_is(c->node, "direction", "LEFT") ? &left : &right,
                          NULL);
}

/* PRelu-1 and -6: a slope of one dim is per channel. */
static bool slope_is_per_channel(int opset, int rank_x, int rank_slope) {
    return opset < 7 && rank_slope == 1 && rank_x > 1;
}

static pl_status prelu_eval(pl_eval *c) {
    static const pl_binary_ops ops = {
        .f32 = prelu_f32, .f64 = prelu_f64, .i64 = prelu_i64, .u64 = prelu_u64
    };
    const pl_tensor *x = pl_in(c, 0), *slope = pl_in(c, 1);
    if (!slope_is_per_channel(c->node->opset, x->rank, slope->rank)) {
        return pl_eval_binary(c, &ops, NULL);
    }
    int64_t dims[PL_RANK_MAX] = { slope->dims[0] };
    for (int d = 1; d < x->rank - 1; d++)
        dims[d] = 1;
    pl_tensor *view = NULL;
    PL_TRY(pl_tensor_reshape(slope, x->rank - 1, dims, &view, c->err));
    const pl_status st = pl_eval_binary_on(c, &ops, NULL, x, view, pl_out(c, 0));
    pl_tensor_unref(view);
    return st;
}

/* ---- Pow ---- */

/* Squares and square roots are common and powers slow. 0.5: pow(-0, .5) is +0, pow(-inf, .5) is
 * +inf. */
#define POW_LOOP(name, T, EXPR)                                                                    \
    for (size_t i = 0; i < n; i++) {                                                               \
        const T v = x[i];                                                                          \
        y[i] = (EXPR);                                                                             \
    }
static void pow_scalar_f32(const void *p, const pl_f32 *x, pl_f32 *y, size_t n) {
    const double e = *(const double *)p;
    const float f = (float)e;
    if (e == 2) {
        POW_LOOP(y, float, v *v)
    } else if (e == 3) {
        POW_LOOP(y, float, v *v *v)
    } else if (e == 0.5) {
        POW_LOOP(y, float, v == -INFINITY ? INFINITY : sqrtf(v) + 0.0f)
    } else if ((double)f == e || isnan(e)) {
        POW_LOOP(y, float, (float)pl_soft_pow((double)v, (double)f))
    } else {
        POW_LOOP(y, float, (float)pl_soft_pow((double)v, e))
    }
}
static void pow_scalar_f64(const void *p, const pl_f64 *x, pl_f64 *y, size_t n) {
    const double e = *(const double *)p;
    if (e == 2) {
        POW_LOOP(y, double, v *v)
    } else {
        POW_LOOP(y, double, pow(v, e))
    }
}

/* A negative exponent gives the truncated quotient 1/x^n, and 0 for a base of 0. */
static int64_t power(int64_t x, int64_t n) {
    if (n < 0) {
        if (x == 1) return 1;
        return x == -1 ? (n % 2 == 0 ? 1 : -1) : 0;
    }
    uint64_t base = (uint64_t)x, result = 1;
    for (; n > 0; n >>= 1) {
        if ((n & 1) != 0) result *= base;
        base *= base;
    }
    return (int64_t)result;
}
PL_BINARY_LOOP(pow_i64, pl_i64, pl_i64, power(x, y))
PL_BINARY_LOOP(pow_f32, pl_f32, pl_f32, (float)pl_soft_pow((double)x, (double)y))
PL_BINARY_LOOP(pow_f64, pl_f64, pl_f64, pow(x, y))

/* Common type of both operands: float if both fit into it, else double. */
static pl_dtype pow_dtype(pl_dtype base, pl_dtype exponent) {
    if (pl_dtype_is_integer(base) && pl_dtype_is_integer(exponent)) return PL_I64;
    const bool base_fits = base == PL_F32 || base == PL_F16 || base == PL_BF16;
    const bool exponent_fits = exponent == PL_F32 || exponent == PL_F16 || exponent == PL_BF16;
    return base_fits && exponent_fits ? PL_F32 : PL_F64;
}

static pl_status as_dtype(const pl_tensor *t, pl_dtype dtype, pl_tensor **out, pl_err *err) {
    if (t->dtype != dtype) return pl_tensor_cast(t, dtype, out, err);
    *out = pl_tensor_ref(t);
    return PL_OK;
}

static pl_status pow_eval(pl_eval *c) {
    static const pl_unary_ops scalar = { .f32 = pow_scalar_f32, .f64 = pow_scalar_f64 };
    static const pl_binary_ops ops = { .f32 = pow_f32, .f64 = pow_f64, .i64 = pow_i64 };
    const pl_tensor *x = pl_in(c, 0), *y = pl_in(c, 1);
    if (y->n_elements == 1 && pl_dtype_is_float(x->dtype)) {
        const double e = pl_tensor_get_f64(y, 0);
        return pl_eval_unary(c, &scalar, &e);
    }
    pl_tensor *operand = NULL, *base = NULL, *exponent = NULL;
    pl_status st = PL_OK;
    const pl_dtype dtype = pow_dtype(x->dtype, y->dtype);
    if (c->node->opset < 7) {
        PL_TRY_GOTO(done, st, pl_legacy_operand(c, &operand));
    } else {
        operand = pl_tensor_ref(y);
    }
    PL_TRY_GOTO(done, st, as_dtype(x, dtype, &base, c->err));
    PL_TRY_GOTO(done, st, as_dtype(operand, dtype, &exponent, c->err));
    st = pl_eval_binary_on(c, &ops, NULL, base, exponent, pl_out(c, 0));
done:
    pl_tensor_unref(operand);
    pl_tensor_unref(base);
    pl_tensor_unref(exponent);
    return st;
}

/* ---- kernels: any number of inputs ---- */

static pl_status fold_inputs(pl_eval *c, const pl_binary_ops *ops, pl_tensor *z) {
    const size_t bytes = pl_tensor_bytes(z);
    if (c->n_in == 1 && bytes > 0) memcpy(z->data, pl_in(c, 0)->data, bytes);
    if (c->n_in > 1) PL_TRY(pl_eval_binary_on(c, ops, NULL, pl_in(c, 0), pl_in(c, 1), z));
    for (int i = 2; i < c->n_in; i++) {
        PL_TRY(pl_eval_binary_on(c, ops, NULL, z, pl_in(c, i), z));
    }
    return PL_OK;
}

static pl_status max_eval(pl_eval *c) {
    return fold_inputs(c, &max_ops, pl_out(c, 0));
}
static pl_status min_eval(pl_eval *c) {
    return fold_inputs(c, &min_ops, pl_out(c, 0));
}

static pl_status divide_by_count(pl_eval *c, pl_tensor *z) {
    pl_tensor *count = NULL;
    PL_TRY(pl_tensor_new(z->dtype, 0, NULL, &count, c->err));
    const double n = c->n_in;
    pl_store_f64(z->dtype, &n, count->data, 1);
    const pl_status st = pl_eval_binary_on(c, &div_ops, NULL, z, count, z);
    pl_tensor_unref(count);
    return st;
}

/* 16-bit floats: summed in float and rounded once. */
static pl_status add_wide(pl_eval *c, bool mean) {
    pl_tensor *z = pl_out(c, 0), *sum = NULL, *x = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_tensor_new_zero(PL_F32, z->rank, z->dims, &sum, c->err));
    for (int i = 0; i < c->n_in; i++) {
        PL_TRY_GOTO(done, st, pl_tensor_cast(pl_in(c, i), PL_F32, &x, c->err));
        PL_TRY_GOTO(done, st, pl_eval_binary_on(c, &add_ops, NULL, sum, x, sum));
        pl_tensor_unref(x);
        x = NULL;
    }
    if (mean) PL_TRY_GOTO(done, st, divide_by_count(c, sum));
    pl_store_f32(z->dtype, sum->data, z->data, (size_t)z->n_elements);
done:
    pl_tensor_unref(sum);
    pl_tensor_unref(x);
    return st;
}

static pl_status add_all(pl_eval *c, bool mean) {
    pl_tensor *z = pl_out(c, 0);
    const bool is_wide = z->dtype == PL_F32 || z->dtype == PL_F64;
    if (!is_wide && c->n_in > 1) return add_wide(c, mean);
    PL_TRY(fold_inputs(c, &add_ops, z));
    return mean && c->n_in > 1 ? divide_by_count(c, z) : PL_OK;
}
static pl_status sum_eval(pl_eval *c) {
    return add_all(c, false);
}
static pl_status mean_eval(pl_eval *c) {
    return add_all(c, true);
}

/* ---- shape arithmetic ---- */

static bool compute(int op, int64_t a, int64_t b, int64_t *out) {
    switch (op) {
    case '+': return pl_i64_add(a, b, out);
    case '-': return b != INT64_MIN && pl_i64_add(a, -b, out);
    case '*': return pl_i64_mul(a, b, out);
    case '/': *out = divide(a, b); return b != 0;
    default: return false;
    }
}

/* A symbol is kept when the other operand is neutral. */
static pl_element combine(int op, const pl_element *in) {
    const pl_element a = in[0], b = in[1];
    int64_t value = 0;
    if (a.known && b.known) {
        return compute(op, a.dim.value, b.dim.value, &value) ? pl_element_of(value)
                                                             : PL_ELEMENT_UNKNOWN;
    }
    const int64_t neutral = op == '+' || op == '-' ? 0 : 1;
    if (b.known && b.dim.value == neutral) return a;
    if (a.known && a.dim.value == neutral && (op == '+' || op == '*')) return b;
    return PL_ELEMENT_UNKNOWN;
}

/* ---- shape rules ---- */

static pl_status arith_infer(pl_infer *c, int op) {
    if (c->node->opset < 7) return pl_infer_legacy_broadcast(c, pl_infer_dtype_of(c, 0));
    PL_TRY(pl_infer_broadcast(c));
    return pl_content_map(c, 2, combine, op);
}
static pl_status add_infer(pl_infer *c) {
    return arith_infer(c, '+');
}
static pl_status sub_infer(pl_infer *c) {
    return arith_infer(c, '-');
}
static pl_status mul_infer(pl_infer *c) {
    return arith_infer(c, '*');
}
static pl_status div_infer(pl_infer *c) {
    return arith_infer(c, '/');
}
static pl_status pow_infer(pl_infer *c) {
    if (c->node->opset < 7) return pl_infer_legacy_broadcast(c, pl_infer_dtype_of(c, 0));
    return pl_infer_broadcast(c);
}

static pl_status bit_shift_infer(pl_infer *c) {
    if (!pl_attr_string_is(c->node, "direction", "LEFT") &&
        !pl_attr_string_is(c->node, "direction", "RIGHT")) {
        const pl_string s = pl_attr_string(c->node, "direction");
        return pl_infer_fail(c, "direction is '%.*s', expected LEFT or RIGHT",
                             (int)pl_size_min(s.n_bytes, 40), s.data);
    }
    return pl_infer_broadcast(c);
}

static pl_status variadic_infer(pl_infer *c) {
    for (int i = 0; i < c->n_in; i++) {
        if (!pl_infer_has(c, i)) return pl_infer_fail(c, "input %d is left out", i);
    }
    return pl_infer_broadcast(c);
}

/* The slope is broadcast to X, not the other way round. */
static pl_status prelu_infer(pl_infer *c) {
    const int rx = pl_infer_rank(c, 0), rs = pl_infer_rank(c, 1);
    PL_TRY(pl_infer_set_like(c, 0, 0));
    if (rx < 0 || rs < 0) return PL_OK;
    const int first = slope_is_per_channel(c->node->opset, rx, rs) ? 1 : rx - rs;
    if (first < 0) return pl_infer_fail(c, "slope has rank %d, but X only %d", rs, rx);
    for (int d = 0; d < rs; d++) {
        const pl_dim x = pl_infer_dim(c, 0, first + d), s = pl_infer_dim(c, 1, d);
        if (!pl_dim_known(s) || s.value == 1 || !pl_dim_known(x) || x.value == s.value) continue;
        return pl_infer_fail(c, "dim %d of slope is %lld, expected 1 or %lld", d,
                             (long long)s.value, (long long)x.value);
    }
    return PL_OK;
}

/* ---- by what a constant multiplies ---- */

static double mul_scale(const pl_node *node, int64_t channel) {
    const pl_tensor *t = pl_g_known(node->in[1]);
    if (t == NULL || (channel >= t->n_elements && t->n_elements != 1)) return 1;
    return fabs(pl_tensor_get_f64(t, t->n_elements == 1 ? 0 : channel));
}

static double div_scale(const pl_node *node, int64_t channel) {
    return 1 / mul_scale(node, channel);
}

/* ---- rows ---- */

#define AB(ta, tb) AB_OF(ta, tb, 0)
#define AB_OF(ta, tb, meaning)                                                                     \
    .in = PL_PORTS({ "A", ta, PL_PORT_SAME }, { "B", tb, PL_PORT_SAME | (meaning) }),              \
    .out = PL_PORTS({ "C", ta, 0 })
#define TEXT(name, type, attrs)                                                                    \
    "(" type "[2,3,4] a, " type "[4] b) => (c) { c = " name attrs "(a, b) }"
#define ARITH(name_, fn, bound_, flags_, folds_, ranges)                                           \
    ARITH_OF(name_, fn, bound_, flags_, folds_, ranges, 0)
#define ARITH_OF(name_, fn, bound_, flags_, folds_, ranges, meaning)                               \
    { .name = name_,                                                                               \
      .since = 7,                                                                                  \
      .flags = PL_OP_ELEMENTWISE | PL_OP_SHAPE | (flags_),                                         \
      AB_OF(PL_T_NUMERIC, PL_T_NUMERIC, meaning),                                                  \
      .infer = fn##_infer,                                                                         \
      .eval = fn##_eval,                                                                           \
      .grad = pl_##fn##_grad,                                                                      \
      .bound = bound_,                                                                             \
      .emit = pl_emit_##fn,                                                                        \
      .autocast = PL_AMP_WIDEST,                                                                   \
      .folds = folds_,                                                                             \
      .samples = PL_SAMPLES(                                                                       \
          { TEXT(name_, "float", ""), ranges, 0 },                                                 \
          { "(float[3,1] a, float[2,1,4] b) => (c) { c = " name_ "(a, b) }", ranges, 0 },          \
          { TEXT(name_, "int64", ""), "b=1:9", PL_SAMPLE_NO_GRAD }) },                             \
    {                                                                                              \
        .name = name_, .since = 1, .until = 6,                                                     \
        .flags = PL_OP_ELEMENTWISE | PL_OP_SHAPE | ((flags_)&PL_OP_TIMES),                         \
        AB(PL_T_NUMERIC, PL_T_NUMERIC), .attrs = PL_ATTRS(PL_LEGACY_ATTRS), .infer = fn##_infer,   \
        .eval = fn##_eval, .grad = pl_##fn##_grad, .bound = bound_, .emit = pl_emit_##fn,          \
        .autocast = PL_AMP_WIDEST, .folds = folds_,                                                \
        .samples = PL_SAMPLES({ TEXT(name_, "float", "<broadcast=1>"), ranges, 0 },                \
                              { "(float[2,3,4] a, float[3] b) => (c) { c = " name_                 \
                                "<broadcast=1, axis=1>(a, b) }",                                   \
                                ranges, 0 })                                                       \
    }
#define VARIADIC(name_, fn, types, flags_, bound_, grad_, nan_)                                    \
    {                                                                                              \
        .name = name_, .since = 1, .flags = PL_OP_ELEMENTWISE | PL_OP_COMMUTATIVE | (flags_),      \
        .in = PL_PORTS({ "data_0", types, PL_PORT_SAME | PL_PORT_VARIADIC }),                      \
        .out = PL_PORTS({ "out", types, 0 }),                                                      \
        .attrs = PL_ATTRS(PL_A_LIST("consumed_inputs", INTS)), .infer = variadic_infer,            \
        .eval = fn##_eval, .grad = grad_, .bound = bound_, .emit = pl_emit_##fn,                   \
        .autocast = PL_AMP_WIDEST, .nan = nan_,                                                    \
        .samples = PL_SAMPLES(                                                                     \
            { "(float[2,3] a, float[2,3] b, float[2,3] c) => (y) { y = " name_ "(a, b, c) }",      \
              NULL, 0 },                                                                           \
            { "(float[2,3] a) => (y) { y = " name_ "(a) }", NULL, 0 },                             \
            { "(float[2,1,3] a, float[4,1] b, float c) => (y) { y = " name_ "(a, b, c) }", NULL,   \
              0 })                                                                                 \
    }
#define POW_BASE (PL_T_FLOAT | PL_T_INDEX)

/* clang-format off */
const pl_op_def pl_ops_binary[] = {
    ARITH("Add", add, pl_add_bound, PL_OP_COMMUTATIVE, NULL, NULL),
    { .name = "BitShift", .since = 11, .flags = PL_OP_ELEMENTWISE,
      .in = PL_PORTS({ "X", PL_T_UNSIGNED, PL_PORT_SAME }, { "Y", PL_T_UNSIGNED, PL_PORT_SAME }),
      .out = PL_PORTS({ "Z", PL_T_UNSIGNED, 0 }), .attrs = PL_ATTRS(PL_A_REQUIRED("direction", STRING)),
      .infer = bit_shift_infer, .eval = bit_shift_eval, .grad = PL_GRAD_UNDEFINED,
      .bound = pl_bits_bound, .emit = pl_emit_bit_shift, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ TEXT("BitShift", "uint8", "<direction=\"LEFT\">"), NULL, PL_SAMPLE_NO_GRAD },
                            { TEXT("BitShift", "uint64", "<direction=\"RIGHT\">"), NULL, PL_SAMPLE_NO_GRAD }) },
    ARITH_OF("Div", div, pl_div_bound, 0, div_scale, "b=0.5:2", PL_PORT_POSITIVE),
    VARIADIC("Max", max, PL_T_NUMERIC, PL_OP_SHAPE, pl_extreme_bound, pl_extreme_grad, PL_NAN_EITHER),
    VARIADIC("Mean", mean, PL_T_FLOAT, 0, pl_mean_bound, pl_mean_grad, PL_NAN_TOLD),
    VARIADIC("Min", min, PL_T_NUMERIC, PL_OP_SHAPE, pl_extreme_bound, pl_extreme_grad, PL_NAN_EITHER),
    { .name = "Mod", .since = 10, .flags = PL_OP_ELEMENTWISE | PL_OP_SHAPE, AB_OF(PL_T_NUMERIC, PL_T_NUMERIC, PL_PORT_POSITIVE),
      .attrs = PL_ATTRS(PL_A_INT("fmod", 0)), .infer = pl_infer_broadcast, .eval = mod_eval, .grad = pl_mod_grad, .bound = pl_mod_bound, .emit = pl_emit_mod,
      .autocast = PL_AMP_WIDEST,
      .samples = PL_SAMPLES({ TEXT("Mod", "int32", ""), "a=-9:9 b=-5:5", PL_SAMPLE_NO_GRAD },
                            { TEXT("Mod", "float", "<fmod=1>"), "b=0.5:2", 0 },
                            { TEXT("Mod", "float", ""), "b=0.5:2", 0 }) },
    ARITH("Mul", mul, pl_mul_bound, PL_OP_COMMUTATIVE | PL_OP_TIMES, mul_scale, NULL),
    { .name = "PRelu", .since = 7, .flags = PL_OP_ELEMENTWISE,
      .in = PL_PORTS({ "X", PL_T_FLOAT | PL_T_INT, PL_PORT_SAME }, { "slope", PL_T_FLOAT | PL_T_INT, PL_PORT_SAME }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT | PL_T_INT, 0 }), .infer = prelu_infer, .eval = prelu_eval,
      .grad = pl_prelu_grad, .bound = pl_prelu_bound, .emit = pl_emit_prelu, .autocast = PL_AMP_LOW, .reach = PL_REACH_SIGNS,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[3,1] s) => (y) { y = PRelu(x, s) }", NULL, 0 }) },
    { .name = "PRelu", .since = 1, .until = 6, .flags = PL_OP_ELEMENTWISE,
      .in = PL_PORTS({ "X", PL_T_FLOAT, PL_PORT_SAME }, { "slope", PL_T_FLOAT, PL_PORT_SAME }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }), .attrs = PL_ATTRS(PL_A_LIST("consumed_inputs", INTS)),
      .infer = prelu_infer, .eval = prelu_eval, .grad = pl_prelu_grad, .bound = pl_prelu_bound, .emit = pl_emit_prelu, .autocast = PL_AMP_LOW, .reach = PL_REACH_SIGNS,
      .samples = PL_SAMPLES({ "(float[2,3,4] x, float[3] s) => (y) { y = PRelu(x, s) }", NULL, 0 },
                            { "(float[2,3,4] x, float[1] s) => (y) { y = PRelu(x, s) }", NULL, 0 }) },
    { .name = "Pow", .since = 7, .flags = PL_OP_ELEMENTWISE,
      .in = PL_PORTS({ "X", POW_BASE, 0 }, { "Y", PL_T_NUMERIC, PL_PORT_EXPONENT }), .out = PL_PORTS({ "Z", POW_BASE, 0 }),
      .infer = pow_infer, .eval = pow_eval, .grad = pl_pow_grad, .bound = pl_pow_bound, .emit = pl_emit_pow, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2,3] x, float[3] y) => (z) { z = Pow(x, y) }", "x=0.5:2 y=-2:2", 0 },
                            { "(float[2,3] x) => (z) <float y = {2}> { z = Pow(x, y) }", NULL, 0 },
                            { "(float[2,3] x) => (z) <int64[3] y = {3,0,1}> { z = Pow(x, y) }", NULL, 0 },
                            { "(float16[4,8] x) => (z) <float16 y = {0.5}> { z = Pow(x, y) }", "x=0:9", PL_SAMPLE_NO_GRAD },
                            { "(int64[2,3] x, int64[3] y) => (z) { z = Pow(x, y) }", "x=0:4 y=0:4", PL_SAMPLE_NO_GRAD }) },
    { .name = "Pow", .since = 1, .until = 6, .flags = PL_OP_ELEMENTWISE,
      .in = PL_PORTS({ "X", PL_T_FLOAT, PL_PORT_SAME }, { "Y", PL_T_FLOAT, PL_PORT_SAME }),
      .out = PL_PORTS({ "Z", PL_T_FLOAT, 0 }), .attrs = PL_ATTRS(PL_LEGACY_ATTRS),
      .infer = pow_infer, .eval = pow_eval, .grad = pl_pow_grad, .bound = pl_pow_bound, .emit = pl_emit_pow, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2,3] x, float[2,3] y) => (z) { z = Pow(x, y) }", "x=0.5:2 y=-2:2", 0 },
                            { "(float[2,3] x, float[2] y) => (z) { z = Pow<broadcast=1, axis=0>(x, y) }", "x=0.5:2 y=-2:2", 0 }) },
    ARITH("Sub", sub, pl_add_bound, 0, NULL, NULL),
    VARIADIC("Sum", sum, PL_T_FLOAT, 0, pl_sum_bound, pl_sum_grad, PL_NAN_TOLD),
    { 0 },
};
/* clang-format on */

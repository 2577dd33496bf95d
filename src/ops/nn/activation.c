/* Activation functions, Clip and Dropout.
 *
 * NaN passes through all of them. Where the specification has exp(x) - 1 this uses expm1: the same
 * function without cancellation near 0. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/vmath.h"
#include "ops/infer.h"
#include "ops/lib/elementwise.h"
#include "ops/nn/activation_rules.h"

extern const pl_op_def pl_ops_activation[];

typedef struct params { /* attributes as the formulas use them */
    double a, b;
} params;

/* ---- formulas of one element ---- */

/* a and b are copied first: stores to y might alias them, and the loop would not vectorise. */
#define LOOP(name, F, T, EXPR)                                                                     \
    static void name(const void *p, const pl_##F *x_, pl_##F *y_, size_t n) {                      \
        const params *q = p;                                                                       \
        const T a = q == NULL ? 0 : (T)q->a, b = q == NULL ? 0 : (T)q->b;                          \
        (void)a, (void)b;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T x = x_[i];                                                                     \
            y_[i] = (EXPR);                                                                        \
        }                                                                                          \
    }
#define FORMULA(name, EXPR_F32, EXPR_F64)                                                          \
    LOOP(name##_f32, f32, float, EXPR_F32)                                                         \
    LOOP(name##_f64, f64, double, EXPR_F64)
#define FORMULA_BOTH(name, EXPR) FORMULA(name, EXPR, EXPR)

static float unit_f32(float x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}
static double unit_f64(double x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

FORMULA_BOTH(leaky_relu, x < 0 ? a * x : x)
FORMULA_BOTH(thresholded_relu, x > a || isnan(x) ? x : 0)
FORMULA(softsign, x / (1 + fabsf(x)), x / (1 + fabs(x)))
FORMULA(hard_sigmoid, unit_f32(a *x + b), unit_f64(a *x + b))
/* HardSwish-14: alpha 1/6, beta 1/2. */
FORMULA(hard_swish, x *unit_f32(x *(1.0f / 6) + 0.5f), x *unit_f64(x *(1.0 / 6) + 0.5))
/* a is lambd, b is bias. */
FORMULA_BOTH(shrink, (x < -a) ? x + b : (x > a) ? x - b : isnan(x) ? x : 0)

#define OPS(name) static const pl_unary_ops name##_ops = { .f32 = name##_f32, .f64 = name##_f64 };
OPS(leaky_relu)
OPS(thresholded_relu)
OPS(softsign)
OPS(hard_sigmoid)
OPS(hard_swish)

/* ---- formulas of blocks: the vector maths ---- */

enum { BLOCK = 512 };

#define VMATH(name, fn)                                                                            \
    PL_UNARY_VMATH(name, fn)                                                                       \
    static const pl_unary_ops name##_ops = { .f32 = name##_f32, .f64 = name##_f64 };
VMATH(gelu_erf, gelu_erf)
VMATH(gelu_tanh, gelu_tanh)
VMATH(sigmoid, sigmoid)
VMATH(silu, silu)
VMATH(softplus, softplus)

/* Elu, Celu and Selu: x < 0 ? negative * (exp(x / width) - 1) : positive * x. */
typedef struct elu_params {
    double width, negative, positive;
} elu_params;
/* exp(x) - 1 is 2t / (1 - t) with t = tanh(x / 2), as accurate as t for x <= 0. */
static void elu_f32(const void *p, const pl_f32 *x, pl_f32 *y, size_t n) {
    const elu_params *a = p;
    const float width = (float)a->width, negative = (float)a->negative;
    const float positive = (float)a->positive;
    float t[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t m = n - at < BLOCK ? n - at : BLOCK;
        for (size_t i = 0; i < m; i++)
            t[i] = (x[at + i] < 0 ? x[at + i] : 0) / width * 0.5f;
        pl_vmath_get()->f32.tanh(t, t, m);
        for (size_t i = 0; i < m; i++) {
            const float v = x[at + i];
            const float below = negative * (2 * t[i] / (1 - t[i])), above = positive * v;
            y[at + i] = v < 0 ? below : above;
        }
    }
}
static void elu_f64(const void *p, const pl_f64 *x, pl_f64 *y, size_t n) {
    const elu_params *a = p;
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] < 0 ? a->negative * expm1(x[i] / a->width) : a->positive * x[i];
    }
}

/* Mish-18: x * tanh(log(1 + w)) with w = e^x is x * n / (n + 2) with n = w * (w + 2), which needs
 * one exponential and no cancellation. From x = 20 the factor is 1 in float, from 40 in double. */
#define MISH(name, T, F, LARGE)                                                                    \
    static void name(const void *p, const pl_##F *x, pl_##F *y, size_t n) {                        \
        (void)p;                                                                                   \
        T w[BLOCK];                                                                                \
        for (size_t at = 0; at < n; at += BLOCK) {                                                 \
            const size_t m = n - at < BLOCK ? n - at : BLOCK;                                      \
            pl_vmath_get()->F.exp(x + at, w, m);                                                   \
            for (size_t i = 0; i < m; i++) {                                                       \
                const T v = x[at + i], t = w[i] * (w[i] + 2);                                      \
                y[at + i] = v > (LARGE) ? v : v * (t / (t + 2));                                   \
            }                                                                                      \
        }                                                                                          \
    }
MISH(mish_f32, float, f32, 20)
MISH(mish_f64, double, f64, 40)
static const pl_unary_ops mish_ops = { .f32 = mish_f32, .f64 = mish_f64 };

/* Swish-24: x * sigmoid(alpha * x). */
#define SWISH(name, T, F)                                                                          \
    static void name(const void *p_, const pl_##F *x, pl_##F *y, size_t n) {                       \
        const T alpha = (T)((const params *)p_)->a;                                                \
        T t[BLOCK];                                                                                \
        for (size_t at = 0; at < n; at += BLOCK) {                                                 \
            const size_t m = n - at < BLOCK ? n - at : BLOCK;                                      \
            pl_vmath_get()->F.mul_s(x + at, alpha, t, m);                                          \
            pl_vmath_get()->F.sigmoid(t, t, m);                                                    \
            pl_vmath_get()->F.mul(x + at, t, y + at, m);                                           \
        }                                                                                          \
    }
SWISH(swish_f32, float, f32)
SWISH(swish_f64, double, f64)
static const pl_unary_ops swish_ops = { .f32 = swish_f32, .f64 = swish_f64 };

static void relu_f32(const void *p, const pl_f32 *x, pl_f32 *y, size_t n) {
    (void)p;
    pl_vmath_get()->f32.max_s(x, 0, y, n);
}
static void relu_f64(const void *p, const pl_f64 *x, pl_f64 *y, size_t n) {
    (void)p;
    pl_vmath_get()->f64.max_s(x, 0, y, n);
}
static void relu_i64(const void *p, const pl_i64 *x, pl_i64 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
}

/* ---- kernels ---- */

static pl_status relu_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .f32 = relu_f32, .f64 = relu_f64, .i64 = relu_i64 };
    return pl_eval_unary(c, &ops, NULL);
}

#define SIMPLE(name)                                                                               \
    static pl_status name##_eval(pl_eval *c) {                                                     \
        return pl_eval_unary(c, &name##_ops, &(const params){ 0, 0 });                             \
    }
#define WITH_ALPHA(name)                                                                           \
    static pl_status name##_eval(pl_eval *c) {                                                     \
        const params p = { pl_attr_float(c->node, "alpha"), 0 };                                   \
        return pl_eval_unary(c, &name##_ops, &p);                                                  \
    }
WITH_ALPHA(leaky_relu)
WITH_ALPHA(thresholded_relu)
SIMPLE(softsign)
SIMPLE(hard_swish)
SIMPLE(mish)
SIMPLE(sigmoid)
SIMPLE(softplus)

static pl_status eval_elu(pl_eval *c, double width, double negative, double positive) {
    static const pl_unary_ops ops = { .f32 = elu_f32, .f64 = elu_f64 };
    static const pl_unary_ops in_double = { .f64 = elu_f64 };
    const elu_params p = { width, negative, positive };
    return pl_eval_unary(c, width > 0 ? &ops : &in_double, &p);
}
static pl_status elu_eval(pl_eval *c) {
    return eval_elu(c, 1, pl_attr_float(c->node, "alpha"), 1);
}
static pl_status celu_eval(pl_eval *c) {
    const double alpha = pl_attr_float(c->node, "alpha");
    return eval_elu(c, alpha, alpha, 1);
}
static pl_status selu_eval(pl_eval *c) {
    const double gamma = pl_attr_float(c->node, "gamma");
    return eval_elu(c, 1, pl_attr_float(c->node, "alpha") * gamma, gamma);
}

static pl_status hard_sigmoid_eval(pl_eval *c) {
    const params p = { pl_attr_float(c->node, "alpha"), pl_attr_float(c->node, "beta") };
    return pl_eval_unary(c, &hard_sigmoid_ops, &p);
}

static pl_status gelu_eval(pl_eval *c) {
    const bool tanh_form = pl_attr_string_is(c->node, "approximate", "tanh");
    return pl_eval_unary(c, tanh_form ? &gelu_tanh_ops : &gelu_erf_ops, NULL);
}

static pl_status swish_eval(pl_eval *c) {
    const params p = { pl_attr_float(c->node, "alpha"), 0 };
    return pl_eval_unary(c, p.a == 1 ? &silu_ops : &swish_ops, &p);
}

/* Shrink-9 for integers: in double, then truncated. Lambda and bias are floats, so results may
 * exceed 64 bits and are clamped. */
static int64_t truncate(double x) {
    if (isnan(x)) return 0;
    return x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}
static void shrink_i64(const void *p, const pl_i64 *x, pl_i64 *y, size_t n) {
    double v[1], r[1];
    for (size_t i = 0; i < n; i++) {
        v[0] = (double)x[i];
        shrink_f64(p, v, r, 1);
        y[i] = truncate(r[0]);
    }
}
static pl_status shrink_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .f32 = shrink_f32, .f64 = shrink_f64, .i64 = shrink_i64 };
    const params p = { pl_attr_float(c->node, "lambd"), pl_attr_float(c->node, "bias") };
    return pl_eval_unary(c, &ops, &p);
}

/* SwiGLU-28: swish of A times B. */
#define SWIGLU(name, T, F)                                                                         \
    static void name(const void *p, const pl_##F *x, size_t sx, const pl_##F *y, size_t sy,        \
                     pl_##F *z, size_t n) {                                                        \
        T t[BLOCK];                                                                                \
        for (size_t at = 0; at < n; at += BLOCK) {                                                 \
            const size_t m = n - at < BLOCK ? n - at : BLOCK;                                      \
            swish_##F(p, x + at * sx, t, m);                                                       \
            pl_vmath_get()->F.mul(t, y + at * sy, z + at, m);                                      \
        }                                                                                          \
    }
SWIGLU(swiglu_f32, float, f32)
SWIGLU(swiglu_f64, double, f64)
static pl_status swiglu_eval(pl_eval *c) {
    static const pl_binary_ops ops = { .f32 = swiglu_f32, .f64 = swiglu_f64 };
    const params p = { pl_attr_float(c->node, "alpha"), 0 };
    return pl_eval_binary(c, &ops, &p);
}

/* ---- Clip ---- */

typedef struct bounds { /* Clip-13: minimum first, then maximum, so that the maximum wins */
    bool has_min, has_max;
    double min, max;
    int64_t i_min, i_max;
    uint64_t u_min, u_max;
} bounds;

#define CLIP_FLOAT(F, T)                                                                           \
    static void clip_##F(const void *p, const pl_##F *x, pl_##F *y, size_t n) {                    \
        const bounds *b = p;                                                                       \
        if (b->has_min) pl_vmath_get()->F.max_s(x, (T)b->min, y, n);                               \
        if (b->has_max) pl_vmath_get()->F.min_s(b->has_min ? y : x, (T)b->max, y, n);              \
        if (!b->has_min && !b->has_max && y != x) memcpy(y, x, n * sizeof(*x));                    \
    }
CLIP_FLOAT(f32, float)
CLIP_FLOAT(f64, double)
static void clip_i64(const void *p, const pl_i64 *x, pl_i64 *y, size_t n) {
    const bounds *b = p;
    for (size_t i = 0; i < n; i++) {
        const int64_t v = x[i] < b->i_min ? b->i_min : x[i];
        y[i] = v > b->i_max ? b->i_max : v;
    }
}
static void clip_u64(const void *p, const pl_u64 *x, pl_u64 *y, size_t n) {
    const bounds *b = p;
    for (size_t i = 0; i < n; i++) {
        const uint64_t v = x[i] < b->u_min ? b->u_min : x[i];
        y[i] = v > b->u_max ? b->u_max : v;
    }
}

static pl_status clip_bound(pl_eval *c, int i, bool *has, double *f, int64_t *n, uint64_t *u) {
    const pl_tensor *t = pl_in(c, i);
    *has = t != NULL;
    if (t == NULL) return PL_OK;
    if (t->n_elements != 1) {
        return pl_eval_fail(c, "%s has %lld elements, expected 1", i == 1 ? "min" : "max",
                            (long long)t->n_elements);
    }
    *f = pl_tensor_get_f64(t, 0);
    if (pl_dtype_is_integer(t->dtype)) *n = pl_tensor_get_i64(t, 0);
    if (t->dtype == PL_U64) *u = *(const pl_u64 *)t->data;
    return PL_OK;
}

static pl_status clip_eval(pl_eval *c) {
    static const pl_unary_ops ops = {
        .f32 = clip_f32, .f64 = clip_f64, .i64 = clip_i64, .u64 = clip_u64
    };
    bounds b = { .i_min = INT64_MIN, .i_max = INT64_MAX, .u_min = 0, .u_max = UINT64_MAX };
    if (c->node->opset < 11) {
        /* Clip-6 defaults to the limits of float, Clip-1 to none. */
        b.has_min = c->node->opset >= 6 || pl_attr_has(c->node, "min");
        b.has_max = c->node->opset >= 6 || pl_attr_has(c->node, "max");
        b.min = pl_attr_float(c->node, "min");
        b.max = pl_attr_float(c->node, "max");
    } else {
        PL_TRY(clip_bound(c, 1, &b.has_min, &b.min, &b.i_min, &b.u_min));
        PL_TRY(clip_bound(c, 2, &b.has_max, &b.max, &b.i_max, &b.u_max));
    }
    return pl_eval_unary(c, &ops, &b);
}

/* ---- Dropout ---- */

typedef struct dropout_job {
    double ratio, scale;
    uint64_t seed, stream;
    const pl_tensor *x;
    pl_tensor *y, *mask; /* mask may be NULL */
} dropout_job;

static void dropout_range(void *ctx, int64_t begin, int64_t end) {
    const dropout_job *j = ctx;
    const size_t bytes = pl_dtype_bytes(j->x->dtype);
    for (int64_t i = begin; i < end; i++) {
        double v = 0;
        const bool keep = pl_rng_uniform_at(j->seed, j->stream, (uint64_t)i) >= j->ratio;
        pl_load_f64(j->x->dtype, (const char *)j->x->data + (size_t)i * bytes, &v, 1);
        v = keep ? v * j->scale : 0;
        pl_store_f64(j->y->dtype, &v, (char *)j->y->data + (size_t)i * bytes, 1);
        if (j->mask == NULL) continue;
        v = keep;
        const size_t at = (size_t)i * pl_dtype_bytes(j->mask->dtype);
        pl_store_f64(j->mask->dtype, &v, (char *)j->mask->data + at, 1);
    }
}

/* Before Dropout-7 training is the default and is_test turns it off; from 7 to 11 there is no
 * training; from 12 on an input asks for it. */
static pl_status dropout_setup(const pl_eval *c, dropout_job *j, bool *training) {
    const int opset = c->node->opset;
    *training = opset < 7 ? pl_attr_int(c->node, "is_test") == 0 : pl_in_int(c, 2, 0) != 0;
    j->ratio = opset < 12 ? pl_attr_float(c->node, "ratio") : pl_in_float(c, 1, 0.5);
    if (!*training) return PL_OK;
    if (!(j->ratio >= 0 && j->ratio <= 1)) {
        return pl_eval_fail(c, "ratio is %g, expected 0 to 1", j->ratio);
    }
    *training = j->ratio > 0;
    j->scale = j->ratio < 1 ? 1 / (1 - j->ratio) : 0;
    const bool seeded = pl_attr_has(c->node, "seed");
    j->seed = seeded ? (uint64_t)pl_attr_int(c->node, "seed") : c->seed;
    j->stream = seeded ? 0 : (uint64_t)c->node->index + 1;
    return PL_OK;
}

static pl_status dropout_eval(pl_eval *c) {
    enum { GRAIN = 4096 };
    dropout_job job = { .x = pl_in(c, 0) };
    bool training = false;
    PL_TRY(dropout_setup(c, &job, &training));
    if (pl_wants(c, 1)) {
        const pl_dtype dtype = c->node->opset < 10 ? job.x->dtype : PL_BOOL;
        PL_TRY(pl_out_new(c, 1, dtype, job.x->rank, job.x->dims, &job.mask));
    }
    if (training) {
        if (!pl_wants(c, 0)) {
            return pl_eval_unsupported(c, "a mask without its output");
        }
        PL_TRY(pl_out_new(c, 0, job.x->dtype, job.x->rank, job.x->dims, &job.y));
        pl_pool_for(c->pool, job.x->n_elements, GRAIN, dropout_range, &job);
        return PL_OK;
    }
    /* Up to opset 11 it is open what the mask of inference holds; ONNX Runtime has zeros. */
    const double one = c->otherwise && c->node->def->until != 0 ? 0 : 1;
    for (int64_t i = 0; job.mask != NULL && i < job.mask->n_elements; i++) {
        const size_t at = (size_t)i * pl_dtype_bytes(job.mask->dtype);
        pl_store_f64(job.mask->dtype, &one, (char *)job.mask->data + at, 1);
    }
    return pl_out_view(c, 0, 0);
}

/* ---- shape rules ---- */

static pl_status dropout_infer(pl_infer *c) {
    PL_TRY(pl_infer_set_like(c, 0, 0));
    if (c->node->opset < 10) return pl_infer_set_like(c, 1, 0);
    const int rank = pl_infer_rank(c, 0);
    return pl_infer_set(c, 1, PL_BOOL, rank, rank < 0 ? NULL : c->in[0]->dims);
}

static pl_status gelu_infer(pl_infer *c) {
    if (!pl_attr_string_is(c->node, "approximate", "none") &&
        !pl_attr_string_is(c->node, "approximate", "tanh")) {
        return pl_infer_fail(c, "approximate is neither none nor tanh");
    }
    return pl_infer_same_as_first(c);
}

/* SwiGLU-28 has no broadcasting. */
static pl_status swiglu_infer(pl_infer *c) {
    const pl_type *merged = NULL;
    if (!pl_infer_has(c, 0) || !pl_infer_has(c, 1)) return PL_OK;
    PL_TRY(pl_infer_merge(c, c->in[0], c->in[1], &merged));
    return merged->kind == PL_TYPE_NONE ? PL_OK : pl_infer_set_type(c, 0, merged);
}

/* ---- rows ---- */

#define X_Y(types) .in = PL_PORTS({ "X", types, 0 }), .out = PL_PORTS({ "Y", types, 0 })
#define OLD PL_A_LIST("consumed_inputs", INTS) /* up to opset 5; a hint that is ignored */
#define ROW(name_, since_, until_, types, fn, attrs_, amp, reach_, sample_attrs, ranges)           \
    ROW_OF(name_, since_, until_, types, fn, attrs_, amp, reach_, sample_attrs, ranges, 0)
#define ROW_OF(name_, since_, until_, types, fn, attrs_, amp, reach_, sample_attrs, ranges, more)  \
    {                                                                                              \
        .name = name_, .since = since_, .until = until_, .flags = PL_OP_ELEMENTWISE | (more),      \
        X_Y(types), .attrs = attrs_, .infer = pl_infer_same_as_first, .eval = fn##_eval,           \
        .grad = pl_##fn##_grad, .bound = pl_##fn##_bound, .emit = pl_emit_##fn, .autocast = amp,   \
        .reach = reach_,                                                                           \
        .samples =                                                                                 \
            PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = " name_ sample_attrs "(x) }", ranges, 0 }, \
                       { "(float[257] x) => (y) { y = " name_ sample_attrs "(x) }", "x=-40:40",    \
                         PL_SAMPLE_NO_GRAD },                                                      \
                       { "(float16[64] x) => (y) { y = " name_ sample_attrs "(x) }", "x=-9:9",     \
                         PL_SAMPLE_NO_GRAD })                                                      \
    }
#define DROPOUT_T                                                                                  \
    .in = PL_PORTS({ "data", PL_T_FLOAT, 0 }),                                                     \
    .out = PL_PORTS({ "output", PL_T_FLOAT, 0 },                                                   \
                    { "mask", PL_T_FLOAT | PL_T_BOOL, PL_PORT_OPTIONAL })

/* clang-format off */
const pl_op_def pl_ops_activation[] = {
    ROW_OF("Celu", 12, 0, PL_T_FLOAT, celu, PL_ATTRS(PL_A_FLOAT("alpha", 1)), PL_AMP_KEEP, PL_REACH_SIGNS, "<alpha=2.0>", NULL, PL_OP_NEAR_ONE),
    { .name = "Clip", .since = 11, .flags = PL_OP_ELEMENTWISE | PL_OP_SHAPE,
      .in = PL_PORTS({ "input", PL_T_NUMERIC, PL_PORT_SAME }, { "min", PL_T_NUMERIC, PL_PORT_SAME | PL_PORT_OPTIONAL },
                     { "max", PL_T_NUMERIC, PL_PORT_SAME | PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "output", PL_T_NUMERIC, 0 }), .infer = pl_infer_same_as_first, .eval = clip_eval,
      .grad = pl_clip_grad, .bound = pl_clip_bound, .emit = pl_emit_clip, .autocast = PL_AMP_KEEP, .reach = PL_REACH_LIMITS, .nan = PL_NAN_EITHER,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) <float lo = {-0.5}, float hi = {0.5}> { y = Clip(x, lo, hi) }", NULL, 0 },
                            { "(float[2,3] x) => (y) <float hi = {0.5}> { y = Clip(x, , hi) }", NULL, 0 },
                            { "(float[2,3] x, float lo, float hi) => (y) { y = Clip(x, lo, hi) }", "lo=-0.6:-0.4 hi=0.2:0.4", 0 },
                            { "(float16[4,5] x) => (y) <float16 lo = {-0.5}> { y = Clip(x, lo) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(int8[5] x) => (y) <int8 lo = {3}> { y = Clip(x, lo) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "Clip", .since = 1, .until = 10, .flags = PL_OP_ELEMENTWISE, X_Y(PL_T_FLOAT),
      .attrs = PL_ATTRS(PL_A_FLOAT("max", 3.402823466e38), PL_A_FLOAT("min", -3.402823466e38), OLD),
      .infer = pl_infer_same_as_first, .eval = clip_eval, .grad = pl_clip_grad, .bound = pl_clip_bound,
      .emit = pl_emit_clip, .autocast = PL_AMP_KEEP, .reach = PL_REACH_LIMITS, .nan = PL_NAN_EITHER,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Clip<min=-0.5, max=0.5>(x) }", NULL, 0 }) },
    { .name = "Dropout", .since = 12, .flags = PL_OP_RANDOM | PL_OP_OWN_OUT | PL_OP_VIEW,
      .in = PL_PORTS({ "data", PL_T_FLOAT | PL_T_FLOAT8, 0 }, { "ratio", PL_T_FLOAT | PL_T_FLOAT8, PL_PORT_OPTIONAL },
                     { "training_mode", PL_T_BOOL, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "output", PL_T_FLOAT | PL_T_FLOAT8, 0 }, { "mask", PL_T_BOOL, PL_PORT_OPTIONAL }),
      .attrs = PL_ATTRS(PL_A_INT("seed", 0)), .infer = dropout_infer, .eval = dropout_eval, .grad = pl_dropout_grad, .bound = pl_dropout_bound, .emit = pl_emit_dropout,
      .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y, mask) { y, mask = Dropout(x) }", NULL, 0 },
                            { "(float[4,5] x) => (y, mask) <float ratio = {0.25}, bool training = {1}> "
                              "{ y, mask = Dropout<seed=3>(x, ratio, training) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "Dropout", .since = 7, .until = 11, .flags = PL_OP_OWN_OUT | PL_OP_VIEW | PL_OP_OPEN, DROPOUT_T,
      .attrs = PL_ATTRS(PL_A_FLOAT("ratio", 0.5)), .infer = dropout_infer, .eval = dropout_eval, .grad = pl_dropout_grad, .bound = pl_dropout_bound, .emit = pl_emit_dropout,
      .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Dropout<ratio=0.3>(x) }", NULL, 0 }) },
    { .name = "Dropout", .since = 1, .until = 6, .flags = PL_OP_RANDOM | PL_OP_OWN_OUT | PL_OP_VIEW, DROPOUT_T,
      .attrs = PL_ATTRS(PL_A_FLOAT("ratio", 0.5), PL_A_INT("is_test", 0), OLD), .infer = dropout_infer,
      .eval = dropout_eval, .grad = pl_dropout_grad, .bound = pl_dropout_bound, .emit = pl_emit_dropout, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y, mask) { y, mask = Dropout<is_test=1>(x) }", NULL, 0 }) },
    ROW_OF("Elu", 1, 0, PL_T_FLOAT, elu, PL_ATTRS(PL_A_FLOAT("alpha", 1), OLD), PL_AMP_KEEP, PL_REACH_SIGNS, "<alpha=2.0>", NULL, PL_OP_NEAR_ONE),
    { .name = "Gelu", .since = 20, .flags = PL_OP_ELEMENTWISE, X_Y(PL_T_FLOAT),
      .attrs = PL_ATTRS(PL_A_STRING("approximate", "none")), .infer = gelu_infer, .eval = gelu_eval, .grad = pl_gelu_grad, .bound = pl_gelu_bound, .emit = pl_emit_gelu,
      .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Gelu(x) }", NULL, 0 },
                            { "(float16[4,16] x) => (y) { y = Gelu(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float[2,3] x) => (y) { y = Gelu<approximate=\"tanh\">(x) }", NULL, 0 }) },
    ROW("HardSigmoid", 1, 0, PL_T_FLOAT, hard_sigmoid,
        PL_ATTRS(PL_A_FLOAT("alpha", 0.2), PL_A_FLOAT("beta", 0.5), OLD), PL_AMP_KEEP, PL_REACH_UNIT, "<alpha=0.5, beta=0.6>", NULL),
    ROW("HardSwish", 14, 0, PL_T_FLOAT, hard_swish, NULL, PL_AMP_KEEP, PL_REACH_ANY, "", NULL),
    ROW("LeakyRelu", 1, 0, PL_T_FLOAT, leaky_relu, PL_ATTRS(PL_A_FLOAT("alpha", 0.01), OLD), PL_AMP_KEEP, PL_REACH_SIGNS, "<alpha=0.1>", NULL),
    ROW("Mish", 18, 0, PL_T_FLOAT, mish, NULL, PL_AMP_KEEP, PL_REACH_ANY, "", NULL),
    { .name = "Relu", .since = 1, .flags = PL_OP_ELEMENTWISE, X_Y(PL_T_FLOAT | PL_T_SIGNED), .attrs = PL_ATTRS(OLD),
      .infer = pl_infer_same_as_first, .eval = relu_eval, .grad = pl_relu_grad, .bound = pl_relu_bound,
      .emit = pl_emit_relu, .autocast = PL_AMP_KEEP, .reach = PL_REACH_CUT, .nan = PL_NAN_EITHER,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Relu(x) }", NULL, 0 },
                            { "(int32[2,3] x) => (y) { y = Relu(x) }", "x=-9:9", PL_SAMPLE_NO_GRAD }) },
    ROW_OF("Selu", 6, 0, PL_T_FLOAT, selu,
        PL_ATTRS(PL_A_FLOAT("alpha", 1.67326319217681884765625), PL_A_FLOAT("gamma", 1.05070102214813232421875)), PL_AMP_KEEP, PL_REACH_SIGNS, "", NULL, PL_OP_NEAR_ONE),
    ROW_OF("Selu", 1, 5, PL_T_FLOAT, selu,
        PL_ATTRS(PL_A_FLOAT("alpha", 1.6732), PL_A_FLOAT("gamma", 1.0507), OLD), PL_AMP_KEEP, PL_REACH_SIGNS, "", NULL, PL_OP_NEAR_ONE),
    /* NaN: 0 by its text, NaN in PyTorch. */
    { .name = "Shrink", .since = 9, .nan = PL_NAN_EITHER, .flags = PL_OP_ELEMENTWISE, X_Y(PL_T_NUMERIC),
      .attrs = PL_ATTRS(PL_A_FLOAT("lambd", 0.5), PL_A_FLOAT("bias", 0)), .infer = pl_infer_same_as_first,
      .eval = shrink_eval, .grad = pl_shrink_grad, .bound = pl_shrink_bound, .emit = pl_emit_shrink, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Shrink<lambd=0.3, bias=0.1>(x) }", NULL, 0 },
                            { "(int8[2,3] x) => (y) { y = Shrink<lambd=1.5, bias=1.5>(x) }", "x=-9:9", PL_SAMPLE_NO_GRAD }) },
    ROW_OF("Sigmoid", 1, 0, PL_T_FLOAT, sigmoid, PL_ATTRS(OLD), PL_AMP_KEEP, PL_REACH_ANY, "", NULL, PL_OP_NEAR_ONE),
    ROW("Softplus", 1, 0, PL_T_FLOAT, softplus, NULL, PL_AMP_FP32, PL_REACH_ANY, "", NULL),
    ROW("Softsign", 1, 0, PL_T_FLOAT, softsign, NULL, PL_AMP_KEEP, PL_REACH_ANY, "", NULL),
    { .name = "SwiGLU", .since = 28, .flags = PL_OP_ELEMENTWISE,
      .in = PL_PORTS({ "A", PL_T_FLOAT, PL_PORT_SAME }, { "B", PL_T_FLOAT, PL_PORT_SAME }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }), .attrs = PL_ATTRS(PL_A_FLOAT("alpha", 1)), .infer = swiglu_infer,
      .eval = swiglu_eval, .grad = pl_swiglu_grad, .bound = pl_swiglu_bound, .emit = pl_emit_swiglu, .autocast = PL_AMP_WIDEST,
      .samples = PL_SAMPLES({ "(float[2,3] a, float[2,3] b) => (y) { y = SwiGLU<alpha=1.7>(a, b) }", NULL, 0 }) },
    ROW("Swish", 24, 0, PL_T_FLOAT, swish, PL_ATTRS(PL_A_FLOAT("alpha", 1)), PL_AMP_KEEP, PL_REACH_ANY, "<alpha=1.7>", NULL),
    /* Experimental in opset 1, with the same meaning. */
    /* NaN: 0 by its text, NaN by ONNX's reference. */
    { .name = "ThresholdedRelu", .since = 1, .flags = PL_OP_ELEMENTWISE, X_Y(PL_T_FLOAT), .attrs = PL_ATTRS(PL_A_FLOAT("alpha", 1)),
      .infer = pl_infer_same_as_first, .eval = thresholded_relu_eval, .grad = pl_thresholded_relu_grad, .bound = pl_thresholded_relu_bound,
      .emit = pl_emit_thresholded_relu, .autocast = PL_AMP_KEEP, .reach = PL_REACH_CUT, .nan = PL_NAN_EITHER,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = ThresholdedRelu<alpha=0.5>(x) }", NULL, 0 },
                            { "(float[257] x) => (y) { y = ThresholdedRelu<alpha=0.5>(x) }", "x=-40:40", PL_SAMPLE_NO_GRAD },
                            { "(float16[64] x) => (y) { y = ThresholdedRelu<alpha=0.5>(x) }", "x=-9:9", PL_SAMPLE_NO_GRAD }) },
    /* com.microsoft's name for Swish. */
    { .name = "QuickGelu", .domain = "com.microsoft", .since = 1, .flags = PL_OP_ELEMENTWISE, X_Y(PL_T_FLOAT), .attrs = PL_ATTRS(PL_A_FLOAT("alpha", 1.702)),
      .infer = pl_infer_same_as_first, .eval = swish_eval, .grad = pl_swish_grad, .bound = pl_swish_bound, .emit = pl_emit_swish, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = com.microsoft.QuickGelu<alpha=1.5>(x) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

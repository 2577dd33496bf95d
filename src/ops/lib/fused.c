/* The activations of fused operators, in place. */
#include "ops/lib/fused.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/soft.h"
#include "kernels/vmath.h"
#include "ops/lib/grad_nn.h"

enum { UNIT = 16 * 1024 };

#define FORMULA(name, EXPR_F32, EXPR_F64)                                                          \
    static void name##_f32(const pl_fused *f, pl_f32 *y, size_t n) {                               \
        const float a = (float)f->a, b = (float)f->b;                                              \
        (void)a, (void)b;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            const float x = y[i];                                                                  \
            y[i] = (EXPR_F32);                                                                     \
        }                                                                                          \
    }                                                                                              \
    static void name##_f64(const pl_fused *f, pl_f64 *y, size_t n) {                               \
        const double a = f->a, b = f->b;                                                           \
        (void)a, (void)b;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            const double x = y[i];                                                                 \
            y[i] = (EXPR_F64);                                                                     \
        }                                                                                          \
    }
#define VECTOR(name, fn)                                                                           \
    static void name##_f32(const pl_fused *f, pl_f32 *y, size_t n) {                               \
        (void)f;                                                                                   \
        pl_vmath_get()->f32.fn(y, y, n);                                                           \
    }                                                                                              \
    static void name##_f64(const pl_fused *f, pl_f64 *y, size_t n) {                               \
        (void)f;                                                                                   \
        pl_vmath_get()->f64.fn(y, y, n);                                                           \
    }

/* NaN stays NaN, as in HardSigmoid. */
static float unit_f32(float x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}
static double unit_f64(double x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

FORMULA(relu, x < 0 ? 0 : x, x < 0 ? 0 : x)
FORMULA(leaky_relu, x < 0 ? a * x : x, x < 0 ? a * x : x)
FORMULA(clip, x<a ? a : x> b ? b : x, x<a ? a : x> b ? b : x)
FORMULA(hard_sigmoid, unit_f32(a *x + b), unit_f64(a *x + b))
FORMULA(elu, x < 0 ? a * (float)pl_soft_expm1((double)x) : x, x < 0 ? a * expm1(x) : x)
FORMULA(softsign, x / (1 + fabsf(x)), x / (1 + fabs(x)))
FORMULA(hard_swish, x *unit_f32(x / 6 + 0.5f), x *unit_f64(x / 6 + 0.5))
VECTOR(tanh, tanh)
VECTOR(sigmoid, sigmoid)
VECTOR(softplus, softplus)
VECTOR(silu, silu)

#define ROW(text, name, a, b)                                                                      \
    { text, name##_f32, name##_f64, a, b }
static const struct activation {
    const char *name;
    void (*f32)(const pl_fused *f, pl_f32 *y, size_t n);
    void (*f64)(const pl_fused *f, pl_f64 *y, size_t n);
    double a, b; /* defaults */
} activations[] = {
    ROW("Relu", relu, 0, 0),
    ROW("LeakyRelu", leaky_relu, 0.01, 0),
    ROW("Clip", clip, -HUGE_VAL, HUGE_VAL),
    ROW("HardSigmoid", hard_sigmoid, 0.2, 0.5),
    ROW("Elu", elu, 1, 0),
    ROW("Softsign", softsign, 0, 0),
    ROW("HardSwish", hard_swish, 0, 0),
    ROW("Tanh", tanh, 0, 0),
    ROW("Sigmoid", sigmoid, 0, 0),
    ROW("Softplus", softplus, 0, 0),
    ROW("Swish", silu, 0, 0),
};

pl_status pl_fused_read(const pl_node *node, const double *params, size_t n_params, pl_fused *out,
                        pl_err *err) {
    const pl_string name = pl_attr_string(node, "activation");
    memset(out, 0, sizeof(*out));
    if (name.n_bytes == 0) return PL_OK;
    for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        const struct activation *row = &activations[i];
        if (strlen(row->name) != name.n_bytes || memcmp(row->name, name.data, name.n_bytes) != 0)
            continue;
        out->f32 = row->f32;
        out->f64 = row->f64;
        out->a = n_params > 0 ? params[0] : row->a;
        out->b = n_params > 1 ? params[1] : row->b;
        return PL_OK;
    }
    return pl_node_fail(err, PL_E_UNSUPPORTED, node, "activation '%.*s'",
                        (int)(name.n_bytes < 40 ? name.n_bytes : 40), name.data);
}

typedef struct fused_job {
    const pl_fused *f;
    void *y;
} fused_job;

static void fused_range_f32(void *ctx, int64_t begin, int64_t end) {
    const fused_job *j = ctx;
    j->f->f32(j->f, (pl_f32 *)j->y + begin, (size_t)(end - begin));
}

static void fused_range_f64(void *ctx, int64_t begin, int64_t end) {
    const fused_job *j = ctx;
    j->f->f64(j->f, (pl_f64 *)j->y + begin, (size_t)(end - begin));
}

void pl_fused_apply_f32(pl_pool *pool, const pl_fused *f, pl_f32 *y, int64_t n) {
    fused_job job = { f, y };
    if (f->f32 != NULL) pl_pool_for(pool, n, UNIT, fused_range_f32, &job);
}

void pl_fused_apply_f64(pl_pool *pool, const pl_fused *f, pl_f64 *y, int64_t n) {
    fused_job job = { f, y };
    if (f->f64 != NULL) pl_pool_for(pool, n, UNIT, fused_range_f64, &job);
}

/* Parameters are in activation_params (FusedConv) or in attributes of their own (FusedGemm). */
static double param_of(const pl_node *node, const pl_fused *f, size_t k) {
    size_t n = 0;
    const float *list = pl_attr_floats(node, "activation_params", &n);
    const char *name = k == 0 ? "activation_alpha" : "activation_beta";
    if (k < n) return (double)list[k];
    if (pl_attr_has(node, name)) return pl_attr_float(node, name);
    return k == 0 ? f->a : f->b;
}

pl_status pl_fused_params(const pl_node *node, double params[2], pl_err *err) {
    pl_fused f = { 0 };
    PL_TRY(pl_fused_read(node, NULL, 0, &f, err));
    params[0] = param_of(node, &f, 0);
    params[1] = param_of(node, &f, 1);
    return PL_OK;
}

const char *pl_fused_expand(pl_bound *c, const char *op, const char *inputs, const char *add) {
    const pl_string name = pl_attr_string(c->node, "activation");
    pl_fused f = { 0 };
    pl_err ignored = PL_ERR_INIT;
    (void)pl_fused_read(c->node, NULL, 0, &f, &ignored);
    const double a = param_of(c->node, &f, 0), b = param_of(c->node, &f, 1);
    const char *z = add == NULL ? "attrs_y" : "z";
    const char *sum = add == NULL ? "" : pl_arena_printf(c->scratch, "z = Add(attrs_y, %s) ", add);
    const char *act = NULL;
    char word[24];
    snprintf(word, sizeof(word), "%.*s", (int)(name.n_bytes < 20 ? name.n_bytes : 20), name.data);
    if (name.n_bytes == 0) {
        act = pl_arena_printf(c->scratch, "o0 = Identity(%s)", z);
    } else if (strcmp(word, "Clip") == 0) {
        act = pl_arena_printf(c->scratch, "o0 = Clip(%s, lo, hi)", z);
    } else if (strcmp(word, "HardSigmoid") == 0) {
        act = pl_arena_printf(c->scratch, "o0 = HardSigmoid<alpha=%.9g, beta=%.9g>(%s)", a, b, z);
    } else if (strcmp(word, "LeakyRelu") == 0 || strcmp(word, "Elu") == 0) {
        act = pl_arena_printf(c->scratch, "o0 = %s<alpha=%.9g>(%s)", word, a, z);
    } else if (strcmp(word, "Swish") == 0) {
        act = pl_arena_printf(c->scratch, "s = Sigmoid(%s) o0 = Mul(%s, s)", z, z);
    } else {
        act = pl_arena_printf(c->scratch, "o0 = %s(%s)", word, z);
    }
    if (sum == NULL || act == NULL) return NULL;
    const char *limits = strcmp(word, "Clip") != 0
                             ? ""
                             : pl_arena_printf(c->scratch, "<float lo = {%.9g}, float hi = {%.9g}>",
                                               fmax(a, -3.4028234e38), fmin(b, 3.4028234e38));
    if (limits == NULL) return NULL;
    return pl_arena_printf(c->scratch, "(%s%s%s) => (o0) %s { attrs_y = %s(%s) %s%s }", inputs,
                           add == NULL ? "" : ", ", add == NULL ? "" : add, limits, op, inputs, sum,
                           act);
}

/* ---- emission ---- */

pl_status pl_fused_emit(pl_emit *c, pl_ref y) {
    static const struct {
        const char *name, *expr; /* # and @ stand for the two parameters */
    } rows[] = {
        { "Relu", "$0 < 0 ? 0 : $0" },
        { "LeakyRelu", "$0 < 0 ? # * $0 : $0" },
        { "Clip", "$0 < # ? # : $0 > @ ? @ : $0" },
        { "HardSigmoid", "px_unit_$S(# * $0 + @)" },
        { "Elu", "px_elu_$S($0, 1, #, 1)" },
        { "Softsign", "$0 / (1 + px_abs_$S($0))" },
        { "HardSwish", "$0 * px_unit_$S($0 / 6 + ($T)0.5)" },
        { "Tanh", "px_tanh_$S($0)" },
        { "Sigmoid", "px_sigmoid_$S($0)" },
        { "Softplus", "px_softplus_$S($0)" },
        { "Swish", "px_silu_$S($0)" },
    };
    double params[2] = { 0, 0 };
    char expr[300] = "", number[64];
    size_t n = 0;
    const char *form = NULL;
    if (pl_attr_string(c->node, "activation").n_bytes == 0) return pl_emit_out(c, 0, y);
    if (pl_fused_params(c->node, params, NULL) != PL_OK) return pl_emit_decline(c, "activation");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (pl_attr_string_is(c->node, "activation", rows[i].name)) form = rows[i].expr;
    if (form == NULL) return pl_emit_decline(c, "activation");
    for (; *form != '\0' && n + 64 < sizeof(expr); form++) {
        if (*form == '#' || *form == '@') {
            n += (size_t)snprintf(expr + n, sizeof(expr) - n, "%s",
                                  pl_emit_number(params[*form == '@'], number));
        } else {
            expr[n++] = *form;
            expr[n] = '\0';
        }
    }
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, expr, y));
}

/* ---- gradient ---- */

pl_value *pl_fused_grad_activate(pl_grad *c, pl_value *x) {
    const pl_string name = pl_attr_string(c->node, "activation");
    char word[24];
    double params[2] = { 0, 0 };
    if (c->st != PL_OK || name.n_bytes == 0) return x;
    const size_t n = name.n_bytes < sizeof(word) - 1 ? name.n_bytes : sizeof(word) - 1;
    memcpy(word, name.data, n);
    word[n] = '\0';
    c->st = pl_fused_params(c->node, params, c->err);
    return pl_g_activate(c, word, params[0], params[1], x);
}

pl_value *pl_fused_grad_plain(pl_grad *c, const char *op, size_t n_in, const char *const *names,
                              size_t n_names) {
    pl_attr attrs[8];
    size_t n = 0;
    for (size_t i = 0; i < n_names && n < 8; i++) {
        const pl_attr *a = pl_node_attr(c->node, names[i]);
        if (a != NULL) attrs[n++] = *a;
    }
    while (n_in > 2 && (n_in > c->node->n_in || c->node->in[n_in - 1] == NULL))
        n_in--;
    return pl_g_op(c, op, c->node->in, n_in, attrs, n);
}

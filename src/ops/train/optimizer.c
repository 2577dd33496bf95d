/* Optimizer steps of ai.onnx.preview.training: Adagrad, Adam, Momentum.
 *
 * Inputs are R, T and then, for n tensors at once, n of each kind: X_1..X_n, G_1..G_n, and the
 * states; outputs are the new X and the new states in the same order. The operator Gradient is
 * expanded by the backward pass and has no row. */
#include <math.h>
#include <string.h>

#include "ops/bound.h"
#include "ops/infer.h"
#include "ops/lib/bound_num.h"
#include "ops/train/optimizer_rules.h"

extern const pl_op_def pl_ops_optimizer[];

/* Kinds of tensors after R and T: X, G and the states. */
static int n_kinds(const pl_node *node) {
    return strcmp(node->op, "Adam") == 0 ? 4 : 3;
}

static pl_status optimizer_infer(pl_infer *c) {
    const int kinds = n_kinds(c->node), n = (c->n_in - 2) / kinds;
    if (c->n_in < 2 + kinds || (c->n_in - 2) % kinds != 0) {
        return pl_infer_fail(c, "has %d inputs, expected 2 and a multiple of %d", c->n_in, kinds);
    }
    if (c->n_out > n * (kinds - 1)) {
        return pl_infer_fail(c, "has %d outputs, expected %d", c->n_out, n * (kinds - 1));
    }
    for (int i = 2; i < c->n_in; i++) {
        const pl_type *x = c->in[2 + (i - 2) % n], *type = NULL;
        if (c->in[i] == NULL) return pl_infer_fail(c, "input %d is missing", i);
        PL_TRY(pl_infer_merge(c, x, c->in[i], &type)); /* one dtype and shape for each tensor */
    }
    for (int i = 0; i < c->n_out; i++) /* X, then the states; gradients are not outputs */
        PL_TRY(pl_infer_set_like(c, i, i < n ? 2 + i : 2 + i + n));
    return PL_OK;
}

/* One element: x, g, v (momentum or mean), h (squares), updated in place. */
typedef struct element {
    double x, g, v, h;
} element;
typedef struct step {
    double rate, alpha, beta, epsilon, decay, norm, norm_post;
    bool nesterov;
} step;
typedef void (*step_fn)(const step *s, element *e);

static void adagrad_step(const step *s, element *e) {
    const double g = s->norm * e->x + e->g;
    e->v += g * g; /* the only state is in v */
    e->x -= s->rate * g / (sqrt(e->v) + s->epsilon);
}

static void adam_step(const step *s, element *e) {
    const double g = s->norm * e->x + e->g;
    e->v = s->alpha * e->v + (1 - s->alpha) * g;
    e->h = s->beta * e->h + (1 - s->beta) * g * g;
    e->x -= s->rate * e->v / (sqrt(e->h) + s->epsilon);
    e->x *= 1 - s->norm_post;
}

static void momentum_step(const step *s, element *e) {
    const double g = s->norm * e->x + e->g;
    e->v = s->alpha * e->v + s->beta * g;
    e->x -= s->rate * (s->nesterov ? g + s->alpha * e->v : e->v);
}

static void store(pl_tensor *t, int64_t i, double v) {
    if (t != NULL)
        pl_store_f64(t->dtype, &v, (char *)t->data + (size_t)i * pl_dtype_bytes(t->dtype), 1);
}

static pl_status run_step(pl_eval *c, const step *s, step_fn fn) {
    const int kinds = n_kinds(c->node), n = (c->n_in - 2) / kinds;
    for (int k = 0; k < n; k++) {
        const pl_tensor *x = pl_in(c, 2 + k);
        const pl_f64 *from[4] = { NULL };
        for (int i = 0; i < kinds; i++) {
            from[i] = pl_in_f64(c, 2 + i * n + k);
            if (from[i] == NULL) return pl_eval_memory(c);
        }
        for (int64_t i = 0; i < x->n_elements; i++) {
            element e = { from[0][i], from[1][i], from[2][i], kinds == 4 ? from[3][i] : 0 };
            fn(s, &e);
            store(pl_out(c, k), i, e.x);
            store(pl_out(c, n + k), i, e.v);
            if (kinds == 4) store(pl_out(c, 2 * n + k), i, e.h);
        }
    }
    return PL_OK;
}

/* ---- the rate and the attributes, as the step uses them ---- */

static void adagrad_setup(const pl_node *node, double count, step *s) {
    s->epsilon = pl_attr_float(node, "epsilon");
    s->norm = pl_attr_float(node, "norm_coefficient");
    s->rate /= 1 + count * pl_attr_float(node, "decay_factor");
}

static void adam_setup(const pl_node *node, double count, step *s) {
    s->alpha = pl_attr_float(node, "alpha");
    s->beta = pl_attr_float(node, "beta");
    s->epsilon = pl_attr_float(node, "epsilon");
    s->norm = pl_attr_float(node, "norm_coefficient");
    s->norm_post = pl_attr_float(node, "norm_coefficient_post");
    if (count > 0) s->rate *= sqrt(1 - pow(s->beta, count)) / (1 - pow(s->alpha, count));
}

static void momentum_setup(const pl_node *node, double count, step *s) {
    s->alpha = pl_attr_float(node, "alpha");
    s->norm = pl_attr_float(node, "norm_coefficient");
    s->nesterov = pl_attr_string_is(node, "mode", "nesterov");
    s->beta = count > 0 ? pl_attr_float(node, "beta") : 1; /* the first gradient counts fully */
}

typedef void (*setup_fn)(const pl_node *node, double count, step *s);

static pl_status eval_step(pl_eval *c, setup_fn setup, step_fn fn) {
    const pl_tensor *r = pl_in(c, 0), *t = pl_in(c, 1);
    if (r == NULL || t == NULL || r->n_elements != 1 || t->n_elements != 1) {
        return pl_eval_fail(c, "R and T must be single numbers");
    }
    step s = { .rate = pl_tensor_get_f64(r, 0) };
    setup(c->node, (double)pl_tensor_get_i64(t, 0), &s);
    return run_step(c, &s, fn);
}

static pl_status adagrad_eval(pl_eval *c) {
    return eval_step(c, adagrad_setup, adagrad_step);
}
static pl_status adam_eval(pl_eval *c) {
    return eval_step(c, adam_setup, adam_step);
}
static pl_status momentum_eval(pl_eval *c) {
    if (!pl_attr_string_is(c->node, "mode", "nesterov") &&
        !pl_attr_string_is(c->node, "mode", "standard")) {
        return pl_eval_fail(c, "mode is not standard or nesterov");
    }
    return eval_step(c, momentum_setup, momentum_step);
}

/* ---- error bounds: the steps again, with numbers that carry theirs ---- */

typedef struct element_error { /* as element */
    pl_num x, g, v, h;
} element_error;
typedef void (*error_fn)(const step *s, double u, pl_num rate, element_error *e);

static pl_num regularised(const step *s, double u, const element_error *e) {
    if (s->norm == 0) return e->g;
    return pl_num_add(u, pl_num_mul(u, pl_num_of(s->norm), e->x), e->g);
}
/* x - rate * top / (sqrt(squares) + epsilon) */
static pl_num scaled_step(const step *s, double u, pl_num rate, pl_num x, pl_num top,
                          pl_num squares) {
    const pl_num below = pl_num_add(u, pl_num_sqrt(u, squares), pl_num_of(s->epsilon));
    return pl_num_sub(u, x, pl_num_div(u, pl_num_mul(u, rate, top), below));
}

static void adagrad_error(const step *s, double u, pl_num rate, element_error *e) {
    const pl_num g = regularised(s, u, e);
    e->v = pl_num_add(u, e->v, pl_num_mul(u, g, g));
    e->x = scaled_step(s, u, rate, e->x, g, e->v);
}

static void adam_error(const step *s, double u, pl_num rate, element_error *e) {
    const pl_num g = regularised(s, u, e), square = pl_num_mul(u, g, g);
    const pl_num rest_a = { 1 - s->alpha, u }, rest_b = { 1 - s->beta, u };
    e->v = pl_num_add(u, pl_num_mul(u, pl_num_of(s->alpha), e->v), pl_num_mul(u, rest_a, g));
    e->h = pl_num_add(u, pl_num_mul(u, pl_num_of(s->beta), e->h), pl_num_mul(u, rest_b, square));
    e->x = scaled_step(s, u, rate, e->x, e->v, e->h);
    if (s->norm_post != 0) e->x = pl_num_mul(u, e->x, (pl_num){ 1 - s->norm_post, u });
}

static void momentum_error(const step *s, double u, pl_num rate, element_error *e) {
    const pl_num g = regularised(s, u, e), alpha = pl_num_of(s->alpha);
    e->v = pl_num_add(u, pl_num_mul(u, alpha, e->v), pl_num_mul(u, pl_num_of(s->beta), g));
    const pl_num by = s->nesterov ? pl_num_add(u, g, pl_num_mul(u, alpha, e->v)) : e->v;
    e->x = pl_num_sub(u, e->x, pl_num_mul(u, rate, by));
}

/* Error of the learning rate: 1 - beta^T cancels when beta^T is near 1. */
static pl_num rate_of(const pl_bound *c, const step *s, double count) {
    const double *e = pl_b_e(c, 0);
    const double given = fabs(pl_tensor_get_f64(pl_b_in(c, 0), 0));
    double relative = 4 * c->u + (e == NULL || given == 0 ? 0 : e[0] / given);
    if (strcmp(c->node->op, "Adam") == 0 && count > 0) {
        relative += 2 * c->u / (1 - pow(s->beta, count)) + 2 * c->u / (1 - pow(s->alpha, count));
    }
    return (pl_num){ s->rate, fabs(s->rate) * relative };
}

static pl_status bound_step(pl_bound *c, setup_fn setup, error_fn fn) {
    const int kinds = n_kinds(c->node), n = (c->n_in - 2) / kinds;
    const double count = (double)pl_tensor_get_i64(pl_b_in(c, 1), 0);
    step s = { .rate = pl_tensor_get_f64(pl_b_in(c, 0), 0) };
    setup(c->node, count, &s);
    const pl_num rate = rate_of(c, &s, count);
    for (int k = 0; k < n; k++) {
        const double *x[4] = { NULL }, *e[4] = { NULL };
        double *out[3] = { NULL };
        for (int i = 0; i < kinds; i++) {
            x[i] = pl_b_x(c, 2 + i * n + k);
            e[i] = pl_b_e(c, 2 + i * n + k);
            if (x[i] == NULL) return pl_fail_memory(c->err, 1);
            if (i < kinds - 1) PL_TRY(pl_b_new(c, i * n + k, &out[i]));
        }
        for (int64_t i = 0; i < pl_b_in(c, 2 + k)->n_elements; i++) {
            pl_num in[4] = { { 0, 0 } };
            for (int m = 0; m < kinds; m++)
                in[m] = (pl_num){ x[m][i], e[m] == NULL ? 0 : e[m][i] };
            element_error r = { in[0], in[1], in[2], in[3] };
            fn(&s, c->u, rate, &r);
            if (out[0] != NULL) out[0][i] = r.x.e;
            if (out[1] != NULL) out[1][i] = r.v.e;
            if (out[2] != NULL) out[2][i] = r.h.e;
        }
    }
    return PL_OK;
}

static pl_status adagrad_bound(pl_bound *c) {
    return bound_step(c, adagrad_setup, adagrad_error);
}
static pl_status adam_bound(pl_bound *c) {
    return bound_step(c, adam_setup, adam_error);
}
static pl_status momentum_bound(pl_bound *c) {
    return bound_step(c, momentum_setup, momentum_error);
}

#define TRAINING .domain = "ai.onnx.preview.training", .since = 1, .flags = PL_OP_TRAINING
#define T_STEP PL_T(PL_F32) | PL_T(PL_F64)
#define IN_OUT                                                                                     \
    .in = PL_PORTS({ "R", T_STEP, 0 }, { "T", PL_T_I64, 0 },                                       \
                   { "inputs", T_STEP, PL_PORT_VARIADIC }),                                        \
    .out = PL_PORTS({ "outputs", T_STEP, PL_PORT_VARIADIC })

/* Optimizer steps have no gradient. */
/* clang-format off */
const pl_op_def pl_ops_optimizer[] = {
    { .name = "Adagrad", TRAINING, IN_OUT,
      .attrs = PL_ATTRS(PL_A_FLOAT("decay_factor", 0), PL_A_FLOAT("epsilon", 1e-6), PL_A_FLOAT("norm_coefficient", 0)),
      .infer = optimizer_infer, .eval = adagrad_eval, .grad = PL_GRAD_UNDEFINED, .bound = adagrad_bound, .emit = pl_emit_adagrad, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2] x, float[2] g, float[2] h) => (y, k) <float r = {0.1}, int64 t = {3}> { y, k = ai.onnx.preview.training.Adagrad<epsilon = 0.001, decay_factor = 0.1, norm_coefficient = 0.01>(r, t, x, g, h) }", "h=0.1:2", 0 }) },
    { .name = "Adam", TRAINING, IN_OUT,
      .attrs = PL_ATTRS(PL_A_FLOAT("alpha", 0.9), PL_A_FLOAT("beta", 0.999), PL_A_FLOAT("epsilon", 1e-6),
                        PL_A_FLOAT("norm_coefficient", 0), PL_A_FLOAT("norm_coefficient_post", 0)),
      .infer = optimizer_infer, .eval = adam_eval, .grad = PL_GRAD_UNDEFINED, .bound = adam_bound, .emit = pl_emit_adam, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2] x, float[2] g, float[2] v, float[2] h) => (y, w, k) <float r = {0.1}, int64 t = {3}> { y, w, k = ai.onnx.preview.training.Adam<epsilon = 0.001, norm_coefficient = 0.01>(r, t, x, g, v, h) }", "h=0.1:2", 0 }) },
    { .name = "Momentum", TRAINING, IN_OUT,
      .attrs = PL_ATTRS(PL_A_REQUIRED("alpha", FLOAT), PL_A_REQUIRED("beta", FLOAT), PL_A_REQUIRED("mode", STRING), PL_A_REQUIRED("norm_coefficient", FLOAT)),
      .infer = optimizer_infer, .eval = momentum_eval, .grad = PL_GRAD_UNDEFINED, .bound = momentum_bound, .emit = pl_emit_momentum, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2] x, float[2] g, float[2] v) => (y, w) <float r = {0.1}, int64 t = {3}> { y, w = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 0.8, mode = \"standard\", norm_coefficient = 0.01>(r, t, x, g, v) }", NULL, 0 },
                            { "(float[2] x, float[2] g, float[2] v) => (y, w) <float r = {0.1}, int64 t = {0}> { y, w = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 0.8, mode = \"nesterov\", norm_coefficient = 0.01>(r, t, x, g, v) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */

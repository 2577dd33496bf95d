/* Optimizer steps of ai.onnx.preview.training: Adagrad, Adam, Momentum.
 *
 * Inputs are R, T and then, for n tensors at once, n of each kind: X_1..X_n, G_1..G_n, and states
 * likewise; outputs are the new X and the new states in the same order. Gradient waits for the
 * backward pass and has no row. */
#include <math.h>
#include <string.h>

#include "ops/eval.h"
#include "ops/infer.h"

extern const pl_op_def pl_ops_optimizer[];

/* Kinds of tensors after R and T: X and G and the states. */
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
    for (int i = 0; i < c->n_out; i++) /* X as it is, then the states: the gradients are skipped */
        PL_TRY(pl_infer_set_like(c, i, i < n ? 2 + i : 2 + i + n));
    return PL_OK;
}

/* One element: in x, g, v (momentum or mean), h (squares); out in the same places. */
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
    e->v += g * g; /* the only state stands in v */
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

static pl_status read_rate(const pl_eval *c, double *rate, double *count) {
    const pl_tensor *r = pl_in(c, 0), *t = pl_in(c, 1);
    if (r == NULL || t == NULL || r->n_elements != 1 || t->n_elements != 1) {
        return pl_eval_fail(c, "R and T must be one number each");
    }
    *rate = pl_tensor_get_f64(r, 0);
    *count = (double)pl_tensor_get_i64(t, 0);
    return PL_OK;
}

static pl_status adagrad_eval(pl_eval *c) {
    step s = { .epsilon = pl_attr_float(c->node, "epsilon"),
               .norm = pl_attr_float(c->node, "norm_coefficient") };
    double count = 0;
    PL_TRY(read_rate(c, &s.rate, &count));
    s.rate /= 1 + count * pl_attr_float(c->node, "decay_factor");
    return run_step(c, &s, adagrad_step);
}

static pl_status adam_eval(pl_eval *c) {
    step s = { .alpha = pl_attr_float(c->node, "alpha"),
               .beta = pl_attr_float(c->node, "beta"),
               .epsilon = pl_attr_float(c->node, "epsilon"),
               .norm = pl_attr_float(c->node, "norm_coefficient"),
               .norm_post = pl_attr_float(c->node, "norm_coefficient_post") };
    double count = 0;
    PL_TRY(read_rate(c, &s.rate, &count));
    if (count > 0) s.rate *= sqrt(1 - pow(s.beta, count)) / (1 - pow(s.alpha, count));
    return run_step(c, &s, adam_step);
}

static pl_status momentum_eval(pl_eval *c) {
    step s = { .alpha = pl_attr_float(c->node, "alpha"),
               .norm = pl_attr_float(c->node, "norm_coefficient"),
               .nesterov = pl_attr_string_is(c->node, "mode", "nesterov") };
    double count = 0;
    if (!s.nesterov && !pl_attr_string_is(c->node, "mode", "standard")) {
        return pl_eval_fail(c, "mode is not standard or nesterov");
    }
    PL_TRY(read_rate(c, &s.rate, &count));
    s.beta = count > 0 ? pl_attr_float(c->node, "beta") : 1; /* the first gradient counts in full */
    return run_step(c, &s, momentum_step);
}

#define TRAINING .domain = "ai.onnx.preview.training", .since = 1, .flags = PL_OP_TRAINING
#define T_STEP PL_T(PL_F32) | PL_T(PL_F64)
#define IN_OUT                                                                                     \
    .in = PL_PORTS({ "R", T_STEP, 0 }, { "T", PL_T_I64, 0 },                                       \
                   { "inputs", T_STEP, PL_PORT_VARIADIC }),                                        \
    .out = PL_PORTS({ "outputs", T_STEP, PL_PORT_VARIADIC })

/* clang-format off */
const pl_op_def pl_ops_optimizer[] = {
    { .name = "Adagrad", TRAINING, IN_OUT,
      .attrs = PL_ATTRS(PL_A_FLOAT("decay_factor", 0), PL_A_FLOAT("epsilon", 1e-6), PL_A_FLOAT("norm_coefficient", 0)),
      .infer = optimizer_infer, .eval = adagrad_eval, PL_LATER, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2] x, float[2] g, float[2] h) => (y, k) <float r = {0.1}, int64 t = {3}> { y, k = ai.onnx.preview.training.Adagrad<epsilon = 0.001, decay_factor = 0.1, norm_coefficient = 0.01>(r, t, x, g, h) }", "h=0.1:2", 0 }) },
    { .name = "Adam", TRAINING, IN_OUT,
      .attrs = PL_ATTRS(PL_A_FLOAT("alpha", 0.9), PL_A_FLOAT("beta", 0.999), PL_A_FLOAT("epsilon", 1e-6),
                        PL_A_FLOAT("norm_coefficient", 0), PL_A_FLOAT("norm_coefficient_post", 0)),
      .infer = optimizer_infer, .eval = adam_eval, PL_LATER, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2] x, float[2] g, float[2] v, float[2] h) => (y, w, k) <float r = {0.1}, int64 t = {3}> { y, w, k = ai.onnx.preview.training.Adam<epsilon = 0.001, norm_coefficient = 0.01>(r, t, x, g, v, h) }", "h=0.1:2", 0 }) },
    { .name = "Momentum", TRAINING, IN_OUT,
      .attrs = PL_ATTRS(PL_A_REQUIRED("alpha", FLOAT), PL_A_REQUIRED("beta", FLOAT), PL_A_REQUIRED("mode", STRING), PL_A_REQUIRED("norm_coefficient", FLOAT)),
      .infer = optimizer_infer, .eval = momentum_eval, PL_LATER, .autocast = PL_AMP_FP32,
      .samples = PL_SAMPLES({ "(float[2] x, float[2] g, float[2] v) => (y, w) <float r = {0.1}, int64 t = {3}> { y, w = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 0.8, mode = \"standard\", norm_coefficient = 0.01>(r, t, x, g, v) }", NULL, 0 },
                            { "(float[2] x, float[2] g, float[2] v) => (y, w) <float r = {0.1}, int64 t = {0}> { y, w = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 0.8, mode = \"nesterov\", norm_coefficient = 0.01>(r, t, x, g, v) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */
